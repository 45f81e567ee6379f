//! One chat from its body to its answer.
//!
//! All of it is one future: dropping it, because the client left or a panic unwound, leaves the
//! queue, releases the slot (after settling if something was sent) and records the outcome. Not
//! here: the rules of the stages, and the routes that take no slot.

mod dispatch;
mod fit;
mod preload;
mod timeouts;
mod response_head;
mod classify;
mod disclosure;
mod request_guard;
pub mod body;
pub mod inspect;

use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use tokio::time::Instant;

use crate::context::Context;
use crate::fault_injection;
use crate::http::body::BodyPermit;
use crate::proxy::body::buffered::WholeBody;
use crate::proxy::body::keepalive::{Committed, Promised};
use crate::proxy::body::stream::StreamRelay;
use crate::proxy::body::{ResponseBody, boxed};
use crate::refusal::{Refusal, UpstreamError};
use crate::request::Chat;
use crate::scheduler::queue::{Delivery, RequestId};
use crate::scheduler::{Arrival, Ending};
use crate::telemetry::live_stats::LiveStats;
use crate::telemetry::{self, Lane, PendingRecord};

/// The route of chats.
pub const PATH: &str = "/v1/chat/completions";

/// A larger body, in bytes, is parsed on another thread; most chats are far smaller.
const LARGE: usize = 256 * 1024;

pub use request_guard::RequestGuard;

/// An admitted chat request.
pub struct Call {
    /// The context.
    pub context: Arc<Context>,
    /// Its id.
    pub id: RequestId,
    /// The calling app.
    pub app: String,
    /// The headers that go to the upstream.
    pub upward: HeaderMap,
    /// When its header arrived.
    pub arrived: Instant,
    /// The route, as the allow-list spells it.
    pub path: &'static str,
}

/// An answer whose first bytes have arrived.
pub(crate) enum UpstreamResponse {
    /// Relayed piece by piece.
    Stream {
        /// The response headers.
        head: HeaderMap,
        /// The bytes.
        relay: Box<StreamRelay>,
        /// The comment if the headers are already sent.
        remark: Option<String>,
    },
    /// Buffered.
    Whole {
        /// The response headers.
        head: HeaderMap,
        /// The upstream's status.
        status: StatusCode,
        /// The bytes.
        body: WholeBody,
    },
}

type Work = Pin<Box<dyn Future<Output = Result<UpstreamResponse, Refusal>> + Send>>;

/// Begins the record of a chat: from here on it has exactly one outcome.
pub(crate) fn open(call: &Call) -> PendingRecord {
    let arrival = telemetry::Arrival {
        id: call.id.to_string(),
        app: Some(call.app.clone()),
        path: call.path,
        lane: Lane::Inference,
        arrived_ms: u64::try_from(crate::clock::unix_ms()).unwrap_or(0),
    };
    let mut open = PendingRecord::new(&call.context.recorder, arrival);
    let (waiting, failures) = call.context.scheduler.read(|scheduler, _, _| {
        (
            scheduler.queue().len(),
            scheduler.health().consecutive_failures(),
        )
    });
    open.queue_length = Some(waiting as u64);
    open.consecutive_failures = u64::from(failures);
    open
}

/// Serves one chat; its body is counted by `permit` until the queue counts it.
///
/// # Errors
/// The refusal; its outcome has been recorded.
///
/// # Cancel safety
/// Dropping the future (or the answer's body) ends the request as "left".
pub(crate) async fn chat(
    call: Call,
    open: PendingRecord,
    body: Bytes,
    permit: BodyPermit,
) -> Result<Response<ResponseBody>, Refusal> {
    let settings = call.context.settings();
    let commit_after = settings.relay.commit_after;
    let arrived = call.arrived;
    let (chat, body_hash) = match read(&call.context, body).await {
        Ok(read) => read,
        Err(refusal) => {
            open.end(telemetry::Ending::Refused(&refusal));
            return Err(refusal);
        }
    };
    let streams = chat.is_stream();
    let mut work: Work = Box::pin(work(call, open, chat, body_hash, permit));
    match commit_after.filter(|_| streams) {
        None => work.await.map(respond),
        Some(after) => match tokio::time::timeout_at(arrived + after, &mut work).await {
            Ok(answer) => answer.map(respond),
            Err(_) => Ok(commit(work)),
        },
    }
}

/// Parses and hashes a chat. A large one is parsed on another thread, so that other requests do
/// not wait, and one at a time, so that the memory is needed once.
async fn read(context: &Context, body: Bytes) -> Result<(Chat, u64), Refusal> {
    let is_large = body.len() > LARGE;
    let read = move || {
        let body_hash = hash_of(&body);
        Ok((Chat::read(body).and_then(not_empty)?, body_hash))
    };
    if !is_large {
        return read();
    }
    let _turn = context.large.acquire().await;
    tokio::task::spawn_blocking(read)
        .await
        .unwrap_or(Err(Refusal::Internal))
}

/// Refuses a chat without a message: servers treat it very differently.
fn not_empty(chat: Chat) -> Result<Chat, Refusal> {
    if chat.messages().is_empty() {
        return Err(Refusal::BadRequest {
            message: "`messages` is empty; send at least one message".to_owned(),
            param: Some("messages"),
        });
    }
    Ok(chat)
}

/// Waits in the queue, then dispatches.
async fn work(
    call: Call,
    mut open: PendingRecord,
    chat: Chat,
    body_hash: u64,
    permit: BodyPermit,
) -> Result<UpstreamResponse, Refusal> {
    let context = Arc::clone(&call.context);
    open.model = chat.model().map(str::to_owned);
    open.stream = chat.is_stream();
    open.asked = chat.asked();
    open.queue_length = Some(
        context
            .scheduler
            .read(|scheduler, _, _| scheduler.queue().len()) as u64,
    );
    let stats = Arc::new(LiveStats::new(
        call.id,
        call.app.clone(),
        open.model.clone(),
        chat.is_stream(),
        context.scheduler.clock().at(),
    ));
    let mut guard = RequestGuard::new(open, Arc::clone(&stats), Arc::clone(&context));
    let mut counts = fit::Counts::new();
    if let Some(refusal) = fit::never_fits(&context, &chat, &mut counts).await {
        guard.refuse(&refusal, Ending::Unsent);
        return Err(refusal);
    }
    let arrival = Arrival {
        id: call.id,
        bytes: chat.raw().len(),
        delivery: if chat.is_stream() {
            Delivery::Stream
        } else {
            Delivery::Whole
        },
        body_hash,
    };
    let place = context.scheduler.enqueue(arrival, stats);
    drop(permit);
    fault_injection::at(fault_injection::Stage::Queue);
    let lease = match place.acquire().await {
        Ok(lease) => lease,
        Err(refusal) => {
            guard.refuse(&refusal, Ending::Unsent);
            return Err(refusal);
        }
    };
    guard.hold(lease);
    dispatch::dispatch(call, chat, guard, counts).await
}

fn respond(answer: UpstreamResponse) -> Response<ResponseBody> {
    let (status, head, body) = match answer {
        UpstreamResponse::Stream { head, relay, .. } => (StatusCode::OK, head, boxed(*relay)),
        UpstreamResponse::Whole {
            head,
            status,
            mut body,
        } => {
            body.accept();
            (status, head, boxed(body))
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = head;
    response
}

/// Sends the status of a stream that has waited long enough; the work continues behind it.
fn commit(work: Work) -> Response<ResponseBody> {
    let job = Box::pin(async move {
        match work.await? {
            UpstreamResponse::Stream { relay, remark, .. } => Ok(Promised {
                relay: *relay,
                remark,
            }),
            UpstreamResponse::Whole { body, .. } => {
                let refusal = Refusal::Upstream(unasked_whole());
                body.reject(&refusal);
                Err(refusal)
            }
        }
    });
    let mut response = Response::new(boxed(Committed::new(job)));
    let headers = response.headers_mut();
    headers.insert(
        http::header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream; charset=utf-8"),
    );
    headers.insert(
        http::header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache"),
    );
    response
}

fn unasked_whole() -> UpstreamError {
    UpstreamError {
        status: StatusCode::OK,
        kind: None,
        code: None,
        param: None,
        excerpt: "all of it in one piece where a stream was requested".to_owned(),
        length: 0,
        retry_after: None,
    }
}

/// Identifies a body; it need not resist attacks.
fn hash_of(body: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    hasher.finish()
}
