//! Routes beside the slot: the upstream's read-only responses while a generation runs.
//!
//! Nothing is sent during a cooldown; a copy of an earlier response serves then, and where the
//! upstream is slow. Not here: the copies ([`super::read_cache`]).

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::response::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use tokio::time::timeout;

use crate::context::Context;
use crate::http::admission::{AdmittedRequest, now_ms};
use crate::http::body::RequestBody;
use crate::http::security::headers::downward;
use crate::http::security::upstream_headers::upstream_headers;
use crate::proxy::body::buffered::{Held, hold};
use crate::proxy::body::{ResponseBody, full};
use crate::refusal::{Clock, Outage, Refusal};
use crate::scheduler::health::State;
use crate::telemetry::{self, Lane, PendingRecord};
use crate::upstream::handle::UpstreamHandle;
use crate::upstream::send::{Outgoing, is_encoded};
use crate::upstream::{Kind, error_of, says_loop, without_sent_keys};

/// A read that takes longer is answered from a copy, if there is one.
const SLOW: Duration = Duration::from_secs(2);
/// A read without a copy may take this long.
const LIMIT: Duration = Duration::from_secs(30);
/// A response beside the slot is buffered up to this many bytes.
const ANSWER_LIMIT: usize = 16 << 20;

/// Status and headers of a response.
struct ResponseHead {
    status: StatusCode,
    headers: HeaderMap,
}

/// `GET /`: says what this is; in front of an Ollama server in the words its clients look for.
pub(crate) fn root(context: &Context) -> Response<ResponseBody> {
    let kind = context.link().and_then(|link| link.upstream.known_kind());
    let words = match kind {
        Some(Kind::Ollama) => "Ollama is running".to_owned(),
        Some(Kind::LlamaCpp | Kind::LmStudio | Kind::Plain) | None => format!(
            "OneSlot {} is running: point your app's base URL at this address with /v1\n",
            env!("CARGO_PKG_VERSION")
        ),
    };
    let mut response = Response::new(full(words.into()));
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

/// Relays a read-only request.
///
/// # Errors
/// The refusal; its outcome has been recorded.
pub(crate) async fn relay(
    context: &Arc<Context>,
    request: AdmittedRequest,
    body: &mut RequestBody,
    path: String,
    cacheable: bool,
) -> Result<Response<ResponseBody>, Refusal> {
    let open = open(context, &request);
    match relayed(context, request, body, &path, cacheable).await {
        Ok(response) => {
            open.end(telemetry::Ending::Done);
            Ok(response)
        }
        Err(refusal) => {
            open.end(telemetry::Ending::Refused(&refusal));
            Err(refusal)
        }
    }
}

async fn relayed(
    context: &Arc<Context>,
    request: AdmittedRequest,
    body: &mut RequestBody,
    path: &str,
    cacheable: bool,
) -> Result<Response<ResponseBody>, Refusal> {
    let target = match &request.routed.query {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let copy = || cacheable.then(|| context.reads.copy(&target)).flatten();
    if let Some(refusal) = unreachable(context) {
        return copy().ok_or(refusal);
    }
    let Some(link) = context.link() else {
        return Err(Refusal::Unavailable {
            outage: Outage::NoneFound,
            retry_in: context.cooldown_left(),
        });
    };
    let headers = upstream_headers(context, &request)?;
    let method = request.parts.method;
    let received = body.receive(&context.limits, &context.bodies).await?;
    let outgoing = Outgoing {
        method: method.clone(),
        path: target.clone(),
        headers,
        body: received.bytes,
    };
    let limit = if copy().is_some() { SLOW } else { LIMIT };
    let answer = match ask_upstream(context, &link, &outgoing, limit).await {
        Ok(answer) => answer,
        Err(refusal) => return copy().ok_or(refusal),
    };
    let (head, bytes) = check_response(answer, path, &link, &outgoing.headers)?;
    if cacheable && method == Method::GET {
        context
            .reads
            .keep(target, head.headers.clone(), bytes.clone());
    }
    let mut response = Response::new(full(bytes));
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    Ok(response)
}

/// The upstream's response, if it is whole within `limit`.
async fn ask_upstream(
    context: &Context,
    link: &UpstreamHandle,
    outgoing: &Outgoing,
    limit: Duration,
) -> Result<(Parts, Held), Refusal> {
    let exchange = async {
        let (response, connection) = link.sender.send(outgoing).await?.into_parts();
        let (parts, body) = response.into_parts();
        if is_encoded(&parts.headers) {
            return Err(Outage::Garbled);
        }
        let held = hold(BytesMut::new(), body, connection, ANSWER_LIMIT).await?;
        Ok::<_, Outage>((parts, held))
    };
    match timeout(limit, exchange).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(outage)) => Err(Refusal::Unavailable {
            outage,
            retry_in: context.next_cooldown(),
        }),
        Err(_) => Err(Refusal::Timeout {
            clock: Clock::Total,
            limit,
        }),
    }
}

/// A good response as it goes to the client; an error of the upstream, and a loop, as a refusal.
fn check_response(
    (parts, held): (Parts, Held),
    path: &str,
    link: &UpstreamHandle,
    sent: &HeaderMap,
) -> Result<(ResponseHead, Bytes), Refusal> {
    let bytes = match held {
        Held::Whole { bytes, connection } => {
            link.sender.give_back(connection);
            bytes
        }
        Held::Flowing { .. } => return Err(too_long(parts.status)),
    };
    if says_loop(parts.status, &parts.headers) {
        return Err(Refusal::Loop);
    }
    if !parts.status.is_success() {
        let unsupported = unsupported(path, parts.status, link.upstream.known_kind());
        return Err(unsupported.unwrap_or_else(|| {
            let error = error_of(parts.status, &parts.headers, &bytes);
            Refusal::Upstream(without_sent_keys(error, sent))
        }));
    }
    let head = ResponseHead {
        status: parts.status,
        headers: downward(parts.status, &parts.headers),
    };
    Ok((head, bytes))
}

/// Nothing reaches the upstream during a cooldown.
fn unreachable(context: &Context) -> Option<Refusal> {
    context
        .scheduler
        .read(|scheduler, _, now| match scheduler.health().state() {
            State::Down { outage, until } if until > now.at => Some(Refusal::Unavailable {
                outage,
                retry_in: until - now.at,
            }),
            State::Down { .. } | State::Unknown | State::Ready | State::Loading { .. } => None,
        })
}

/// A 404 for a route that other servers have says who has it.
fn unsupported(path: &str, status: StatusCode, kind: Option<Kind>) -> Option<Refusal> {
    if !matches!(
        status,
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED
    ) {
        return None;
    }
    let spoken_by = match path {
        "/api/tags" | "/api/ps" | "/api/version" | "/api/show" => "Ollama",
        "/api/v0/models" | "/api/v1/models" => "LM Studio",
        "/props"
        | "/models"
        | "/tokenize"
        | "/detokenize"
        | "/apply-template"
        | "/v1/chat/completions/input_tokens"
        | "/v1/responses/input_tokens" => "llama.cpp",
        "/health" => "llama.cpp, vLLM",
        "/v1/messages/count_tokens" => "llama.cpp",
        _ => return None,
    };
    let server = kind.map_or_else(|| "The model server".to_owned(), |kind| kind.to_string());
    Some(Refusal::DialectUnsupported {
        path: path.to_owned(),
        server,
        spoken_by,
    })
}

fn too_long(status: StatusCode) -> Refusal {
    Refusal::Upstream(error_of(
        status,
        &HeaderMap::new(),
        b"its answer is longer than 16 MiB",
    ))
}

fn open(context: &Context, request: &AdmittedRequest) -> PendingRecord {
    let arrival = telemetry::Arrival {
        id: request.id.to_string(),
        app: Some(request.app.clone()),
        path: request.routed.name,
        lane: Lane::Passthrough,
        arrived_ms: now_ms(),
    };
    PendingRecord::new(&context.recorder, arrival)
}
