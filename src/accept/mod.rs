//! From the listening socket to a request whose head has been judged.
//!
//! A connection is served only when it has a place; until then one at a time waits at the door and
//! the rest with the system, so that descriptors cannot run out under load. Each runs behind
//! [`guarded::Guarded`], which refuses what the HTTP library would let through and sees a client
//! leave in every state. Not here: who may call ([`crate::admit`]).

mod clock;
pub mod crowd;
pub mod descriptors;
pub mod framing;
pub mod guarded;
pub mod head;
pub mod limits;
mod placeholder;
mod reader;
pub mod room;
mod socket;
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
use tokio::sync::watch;
use tokio::task::JoinSet;

use crowd::{Crowd, Seat};
use guarded::Guarded;
use limits::Limits;
use turn::Turn;

pub use answer::{Answered, Form, caught};

/// After a failed accept (descriptors ran out): long enough not to spin, short enough to recover.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the HTTP library may hold of a connection in either direction. A head is at most half of
/// it; a larger piece of an answer passes through whole.
const BUFFER: usize = 64 * 1024;

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
    pub crowd: Arc<Crowd>,
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
    welcome(listener, &door, &mut connections).await;
    while connections.join_next().await.is_some() {}
}

/// Takes connections until no new work is taken; the listener ends with it.
async fn welcome<H, F>(listener: TcpListener, door: &Arc<Door<H>>, connections: &mut JoinSet<()>)
where
    H: Fn(Accepted) -> F + Send + Sync + 'static,
    F: Future<Output = Response<Answered>> + Send + 'static,
{
    let mut closing = door.closing.clone();
    // Kept from turn to turn: a connection that waits at the door must not be dropped.
    let mut next = std::pin::pin!(accept(&listener, &door.crowd));
    loop {
        tokio::select! {
            biased;
            () = closed(&mut closing) => break,
            Some(_) = connections.join_next() => {}
            accepted = next.as_mut() => {
                match accepted {
                    Ok(guest) => {
                        connections.spawn(connection(guest, Arc::clone(door)));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
                next.set(accept(&listener, &door.crowd));
            }
        }
    }
}

/// A connection that has a place.
struct Guest {
    stream: TcpStream,
    peer: SocketAddr,
    turn: Arc<Turn>,
    seat: Seat,
}

async fn accept(listener: &TcpListener, crowd: &Arc<Crowd>) -> io::Result<Guest> {
    let (stream, peer) = listener.accept().await?;
    let turn = Turn::new();
    let seat = crowd.seat(&turn).await;
    Ok(Guest {
        stream,
        peer,
        turn,
        seat: seat.ok_or_else(|| io::Error::other("no connection is taken any more"))?,
    })
}

async fn connection<H, F>(guest: Guest, door: Arc<Door<H>>)
where
    H: Fn(Accepted) -> F + Send + Sync + 'static,
    F: Future<Output = Response<Answered>> + Send + 'static,
{
    let Guest {
        stream,
        peer,
        turn,
        seat,
    } = guest;
    let (Ok(()), Ok(local)) = (socket::shape(&stream), stream.local_addr()) else {
        return;
    };
    let client = reader::Client::of(peer, local);
    let guarded = Guarded::of_client(stream, Arc::clone(&turn), (door.limits)(), client);
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
        .max_buf_size(BUFFER)
        .max_headers(limits::FIELDS)
        .serve_connection(TokioIo::new(guarded), service);
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        // A request that is here already goes before the wish for its place.
        biased;
        // How a connection ended is in the record of its request.
        _ = serving.as_mut() => return,
        () = seat.wanted_back() => return,
        () = closed(&mut closing) => {}
    }
    serving.as_mut().graceful_shutdown();
    let _ = serving.await;
}

/// Resolves when no new work is taken; also when nobody is left who could say so.
async fn closed(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await.is_ok();
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::io::Write as _;

    use tokio::sync::mpsc;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_has_asked_is_not_silent_although_nobody_has_read_it_yet() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (heard, mut asked) = mpsc::unbounded_channel();
        let (_open, closing) = watch::channel(false);
        let door = Arc::new(Door {
            handle: move |accepted: Accepted| {
                let _ = heard.send(accepted.peer);
                std::future::pending::<Response<Answered>>()
            },
            limits: Box::new(|| {
                // Its turn comes late, as it may on a busy machine; the door looks on.
                std::thread::sleep(Duration::from_millis(300));
                Limits::default()
            }),
            crowd: Crowd::of(1),
            closing,
        });
        let clients = [(); 3].map(|()| {
            let mut client = std::net::TcpStream::connect(address).unwrap();
            client
                .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                .unwrap();
            client
        });
        let serving = tokio::spawn(serve(listener, door));
        let first = timeout(Duration::from_secs(30), asked.recv()).await;
        assert_eq!(first.unwrap(), clients[0].local_addr().ok());
        serving.abort();
    }
}
