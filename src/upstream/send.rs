//! The relayed request itself: one connection, one exchange, bytes untouched.
//!
//! hyper's client connection is driven directly, without a pool of its own: dropping a
//! [`Sent`] closes its connection, which is how a local server learns that the
//! answer is not needed any more. At most a few idle connections are kept for the next request; one
//! that turns out to be dead before any byte of an answer is replaced once, which is no failure
//! of the server's.
//!
//! Not here: probes and questions of our own ([`super::client`]), and what the answer means.

use std::error::Error as _;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HOST, HeaderValue, TRANSFER_ENCODING};
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::base_url::Root;
use super::tls::tls_outage;
use crate::fault_injection;
use crate::refusal::Outage;

/// Idle connections kept; more would only age.
const KEPT: usize = 2;
/// An idle connection older than this is not reused: servers close theirs silently.
const KEPT_FOR: Duration = Duration::from_secs(30);
/// A reused connection that ends later than this may have carried the request to the server, which
/// may have worked: it is not sent again.
const RESEND_WITHIN: Duration = Duration::from_millis(250);
/// Longest response header.
const HEADER_LIMIT: usize = 256 * 1024;

/// Sends requests to one server.
pub struct Sender {
    root: Root,
    host: HeaderValue,
    tls: Option<TlsConnector>,
    connect: Duration,
    idle: Mutex<Vec<Idle>>,
}

/// A response whose header has come. Dropping it closes the connection.
#[derive(Debug)]
pub struct Sent {
    /// Header and body, as they come.
    pub response: Response<Incoming>,
    connection: Connection,
}

/// What is left when the body is read separately; give it back when the body ended well.
#[derive(Debug)]
pub struct Connection {
    send: SendRequest<Full<Bytes>>,
    driver: Driver,
}

/// A request to send: method, path (with query) below the root, headers, whole body.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// The method.
    pub method: Method,
    /// Path and query below the root, beginning with a slash.
    pub path: String,
    /// Headers, already chosen; `Host` and framing are added here.
    pub headers: HeaderMap,
    /// The whole body; empty for none.
    pub body: Bytes,
}

struct Idle {
    connection: Connection,
    since: Instant,
}

/// Ends the connection's task, and with it the socket, when dropped.
#[derive(Debug)]
struct Driver(JoinHandle<()>);

/// The result of sending on one connection.
enum Attempt {
    Done(Box<Sent>),
    /// A reused connection ended before any byte of an answer.
    Stale,
    Failed(Outage),
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

impl Sender {
    /// A sender for `root`; `connect` limits each connection attempt.
    ///
    /// # Errors
    /// The authority is not a header value.
    pub fn new(
        root: Root,
        tls: Option<Arc<rustls::ClientConfig>>,
        connect: Duration,
    ) -> Result<Self, http::header::InvalidHeaderValue> {
        Ok(Self {
            host: HeaderValue::try_from(root.authority())?,
            root,
            tls: tls.map(TlsConnector::from),
            connect,
            idle: Mutex::default(),
        })
    }

    /// Sends one request and waits for the header of its response, without a limit of its own.
    ///
    /// # Errors
    /// What came instead.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn send(&self, outgoing: &Outgoing) -> Result<Sent, Outage> {
        fault_injection::at(fault_injection::Stage::Connect);
        let mut went_away = false;
        if let Some(connection) = self.take_idle() {
            match self.attempt(connection, outgoing, true).await {
                Attempt::Done(sent) => return Ok(*sent),
                Attempt::Failed(outage) => return Err(outage),
                Attempt::Stale => went_away = true,
            }
        }
        let connection = match self.connect().await {
            // A server listened a moment ago: it may have died of this very request.
            Err(Outage::Refused) if went_away => return Err(Outage::Reset),
            connected => connected?,
        };
        match self.attempt(connection, outgoing, false).await {
            Attempt::Done(sent) => Ok(*sent),
            Attempt::Failed(outage) => Err(outage),
            Attempt::Stale => Err(Outage::Reset),
        }
    }

    /// Takes back a connection whose response was read to its end.
    pub fn give_back(&self, connection: Connection) {
        if connection.send.is_closed() {
            return;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < KEPT {
            idle.push(Idle {
                connection,
                since: Instant::now(),
            });
        }
    }

    /// Closes idle connections: after the machine slept, or when the server was replaced.
    pub fn forget_idle(&self) {
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(one) = idle.pop() {
            if one.since.elapsed() < KEPT_FOR && one.connection.send.is_ready() {
                return Some(one.connection);
            }
        }
        None
    }

    async fn attempt(
        &self,
        mut connection: Connection,
        outgoing: &Outgoing,
        reused: bool,
    ) -> Attempt {
        let Ok(request) = self.request(outgoing) else {
            return Attempt::Failed(Outage::Garbled);
        };
        let began = Instant::now();
        match connection.send.send_request(request).await {
            // Two lengths for one response: the next one on this connection could begin inside it.
            Ok(response) if is_framed_twice(response.headers()) => Attempt::Failed(Outage::Garbled),
            Ok(response) => Attempt::Done(Box::new(Sent {
                response,
                connection,
            })),
            Err(error)
                if reused && ended_before_answer(&error) && began.elapsed() < RESEND_WITHIN =>
            {
                Attempt::Stale
            }
            Err(error) => Attempt::Failed(outage_of(&error)),
        }
    }

    fn request(&self, outgoing: &Outgoing) -> Result<Request<Full<Bytes>>, http::Error> {
        let target = self.root.target(&outgoing.path);
        let mut request = Request::builder()
            .method(outgoing.method.clone())
            .uri(target.parse::<Uri>()?)
            .body(Full::new(outgoing.body.clone()))?;
        *request.headers_mut() = outgoing.headers.clone();
        request.headers_mut().insert(HOST, self.host.clone());
        Ok(request)
    }

    async fn connect(&self) -> Result<Connection, Outage> {
        let io = timeout(self.connect, self.open())
            .await
            .map_err(|_| Outage::ConnectTimeout)?;
        let stream = io.map_err(|error| connect_outage(&error))?;
        match &self.tls {
            None => handshake(TokioIo::new(stream)).await,
            Some(tls) => {
                let name = ServerName::try_from(self.root.host().to_owned())
                    .map_err(|_| Outage::Refused)?;
                let secured = timeout(self.connect, tls.connect(name, stream))
                    .await
                    .map_err(|_| Outage::ConnectTimeout)?
                    .map_err(|error| tls_outage(&error).unwrap_or(Outage::Garbled))?;
                handshake(TokioIo::new(secured)).await
            }
        }
    }

    /// Tries each address in turn; the last failure is reported.
    async fn open(&self) -> io::Result<TcpStream> {
        let mut failure = io::Error::from(io::ErrorKind::ConnectionRefused);
        for address in self.root.addresses().await? {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }
}

impl Sent {
    /// Header and body apart from their connection.
    pub fn into_parts(self) -> (Response<Incoming>, Connection) {
        (self.response, self.connection)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the driver is aborted when its guard is dropped"
)]
async fn handshake<T>(io: TokioIo<T>) -> Result<Connection, Outage>
where
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (send, connection) = http1::Builder::new()
        .max_buf_size(HEADER_LIMIT)
        .handshake(io)
        .await
        .map_err(|error| outage_of(&error))?;
    let driver = Driver(tokio::spawn(async move {
        // Its error reaches the request that waits for the response.
        let _ = connection.await;
    }));
    Ok(Connection { send, driver })
}

impl Connection {
    /// Whether its task still runs; for tests and the debug log.
    pub fn is_open(&self) -> bool {
        !self.driver.0.is_finished()
    }
}

/// Whether a header has both a length and chunks.
pub(super) fn is_framed_twice(headers: &HeaderMap) -> bool {
    headers.contains_key(CONTENT_LENGTH) && headers.contains_key(TRANSFER_ENCODING)
}

/// Whether a response is compressed. It was not asked for, and neither its end nor an error in it
/// could be seen.
pub fn is_encoded(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    codings.any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// The connection ended without a byte of an answer.
fn ended_before_answer(error: &hyper::Error) -> bool {
    error.is_incomplete_message() || error.is_canceled() || error.is_closed() || is_io(error)
}

fn is_io(error: &hyper::Error) -> bool {
    error
        .source()
        .is_some_and(|source| source.is::<io::Error>())
}

fn connect_outage(error: &io::Error) -> Outage {
    match error.kind() {
        io::ErrorKind::TimedOut => Outage::ConnectTimeout,
        _ => Outage::Refused,
    }
}

/// What a failed exchange says about the server.
pub fn outage_of(error: &hyper::Error) -> Outage {
    if error.is_parse() {
        Outage::Garbled
    } else {
        Outage::Reset
    }
}
