//! The allow-list of routes: exact (method, path), matched and never repaired.
//!
//! A path that is not on the list does not exist, whatever the upstream has behind it.
//! `/app/{name}/…` names the calling app and is removed before anything is matched or refused.
//!
//! Not here: who may use a route ([`super::security`]), what it does ([`crate::api`]).

use http::Method;
use percent_encoding::percent_decode_str;

use super::security::origin_policy::Area;
use crate::refusal::Refusal;

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// `POST /v1/chat/completions`: takes the slot.
    Chat,
    /// `GET /`: says what this is.
    Root,
    /// Relayed beside the slot, while a generation runs.
    Passthrough {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    Cancel,
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
    /// The path as the list spells it, names in braces: fit for records and metrics.
    pub name: &'static str,
    /// What of the query may be passed on, without its `?`.
    pub query: Option<String>,
}

/// A path without its app prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target<'a> {
    /// The app named by the prefix, if its name is allowed.
    pub app: Option<&'a str>,
    /// The rest, which is matched.
    pub path: &'a str,
    /// The prefix has a name that is not allowed.
    has_bad_app: bool,
}

/// What a path is, before the method is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Chat,
    Root,
    /// Read-only, a copy may be served.
    Read,
    /// Read-only, and a copy would be wrong.
    ReadFresh,
    /// Read-only, but asked with a body.
    Ask,
    /// llama.cpp's `/props`: reading is harmless, writing is management.
    Props,
    /// Model management with these methods.
    Managed(&'static str),
    Own(Own),
}

/// Every path without a name in it.
const PATHS: [(&str, Place); 37] = [
    ("/v1/chat/completions", Place::Chat),
    ("/", Place::Root),
    ("/v1/models", Place::Read),
    ("/models", Place::Read),
    ("/api/tags", Place::Read),
    ("/api/ps", Place::Read),
    ("/api/version", Place::Read),
    ("/api/v0/models", Place::Read),
    ("/api/v1/models", Place::Read),
    ("/health", Place::ReadFresh),
    ("/props", Place::Props),
    ("/api/show", Place::Ask),
    ("/tokenize", Place::Ask),
    ("/detokenize", Place::Ask),
    ("/apply-template", Place::Ask),
    ("/v1/messages/count_tokens", Place::Ask),
    ("/v1/chat/completions/input_tokens", Place::Ask),
    ("/v1/responses/input_tokens", Place::Ask),
    ("/oneslot/status", Place::Own(Own::Status)),
    ("/oneslot/events", Place::Own(Own::Events)),
    ("/metrics", Place::Own(Own::Metrics)),
    ("/healthz", Place::Own(Own::Alive)),
    ("/oneslot/pause", Place::Own(Own::Pause)),
    ("/oneslot/resume", Place::Own(Own::Resume)),
    ("/oneslot/unload", Place::Own(Own::Unload)),
    ("/oneslot/check", Place::Own(Own::Check)),
    ("/api/pull", Place::Managed("POST")),
    ("/api/push", Place::Managed("POST")),
    ("/api/create", Place::Managed("POST")),
    ("/api/copy", Place::Managed("POST")),
    ("/models/load", Place::Managed("POST")),
    ("/models/unload", Place::Managed("POST")),
    ("/api/v1/models/load", Place::Managed("POST")),
    ("/api/v1/models/unload", Place::Managed("POST")),
    ("/api/v1/models/download", Place::Managed("POST")),
    ("/api/delete", Place::Managed("DELETE")),
    ("/slots", Place::Managed("GET, HEAD")),
];

/// What a refused request's path is called where it is not on the list.
const UNLISTED: &str = "unlisted";

/// Longest app name, model id and request id in bytes.
const LONGEST_APP: usize = 64;
const LONGEST_MODEL: usize = 256;
const LONGEST_ID: usize = 64;
/// How much of an unknown path is shown.
const SHOWN: usize = 100;

impl<'a> Target<'a> {
    /// Takes the app prefix off a path.
    pub fn of(path: &'a str) -> Self {
        let prefixed = path
            .strip_prefix("/app/")
            .and_then(|rest| Some(rest.split_at(rest.find('/')?)));
        match prefixed {
            None => Self {
                app: None,
                path,
                has_bad_app: false,
            },
            Some((name, path)) => {
                let is_app = is_name(name, LONGEST_APP) && !matches!(name, "." | "..");
                let app = is_app.then_some(name);
                Self {
                    app,
                    path,
                    has_bad_app: app.is_none(),
                }
            }
        }
    }

    /// Which rule for pages it is under; unknown paths beside our own count as our own.
    pub fn area(&self) -> Area {
        let own = ["/oneslot", "/metrics", "/healthz"].iter().any(|own| {
            self.path
                .strip_prefix(own)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        if own { Area::Own } else { Area::Relayed }
    }

    /// The path as the list spells it: never the client's own spelling of a name.
    pub fn name(&self) -> &'static str {
        place(self.path).map_or(UNLISTED, |(name, _)| name)
    }

    /// Finds the route.
    ///
    /// # Errors
    /// `BadRequest` for an app name that is not allowed, `NotFound` for a path that is not on the
    /// list, `MethodNotAllowed` for a method its path does not have, `AdminBlocked` for model
    /// management.
    pub fn resolve(
        &self,
        method: &Method,
        query: Option<&str>,
        admin: Admin,
    ) -> Result<Routed, Refusal> {
        if self.has_bad_app {
            return Err(Refusal::BadRequest {
                message: format!(
                    "The app name in /app/{{name}}/… may have 1 to {LONGEST_APP} letters, digits, \".\", \"_\" or \"-\""
                ),
                param: None,
            });
        }
        let (name, place) = place(self.path).ok_or_else(|| not_found(self.path))?;
        Ok(Routed {
            route: route(method, self.path, place, admin)?,
            name,
            query: query.and_then(|query| passed_query(self.path, query)),
        })
    }
}

impl Own {
    /// What it asks of its caller.
    pub fn needs(&self) -> Needs {
        match self {
            Self::Alive => Needs::Nothing,
            Self::Status | Self::Events | Self::Metrics => Needs::KeyWhereKeysAre,
            Self::Pause | Self::Resume | Self::Unload | Self::Check | Self::Cancel => Needs::Token,
        }
    }
}

impl Place {
    /// The methods it has, as `Allow` lists them.
    fn methods(self, admin: Admin) -> &'static str {
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
                Own::Cancel => "DELETE",
            },
        }
    }
}

fn route(method: &Method, path: &str, place: Place, admin: Admin) -> Result<Route, Refusal> {
    let is_management =
        matches!(place, Place::Managed(_)) || (place == Place::Props && *method == Method::POST);
    if is_management && admin == Admin::Blocked {
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
    let passthrough = |cacheable| Route::Passthrough {
        path: path.to_owned(),
        cacheable,
    };
    Ok(match place {
        Place::Chat => Route::Chat,
        Place::Root => Route::Root,
        Place::Read | Place::Props => passthrough(*method == Method::GET),
        Place::ReadFresh | Place::Ask | Place::Managed(_) => passthrough(false),
        Place::Own(own) => Route::Own(own),
    })
}

fn place(path: &str) -> Option<(&'static str, Place)> {
    let listed = PATHS.iter().find(|(listed, _)| *listed == path);
    listed.copied().or_else(|| named_place(path))
}

/// Paths that end in a name, and the one path whose methods differ.
fn named_place(path: &str) -> Option<(&'static str, Place)> {
    if path == "/lora-adapters" {
        return Some(("/lora-adapters", Place::Managed("GET, HEAD, POST")));
    }
    if let Some(model) = path.strip_prefix("/v1/models/") {
        return is_model(model).then_some(("/v1/models/{id}", Place::Read));
    }
    let plain: [(&str, &'static str, Place, usize); 4] = [
        (
            "/oneslot/requests/",
            "/oneslot/requests/{id}",
            Place::Own(Own::Cancel),
            LONGEST_ID,
        ),
        (
            "/api/blobs/sha256:",
            "/api/blobs/{digest}",
            Place::Managed("HEAD, POST"),
            LONGEST_ID,
        ),
        ("/slots/", "/slots/{id}", Place::Managed("POST"), 8),
        (
            "/api/v1/models/download/status/",
            "/api/v1/models/download/status/{job}",
            Place::Managed("GET, HEAD"),
            LONGEST_ID,
        ),
    ];
    plain
        .into_iter()
        .find_map(|(prefix, name, place, longest)| {
            let rest = path.strip_prefix(prefix)?;
            is_name(rest, longest).then_some((name, place))
        })
}

fn is_name(name: &str, longest: usize) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !name.is_empty() && name.len() <= longest && name.bytes().all(plain)
}

/// A model id as it is sent: plain characters (`org/model:7b`), any of them encoded, and encoded
/// letters and spaces. What it decodes to has no empty or dotted segment and nothing left to
/// decode, so that no server can read another path in it.
fn is_model(model: &str) -> bool {
    let sent = |byte: u8| byte.is_ascii_alphanumeric() || b"._:@+-/%".contains(&byte);
    if model.len() > LONGEST_MODEL || !model.bytes().all(sent) {
        return false;
    }
    let Ok(decoded) = percent_decode_str(model).decode_utf8() else {
        return false;
    };
    let plain = |letter: char| letter.is_alphanumeric() || " ._:@+-".contains(letter);
    decoded
        .split('/')
        .all(|segment| !matches!(segment, "" | "." | "..") && segment.chars().all(plain))
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
