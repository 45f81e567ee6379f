//! Whose turn it is on one connection: what the guard tells the service, and the service the guard.
//!
//! The guard says why a request was refused before it could be parsed; the service says when its
//! answer is out, so that the next request may come. One per connection, shared by both.
//!
//! Not here: the bytes themselves ([`super::guarded`]).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;

use crate::refusal::Refusal;

/// The state that guard and service of one connection share.
#[derive(Debug, Default)]
pub struct Turn {
    inner: Mutex<Inner>,
}

/// Held while a request is answered: dropping it lets the connection's next request come.
///
/// Put it into the response body, so that it lives until the body has ended or was dropped.
#[derive(Debug)]
#[must_use = "dropping it says that the answer is out"]
pub struct Answering {
    turn: Arc<Turn>,
    request: u64,
}

#[derive(Debug, Default)]
struct Inner {
    /// Counts the heads that were let through; 0 before the first.
    request: u64,
    answered: bool,
    refusal: Option<Refusal>,
    reader: Option<Waker>,
    /// Since when nothing is awaited and nothing is left to write; `None` while something is.
    idle_since: Option<Instant>,
    /// What has come of a body that is not whole.
    sending: Option<Sending>,
    /// Why it should give way, once it was asked to.
    wanted_back: Option<Refusal>,
}

/// How far a body has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sending {
    pub(super) since: Instant,
    pub(super) bytes: u64,
    /// Since when what came is being taken in, or waits for room here; `None` while the rest is
    /// awaited from the client.
    pub(super) taken_in_since: Option<Instant>,
}

impl Turn {
    /// The state of a new connection.
    pub fn new() -> Arc<Self> {
        let turn = Self::default();
        turn.lock().idle_since = Some(Instant::now());
        Arc::new(turn)
    }

    /// Since when no request is under way; `None` while one is, or its answer is being written.
    pub fn idle_since(&self) -> Option<Instant> {
        self.lock().idle_since
    }

    /// Whether it has asked nothing yet, so that nobody knows what it will send.
    pub(super) fn is_unheard(&self) -> bool {
        self.lock().request == 0
    }

    /// Why the request at hand is refused, if the guard refused it.
    ///
    /// Ask first when a request arrives (what was parsed may then be only a placeholder), and again
    /// when reading its body failed: `None` there means that the client left. Answer it, and
    /// close: it is the connection's last.
    pub fn refusal(&self) -> Option<Refusal> {
        self.lock().refusal.clone()
    }

    /// Takes up the request at hand. Take it once per request, when the service is called.
    pub fn answering(self: &Arc<Self>) -> Answering {
        Answering {
            request: self.lock().request,
            turn: Arc::clone(self),
        }
    }

    /// The connection has its place: what it has to say is heard from now on.
    pub(super) fn seated(&self) {
        self.lock().idle_since = Some(Instant::now());
    }

    /// A head is let through: its answer is now awaited.
    pub(super) fn begin(&self) {
        let mut inner = self.lock();
        inner.request += 1;
        inner.answered = false;
        inner.idle_since = None;
        inner.forget_body();
    }

    /// How far the body has come that is not whole; `None` when there is none, or when it was asked
    /// to give way.
    pub(super) fn sending(&self) -> Option<Sending> {
        let inner = self.lock();
        inner.sending.filter(|_| inner.wanted_back.is_none())
    }

    /// Asks a body that is awaited to give way, with this for its client.
    pub(super) fn want_back(&self, refusal: Refusal) {
        let mut inner = self.lock();
        inner.wanted_back = Some(refusal);
        let reader = inner.reader.take();
        drop(inner);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// So many bytes of the body came.
    pub(super) fn received(&self, bytes: usize) {
        let mut inner = self.lock();
        let sending = inner.sending();
        sending.bytes += bytes as u64;
        sending.taken_in_since = Some(Instant::now());
    }

    /// The body is whole.
    pub(super) fn received_all(&self) {
        self.lock().forget_body();
    }

    /// The client has yet to send the rest of its body. Ready when it should give way; else the
    /// task is woken when it should.
    pub(super) fn poll_wanted_back(&self, cx: &mut Context<'_>) -> Poll<Refusal> {
        let mut inner = self.lock();
        inner.sending().taken_in_since = None;
        if let Some(refusal) = inner.wanted_back.take() {
            return Poll::Ready(refusal);
        }
        inner.wake_later(cx);
        Poll::Pending
    }

    /// Nothing is left to write: if the answer is out, the connection is idle from now on.
    pub(super) fn written(&self) {
        let mut inner = self.lock();
        if inner.answered && inner.idle_since.is_none() {
            inner.idle_since = Some(Instant::now());
        }
    }

    /// The request at hand is refused; it is the connection's last.
    pub(super) fn refuse(&self, refusal: Refusal) {
        self.lock().refusal = Some(refusal);
    }

    /// Ready when the answer to the request at hand is out; else the task is woken when it is.
    pub(super) fn poll_answered(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.lock();
        if inner.answered {
            return Poll::Ready(());
        }
        inner.wake_later(cx);
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change is one assignment, so a panic elsewhere cannot leave it half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn sending(&mut self) -> &mut Sending {
        self.sending.get_or_insert_with(|| Sending {
            since: Instant::now(),
            bytes: 0,
            taken_in_since: None,
        })
    }

    fn forget_body(&mut self) {
        self.sending = None;
        self.wanted_back = None;
    }

    fn wake_later(&mut self, cx: &Context<'_>) {
        match &mut self.reader {
            Some(reader) => reader.clone_from(cx.waker()),
            None => self.reader = Some(cx.waker().clone()),
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let reader = {
            let mut inner = self.turn.lock();
            // A guard that outlived its answer must not end a later one.
            if inner.request != self.request {
                return;
            }
            inner.answered = true;
            inner.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_answered(turn: &Turn) -> bool {
        turn.poll_answered(&mut Context::from_waker(Waker::noop()))
            .is_ready()
    }

    #[test]
    fn a_turn_ends_when_its_answer_is_dropped() {
        let turn = Turn::new();
        turn.begin();
        let answering = turn.answering();
        assert!(!is_answered(&turn), "the answer is on its way");
        drop(answering);
        assert!(is_answered(&turn));
        turn.begin();
        assert!(!is_answered(&turn), "the next request has its own turn");
    }

    #[test]
    fn a_connection_is_idle_before_a_request_and_after_its_answer_is_written() {
        let turn = Turn::new();
        assert!(turn.idle_since().is_some(), "nothing was asked yet");
        turn.begin();
        let answering = turn.answering();
        turn.written();
        assert_eq!(turn.idle_since(), None, "the answer is on its way");
        drop(answering);
        assert_eq!(turn.idle_since(), None, "it may still be in a buffer");
        turn.written();
        assert!(turn.idle_since().is_some());
    }

    #[test]
    fn an_answer_that_is_dropped_late_ends_no_other_turn() {
        let turn = Turn::new();
        turn.begin();
        let (first, second) = (turn.answering(), turn.answering());
        drop(first);
        turn.begin();
        drop(second);
        assert!(!is_answered(&turn), "it belonged to the request before");
    }
}
