//! The allow-list of routes: exact (method, path), matched and never repaired.
//!
//! A path that is not here does not exist, whatever the upstream has behind it. `/app/{name}/…`
//! names the calling app and is cut off before the match.
//!
//! Not here: bytes that no path may have ([`crate::accept::head`]), and who may use a route
//! ([`super::gate`], [`super::keys`]).

use http::Method;

use super::gate::Area;
use crate::refusal::Refusal;

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// `POST /v1/chat/completions`: line, slot, plan, window, relay.
    Chat,
    /// `GET /`: says what this is.
    Root,
    /// Relayed beside the slot, while a generation runs.
    Beside {
        /// The upstream's path, from its root.
        path: String,
        /// Whether a copy may be served while the upstream is slow or cooling down.
        cacheable: bool,
    },
    /// The gateway's own state and control.
    Own(Own),
    /// `OPTIONS` of a relayed route: a preflight, if it asks as one.
    Options {
        /// The route's methods.
        methods: &'static str,
    },
}

/// The gateway's own paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Own {
    /// `GET /oneslot/status`.
    Status,
    /// `GET /oneslot/events`, an event stream.
    Events,
    /// `GET /metrics`.
    Metrics,
    /// `GET /healthz`: says only that it serves.
    Alive,
    /// `POST /oneslot/pause`.
    Pause,
    /// `POST /oneslot/resume`.
    Resume,
    /// `POST /oneslot/unload`.
    Unload,
    /// `POST /oneslot/check`.
    Check,
    /// `DELETE /oneslot/requests/{id}`.
    Cancel {
        /// The request to cancel.
        id: String,
    },
}

/// What an own path asks of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// A key or the control token, where keys are configured.
    KeyWhereKeysAre,
    /// The control token of this run.
    Token,
}

/// Whether model management is relayed (`access.allow_admin`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admin {
    /// It is refused.
    Blocked,
    /// It is relayed beside the slot.
    Relayed,
}

/// A request that found its route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routed {
    /// Where it goes.
    pub route: Route,
    /// The app named by an `/app/{name}` prefix.
    pub app: Option<String>,
    /// What of the query may be passed on, without its `?`.
    pub query: Option<String>,
}

/// What a path is, before the method is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Chat,
    Root,
    /// Read-only, a copy may be served.
    Read,
    /// Read-only, and a copy would be a lie.
    ReadFresh,
    /// Read-only, but asked with a body.
    Ask,
    /// llama.cpp's `/props`: reading is harmless, writing is management.
    Props,
    /// Model management with these methods.
    Managed(&'static str),
    Own(Own),
}

/// Longest app name, model id and request id in bytes.
const LONGEST_APP: usize = 64;
const LONGEST_MODEL: usize = 256;
const LONGEST_ID: usize = 64;
/// How much of an unknown path is shown.
const SHOWN: usize = 100;

/// Which rule for pages a path is under; unknown paths beside our own count as our own.
pub fn area(path: &str) -> Area {
    let path = cut_app(path).map_or(path, |(_, rest)| rest);
    let own = ["/oneslot", "/metrics", "/healthz"].iter().any(|own| {
        path.strip_prefix(own)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    if own { Area::Own } else { Area::Relayed }
}

/// Finds the route of a request.
///
/// # Errors
///
/// `NotFound` for a path that is not on the list, `MethodNotAllowed` for a method its path does
/// not have, `AdminBlocked` for model management.
pub fn resolve(
    method: &Method,
    path: &str,
    query: Option<&str>,
    admin: Admin,
) -> Result<Routed, Refusal> {
    let (app, rest) = match cut_app(path) {
        Some((app, rest)) => (Some(app.to_owned()), rest),
        None => (None, path),
    };
    let place = place(rest).ok_or_else(|| not_found(path))?;
    let route = route(method, rest, place, admin)?;
    Ok(Routed {
        query: query.and_then(|query| passed_query(rest, query)),
        route,
        app,
    })
}

impl Own {
    /// What it asks of its caller.
    pub fn needs(&self) -> Needs {
        match self {
            Self::Alive => Needs::Nothing,
            Self::Status | Self::Events | Self::Metrics => Needs::KeyWhereKeysAre,
            Self::Pause | Self::Resume | Self::Unload | Self::Check | Self::Cancel { .. } => {
                Needs::Token
            }
        }
    }
}

impl Place {
    /// The methods it has, as `Allow` lists them.
    fn methods(&self, admin: Admin) -> &'static str {
        match self {
            Self::Chat | Self::Ask => "POST",
            Self::Root | Self::Read | Self::ReadFresh => "GET, HEAD",
            Self::Props => match admin {
                Admin::Blocked => "GET, HEAD",
                Admin::Relayed => "GET, HEAD, POST",
            },
            Self::Managed(methods) => methods,
            Self::Own(own) => match own {
                Own::Status | Own::Events | Own::Metrics | Own::Alive => "GET, HEAD",
                Own::Pause | Own::Resume | Own::Unload | Own::Check => "POST",
                Own::Cancel { .. } => "DELETE",
            },
        }
    }
}

fn route(method: &Method, path: &str, place: Place, admin: Admin) -> Result<Route, Refusal> {
    let blocked = match (&place, admin) {
        (Place::Managed(_), Admin::Blocked) => true,
        (Place::Props, Admin::Blocked) => *method == Method::POST,
        _ => false,
    };
    if blocked {
        return Err(Refusal::AdminBlocked {
            path: path.to_owned(),
        });
    }
    let methods = place.methods(admin);
    if *method == Method::OPTIONS && !matches!(place, Place::Own(_)) {
        return Ok(Route::Options { methods });
    }
    if !methods.split(", ").any(|own| own == method.as_str()) {
        return Err(Refusal::MethodNotAllowed { allow: methods });
    }
    let beside = |cacheable| Route::Beside {
        path: path.to_owned(),
        cacheable,
    };
    Ok(match place {
        Place::Chat => Route::Chat,
        Place::Root => Route::Root,
        Place::Read | Place::Props => beside(*method == Method::GET),
        Place::ReadFresh | Place::Ask | Place::Managed(_) => beside(false),
        Place::Own(own) => Route::Own(own),
    })
}

fn place(path: &str) -> Option<Place> {
    Some(match path {
        "/v1/chat/completions" => Place::Chat,
        "/" => Place::Root,
        "/v1/models" | "/models" | "/api/tags" | "/api/ps" | "/api/version" | "/api/v0/models"
        | "/api/v1/models" => Place::Read,
        "/health" => Place::ReadFresh,
        "/props" => Place::Props,
        "/api/show"
        | "/tokenize"
        | "/detokenize"
        | "/apply-template"
        | "/v1/messages/count_tokens"
        | "/v1/chat/completions/input_tokens"
        | "/v1/responses/input_tokens" => Place::Ask,
        "/oneslot/status" => Place::Own(Own::Status),
        "/oneslot/events" => Place::Own(Own::Events),
        "/metrics" => Place::Own(Own::Metrics),
        "/healthz" => Place::Own(Own::Alive),
        "/oneslot/pause" => Place::Own(Own::Pause),
        "/oneslot/resume" => Place::Own(Own::Resume),
        "/oneslot/unload" => Place::Own(Own::Unload),
        "/oneslot/check" => Place::Own(Own::Check),
        "/api/pull"
        | "/api/push"
        | "/api/create"
        | "/api/copy"
        | "/models/load"
        | "/models/unload"
        | "/api/v1/models/load"
        | "/api/v1/models/unload"
        | "/api/v1/models/download" => Place::Managed("POST"),
        "/api/delete" => Place::Managed("DELETE"),
        "/slots" => Place::Managed("GET, HEAD"),
        "/lora-adapters" => Place::Managed("GET, HEAD, POST"),
        _ => return named_place(path),
    })
}

/// Paths that end in a name.
fn named_place(path: &str) -> Option<Place> {
    if let Some(model) = path.strip_prefix("/v1/models/") {
        return is_model(model).then_some(Place::Read);
    }
    if let Some(id) = path.strip_prefix("/oneslot/requests/") {
        let plain = is_name(id, LONGEST_ID);
        return plain.then(|| Place::Own(Own::Cancel { id: id.to_owned() }));
    }
    if let Some(digest) = path.strip_prefix("/api/blobs/") {
        let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
        return is_name(hex, LONGEST_ID).then_some(Place::Managed("HEAD, POST"));
    }
    if let Some(slot) = path.strip_prefix("/slots/") {
        return is_name(slot, 8).then_some(Place::Managed("POST"));
    }
    let job = path.strip_prefix("/api/v1/models/download/status/")?;
    is_name(job, LONGEST_ID).then_some(Place::Managed("GET, HEAD"))
}

/// `/app/{name}/rest` as (name, `/rest`).
fn cut_app(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix("/app/")?;
    let slash = rest.find('/')?;
    let name = &rest[..slash];
    is_name(name, LONGEST_APP).then_some((name, &rest[slash..]))
}

fn is_name(name: &str, longest: usize) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !name.is_empty() && name.len() <= longest && name.bytes().all(plain)
}

/// A model id: segments of plain characters (`org/model:7b`), a colon also as `%3A`.
fn is_model(model: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:@+-".contains(&byte);
    model.len() <= LONGEST_MODEL
        && model.split('/').all(|segment| {
            let segment = segment.replace("%3A", ":").replace("%3a", ":");
            !matches!(segment.as_str(), "" | "." | "..") && segment.bytes().all(plain)
        })
}

/// The members of a query that are documented for this path; a member given twice passes once.
fn passed_query(path: &str, query: &str) -> Option<String> {
    let documented: &[&str] = match path {
        "/v1/models" => &[
            "limit",
            "after",
            "order",
            "after_id",
            "before_id",
            "model",
            "autoload",
        ],
        "/props" | "/models" | "/health" | "/slots" | "/lora-adapters" => &["model", "autoload"],
        path if path.starts_with("/slots/") => &["action", "model"],
        _ => return None,
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~%:/@+-".contains(&byte);
    let mut passed: Vec<(&str, &str)> = Vec::new();
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        let again = passed.iter().any(|(before, _)| *before == name);
        if documented.contains(&name) && !again && value.bytes().all(plain) {
            passed.push((name, value));
        }
    }
    let pairs: Vec<String> = passed
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    (!pairs.is_empty()).then(|| pairs.join("&"))
}

fn not_found(path: &str) -> Refusal {
    Refusal::NotFound {
        path: path.chars().take(SHOWN).collect(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
