//! One request, from its parsed header to its response: the checks in order, then its route.
//!
//! Every response leaves through one function, which gives it its request id and turns whatever
//! went wrong into a refusal, a panic included. Not here: the rules of the checks
//! ([`super::security`]), and what a route does ([`crate::api`]).

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::api;
use crate::context::Context;
use crate::proxy::body::{ResponseBody, full};
use crate::refusal::{ErrorFormat, Refusal};
use crate::scheduler::queue::RequestId;
use crate::telemetry::{self, Lane, PendingRecord};

use super::admission::{AdmittedRequest, Peer, Seen, admit, now_ms};
use super::body::RequestBody;
use super::catch_panic::{GuardedBody, catch_panic};
use super::router::{Route, Target};
use super::security::cors;
use super::security::headers::CORP;
use super::security::origin_policy::Visitor;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-oneslot-request-id");
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Answers one request. `in_flight` is held until the response body has ended or was dropped.
///
/// # Cancel safety
/// Dropping the future, or the response body, ends the request as "left".
pub(super) async fn respond(
    context: Arc<Context>,
    request: Request<Incoming>,
    peer: Peer,
    in_flight: TaskTrackerToken,
    closing: CancellationToken,
) -> Response<GuardedBody> {
    let id = context.next_id();
    let (parts, incoming) = request.into_parts();
    let mut body = RequestBody::new(incoming, &parts.headers);
    let format = ErrorFormat::of(parts.uri.path());
    let mut seen = Seen::of(&parts);
    let work = handle(&context, id, parts, &mut body, peer, &mut seen);
    let outcome = catch_panic(work).await.unwrap_or(Err(Refusal::Internal));
    let mut response = outcome.unwrap_or_else(|refusal| {
        if context.blocked_origins.note(&refusal, now_ms()) {
            // The scheduler's state did not change, but a person may be waiting to allow it.
            context.scheduler.touch();
        }
        refuse(&refusal, format)
    });
    let is_event_stream = is_event_stream(response.headers());
    set_common_headers(
        response.headers_mut(),
        id,
        seen.visitor.as_ref(),
        is_event_stream,
    );
    // Never on a stream: Node 20 takes a cut stream with this header for a complete one.
    let can_close = !is_event_stream && (closing.is_cancelled() || !body.discard().await);
    if can_close {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response.map(|body| GuardedBody::new(body, is_event_stream, in_flight))
}

async fn handle(
    context: &Arc<Context>,
    id: RequestId,
    parts: Parts,
    body: &mut RequestBody,
    peer: Peer,
    seen: &mut Seen,
) -> Result<Response<ResponseBody>, Refusal> {
    let arrived = Instant::now();
    let settings = context.settings();
    let routed = match admit(context, &settings, &parts, peer, seen) {
        Ok(routed) => routed,
        Err(refusal) => {
            record_refused(context, id, &parts, seen, &refusal);
            return Err(refusal);
        }
    };
    let request = AdmittedRequest {
        id,
        app: seen.app.clone(),
        visitor: seen.visitor.clone().unwrap_or(Visitor::Program),
        routed,
        parts,
        arrived,
        settings,
    };
    match request.routed.route.clone() {
        Route::Chat => api::inference::chat(context, request, body).await,
        Route::Root => Ok(api::passthrough::root(context)),
        Route::Passthrough { path, cacheable } => {
            api::passthrough::relay(context, request, body, path, cacheable).await
        }
        Route::Own(own) => api::admin::own(context, request, body, own).await,
        Route::Options { methods } => preflight(&request, methods),
    }
}

/// Answers a page's preflight; other `OPTIONS` are not allowed.
fn preflight(
    request: &AdmittedRequest,
    methods: &'static str,
) -> Result<Response<ResponseBody>, Refusal> {
    if !cors::is_preflight(&request.parts.headers, &request.visitor) {
        return Err(Refusal::MethodNotAllowed { allow: methods });
    }
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    *response.headers_mut() =
        cors::preflight_headers(&request.visitor, methods, &request.parts.headers);
    let allow = HeaderValue::from_static(methods);
    response.headers_mut().insert(ALLOW, allow);
    Ok(response)
}

/// A refusal as a response.
fn refuse(refusal: &Refusal, format: ErrorFormat) -> Response<ResponseBody> {
    let mut response = Response::new(full(refusal.body(format)));
    *response.status_mut() = refusal.status();
    *response.headers_mut() = refusal.headers();
    response
}

/// The headers of every response.
fn set_common_headers(
    headers: &mut HeaderMap,
    id: RequestId,
    visitor: Option<&Visitor>,
    is_event_stream: bool,
) {
    if let Ok(value) = HeaderValue::try_from(id.to_string()) {
        headers.entry(X_REQUEST_ID).or_insert_with(|| value.clone());
        headers.insert(REQUEST_ID, value);
    }
    // No browser may guess another type, keep a copy or embed it in another site's page.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CORP, HeaderValue::from_static("same-origin"));
    if is_event_stream {
        // A reverse proxy would collect events until its buffer is full.
        headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    } else {
        headers
            .entry(CACHE_CONTROL)
            .or_insert(HeaderValue::from_static("no-store"));
    }
    if let Some(visitor) = visitor {
        headers.extend(cors::response_headers(visitor));
    }
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    const EVENT_STREAM: &[u8] = b"text/event-stream";
    headers.get(CONTENT_TYPE).is_some_and(|value| {
        let start = value.as_bytes().get(..EVENT_STREAM.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(EVENT_STREAM))
    })
}

fn record_refused(context: &Context, id: RequestId, parts: &Parts, seen: &Seen, refusal: &Refusal) {
    let arrival = telemetry::Arrival {
        id: id.to_string(),
        app: Some(seen.app.clone()),
        path: Target::of(parts.uri.path()).name(),
        lane: Lane::Passthrough,
        arrived_ms: now_ms(),
    };
    PendingRecord::new(&context.recorder, arrival).end(telemetry::Ending::Refused(refusal));
}
