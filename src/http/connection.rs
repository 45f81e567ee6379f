//! One client connection: hyper serves it until it ends, the client disconnects, or its listener
//! closes.
//!
//! A client that disconnects takes its work with it: the connection's future is dropped, and with
//! it the request handler or the response body, wherever they are. A closing listener lets the
//! request in flight finish first, and never by `Connection: close` on a stream that has not begun
//! (Node 20 takes a cut stream with that header for a complete one).
//!
//! Not here: what is answered ([`super::service`]).

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::context::Context;

use super::admission::Peer;
use super::client_socket::{ClientSocket, disconnected};
use super::limits::BUFFER;
use super::service;

/// For how long bytes that arrive behind the last response are read and thrown away. Closing at
/// once would reset the connection, and the client could lose the response.
const LINGER: Duration = Duration::from_secs(1);

/// How serving a connection ended.
enum Ended {
    /// The client is gone, or takes nothing any more.
    Dead,
    /// The last response is written; the client may still be sending.
    Open,
}

/// Serves one connection until it ends. Cancelling `closing` ends it after the request in flight.
///
/// # Cancel safety
/// Dropping it closes the connection and drops the request in flight.
pub(super) async fn serve(
    context: Arc<Context>,
    mut stream: TcpStream,
    remote: SocketAddr,
    closing: CancellationToken,
) {
    // Without it small responses wait for the client's acknowledgement.
    let (Ok(()), Ok(local)) = (stream.set_nodelay(true), stream.local_addr()) else {
        return;
    };
    let peer = Peer { remote, local };
    match serve_requests(&context, &stream, peer, closing).await {
        Ended::Dead => {}
        Ended::Open => linger(&mut stream).await,
    }
}

async fn serve_requests(
    context: &Arc<Context>,
    stream: &TcpStream,
    peer: Peer,
    closing: CancellationToken,
) -> Ended {
    let limits = context.limits;
    let in_flight = TaskTracker::new();
    let service = service_fn(|request| {
        let token = in_flight.token();
        let response = service::respond(Arc::clone(context), request, peer, token, closing.clone());
        async move { Ok::<_, Infallible>(response.await) }
    });
    let socket = ClientSocket::new(stream, limits.write_idle);
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(socket), service);
    let mut serving = std::pin::pin!(serving);
    let idle_after_close = async {
        closing.cancelled().await;
        in_flight.close();
        in_flight.wait().await;
    };
    tokio::select! {
        // hyper reads first, so that the watch finds nothing unread in the usual case.
        biased;
        ended = serving.as_mut() => return Ended::of(ended),
        () = disconnected(stream) => return Ended::Dead,
        () = idle_after_close => serving.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        biased;
        ended = serving => Ended::of(ended),
        () = disconnected(stream) => Ended::Dead,
    }
}

impl Ended {
    fn of(ended: hyper::Result<()>) -> Self {
        match ended {
            Ok(()) => Self::Open,
            // hyper has answered what it could not parse.
            Err(error) if error.is_parse() => Self::Open,
            Err(_) => Self::Dead,
        }
    }
}

/// Says that nothing more comes, and reads what the client still sends for a moment.
async fn linger(stream: &mut TcpStream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut buffer = [0; 4096];
    let discard = async { while matches!(stream.read(&mut buffer).await, Ok(1..)) {} };
    // Whether the client has closed by then makes no difference.
    let _ = tokio::time::timeout(LINGER, discard).await;
}
