//! One chat's way through the stages, from its body to its answer.
//!
//! The whole way is one future: dropping it, because the client left or a panic unwound, leaves
//! the line, gives the slot back (settled first if something had been sent) and records the
//! ending. Not here: the stages' own rules, and the routes that take no slot.

mod account;
mod fit;
mod dispatch;
mod preload;
mod patience;
mod first;
mod judge;
mod told;

use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use tokio::time::Instant;

use crate::chat::Chat;
use crate::desk::{Arrival, Ending};
use crate::fault;
use crate::gateway::Gateway;
use crate::http::body::BodyPermit;
use crate::queue::{Delivery, RequestId};
use crate::record::meter::Meter;
use crate::record::{self, Lane, Open};
use crate::refusal::{Refusal, UpstreamError};
use crate::relay::commit::{Committed, Promised};
use crate::relay::stream::StreamRelay;
use crate::relay::{ResponseBody, boxed, whole::WholeBody};

/// The route of chats.
pub const PATH: &str = "/v1/chat/completions";

/// A body of more bytes is worth another thread: most chats are far smaller.
const LARGE: usize = 256 * 1024;

pub use account::Account;
pub(crate) use account::ms;
pub(crate) use patience::SECOND_LOOK;
pub(crate) use told::Told;

/// A chat that was admitted, with its whole body.
pub struct Call {
    /// The gateway.
    pub gateway: Arc<Gateway>,
    /// Names it.
    pub id: RequestId,
    /// The calling app.
    pub app: String,
    /// The headers that go to the upstream.
    pub upward: HeaderMap,
    /// When its head arrived.
    pub arrived: Instant,
    /// The route, as the allow-list spells it.
    pub path: &'static str,
}

/// An answer whose first bytes are there.
pub(crate) enum Answer {
    /// Piece by piece.
    Stream {
        /// The upstream's headers that go on, and ours.
        head: HeaderMap,
        /// The bytes.
        relay: Box<StreamRelay>,
        /// What is said in the stream when the headers are out already.
        remark: Option<String>,
    },
    /// In one piece.
    Whole {
        /// The upstream's headers that go on, and ours.
        head: HeaderMap,
        /// The upstream's status.
        status: StatusCode,
        /// The bytes.
        body: WholeBody,
    },
}

type Work = Pin<Box<dyn Future<Output = Result<Answer, Refusal>> + Send>>;

/// Begins the record of a chat: from here on it has exactly one ending.
pub(crate) fn open(call: &Call) -> Open {
    let arrival = record::Arrival {
        id: call.id.to_string(),
        app: Some(call.app.clone()),
        path: call.path,
        lane: Lane::Slot,
        arrived_ms: u64::try_from(crate::clock::unix_ms()).unwrap_or(0),
    };
    let mut open = Open::new(&call.gateway.recorder, arrival);
    let (waiting, failures) = call
        .gateway
        .owner
        .look(|desk, _, _| (desk.line().len(), desk.health().consecutive_failures()));
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
    open: Open,
    body: Bytes,
    permit: BodyPermit,
) -> Result<Response<ResponseBody>, Refusal> {
    let settings = call.gateway.settings();
    let commit_after = settings.relay.commit_after;
    let arrived = call.arrived;
    let (chat, print) = match read(&call.gateway, body).await {
        Ok(read) => read,
        Err(refusal) => {
            open.end(record::Ending::Refused(&refusal));
            return Err(refusal);
        }
    };
    let streams = chat.is_stream();
    let mut work: Work = Box::pin(work(call, open, chat, print, permit));
    match commit_after.filter(|_| streams) {
        None => work.await.map(respond),
        Some(after) => match tokio::time::timeout_at(arrived + after, &mut work).await {
            Ok(answer) => answer.map(respond),
            Err(_) => Ok(commit(work)),
        },
    }
}

/// Reads a chat, and what it is recognised by. A large one is read beside the others, who would
/// have to wait for it, and alone: what reading needs is needed once.
async fn read(gateway: &Gateway, body: Bytes) -> Result<(Chat, u64), Refusal> {
    let is_large = body.len() > LARGE;
    let read = move || {
        let print = print_of(&body);
        Ok((Chat::read(body).and_then(not_empty)?, print))
    };
    if !is_large {
        return read();
    }
    let _turn = gateway.large.acquire().await;
    tokio::task::spawn_blocking(read)
        .await
        .unwrap_or(Err(Refusal::Internal))
}

/// A chat without a message has nothing to answer; servers make very different things of it.
fn not_empty(chat: Chat) -> Result<Chat, Refusal> {
    if chat.messages().is_empty() {
        return Err(Refusal::BadRequest {
            message: "`messages` is empty; send at least one message".to_owned(),
            param: Some("messages"),
        });
    }
    Ok(chat)
}

/// Waits for the turn, then dispatches.
async fn work(
    call: Call,
    mut open: Open,
    chat: Chat,
    print: u64,
    permit: BodyPermit,
) -> Result<Answer, Refusal> {
    let gateway = Arc::clone(&call.gateway);
    open.model = chat.model().map(str::to_owned);
    open.stream = chat.is_stream();
    open.asked = chat.asked();
    open.queue_length = Some(gateway.owner.look(|desk, _, _| desk.line().len()) as u64);
    let meter = Arc::new(Meter::new(
        call.id,
        call.app.clone(),
        open.model.clone(),
        chat.is_stream(),
        gateway.owner.clock().at(),
    ));
    let mut account = Account::new(open, Arc::clone(&meter), Arc::clone(&gateway));
    let mut counts = fit::Counts::default();
    if let Some(refusal) = fit::never_fits(&gateway, &chat, &mut counts).await {
        account.refuse(&refusal, Ending::Unsent);
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
        print,
    };
    let place = gateway.owner.arrive(arrival, meter);
    drop(permit);
    fault::at(fault::Stage::Queue);
    let lease = match place.turn().await {
        Ok(lease) => lease,
        Err(refusal) => {
            account.refuse(&refusal, Ending::Unsent);
            return Err(refusal);
        }
    };
    account.hold(lease);
    dispatch::dispatch(call, chat, account, counts).await
}

fn respond(answer: Answer) -> Response<ResponseBody> {
    let (status, head, body) = match answer {
        Answer::Stream { head, relay, .. } => (StatusCode::OK, head, boxed(*relay)),
        Answer::Whole {
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

/// The stream has waited long enough: its status goes out, the work goes on behind it.
fn commit(work: Work) -> Response<ResponseBody> {
    let job = Box::pin(async move {
        match work.await? {
            Answer::Stream { relay, remark, .. } => Ok(Promised {
                relay: *relay,
                remark,
            }),
            Answer::Whole { body, .. } => {
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
        excerpt: "all of it in one piece where a stream was asked for".to_owned(),
        length: 0,
        retry_after: None,
    }
}

/// Recognises a body again; it need not resist anybody.
fn print_of(body: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    hasher.finish()
}
