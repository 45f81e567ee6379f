//! One request, from its judged head to its answer: the gates in order, then its route.
//!
//! Every answer leaves through one place, which gives it its request id and makes a refusal of
//! whatever went wrong, a panic included. Not here: the gates' rules ([`crate::admit`]).

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, USER_AGENT, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use hyper::body::Incoming;
use tokio::time::Instant;

use crate::accept::limits::Limits;
use crate::accept::{Accepted, Answered, Form, caught};
use crate::admit::gate::{Gates, Visitor, body_type};
use crate::admit::headers::CORP;
use crate::admit::keys::{self, Demand, Key};
use crate::admit::route::{self, Admin, Needs, Route, Routed};
use crate::admit::{caller, cors};
use crate::config::Settings;
use crate::fault_injection;
use crate::monitor::probe::LOOP;
use crate::proxy::body::{ResponseBody, full};
use crate::proxy::{self, Call};
use crate::refusal::{Dialect, Part, Refusal, Wanted};
use crate::scheduler::queue::RequestId;
use crate::telemetry::{self, Lane, PendingRecord};

use super::onward::upward_headers;
use super::{Gateway, body};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-oneslot-request-id");
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TOKEN: HeaderName = HeaderName::from_static("x-oneslot-token");

/// The future of one answer.
pub(super) type Answer = Pin<Box<dyn Future<Output = Response<Answered>> + Send>>;

/// What a request has to show for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// The control token of this run.
    Token,
    /// Not that.
    Nothing,
}

/// A request that passed the gates before its body.
pub(super) struct AdmittedRequest {
    pub(super) id: RequestId,
    pub(super) app: String,
    pub(super) routed: Routed,
    pub(super) parts: Parts,
    pub(super) body: Incoming,
    pub(super) visitor: Visitor,
    pub(super) arrived: Instant,
    pub(super) settings: Arc<Settings>,
}

/// Answers one request.
pub(super) fn answer(gateway: Arc<Gateway>, accepted: Accepted) -> Answer {
    Box::pin(async move {
        let answering = accepted.turn.answering();
        let id = gateway.next_id();
        let visitor = Arc::new(std::sync::Mutex::new(None));
        let seen = Arc::clone(&visitor);
        let turn = Arc::clone(&accepted.turn);
        let dialect = Dialect::of(accepted.request.uri().path());
        let work = caught(respond(Arc::clone(&gateway), accepted, id, seen));
        let outcome = work.await.unwrap_or(Err(Refusal::Internal));
        let mut response = outcome.unwrap_or_else(|refusal| {
            let now_ms = u64::try_from(crate::clock::unix_ms()).unwrap_or(0);
            if gateway.refused.note(&refusal, now_ms) {
                // Nothing at the scheduler moved, and a person may wait to let this one in.
                gateway.scheduler.touch();
            }
            refuse(&refusal, dialect)
        });
        let visitor = super::lock(&visitor).take();
        set_common_headers(response.headers_mut(), id, visitor.as_ref());
        if turn.refusal().is_some() {
            response
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let is_events = response
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
        let form = if is_events {
            Form::Events
        } else {
            Form::Opaque
        };
        response.map(|body| Answered::new(body, form, answering))
    })
}

/// Sizes and clocks of a connection, from the settings.
pub(super) fn limits(settings: &Settings) -> Limits {
    Limits {
        head_within: settings.timeouts.header,
        body_idle: settings.timeouts.body_idle,
        write_idle: settings.timeouts.write_idle,
        ..Limits::default()
    }
}

/// A refusal as a response.
pub(super) fn refuse(refusal: &Refusal, dialect: Dialect) -> Response<ResponseBody> {
    let mut response = Response::new(full(refusal.body(dialect)));
    *response.status_mut() = refusal.status();
    *response.headers_mut() = refusal.headers();
    response
}

type SeenVisitor = Arc<std::sync::Mutex<Option<Visitor>>>;

async fn respond(
    gateway: Arc<Gateway>,
    accepted: Accepted,
    id: RequestId,
    seen: SeenVisitor,
) -> Result<Response<ResponseBody>, Refusal> {
    let arrived = Instant::now();
    if let Some(refusal) = accepted.turn.refusal() {
        note(&gateway, id, &refusal);
        return Err(refusal);
    }
    let settings = gateway.settings();
    let (parts, body) = accepted.request.into_parts();
    let is_local = !accepted.local.ip().to_canonical().is_loopback()
        || accepted.peer.ip().to_canonical().is_loopback();
    if !is_local {
        let refusal = Refusal::ForbiddenHost {
            host: "a peer from elsewhere".to_owned(),
        };
        note(&gateway, id, &refusal);
        return Err(refusal);
    }
    let gated = gates(&gateway, &settings, &parts, accepted.local);
    let gated = gated.and_then(|passed| match gateway.hop.first_time(&parts.headers) {
        Ok(()) => Ok(passed),
        Err(refusal) => {
            if gateway.hop.was_here(&parts.headers) {
                gateway.notices.add(
                    LOOP,
                    "upstream.base_url leads back to this gateway, perhaps through another OneSlot: point it at the model server",
                );
            }
            Err((refusal, Some(passed.0)))
        }
    });
    let (visitor, routed, app) = match gated {
        Ok(passed) => passed,
        Err((refusal, visitor)) => {
            *super::lock(&seen) = visitor;
            note(&gateway, id, &refusal);
            return Err(refusal);
        }
    };
    *super::lock(&seen) = Some(visitor.clone());
    let passed = AdmittedRequest {
        id,
        app,
        routed,
        parts,
        body,
        visitor,
        arrived,
        settings,
    };
    let turn = accepted.turn;
    match passed.routed.route.clone() {
        Route::Chat => chat(gateway, passed, &turn).await,
        Route::Root => Ok(super::beside::root(&gateway)),
        Route::Beside { path, cacheable } => {
            super::beside::relay(gateway, passed, &turn, path, cacheable).await
        }
        Route::Own(own) => super::control::own(gateway, passed, own).await,
        Route::Options { methods } => preflight(&passed, methods),
    }
}

type Gated = Result<(Visitor, Routed, String), (Refusal, Option<Visitor>)>;

/// The gates of DESIGN's order: Host, page, route, key, type of the body, announced size.
fn gates(gateway: &Gateway, settings: &Settings, parts: &Parts, local: SocketAddr) -> Gated {
    let bare = |refusal| (refusal, None);
    let gate = Gates {
        ports: vec![local.port()],
        allowed_hosts: settings.access.allowed_hosts.clone(),
        allowed_origins: settings.access.allowed_origins.clone(),
    };
    fault_injection::at(fault_injection::Stage::Gate);
    gate.host(&parts.headers).map_err(bare)?;
    let path = parts.uri.path();
    let visitor = gate
        .visitor(&parts.headers, route::area(path))
        .map_err(bare)?;
    let told = |refusal| (refusal, Some(visitor.clone()));
    let admin = if settings.access.allow_admin {
        Admin::Relayed
    } else {
        Admin::Blocked
    };
    // A key is asked for before anything is told about routes, so that who has none learns none.
    let keys = own_keys(settings);
    let asks_first =
        parts.method == Method::OPTIONS && cors::is_preflight(&parts.headers, &visitor);
    let is_open = path == "/healthz" || asks_first;
    let holder = match authorize(gateway, settings, parts, local, &keys) {
        Ok(holder) => holder,
        Err(_) if is_open => None,
        Err(refusal) => return Err(told(refusal)),
    };
    let routed = route::resolve(&parts.method, path, parts.uri.query(), admin).map_err(told)?;
    if let Route::Own(own) = &routed.route
        && own.needs() == Needs::Token
        && Holder::of(gateway, &parts.headers) == Holder::Nothing
    {
        return Err(told(Refusal::Unauthorized {
            wanted: Wanted::Token,
        }));
    }
    body_type(&parts.method, &parts.headers, &visitor).map_err(told)?;
    let announced = parts
        .headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse::<u64>().ok());
    if announced.is_some_and(|length| length > settings.access.max_body_bytes) {
        let limit = settings.access.max_body_bytes;
        return Err(told(Refusal::TooLarge {
            part: Part::Body,
            limit,
        }));
    }
    let name = caller::name(
        routed.app.as_deref(),
        holder.as_deref(),
        parts.headers.get(USER_AGENT),
    );
    Ok((visitor, routed, name))
}

/// Beyond loopback a key is required whatever the settings say: a listener whose change failed is
/// still open to others.
fn authorize(
    gateway: &Gateway,
    settings: &Settings,
    parts: &Parts,
    local: SocketAddr,
    keys: &[Key],
) -> Result<Option<String>, Refusal> {
    if Holder::of(gateway, &parts.headers) == Holder::Token {
        return Ok(None);
    }
    let is_beyond = !local.ip().to_canonical().is_loopback();
    let demand = if settings.access.require_key || is_beyond {
        Demand::Required
    } else {
        Demand::Optional
    };
    keys::authorize(&parts.headers, keys, demand).map(|name| name.map(str::to_owned))
}

pub(super) fn own_keys(settings: &Settings) -> Vec<Key> {
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

impl Holder {
    pub(super) fn of(gateway: &Gateway, headers: &HeaderMap) -> Self {
        let token = headers.get(TOKEN).and_then(|value| value.to_str().ok());
        if token.is_some_and(|token| gateway.token.matches(token)) {
            Self::Token
        } else {
            Self::Nothing
        }
    }
}

async fn chat(
    gateway: Arc<Gateway>,
    passed: AdmittedRequest,
    turn: &crate::accept::turn::Turn,
) -> Result<Response<ResponseBody>, Refusal> {
    let upward = upward_headers(&gateway, &passed)?;
    let AdmittedRequest {
        id,
        app,
        body,
        arrived,
        settings,
        ..
    } = passed;
    let call = Call {
        context: Arc::clone(&gateway),
        id,
        app,
        upward,
        arrived,
        path: proxy::PATH,
    };
    // Before the body comes: who leaves in the middle of it has left all the same.
    let open = proxy::open(&call);
    // A full line is told before the body is read: it may be megabytes.
    if let Some(refusal) = gateway.scheduler.check_admission(&call.app) {
        open.end(telemetry::Ending::Refused(&refusal));
        return Err(refusal);
    }
    let received = match body::receive(&gateway, body, &settings, turn).await {
        Ok(received) => received,
        Err(refusal) => {
            open.end(telemetry::Ending::Refused(&refusal));
            return Err(refusal);
        }
    };
    proxy::chat(call, open, received.bytes, received.share).await
}

/// Answers a page's preflight; nobody else has a use for `OPTIONS`.
fn preflight(
    passed: &AdmittedRequest,
    methods: &'static str,
) -> Result<Response<ResponseBody>, Refusal> {
    if !cors::is_preflight(&passed.parts.headers, &passed.visitor) {
        return Err(Refusal::MethodNotAllowed { allow: methods });
    }
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    *response.headers_mut() =
        cors::preflight_headers(&passed.visitor, methods, &passed.parts.headers);
    response
        .headers_mut()
        .insert(http::header::ALLOW, HeaderValue::from_static(methods));
    Ok(response)
}

/// Our own headers on every answer.
fn set_common_headers(headers: &mut HeaderMap, id: RequestId, visitor: Option<&Visitor>) {
    if let Ok(value) = HeaderValue::try_from(id.to_string()) {
        headers.entry(X_REQUEST_ID).or_insert_with(|| value.clone());
        headers.insert(REQUEST_ID, value);
    }
    // No browser may guess another type, keep a copy or embed it in a page of its own.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CORP, HeaderValue::from_static("same-origin"));
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    if let Some(visitor) = visitor {
        headers.extend(cors::answer_headers(visitor));
    }
}

/// Records a request that was turned away at the gates.
fn note(gateway: &Gateway, id: RequestId, refusal: &Refusal) {
    open(gateway, id, None, "refused", Lane::Passthrough).end(telemetry::Ending::Refused(refusal));
}

fn open(
    gateway: &Gateway,
    id: RequestId,
    app: Option<String>,
    path: &'static str,
    lane: Lane,
) -> PendingRecord {
    let arrival = telemetry::Arrival {
        id: id.to_string(),
        app,
        path,
        lane,
        arrived_ms: u64::try_from(crate::clock::unix_ms()).unwrap_or(0),
    };
    PendingRecord::new(&gateway.recorder, arrival)
}
