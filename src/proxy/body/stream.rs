//! A stream on its way to the client: the upstream's bytes, and the lease until their end.
//!
//! Invariants: bytes pass as they came; the lease ends with the body, whether it ran to its end,
//! broke, stalled, was stopped or was dropped; what the upstream left unsaid is said in one
//! event, after which nothing follows.
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
use tokio::time::{Instant, Sleep};

use crate::fault_injection;
use crate::proxy::{RequestGuard, SECOND_LOOK};
use crate::refusal::{Clock, Cut, Outage, Refusal, in_stream_event};
use crate::scheduler::Ending;
use crate::upstream::send::{Connection, Sender};
use crate::upstream::without_sent_keys;

use crate::proxy::body::redact::{Part, Secret};
use crate::proxy::inspect::{StreamEnd, StreamObserver};

/// A question that takes a moment, asked beside the stream.
type Question<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Asks the server for a number that moves while it works.
pub type AskProgress = Arc<dyn Fn() -> Question<Option<u64>> + Send + Sync>;

/// What a relayed stream is made of.
pub struct Parts {
    /// The first bytes of the answer, already read.
    pub first: Bytes,
    /// What has been observed, the first bytes included.
    pub observer: StreamObserver,
    /// The rest of the answer.
    pub rest: Incoming,
    /// The headers that it was asked with: an error may repeat a key in them.
    pub sent: HeaderMap,
    /// Keeps the configured key out of the stream, where there is one.
    pub secret: Option<Secret>,
    /// The connection it comes over.
    pub connection: Connection,
    /// Takes the connection back at the end.
    pub sender: Arc<Sender>,
    /// Lease and record.
    pub guard: RequestGuard,
    /// Resolves when a person (or the way out) cuts the answer.
    pub stop: Question<Cut>,
    /// The longest silence between two bytes.
    pub stall: Duration,
    /// Whether the server shows progress without sending bytes.
    pub progress: AskProgress,
}

/// The body of a relayed stream.
pub struct StreamRelay {
    first: Option<Bytes>,
    observer: StreamObserver,
    rest: Incoming,
    sent: HeaderMap,
    secret: Option<Secret>,
    connection: Option<Connection>,
    sender: Arc<Sender>,
    guard: RequestGuard,
    stop: Question<Cut>,
    stall: Stall,
    /// Asks why the connection broke: a process's end is known a moment later.
    why: Option<Question<Outage>>,
    /// The client has everything it will get; what happens after it is not said in the stream.
    ended: bool,
}

/// The stall clock. It is not set anew for each byte: when it rings, it looks
/// at the last one.
struct Stall {
    limit: Duration,
    /// Moved by each byte.
    due: Instant,
    bell: Pin<Box<Sleep>>,
    ask: AskProgress,
    asking: Option<Question<Option<u64>>>,
    seen: Option<u64>,
}

impl StreamRelay {
    /// A relay that begins with the first bytes.
    pub fn new(parts: Parts) -> Self {
        let now = Instant::now();
        Self {
            first: Some(parts.first),
            observer: parts.observer,
            rest: parts.rest,
            sent: parts.sent,
            secret: parts.secret,
            connection: Some(parts.connection),
            sender: parts.sender,
            guard: parts.guard,
            stop: parts.stop,
            stall: Stall {
                limit: parts.stall,
                due: now + parts.stall,
                bell: Box::pin(tokio::time::sleep_until(now + parts.stall)),
                ask: parts.progress,
                asking: None,
                seen: None,
            },
            why: None,
            ended: false,
        }
    }

    fn saw(&mut self, bytes: &[u8]) {
        fault_injection::at(fault_injection::Stage::Body);
        self.stall.due = Instant::now() + self.stall.limit;
        self.observer.feed(bytes);
        self.guard.answered(self.observer.observed().content_chunks);
    }

    /// A piece as the client gets it; `None` while all of it may be the beginning of the key.
    fn without_key(&mut self, bytes: Bytes) -> Option<Bytes> {
        let Some(secret) = &mut self.secret else {
            return Some(bytes);
        };
        let part = match self.observer.observed().error {
            Some(_) => Part::Error,
            None => Part::Answer,
        };
        Some(secret.pass(bytes, part)).filter(|bytes| !bytes.is_empty())
    }

    /// What the search for the key held back.
    fn held_back(&mut self) -> Option<Bytes> {
        let rest = self.secret.as_mut()?.rest();
        (!rest.is_empty()).then_some(rest)
    }

    fn last(&mut self) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.held_back().map_or(Poll::Ready(None), frame)
    }

    /// The upstream's body ended politely; whether it was whole is for the content to say.
    fn at_end(&mut self) -> Option<Bytes> {
        match self.observer.verdict() {
            StreamEnd::Complete => {
                self.ended = true;
                if let Some(connection) = self.connection.take() {
                    self.sender.give_back(connection);
                }
                self.guard.complete(self.observer.observed());
                self.held_back()
            }
            // The upstream's own words have been relayed already: nothing is added to them.
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
                // A polite end proves no death: some servers never send a finish marker, and their
                // bodies must not be taken for ones that kill the server.
                Some(self.cut(&refusal, Ending::Failed(Outage::Reset)))
            }
        }
    }

    /// Behind `[DONE]` nothing is missing: how the connection ends no longer matters.
    fn is_done(&mut self) -> bool {
        if !self.observer.observed().done || self.observer.observed().error.is_some() {
            return false;
        }
        self.ended = true;
        self.connection = None;
        self.guard.complete(self.observer.observed());
        true
    }

    /// Says that the connection broke, and of what, once that is known.
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

    /// Ends the stream with one event, after closing a line that was left open.
    fn cut(&mut self, refusal: &Refusal, ending: Ending) -> Bytes {
        // Closed before the slot is given back: the upstream must see it first.
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
        // Observed when it was read.
        if let Some(first) = this.first.take()
            && let Some(bytes) = this.without_key(first)
        {
            return frame(bytes);
        }
        if let Poll::Ready(cut) = this.stop.as_mut().poll(cx) {
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
                    // Trailers and empty pieces are framing, not content.
                    Ok(_) | Err(_) => {}
                },
                Poll::Ready(Some(Err(_))) if this.is_done() => return this.last(),
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
        if this.stall.poll_over(cx).is_ready() {
            if this.is_done() {
                return this.last();
            }
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

impl Stall {
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
                // The first reading has nothing to be compared with: look again soon.
                let next = match self.seen {
                    None => self.limit.min(SECOND_LOOK),
                    Some(_) => self.limit,
                };
                self.seen = progress;
                self.due = Instant::now() + next;
            }
            if self.due > Instant::now() {
                self.bell.as_mut().reset(self.due);
            }
            match self.bell.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) => self.asking = Some((self.ask)()),
            }
        }
    }
}

fn frame(bytes: Bytes) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
    Poll::Ready(Some(Ok(Frame::data(bytes))))
}
