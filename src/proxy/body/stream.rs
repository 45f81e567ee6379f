//! A relayed stream: the upstream's bytes, and the lease until their end.
//!
//! Invariants: bytes pass unchanged; the lease ends with the body, whether it completed, broke,
//! stalled, was cancelled or was dropped; a missing end is reported in one event, after which
//! nothing follows. `[DONE]` completes a stream, however the connections end after it.
//!
//! Not here: everything before the first byte ([`crate::proxy`]).

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::fault_injection;
use crate::proxy::RequestGuard;
use crate::refusal::{Clock, Cut, Outage, Refusal, in_stream_event};
use crate::scheduler::Ending;
use crate::upstream::send::{Connection, Sender};
use crate::upstream::{Redactor, without_sent_keys};

use crate::proxy::inspect::{StreamEnd, StreamObserver};

/// How long a server may leave the body open after `[DONE]`.
const LINGER: Duration = Duration::from_secs(1);

/// From the first look at a silent server's progress to the second.
const SECOND_LOOK: Duration = Duration::from_secs(5);

/// A question to the server that runs beside the stream.
pub(in crate::proxy) type Question<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Asks the server for a number that changes while it works.
type AskProgress = Box<dyn Fn() -> Question<Option<u64>> + Send>;

/// The body of a relayed stream.
pub struct StreamRelay {
    /// The first bytes, already observed; `None` once they are relayed.
    pub(in crate::proxy) first: Option<Bytes>,
    pub(in crate::proxy) observer: StreamObserver,
    pub(in crate::proxy) rest: Incoming,
    /// The headers of the upstream request: an error may repeat a key in them.
    pub(in crate::proxy) sent: HeaderMap,
    /// Redacts the configured key, if there is one.
    pub(in crate::proxy) redactor: Option<Redactor>,
    pub(in crate::proxy) connection: Option<Connection>,
    pub(in crate::proxy) sender: Arc<Sender>,
    pub(in crate::proxy) guard: RequestGuard,
    /// Resolves when a person, or the shutdown, cancels the answer.
    pub(in crate::proxy) stop: Question<Cut>,
    pub(in crate::proxy) stall: Stall,
    /// Asks why the connection broke: the end of a process is known a moment later.
    pub(in crate::proxy) why: Option<Question<Outage>>,
    /// Runs after `[DONE]`.
    pub(in crate::proxy) linger: Option<Pin<Box<Sleep>>>,
    /// The client has everything that it will get.
    pub(in crate::proxy) ended: bool,
}

/// The stall timeout. Its timer is not reset for each byte: when it fires, it compares with the
/// time of the last one.
pub(in crate::proxy) struct Stall {
    limit: Duration,
    /// Moved by each byte.
    due: Instant,
    timer: Pin<Box<Sleep>>,
    ask: AskProgress,
    asking: Option<Question<Option<u64>>>,
    seen: Option<u64>,
}

impl StreamRelay {
    fn saw(&mut self, bytes: &[u8]) {
        fault_injection::at(fault_injection::Stage::Body);
        self.stall.due = Instant::now() + self.stall.limit;
        self.observer.feed(bytes);
        self.guard.answered(self.observer.observed().content_chunks);
    }

    /// The bytes to relay; `None` while all of them may be the beginning of the key.
    fn without_key(&mut self, bytes: Bytes) -> Option<Bytes> {
        let Some(redactor) = &mut self.redactor else {
            return Some(bytes);
        };
        let in_error = self.observer.observed().error.is_some();
        Some(redactor.piece(bytes, in_error)).filter(|bytes| !bytes.is_empty())
    }

    /// What the redactor held back.
    fn held_back(&mut self) -> Option<Bytes> {
        let rest = self.redactor.as_mut()?.rest();
        (!rest.is_empty()).then_some(rest)
    }

    fn last(&mut self) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.held_back().map_or(Poll::Ready(None), frame)
    }

    /// The upstream's body ended cleanly; its content says whether it is complete.
    fn at_end(&mut self) -> Option<Bytes> {
        match self.observer.end() {
            StreamEnd::Complete => {
                self.ended = true;
                if let Some(connection) = self.connection.take() {
                    self.sender.give_back(connection);
                }
                self.guard.complete(self.observer.observed());
                self.held_back()
            }
            // The upstream's own error was relayed: nothing is added.
            StreamEnd::Error(error) => {
                self.ended = true;
                self.connection = None;
                let error = error.to_upstream_error(StatusCode::OK);
                let error = without_sent_keys(error, &self.sent);
                self.guard.failed_inside(error, self.observer.observed());
                self.held_back()
            }
            StreamEnd::NoFinish => {
                let refusal = Refusal::Interrupted { how: Cut::NoFinish };
                // A clean end is no evidence of a death: some servers never send a finish marker,
                // and their requests must not count as ones that kill the server.
                Some(self.cut(&refusal, Ending::Failed(Outage::Reset)))
            }
        }
    }

    /// Completes the stream if `[DONE]` was relayed: nothing is missing after it.
    fn complete_if_done(&mut self) -> bool {
        if !self.observer.is_done() {
            return false;
        }
        self.ended = true;
        self.connection = None;
        let _verdict = self.observer.end();
        self.guard.complete(self.observer.observed());
        true
    }

    /// Reports that the connection broke, and why, once that is known.
    fn poll_broken(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let outage = match &mut self.why {
            Some(why) => ready!(why.as_mut().poll(cx)),
            None => Outage::Reset,
        };
        self.why = None;
        let how = if let Outage::ProcessGone { death } = outage {
            Cut::ProcessGone { death }
        } else {
            Cut::Reset
        };
        let refusal = Refusal::Interrupted { how };
        frame(self.cut(&refusal, Ending::Died(outage)))
    }

    /// Ends the stream with one event, after the end of an open line.
    fn cut(&mut self, refusal: &Refusal, ending: Ending) -> Bytes {
        // Closed before the slot is released: the upstream must see it first.
        self.connection = None;
        self.guard.cut(refusal, ending, self.observer.observed());
        self.ended = true;
        let held = self.held_back().unwrap_or_default();
        let closing = self.observer.closing_bytes();
        let event = in_stream_event(refusal);
        if held.is_empty() && closing.is_empty() {
            return event;
        }
        [&held, closing, &event].concat().into()
    }
}

impl Body for StreamRelay {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(None);
        }
        // Observed when they were read.
        if let Some(first) = this.first.take()
            && let Some(bytes) = this.without_key(first)
        {
            return frame(bytes);
        }
        if let Poll::Ready(cut) = this.stop.as_mut().poll(cx) {
            if this.complete_if_done() {
                return this.last();
            }
            let refusal = Refusal::Interrupted { how: cut };
            return frame(this.cut(&refusal, Ending::Abandoned));
        }
        if this.why.is_some() {
            return this.poll_broken(cx);
        }
        loop {
            match Pin::new(&mut this.rest).poll_frame(cx) {
                Poll::Ready(Some(Ok(piece))) => match piece.into_data() {
                    Ok(bytes) if !bytes.is_empty() => {
                        this.saw(&bytes);
                        if let Some(bytes) = this.without_key(bytes) {
                            return frame(bytes);
                        }
                    }
                    // Trailers and empty pieces have no content.
                    Ok(_) | Err(_) => {}
                },
                Poll::Ready(Some(Err(_))) if this.complete_if_done() => return this.last(),
                Poll::Ready(Some(Err(_))) => {
                    this.why = Some(this.guard.why_broken());
                    return this.poll_broken(cx);
                }
                Poll::Ready(None) => {
                    return this.at_end().map_or(Poll::Ready(None), frame);
                }
                Poll::Pending => break,
            }
        }
        if this.observer.is_done() {
            let linger = this.linger.get_or_insert_with(|| Box::pin(sleep(LINGER)));
            ready!(linger.as_mut().poll(cx));
            this.complete_if_done();
            return this.last();
        }
        if this.stall.poll_over(cx).is_ready() {
            let limit = this.stall.limit;
            let refusal = Refusal::Timeout {
                clock: Clock::Stall,
                limit,
            };
            return frame(this.cut(&refusal, Ending::TimedOut));
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}

impl Drop for StreamRelay {
    fn drop(&mut self) {
        // A client may close its connection as soon as it has read `[DONE]`.
        if !self.ended && self.first.is_none() {
            self.complete_if_done();
        }
    }
}

impl Stall {
    /// Fires after `limit` without a byte and without progress.
    pub(in crate::proxy) fn new(limit: Duration, ask: AskProgress) -> Self {
        let due = Instant::now() + limit;
        Self {
            limit,
            due,
            timer: Box::pin(sleep_until(due)),
            ask,
            asking: None,
            seen: None,
        }
    }

    /// Ready when the server was silent for the whole limit and shows no progress either.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(asking) = &mut self.asking {
                let Poll::Ready(progress) = asking.as_mut().poll(cx) else {
                    return Poll::Pending;
                };
                self.asking = None;
                if progress.is_none() || progress == self.seen {
                    return Poll::Ready(());
                }
                self.due = Instant::now() + until_next_look(self.seen, self.limit);
                self.seen = progress;
            }
            if self.due > Instant::now() {
                self.timer.as_mut().reset(self.due);
            }
            match self.timer.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) => self.asking = Some((self.ask)()),
            }
        }
    }
}

fn frame(bytes: Bytes) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
    Poll::Ready(Some(Ok(Frame::data(bytes))))
}

/// How long a server that showed progress may stay silent. A first reading has nothing to be
/// compared with, so the second comes soon.
pub(in crate::proxy) fn until_next_look(seen: Option<u64>, limit: Duration) -> Duration {
    match seen {
        None => limit.min(SECOND_LOOK),
        Some(_) => limit,
    }
}
