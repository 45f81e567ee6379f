//! From the listening socket to a request whose head has been judged.
//!
//! Connections are counted before they are accepted, so that descriptors cannot run out under
//! load. Each runs behind [`guarded::Guarded`], which refuses what the HTTP library would let
//! through and sees a client leave in every state. Not here: who may call ([`crate::admit`]).

mod clock;
pub mod framing;
pub mod guarded;
pub mod head;
pub mod limits;
mod target;
pub mod turn;

mod answer;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use guarded::Guarded;
use limits::Limits;
use turn::Turn;

pub use answer::{Answered, Form, caught};

/// After a failed accept (descriptors ran out): long enough not to spin, short enough to recover.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A request as it comes off a connection.
pub struct Accepted {
    /// The request; a placeholder if the turn holds a refusal.
    pub request: Request<Incoming>,
    /// Whose turn it is on the connection.
    pub turn: Arc<Turn>,
    /// Who is at the other end.
    pub peer: SocketAddr,
    /// The address it came to.
    pub local: SocketAddr,
}

/// What every connection of a listener shares.
pub struct Door<H> {
    /// Answers a request.
    pub handle: H,
    /// Sizes and clocks of new connections.
    pub limits: Box<dyn Fn() -> Limits + Send + Sync>,
    /// Connections that may be open at once, over all listeners.
    pub permits: Arc<Semaphore>,
    /// Turns true when no new work is taken.
    pub closing: watch::Receiver<bool>,
}

/// Serves a listener until `closing` turns true, then lets open connections finish what they are
/// doing.
///
/// # Cancel safety
/// Dropping it closes the listener and every connection.
pub async fn serve<H, F>(listener: TcpListener, door: Arc<Door<H>>)
where
    H: Fn(Accepted) -> F + Send + Sync + 'static,
    F: Future<Output = Response<Answered>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    let mut closing = door.closing.clone();
    loop {
        tokio::select! {
            biased;
            () = closed(&mut closing) => break,
            Some(_) = connections.join_next() => {}
            accepted = accept(&listener, &door.permits) => match accepted {
                Ok((stream, peer, permit)) => {
                    let door = Arc::clone(&door);
                    connections.spawn(async move {
                        connection(stream, peer, door).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

type Permit = tokio::sync::OwnedSemaphorePermit;

async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, Permit)> {
    let permit = Arc::clone(permits)
        .acquire_owned()
        .await
        .map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, permit))
}

async fn connection<H, F>(stream: TcpStream, peer: SocketAddr, door: Arc<Door<H>>)
where
    H: Fn(Accepted) -> F + Send + Sync + 'static,
    F: Future<Output = Response<Answered>> + Send + 'static,
{
    // Without it small answers wait for the client's acknowledgement.
    let (Ok(()), Ok(local)) = (stream.set_nodelay(true), stream.local_addr()) else {
        return;
    };
    let turn = Turn::new();
    let guarded = Guarded::new(stream, Arc::clone(&turn), (door.limits)());
    let mut closing = door.closing.clone();
    let service = service_fn(|request| {
        let accepted = Accepted {
            request,
            turn: Arc::clone(&turn),
            peer,
            local,
        };
        let answer = (door.handle)(accepted);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        // The guard has its own clocks for heads; the library's would count its placeholder.
        .header_read_timeout(None)
        .half_close(false)
        .serve_connection(TokioIo::new(guarded), service);
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        // How a connection ended is in the record of its request.
        _ = serving.as_mut() => return,
        () = closed(&mut closing) => {}
    }
    serving.as_mut().graceful_shutdown();
    let _ = serving.await;
}

/// Resolves when no new work is taken; also when nobody is left who could say so.
async fn closed(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await.is_ok();
}
