//! A built-in simulated model server for `--demo`: it shows the gateway at work without a model.
//!
//! Every answer says that it is no model. It speaks just enough of the OpenAI dialect: a list of
//! models, and chats that come word by word, a word being a token. It is never a fallback for a
//! server that is missing: only a person who asked for it gets it.

mod answer;

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep};

use self::answer::Answer;

/// The one model's name.
pub const MODEL: &str = "oneslot-demo";
/// Its window, in words.
pub const WINDOW: u64 = 4096;

/// Time between two words: 25 a second, a small model's pace.
const PACE: Duration = Duration::from_millis(40);
/// The same limit as the gateway has for a body.
const BODY_LIMIT: usize = 64 << 20;

/// The running demo. Dropping it stops it and cuts its answers.
pub struct Demo {
    /// Its address, for `upstream.base_url`.
    pub base_url: String,
    /// Owns the task that accepts, which owns those that serve.
    _tasks: JoinSet<()>,
}

/// Starts the demo on a free loopback port, on the current Tokio runtime.
///
/// # Errors
/// What the system says when no port can be opened.
///
/// # Cancel safety
/// Dropping the future starts nothing.
pub async fn start() -> io::Result<Demo> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    let base_url = format!("http://{}", listener.local_addr()?);
    let mut tasks = JoinSet::new();
    tasks.spawn(accept(listener));
    Ok(Demo {
        base_url,
        _tasks: tasks,
    })
}

async fn accept(listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            taken = listener.accept() => match taken {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream));
                }
                // Out of file handles, most likely: some may be free soon.
                Err(_) => sleep(Duration::from_millis(100)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream) {
    // A client that leaves or violates the protocol ends its connection; there is nothing to report.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service_fn(respond))
        .await;
}

async fn respond(request: Request<Incoming>) -> Result<Response<Words>, Infallible> {
    let route = (request.method().clone(), request.uri().path().to_owned());
    Ok(match (route.0, route.1.as_str()) {
        (Method::GET, "/v1/models") => whole(StatusCode::OK, answer::models()),
        (Method::POST, "/v1/chat/completions") => chat(request).await,
        _ => {
            let (status, body) = answer::refusal(StatusCode::NOT_FOUND, "no such route", None);
            whole(status, body)
        }
    })
}

async fn chat(request: Request<Incoming>) -> Response<Words> {
    let body = match Limited::new(request.into_body(), BODY_LIMIT)
        .collect()
        .await
    {
        Ok(body) => body.to_bytes(),
        Err(_) => {
            let status = StatusCode::PAYLOAD_TOO_LARGE;
            let (status, body) = answer::refusal(status, "the body is too large or was cut", None);
            return whole(status, body);
        }
    };
    match Answer::plan(&body) {
        Err((status, body)) => whole(status, body),
        Ok(answer) if answer.streams() => {
            let mut response = Response::new(Words::paced(answer.chunks()));
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
            response
        }
        Ok(answer) => {
            // A whole answer takes as long as its words would.
            sleep(PACE * u32::try_from(answer.words()).unwrap_or(u32::MAX)).await;
            whole(StatusCode::OK, answer.whole())
        }
    }
}

fn whole(status: StatusCode, body: Bytes) -> Response<Words> {
    let mut response = Response::new(Words::at_once(body));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// A body in pieces, each a moment after the one before; dropping it stops it.
struct Words {
    rest: std::vec::IntoIter<Bytes>,
    pause: Option<Pin<Box<Sleep>>>,
}

// === impl Words ===

impl Words {
    fn at_once(body: Bytes) -> Self {
        Self {
            rest: vec![body].into_iter(),
            pause: None,
        }
    }

    fn paced(chunks: Vec<Bytes>) -> Self {
        Self {
            rest: chunks.into_iter(),
            pause: Some(Box::pin(sleep(PACE))),
        }
    }
}

impl Body for Words {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.len() == 0 {
            return Poll::Ready(None);
        }
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
            pause.as_mut().reset(Instant::now() + PACE);
        }
        Poll::Ready(self.rest.next().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.len() == 0
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.pause, self.rest.as_slice()) {
            (None, [body]) => SizeHint::with_exact(body.len() as u64),
            (None | Some(_), _) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
