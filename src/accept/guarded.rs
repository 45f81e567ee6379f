//! The one wrapper between a client's socket and the HTTP library.
//!
//! It holds a request head back until it is whole and judged, follows the body to its end, and
//! keeps what comes behind it until the answer is out. So the library never sees a request it
//! would read differently, and its own buffer stays empty while it waits for an answer: it goes on
//! reading, and a client that leaves is seen as an end of file in every state, also behind a
//! pipelined request or stray bytes.
//!
//! Not here: the verdicts ([`super::head`], [`super::framing`]), and answering a refused request:
//! the library gets a harmless placeholder in its place, and the service finds the reason in
//! [`Turn`].

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::clock::Stopwatch;
use super::framing::{BodyEnd, Fed, Rest};
use super::head::{self, Progress};
use super::limits::Limits;
use super::placeholder;
use super::reader::{self, WriteClock};
use super::socket;
use super::turn::Turn;
use crate::refusal::Refusal;

/// A client's connection, guarded. Give it to the HTTP library in the socket's place.
#[derive(Debug)]
pub struct Guarded<S> {
    inner: S,
    turn: Arc<Turn>,
    limits: Limits,
    stage: Stage,
    /// What came from the client and has not gone to the library.
    raw: BytesMut,
    /// How many bytes of `raw`, from its front, may go to the library.
    cleared: usize,
    read_clock: Stopwatch,
    write_clock: WriteClock,
}

/// What the next byte from the client belongs to.
#[derive(Debug)]
enum Stage {
    Head(Since),
    Body(BodyEnd),
    /// The request is whole; its answer is not out.
    Answering,
    /// The request was refused, or its body broke: nothing more is read from this client.
    Discarding,
    /// The answer is out and the writing side closed.
    Lingering,
}

/// From when a head's clock runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Since {
    Accepted,
    Answered,
    FirstByte,
}

/// What one step of reading came to.
enum Step {
    /// Look again: the stage or the cleared bytes changed.
    Again,
    /// The library has what there is: bytes, or the end of the connection.
    Done,
}

impl<S> Guarded<S> {
    /// Guards a connection that was just accepted.
    pub fn new(inner: S, turn: Arc<Turn>, limits: Limits) -> Self {
        Self::of_client(inner, turn, limits, None)
    }

    /// The same, of a client of which the system knows what it has taken.
    pub(super) fn of_client(
        inner: S,
        turn: Arc<Turn>,
        limits: Limits,
        client: Option<reader::Client>,
    ) -> Self {
        Self {
            inner,
            turn,
            limits,
            stage: Stage::Head(Since::Accepted),
            raw: BytesMut::new(),
            cleared: 0,
            read_clock: Stopwatch::default(),
            write_clock: WriteClock::of(client),
        }
    }

    /// Hands cleared bytes to the library.
    fn give(&mut self, buf: &mut ReadBuf<'_>) {
        let length = self.cleared.min(buf.remaining());
        buf.put_slice(&self.raw[..length]);
        self.raw.advance(length);
        self.cleared -= length;
    }

    /// Looks for a whole head in `raw`.
    fn judge_head(&mut self) -> Step {
        let limits = &self.limits.head;
        let refusal = match head::find_end(&self.raw, limits) {
            Progress::More => return Step::Done,
            Progress::Ends(length) => match head::judge(&self.raw[..length], limits) {
                Ok(facts) => {
                    self.cleared = length;
                    self.turn.begin();
                    self.read_clock.stop();
                    self.follow(BodyEnd::new(facts.framing));
                    return Step::Again;
                }
                Err(refusal) => refusal,
            },
            Progress::Refused(refusal) => refusal,
        };
        let placeholder = placeholder::of(&self.raw);
        self.raw.clear();
        self.raw.extend_from_slice(placeholder);
        self.cleared = placeholder.len();
        self.turn.refuse(refusal);
        self.turn.begin();
        self.stage = Stage::Discarding;
        Step::Again
    }

    fn follow(&mut self, body: BodyEnd) {
        self.stage = match body.rest() {
            Rest::Expected => {
                // From here on it is judged as a body, although nothing has been read of it.
                self.turn.received(0);
                Stage::Body(body)
            }
            Rest::Ended => Stage::Answering,
        };
    }

    /// Notes how far a body has come.
    fn received(&mut self, fed: &Fed) {
        match fed.rest {
            Rest::Expected => self.turn.received(fed.consumed),
            Rest::Ended => {
                self.turn.received_all();
                self.stage = Stage::Answering;
            }
        }
    }

    /// Fails the request in the middle of its body; the service finds the reason in [`Turn`].
    fn break_off(&mut self, what: String) -> io::Error {
        self.turn.refuse(head::bad(&what));
        self.turn.received_all();
        self.raw.clear();
        self.stage = Stage::Discarding;
        io::Error::new(io::ErrorKind::InvalidData, what)
    }

    /// The same for a body that gives its place to somebody else, who waits for it.
    fn give_way(&mut self, refusal: Refusal) -> io::Error {
        let error = self.break_off(String::new());
        self.turn.refuse(refusal);
        // Nothing of it is unread, so that no reset follows the answer at once.
        self.limits.linger = Duration::ZERO;
        error
    }
}

impl<S: AsyncRead + Unpin> Guarded<S> {
    /// Reads into `raw`, with the library's buffer as scratch space. Ready with 0 at the end.
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        let length = buf.filled().len() - before;
        self.raw.extend_from_slice(&buf.filled()[before..]);
        buf.set_filled(before);
        Poll::Ready(Ok(length))
    }

    fn poll_head(
        &mut self,
        since: Since,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<Step>> {
        // Some clients send an empty line behind a body.
        while self.raw.starts_with(b"\r\n") {
            self.raw.advance(2);
        }
        if !self.raw.is_empty() && &self.raw[..] != b"\r" {
            match self.judge_head() {
                Step::Again => return Poll::Ready(Ok(Step::Again)),
                Step::Done => {}
            }
        }
        if let Poll::Ready(length) = self.poll_fill(cx, buf)? {
            if length == 0 {
                return Poll::Ready(Ok(Step::Done));
            }
            if since == Since::Answered {
                self.read_clock.stop();
                self.stage = Stage::Head(Since::FirstByte);
            }
            return Poll::Ready(Ok(Step::Again));
        }
        let limit = match since {
            Since::Accepted | Since::FirstByte => self.limits.head_within,
            Since::Answered => self.limits.idle,
        };
        // Out of time looks like a client that left: there is no request to answer.
        self.read_clock
            .poll_over(cx, limit)
            .map(|()| Ok(Step::Done))
    }

    fn poll_body(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<Step>> {
        let Stage::Body(body) = &mut self.stage else {
            return Poll::Ready(Ok(Step::Again));
        };
        if !self.raw.is_empty() {
            let fed = match body.feed(&self.raw) {
                Ok(fed) => fed,
                Err(error) => return Poll::Ready(Err(self.break_off(error.to_string()))),
            };
            self.cleared = fed.consumed;
            self.received(&fed);
            return Poll::Ready(Ok(Step::Again));
        }
        let before = buf.filled().len();
        if Pin::new(&mut self.inner).poll_read(cx, buf)?.is_pending() {
            if let Poll::Ready(refusal) = self.turn.poll_wanted_back(cx) {
                return Poll::Ready(Err(self.give_way(refusal)));
            }
            let limit = self.limits.body_idle;
            ready!(self.read_clock.poll_over(cx, limit));
            let what = format!("its body stopped arriving for {} s", limit.as_secs());
            return Poll::Ready(Err(self.break_off(what)));
        }
        self.read_clock.stop();
        let fed = match body.feed(&buf.filled()[before..]) {
            Ok(fed) => fed,
            Err(error) => {
                buf.set_filled(before);
                return Poll::Ready(Err(self.break_off(error.to_string())));
            }
        };
        let end = before + fed.consumed;
        self.raw.extend_from_slice(&buf.filled()[end..]);
        buf.set_filled(end);
        self.received(&fed);
        Poll::Ready(Ok(Step::Done))
    }

    /// Between a request's end and its answer's end: keeps what comes, and watches for the end.
    fn poll_behind(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<Step>> {
        if self.turn.poll_answered(cx).is_ready() {
            self.read_clock.stop();
            self.stage = Stage::Head(if self.raw.is_empty() {
                Since::Answered
            } else {
                Since::FirstByte
            });
            return Poll::Ready(Ok(Step::Again));
        }
        if self.raw.len() > self.limits.kept {
            let what = "the client sent too much behind a request that is not answered";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, what)));
        }
        match ready!(self.poll_fill(cx, buf))? {
            0 => Poll::Ready(Ok(Step::Done)),
            _ => Poll::Ready(Ok(Step::Again)),
        }
    }

    /// Throws away what comes. Ready at the end of the connection.
    fn poll_discard(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        loop {
            ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
            if buf.filled().len() == before {
                return Poll::Ready(Ok(()));
            }
            buf.set_filled(before);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            if this.cleared > 0 {
                this.give(buf);
                return Poll::Ready(Ok(()));
            }
            let step = match this.stage {
                Stage::Head(since) => ready!(this.poll_head(since, cx, buf))?,
                Stage::Body(_) => ready!(this.poll_body(cx, buf))?,
                Stage::Answering => ready!(this.poll_behind(cx, buf))?,
                Stage::Discarding | Stage::Lingering => {
                    ready!(this.poll_discard(cx, buf))?;
                    Step::Done
                }
            };
            match step {
                Step::Again => {}
                Step::Done => return Poll::Ready(Ok(())),
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let wrote = Pin::new(&mut this.inner).poll_write(cx, socket::piece(bytes));
        this.write_clock.watch(cx, this.limits.write_idle, wrote)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let (few, count) = socket::pieces(slices);
        let wrote = Pin::new(&mut this.inner).poll_write_vectored(cx, &few[..count]);
        this.write_clock.watch(cx, this.limits.write_idle, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.inner).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            this.turn.written();
        }
        this.write_clock.watch(cx, this.limits.write_idle, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match this.stage {
            Stage::Lingering => {}
            Stage::Body(_) | Stage::Discarding => {
                ready!(Pin::new(&mut this.inner).poll_shutdown(cx))?;
                this.read_clock.stop();
                this.stage = Stage::Lingering;
            }
            Stage::Head(_) | Stage::Answering => {
                return Pin::new(&mut this.inner).poll_shutdown(cx);
            }
        }
        // The clock first: a client that never stops sending would keep it from being asked.
        if this.read_clock.poll_over(cx, this.limits.linger).is_ready() {
            return Poll::Ready(Ok(()));
        }
        let mut scratch = [0; 8 * 1024];
        // A reset ends the wait as well as a polite close.
        this.poll_discard(cx, &mut ReadBuf::new(&mut scratch))
            .map(|_end| Ok(()))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
