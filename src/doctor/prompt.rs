//! The test prompt: a few tokens, through the running gateway, or directly where none runs.
//!
//! The answer's text is not shown; that one came, how fast, and by whom, is.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::server::Server;
use super::{Chart, Patient};
use crate::upstream::{Root, Scheme};

/// Tokens of the answer: enough to see it flow.
const TOKENS: u64 = 8;

/// No answer to a few tokens is longer.
const LONGEST_ANSWER: usize = 1 << 20;

/// How the prompt went.
enum Reply {
    /// It was answered.
    Answered { tokens: Option<u64> },
    /// It was refused, in the other side's words.
    Refused {
        status: StatusCode,
        code: Option<String>,
        message: Option<String>,
    },
    /// No answer came.
    Failed(Failed),
}

/// Why no answer came.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("cannot connect")]
    Connect(#[source] std::io::Error),
    #[error("the connection broke")]
    Send(#[source] hyper::Error),
    #[error("the answer could not be read")]
    Read(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the request could not be written")]
    Build(#[source] http::Error),
    #[error("no answer within {} s", .0.as_secs())]
    Patience(Duration),
}

/// Which way the prompt goes.
enum Way {
    Gateway,
    Direct,
}

pub(super) async fn send(patient: &Patient<'_>, server: &Server, chart: &mut Chart<'_>) {
    let settings = &patient.loaded.settings;
    let limit = settings.timeouts.total + settings.timeouts.loading;
    let gateway = patient
        .running
        .and_then(|running| running.names.addresses.first());
    let (way, root, key) = match gateway.and_then(|url| Root::parse(url).ok()) {
        Some(root) => (Way::Gateway, root, None),
        None => (
            Way::Direct,
            server.root.clone(),
            settings.upstream.api_key.as_ref(),
        ),
    };
    if root.scheme() == Scheme::Https {
        chart.note("no test prompt was sent: over https it goes through a running OneSlot only (`oneslotd serve`)");
        return;
    }
    let loads = if server.loads { ", which loads it" } else { "" };
    chart.note(format!(
        "sending a test prompt {way} to {}{loads}",
        server.model
    ));
    let started = Instant::now();
    // No one's key is known in the clear; the token of the run opens the gateway as well.
    let token = match way {
        Way::Gateway => patient.running.map(|running| running.token.expose()),
        Way::Direct => None,
    };
    let asked = ask(&root, &server.model, key.map(|key| key.expose()), token);
    let reply = match timeout(limit, asked).await {
        Ok(reply) => reply.unwrap_or_else(Reply::Failed),
        Err(_) => Reply::Failed(Failed::Patience(limit)),
    };
    tell(&reply, &way, started.elapsed(), chart);
}

async fn ask(
    root: &Root,
    model: &str,
    key: Option<&str>,
    token: Option<&str>,
) -> Result<Reply, Failed> {
    let body = json!({
        "model": model,
        "messages": [{"role": "user", "content": "Say hello."}],
        "max_tokens": TOKENS,
        "stream": false,
    });
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(root.target("/v1/chat/completions"))
        .header(header::HOST, root.authority())
        .header(
            header::USER_AGENT,
            concat!("oneslotd-doctor/", env!("CARGO_PKG_VERSION")),
        )
        .header(header::CONTENT_TYPE, "application/json");
    if let Some(token) = token {
        request = request.header("x-oneslot-token", token);
    }
    if let Some(key) = key {
        request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
    }
    let request = request
        .body(Full::new(Bytes::from(body.to_string())))
        .map_err(Failed::Build)?;
    let io = TokioIo::new(connect(root).await.map_err(Failed::Connect)?);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io)
        .await
        .map_err(Failed::Send)?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(Failed::Send)?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, LONGEST_ANSWER)
            .collect()
            .await
            .map_err(Failed::Read)?;
        Ok(read(head.status, &body.to_bytes()))
    };
    tokio::pin!(connection);
    tokio::pin!(answer);
    tokio::select! {
        biased;
        reply = &mut answer => reply,
        // The connection may end with the answer's last byte; the answer is then still read out.
        _ = &mut connection => answer.await,
    }
}

async fn connect(root: &Root) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::from(std::io::ErrorKind::NotFound);
    for address in root.addresses().await? {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn read(status: StatusCode, body: &[u8]) -> Reply {
    let body: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    if status.is_success() && body.get("choices").is_some_and(Value::is_array) {
        return Reply::Answered {
            tokens: body["usage"]["completion_tokens"].as_u64(),
        };
    }
    let error = &body["error"];
    let message = error["message"].as_str().or_else(|| error.as_str());
    Reply::Refused {
        status,
        code: error["code"].as_str().map(str::to_owned),
        message: message.map(|message| message.chars().take(200).collect()),
    }
}

fn tell(reply: &Reply, way: &Way, took: Duration, chart: &mut Chart<'_>) {
    let took = format!("{}.{} s", took.as_secs(), took.subsec_millis() / 100);
    match reply {
        Reply::Answered { tokens } => {
            let tokens = tokens.map_or_else(String::new, |tokens| format!(", {tokens} tokens"));
            chart.good(format!(
                "the test prompt was answered {way} in {took}{tokens}"
            ));
        }
        Reply::Refused {
            status,
            code,
            message,
        } => {
            let code = code
                .as_ref()
                .map_or_else(String::new, |code| format!(" {code}"));
            let message = message.as_deref().unwrap_or("without a reason");
            chart.fix(
                format!(
                    "the test prompt was refused {way} after {took}: {}{code}",
                    status.as_u16()
                ),
                message,
            );
        }
        Reply::Failed(failed) => {
            let mut text = failed.to_string();
            let mut cause = std::error::Error::source(failed);
            while let Some(error) = cause {
                text = format!("{text}: {error}");
                cause = error.source();
            }
            chart.fix(
                format!("the test prompt was not answered {way} after {took}: {text}"),
                "look at the model server's own log",
            );
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gateway => "through OneSlot",
            Self::Direct => "directly, past OneSlot,",
        })
    }
}
