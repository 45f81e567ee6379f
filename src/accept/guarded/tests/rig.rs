//! A server made of the guard, the real HTTP library and a service that does as its path says.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::accept::guarded::Guarded;
use crate::accept::limits::Limits;
use crate::accept::turn::{Answering, Turn};

/// No test waits longer than this for what should come at once.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// What the server saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// A handler has the whole body: its path, and the body's length.
    Began(String, usize),
    /// A handler, or its answer, was dropped before it was done.
    Dropped(String),
    /// A body could not be read; the code the guard gave, if it did.
    BodyFailed(Option<&'static str>),
    /// The connection ended.
    Closed,
}

pub(super) type Events = mpsc::UnboundedReceiver<Event>;

/// A server over TCP.
pub(super) struct Rig {
    address: SocketAddr,
    pub(super) events: Events,
}

/// Says that it was dropped, unless its path was taken.
struct Watch {
    path: Option<String>,
    events: mpsc::UnboundedSender<Event>,
}

/// An answer's body, which ends the turn when it is dropped.
struct Answer {
    content: Content,
    _watch: Option<Watch>,
    _answering: Answering,
}

enum Content {
    Full(Option<Bytes>),
    Endless(Bytes),
    /// One piece, and then nothing for ever.
    Silent(Option<Bytes>),
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            let _ = self.events.send(Event::Dropped(path));
        }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut self.content {
            Content::Full(piece) => piece.take(),
            Content::Endless(piece) => Some(piece.clone()),
            Content::Silent(piece) => match piece.take() {
                Some(piece) => Some(piece),
                None => return Poll::Pending,
            },
        };
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.content, Content::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Full(piece) => {
                SizeHint::with_exact(piece.as_ref().map_or(0, |piece| piece.len() as u64))
            }
            Content::Endless(_) | Content::Silent(_) => SizeHint::default(),
        }
    }
}

impl Rig {
    pub(super) async fn start(limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, events) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, limits, sender.clone()));
            }
        });
        Self { address, events }
    }

    pub(super) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// The next event; fails when none comes.
    pub(super) async fn next(&mut self) -> Event {
        tokio::time::timeout(PATIENCE, self.events.recv())
            .await
            .unwrap()
            .unwrap()
    }
}

/// A server for one connection in memory, for tests with a paused clock.
pub(super) fn in_memory(limits: Limits, capacity: usize) -> (DuplexStream, Events) {
    let (client, server) = tokio::io::duplex(capacity);
    let (sender, events) = mpsc::unbounded_channel();
    tokio::spawn(serve(server, limits, sender));
    (client, events)
}

/// Reads until `mark` has come `count` times; all that was read.
pub(super) async fn read_until<S>(client: &mut S, mark: &str, count: usize) -> String
where
    S: AsyncRead + Unpin,
{
    let mut text = String::new();
    let mut piece = [0; 4096];
    while text.matches(mark).count() < count {
        let length = tokio::time::timeout(PATIENCE, client.read(&mut piece))
            .await
            .unwrap()
            .unwrap();
        assert_ne!(
            length, 0,
            "closed after {text:?}, before {count} times {mark:?}"
        );
        text.push_str(&String::from_utf8_lossy(&piece[..length]));
    }
    text
}

/// Reads to the end of the connection; all that was read.
pub(super) async fn read_to_end<S>(client: &mut S) -> String
where
    S: AsyncRead + Unpin,
{
    let mut bytes = Vec::new();
    tokio::time::timeout(PATIENCE, client.read_to_end(&mut bytes))
        .await
        .unwrap()
        .unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn serve<S>(socket: S, limits: Limits, events: mpsc::UnboundedSender<Event>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let turn = Turn::new();
    let guarded = Guarded::new(socket, Arc::clone(&turn), limits);
    let closed = events.clone();
    let service = service_fn(move |request| answer(request, Arc::clone(&turn), events.clone()));
    let _ = hyper::server::conn::http1::Builder::new()
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(guarded), service)
        .await;
    let _ = closed.send(Event::Closed);
}

async fn answer(
    request: Request<Incoming>,
    turn: Arc<Turn>,
    events: mpsc::UnboundedSender<Event>,
) -> Result<Response<Answer>, Infallible> {
    let answering = turn.answering();
    let respond = |status, content, watch| {
        let mut response = Response::new(Answer {
            content,
            _watch: watch,
            _answering: answering,
        });
        *response.status_mut() = status;
        Ok(response)
    };
    let full = |text: String| Content::Full(Some(Bytes::from(text)));
    if let Some(refusal) = turn.refusal() {
        return respond(refusal.status(), full(refusal.code().to_owned()), None);
    }
    let path = request.uri().path().to_owned();
    if path == "/early" {
        return respond(StatusCode::PAYLOAD_TOO_LARGE, full(path), None);
    }
    let Ok(body) = request.into_body().collect().await else {
        let refusal = turn.refusal();
        let code = refusal.as_ref().map(crate::refusal::Refusal::code);
        let _ = events.send(Event::BodyFailed(code));
        let status = refusal.map_or(StatusCode::INTERNAL_SERVER_ERROR, |no| no.status());
        return respond(status, full("broken body".to_owned()), None);
    };
    let length = body.to_bytes().len();
    let _ = events.send(Event::Began(path.clone(), length));
    let mut watch = Watch {
        path: Some(path.clone()),
        events,
    };
    match path.as_str() {
        "/hold" => std::future::pending().await,
        "/pause" => tokio::time::sleep(Duration::from_millis(100)).await,
        "/endless" => {
            let content = Content::Endless(Bytes::from(vec![b'x'; 16 * 1024]));
            return respond(StatusCode::OK, content, Some(watch));
        }
        "/silent" => {
            let content = Content::Silent(Some(Bytes::from_static(b"data: 1\n\n")));
            return respond(StatusCode::OK, content, Some(watch));
        }
        _ => {}
    }
    watch.path = None;
    respond(StatusCode::OK, full(format!("<{path} {length}>")), None)
}
