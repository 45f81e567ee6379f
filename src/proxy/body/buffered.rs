//! A buffered answer: held until it is complete, so that a server that dies in the middle causes a
//! refusal and not half an answer with a success status.
//!
//! It costs no time, since servers send such an answer in one piece at the end. Only an answer
//! above the limit is relayed while it arrives; if it breaks, the connection is aborted.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Sleep, sleep};

use crate::proxy::RequestGuard;
use crate::refusal::{Clock, Cut, Outage, Refusal};
use crate::scheduler::Ending;
use crate::upstream::send::{Connection, Sender, outage_of};

use super::Broken;
use crate::proxy::inspect::Observed;

/// How much of an answer is read before any of it is relayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Its first bytes: a stream was requested.
    FirstBytes,
    /// All of it, or this many bytes.
    Whole(usize),
}

/// An answer read as far as the limit allowed.
pub enum Held {
    /// All of it.
    Whole {
        /// The bytes.
        bytes: Bytes,
        /// The connection it came over.
        connection: Connection,
    },
    /// Over the limit.
    Flowing {
        /// What was held.
        bytes: Bytes,
        /// The rest.
        rest: Incoming,
        /// The connection it comes over.
        connection: Connection,
    },
}

/// The body of a buffered answer.
pub enum WholeBody {
    /// Complete.
    Ready(Box<Ready>),
    /// Above the limit.
    Flowing(Box<Flowing>),
}

/// All of an answer.
pub struct Ready {
    bytes: Option<Bytes>,
    guard: RequestGuard,
    observed: Observed,
}

/// An answer above the limit, relayed while it arrives.
pub struct Flowing {
    first: Option<Bytes>,
    rest: Incoming,
    connection: Option<Connection>,
    sender: Arc<Sender>,
    guard: RequestGuard,
    stop: Pin<Box<dyn Future<Output = Cut> + Send>>,
    limit: Duration,
    bell: Pin<Box<Sleep>>,
    over: bool,
}

/// Reads an answer, of which `held` was read before, until it is complete or more than `limit`
/// bytes are held.
///
/// # Errors
/// How it broke before it was complete.
pub async fn hold(
    mut held: BytesMut,
    mut body: Incoming,
    connection: Connection,
    limit: usize,
) -> Result<Held, Outage> {
    loop {
        match body.frame().await {
            None => {
                return Ok(Held::Whole {
                    bytes: held.freeze(),
                    connection,
                });
            }
            Some(Err(error)) => return Err(outage_of(&error)),
            Some(Ok(frame)) => {
                if let Some(bytes) = frame.data_ref() {
                    held.extend_from_slice(bytes);
                }
                if held.len() > limit {
                    return Ok(Held::Flowing {
                        bytes: held.freeze(),
                        rest: body,
                        connection,
                    });
                }
            }
        }
    }
}

impl WholeBody {
    /// A complete body, whose guard is open until [`accept`](Self::accept) or
    /// [`reject`](Self::reject).
    pub fn ready(bytes: Bytes, guard: RequestGuard, observed: Observed) -> Self {
        Self::Ready(Box::new(Ready {
            bytes: Some(bytes),
            guard,
            observed,
        }))
    }

    /// It is sent to the client: a complete body is recorded as done.
    pub fn accept(&mut self) {
        match self {
            Self::Ready(ready) => ready.guard.complete(&ready.observed),
            Self::Flowing(_) => {}
        }
    }

    /// It cannot be sent to the client, which gets this refusal instead.
    pub fn reject(self, refusal: &Refusal) {
        match self {
            Self::Ready(mut ready) => {
                ready.guard.cut(refusal, Ending::Answered, &ready.observed);
            }
            Self::Flowing(mut flowing) => {
                // Closed before the slot is released: the upstream must see it first.
                flowing.connection = None;
                flowing
                    .guard
                    .cut(refusal, Ending::Abandoned, &Observed::default());
            }
        }
    }

    /// A body above the limit. The rest has `limit` to arrive; what was held had its own.
    pub fn flowing(
        first: Bytes,
        rest: Incoming,
        connection: Connection,
        sender: Arc<Sender>,
        guard: RequestGuard,
        stop: Pin<Box<dyn Future<Output = Cut> + Send>>,
        limit: Duration,
    ) -> Self {
        Self::Flowing(Box::new(Flowing {
            first: Some(first),
            rest,
            connection: Some(connection),
            sender,
            guard,
            stop,
            limit,
            bell: Box::pin(sleep(limit)),
            over: false,
        }))
    }
}

impl Body for WholeBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self.get_mut() {
            Self::Ready(ready) => {
                Poll::Ready(ready.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
            }
            Self::Flowing(flowing) => flowing.poll(cx),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Ready(ready) => {
                SizeHint::with_exact(ready.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Flowing(_) => SizeHint::default(),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Ready(ready) => ready.bytes.is_none(),
            Self::Flowing(flowing) => flowing.over,
        }
    }
}

impl Flowing {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if self.over {
            return Poll::Ready(None);
        }
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        if let Poll::Ready(how) = self.stop.as_mut().poll(cx) {
            return self.broke(&Refusal::Interrupted { how }, Ending::Abandoned);
        }
        if self.bell.as_mut().poll(cx).is_ready() {
            let (clock, limit) = (Clock::Total, self.limit);
            return self.broke(&Refusal::Timeout { clock, limit }, Ending::TimedOut);
        }
        match Pin::new(&mut self.rest).poll_frame(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(frame))),
            Poll::Ready(Some(Err(_))) => {
                let refusal = Refusal::Interrupted { how: Cut::Reset };
                self.broke(&refusal, Ending::Died(Outage::Reset))
            }
            Poll::Ready(None) => {
                self.over = true;
                if let Some(connection) = self.connection.take() {
                    self.sender.give_back(connection);
                }
                self.guard.complete(&Observed::default());
                Poll::Ready(None)
            }
        }
    }

    fn broke(
        &mut self,
        refusal: &Refusal,
        ending: Ending,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        self.over = true;
        self.connection = None;
        self.guard.cut(refusal, ending, &Observed::default());
        Poll::Ready(Some(Err(Broken)))
    }
}
