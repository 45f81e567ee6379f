//! The checks of a request before its body: form and size of the header, Host, page, key, route,
//! token, type and announced size of the body.
//!
//! Not here: the rules of the checks ([`super::security`]).

use std::net::SocketAddr;
use std::sync::Arc;

use http::header::{CONTENT_LENGTH, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method};
use tokio::time::Instant;

use crate::config::Settings;
use crate::context::Context;
use crate::fault_injection;
use crate::refusal::{Part, Refusal, Wanted};
use crate::scheduler::queue::RequestId;
use crate::telemetry::message::Fact;

use super::limits::check_header;
use super::router::{Admin, Needs, Route, Routed, Target};
use super::security::api_keys::{self, Demand, Key};
use super::security::origin_policy::{OriginPolicy, Visitor, check_body_type};
use super::security::{client_name, cors};

const TOKEN: HeaderName = HeaderName::from_static("x-oneslot-token");

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
pub(super) struct Seen {
    pub(super) visitor: Option<Visitor>,
    pub(super) app: String,
}

/// The checks before the body: form and size of the header, Host, page, key, route, token, type
/// and announced size of the body.
pub(super) fn admit(
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
    check_token(context, &routed.route, &parts.headers)?;
    check_body_type(&parts.method, &parts.headers, &visitor)?;
    check_announced_size(&parts.headers, context.limits.body_bytes)?;
    if context.hop.is_loop(&parts.headers) {
        context.notices.add(Fact::Loop);
        return Err(Refusal::Loop);
    }
    Ok(routed)
}

/// Control wants the token of this run.
fn check_token(context: &Context, route: &Route, headers: &HeaderMap) -> Result<(), Refusal> {
    match route {
        Route::Own(own) if own.needs() == Needs::Token && !has_token(context, headers) => {
            Err(Refusal::Unauthorized {
                wanted: Wanted::Token,
            })
        }
        Route::Own(_)
        | Route::Chat
        | Route::Root
        | Route::Passthrough { .. }
        | Route::Options { .. } => Ok(()),
    }
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
    pub(super) fn of(parts: &Parts) -> Self {
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

/// Unix milliseconds.
pub(crate) fn now_ms() -> u64 {
    u64::try_from(crate::clock::unix_ms()).unwrap_or(0)
}
