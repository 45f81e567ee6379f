//! A client's socket as hyper reads and writes it, and the watch on it beside hyper.
//!
//! hyper does not look at the socket while it holds unread bytes of its own (a pipelined request,
//! stray bytes, a body that is not read), so it would not see the client disconnect then.
//! [`disconnected`] does, in every state, because the system reports a closed read side whatever
//! lies unread before it. The socket is borrowed by both.
//!
//! Not here: what happens then ([`super::connection`]).

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

/// How often the socket is checked while bytes lie unread in it: readiness is reported at once
/// then, so there is nothing to wait for. Well within the 250 ms in which a client that
/// disconnects must be noticed.
const UNREAD_CHECK: Duration = Duration::from_millis(100);

/// A borrowed socket with a write timeout.
pub(super) struct ClientSocket<'a> {
    stream: &'a TcpStream,
    write_idle: Duration,
    /// Runs while the socket takes no byte.
    stuck: Option<Pin<Box<Sleep>>>,
}

/// Resolves when the client has closed or reset the connection, or its sending half of it.
///
/// # Cancel safety
/// It reads nothing, so dropping it loses nothing.
pub(super) async fn disconnected(stream: &TcpStream) {
    loop {
        match stream.ready(Interest::READABLE).await {
            Ok(ready) if ready.is_read_closed() => return,
            Ok(ready) if ready.is_readable() => tokio::time::sleep(UNREAD_CHECK).await,
            // hyper has read it already.
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

impl<'a> ClientSocket<'a> {
    /// Writes fail with `TimedOut` once the socket has taken nothing for `write_idle`.
    pub(super) fn new(stream: &'a TcpStream, write_idle: Duration) -> Self {
        Self {
            stream,
            write_idle,
            stuck: None,
        }
    }

    /// Writes once the socket has room; every success resets the write timeout.
    fn poll_progress(
        &mut self,
        cx: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        while let Poll::Ready(ready) = self.stream.poll_write_ready(cx) {
            ready?;
            match write(self.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => {
                    self.stuck = None;
                    return Poll::Ready(written);
                }
            }
        }
        let limit = self.write_idle;
        let stuck = self
            .stuck
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + limit)));
        ready!(stuck.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for ClientSocket<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            match self.stream.try_read_buf(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(|_| ())),
            }
        }
    }
}

impl AsyncWrite for ClientSocket<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut()
            .poll_progress(cx, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut()
            .poll_progress(cx, |stream| stream.try_write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// The connection shuts its socket down itself, once hyper has let go of it.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, server) = tokio::join!(client, listener.accept());
        (client.unwrap(), server.unwrap().0)
    }

    #[tokio::test]
    async fn a_close_behind_unread_bytes_is_seen() {
        for unread in [0, 2, 100_000] {
            let (mut client, server) = pair().await;
            client.write_all(&vec![b'x'; unread]).await.unwrap();
            let early = timeout(Duration::from_millis(150), disconnected(&server)).await;
            assert!(early.is_err(), "{unread} bytes are no disconnect");
            drop(client);
            let seen = timeout(Duration::from_secs(2), disconnected(&server)).await;
            assert!(seen.is_ok(), "{unread} unread bytes hide no disconnect");
        }
    }

    #[tokio::test]
    async fn a_socket_that_takes_nothing_times_out() {
        let (client, server) = pair().await;
        let mut socket = ClientSocket::new(&server, Duration::from_millis(200));
        let piece = vec![b'x'; 1 << 20];
        let write = async { while socket.write_all(&piece).await.is_ok() {} };
        assert!(timeout(Duration::from_secs(20), write).await.is_ok());
        drop(client);
    }
}
