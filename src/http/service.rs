//! One request, from its parsed header to its response: the checks in order, then its route.
//!
//! Every response leaves through one function, which gives it its request id and turns whatever
//! went wrong into a refusal, a panic included. Not here: the rules of the checks
//! ([`super::security`]), and what a route does ([`crate::api`]).

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, USER_AGENT,
    X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::api;
use crate::config::Settings;
use crate::context::Context;
use crate::fault_injection;
use crate::proxy::body::{ResponseBody, full};
use crate::refusal::{Dialect, Part, Refusal, Wanted};
use crate::scheduler::queue::RequestId;
use crate::telemetry::message::Fact;
use crate::telemetry::{self, Lane, PendingRecord};

use super::body::RequestBody;
use super::catch_panic::{GuardedBody, catch_panic};
use super::limits::check_header;
use super::router::{Admin, Needs, Route, Routed, Target};
use super::security::api_keys::{self, Demand, Key};
use super::security::headers::CORP;
use super::security::origin_policy::{OriginPolicy, Visitor, check_body_type};
use super::security::{client_name, cors};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-oneslot-request-id");
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TOKEN: HeaderName = HeaderName::from_static("x-oneslot-token");
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The two ends of a client connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer {
    /// The client's address.
    pub(super) remote: SocketAddr,
    /// The address it connected to.
    pub(super) local: SocketAddr,
}

/// A request that passed the checks before its body.
pub(crate) struct AdmittedRequest {
    /// Names it.
    pub(crate) id: RequestId,
    /// The calling app.
    pub(crate) app: String,
    /// Where it goes.
    pub(crate) routed: Routed,
    /// Method, target and headers.
    pub(crate) parts: Parts,
    /// What kind of client is asking.
    pub(crate) visitor: Visitor,
    /// When its header was parsed.
    pub(crate) arrived: Instant,
    /// The settings in force then.
    pub(crate) settings: Arc<Settings>,
}

/// What the checks have found out about a request, refused or not.
struct Seen {
    visitor: Option<Visitor>,
    app: String,
}

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
    let dialect = Dialect::of(parts.uri.path());
    let mut seen = Seen::of(&parts);
    let work = handle(&context, id, parts, &mut body, peer, &mut seen);
    let outcome = catch_panic(work).await.unwrap_or(Err(Refusal::Internal));
    let mut response = outcome.unwrap_or_else(|refusal| {
        if context.blocked_origins.note(&refusal, now_ms()) {
            // The scheduler's state did not change, but a person may be waiting to allow it.
            context.scheduler.touch();
        }
        refuse(&refusal, dialect)
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

/// The checks before the body: form and size of the header, Host, page, key, route, token, type
/// and announced size of the body.
fn admit(
    context: &Context,
    settings: &Settings,
    parts: &Parts,
    peer: Peer,
    seen: &mut Seen,
) -> Result<Routed, Refusal> {
    fault_injection::at(fault_injection::Stage::Gate);
    check_header(parts)?;
    check_peer(peer)?;
    let policy = OriginPolicy {
        allowed_hosts: &settings.access.allowed_hosts,
        allowed_origins: &settings.access.allowed_origins,
    };
    policy.check_host(&parts.headers)?;
    let target = Target::of(parts.uri.path());
    let visitor = policy.visitor(&parts.headers, target.area())?;
    seen.visitor = Some(visitor.clone());
    // A key is asked for before anything about routes is shown to a client without one.
    let is_preflight =
        parts.method == Method::OPTIONS && cors::is_preflight(&parts.headers, &visitor);
    let is_open = parts.uri.path() == "/healthz" || is_preflight;
    match authorize(context, settings, parts, peer.local) {
        Ok(holder) => seen.app = client_app(parts, holder.as_deref()),
        Err(_) if is_open => {}
        Err(refusal) => return Err(refusal),
    }
    let admin = if settings.access.allow_admin {
        Admin::Relayed
    } else {
        Admin::Blocked
    };
    let routed = target.resolve(&parts.method, parts.uri.query(), admin)?;
    if let Route::Own(own) = &routed.route
        && own.needs() == Needs::Token
        && !has_token(context, &parts.headers)
    {
        return Err(Refusal::Unauthorized {
            wanted: Wanted::Token,
        });
    }
    check_body_type(&parts.method, &parts.headers, &visitor)?;
    check_announced_size(&parts.headers, context.limits.body_bytes)?;
    if context.hop.is_loop(&parts.headers) {
        context.notices.add(Fact::Loop);
        return Err(Refusal::Loop);
    }
    Ok(routed)
}

/// A connection to a loopback address comes from this machine.
fn check_peer(peer: Peer) -> Result<(), Refusal> {
    let is_loopback = |address: SocketAddr| address.ip().to_canonical().is_loopback();
    if is_loopback(peer.local) && !is_loopback(peer.remote) {
        return Err(Refusal::ForbiddenHost {
            host: "a peer from elsewhere".to_owned(),
        });
    }
    Ok(())
}

fn check_announced_size(headers: &HeaderMap, limit: u64) -> Result<(), Refusal> {
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse::<u64>().ok());
    match announced {
        Some(length) if length > limit => Err(Refusal::TooLarge {
            part: Part::Body,
            limit,
        }),
        Some(_) | None => Ok(()),
    }
}

/// The name of the key that was shown, if one was.
///
/// Beyond loopback a key is required whatever the settings say: a listener whose change failed is
/// still open to other machines.
fn authorize(
    context: &Context,
    settings: &Settings,
    parts: &Parts,
    local: SocketAddr,
) -> Result<Option<String>, Refusal> {
    if has_token(context, &parts.headers) {
        return Ok(None);
    }
    let is_beyond = !local.ip().to_canonical().is_loopback();
    let demand = if settings.access.require_key || is_beyond {
        Demand::Required
    } else {
        Demand::Optional
    };
    let keys = own_keys(settings);
    api_keys::authorize(&parts.headers, &keys, demand).map(|name| name.map(str::to_owned))
}

/// The configured API keys.
pub(crate) fn own_keys(settings: &Settings) -> Vec<Key> {
    settings
        .access
        .keys
        .iter()
        .map(|key| Key {
            name: key.name.clone(),
            sha256: key.sha256,
        })
        .collect()
}

/// Whether the request carries the control token of this run.
pub(crate) fn has_token(context: &Context, headers: &HeaderMap) -> bool {
    let token = headers.get(TOKEN).and_then(|value| value.to_str().ok());
    token.is_some_and(|token| context.token.matches(token))
}

impl Seen {
    fn of(parts: &Parts) -> Self {
        Self {
            visitor: None,
            app: client_app(parts, None),
        }
    }
}

/// The calling app: from the path, else the name of the key, else the User-Agent.
fn client_app(parts: &Parts, key: Option<&str>) -> String {
    let prefix = Target::of(parts.uri.path()).app;
    client_name::name(prefix, key, parts.headers.get(USER_AGENT))
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
fn refuse(refusal: &Refusal, dialect: Dialect) -> Response<ResponseBody> {
    let mut response = Response::new(full(refusal.body(dialect)));
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

/// Unix milliseconds.
pub(crate) fn now_ms() -> u64 {
    u64::try_from(crate::clock::unix_ms()).unwrap_or(0)
}
