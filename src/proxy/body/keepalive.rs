//! A committed stream: its status is sent before its answer exists.
//!
//! It is kept alive by comments until the first byte of the answer. From then on an error is an
//! event in the stream, with the code that its status would have had; what the headers can no
//! longer say is one comment before the first byte.
//!
//! Not here: when to commit ([`crate::proxy`]).

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::time::{Instant, Sleep};

use crate::refusal::{Refusal, in_stream_event};

use super::stream::StreamRelay;

/// Between two comments; the shortest idle timeout seen in a client is 30 s.
pub const PING_EVERY: Duration = Duration::from_secs(10);
/// One line without a blank line after it, which would end an event.
const PING: Bytes = Bytes::from_static(b": ping\n");

/// A stream, and what its headers would have disclosed.
pub struct Promised {
    /// The answer.
    pub relay: StreamRelay,
    /// `max-tokens=512; asked=4096; dropped=4`, or nothing.
    pub remark: Option<String>,
}

/// The work that yields the stream or a refusal.
pub type Job = Pin<Box<dyn Future<Output = Result<Promised, Refusal>> + Send>>;

/// The body of a committed stream.
pub struct Committed {
    state: State,
}

enum State {
    Waiting {
        job: Job,
        timer: Pin<Box<Sleep>>,
        pinged: bool,
    },
    Remarked {
        relay: Box<StreamRelay>,
    },
    Relaying {
        relay: Box<StreamRelay>,
    },
    Over,
}

impl Committed {
    /// Continues `job` and keeps the client's connection alive meanwhile.
    pub fn new(job: Job) -> Self {
        let timer = Box::pin(tokio::time::sleep_until(Instant::now() + PING_EVERY));
        Self {
            state: State::Waiting {
                job,
                timer,
                pinged: false,
            },
        }
    }
}

impl Body for Committed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if let State::Waiting { job, timer, pinged } = &mut this.state {
            match job.as_mut().poll(cx) {
                Poll::Pending => {
                    // The first comment is sent with the header, so that the client sees bytes.
                    if !*pinged || timer.as_mut().poll(cx).is_ready() {
                        *pinged = true;
                        timer.as_mut().reset(Instant::now() + PING_EVERY);
                        // Polled once so that the timer wakes this task.
                        let _ = timer.as_mut().poll(cx);
                        return Poll::Ready(Some(Ok(Frame::data(PING))));
                    }
                    return Poll::Pending;
                }
                Poll::Ready(Err(refusal)) => {
                    this.state = State::Over;
                    return Poll::Ready(Some(Ok(Frame::data(in_stream_event(&refusal)))));
                }
                Poll::Ready(Ok(Promised { relay, remark })) => {
                    let relay = Box::new(relay);
                    if let Some(remark) = remark {
                        this.state = State::Remarked { relay };
                        let line = Bytes::from(format!(": oneslot {remark}\n"));
                        return Poll::Ready(Some(Ok(Frame::data(line))));
                    }
                    this.state = State::Relaying { relay };
                }
            }
        }
        if matches!(this.state, State::Remarked { .. })
            && let State::Remarked { relay } = std::mem::replace(&mut this.state, State::Over)
        {
            this.state = State::Relaying { relay };
        }
        match &mut this.state {
            State::Relaying { relay } => Pin::new(relay.as_mut()).poll_frame(cx),
            State::Waiting { .. } | State::Remarked { .. } | State::Over => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.state {
            State::Relaying { relay } => relay.is_end_stream(),
            State::Waiting { .. } | State::Remarked { .. } => false,
            State::Over => true,
        }
    }
}
