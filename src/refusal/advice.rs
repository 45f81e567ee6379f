//! The total functions of a [`Refusal`]: status, code, fault, severity, retry advice, message.
//!
//! Every match is exhaustive without a wildcard arm, so that a new refusal cannot be added
//! without deciding all of them.

use std::fmt;
use std::time::Duration;

use http::StatusCode;

use super::{Clock, Cut, FullStatus, Outage, Part, Refusal, Wanted};

/// Whose fault a refusal is; what the client caused never counts against the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The client's: repeating the same request changes nothing.
    Client,
    /// The model server's.
    Upstream,
    /// Of no program: the slot is in use, or a person paused or cancelled.
    Capacity,
    /// The gateway's own.
    Gateway,
}

/// Retry advice for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// `x-should-retry: false`.
    Never,
    /// `x-should-retry: true` and a `Retry-After` of this long.
    After(Duration),
    /// `x-should-retry: false` for programs, with a `Retry-After` for people who read it.
    NotByItself(Duration),
    /// Nothing beyond the status (a relayed error that gave no advice).
    AsStatusSays,
}

/// Level of the log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Ordinary: a client's mistake or a full queue.
    Info,
    /// The model server failed.
    Warn,
    /// An unexpected error of the gateway.
    Error,
}

impl Refusal {
    /// The HTTP status. Never 408, 409 or 499: SDKs retry those (or know them not at all).
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Unavailable { .. }
            | Self::Loading { .. }
            | Self::QueueTimeout { .. }
            | Self::MemoryPressure { .. }
            | Self::Interrupted { .. }
            | Self::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
            Self::Paused { ends_in_time, .. } => {
                if *ends_in_time {
                    StatusCode::SERVICE_UNAVAILABLE
                } else {
                    StatusCode::LOCKED
                }
            }
            Self::RepeatedCrash { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Overloaded { status, .. } => match status {
                FullStatus::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
                FullStatus::TooMany => StatusCode::TOO_MANY_REQUESTS,
            },
            Self::ContextOverflow { .. } | Self::BadRequest { .. } => StatusCode::BAD_REQUEST,
            Self::Timeout { .. } => StatusCode::GATEWAY_TIMEOUT,
            Self::Upstream(error) => relayed_status(error.status),
            Self::Loop => StatusCode::LOOP_DETECTED,
            Self::DialectUnsupported { .. } | Self::NotFound { .. } => StatusCode::NOT_FOUND,
            Self::RemoteModelBlocked { .. }
            | Self::ForbiddenHost { .. }
            | Self::ForbiddenOrigin { .. }
            | Self::AdminBlocked { .. } => StatusCode::FORBIDDEN,
            Self::Unauthorized { .. } => StatusCode::UNAUTHORIZED,
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooLarge { part, .. } => match part {
                Part::Body => StatusCode::PAYLOAD_TOO_LARGE,
                Part::Head | Part::Fields => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                Part::Uri => StatusCode::URI_TOO_LONG,
                Part::QueuedBytes | Part::Uploads | Part::Watchers => {
                    StatusCode::SERVICE_UNAVAILABLE
                }
            },
            Self::UnsupportedMediaType { .. } => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The stable code: `x-oneslot-code`, log, record and panel.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unavailable { .. } => "LLM_UNAVAILABLE",
            Self::Loading { .. } => "LLM_LOADING",
            Self::Overloaded { .. } => "LLM_OVERLOADED",
            Self::QueueTimeout { .. } => "LLM_QUEUE_TIMEOUT",
            Self::Paused { .. } => "LLM_PAUSED",
            Self::MemoryPressure { .. } => "LLM_MEMORY_PRESSURE",
            Self::ContextOverflow { .. } => "CONTEXT_OVERFLOW",
            Self::Timeout { .. } => "LLM_TIMEOUT",
            Self::Upstream(_) => "LLM_UPSTREAM",
            Self::Interrupted { .. } => "LLM_INTERRUPTED",
            Self::RepeatedCrash { .. } => "LLM_REPEATED_CRASH",
            Self::Loop => "LLM_LOOP",
            Self::DialectUnsupported { .. } => "DIALECT_UNSUPPORTED",
            Self::RemoteModelBlocked { .. } => "REMOTE_MODEL_BLOCKED",
            Self::BadRequest { .. } => "BAD_REQUEST",
            Self::Unauthorized { .. } => "UNAUTHORIZED",
            Self::ForbiddenHost { .. } => "FORBIDDEN_HOST",
            Self::ForbiddenOrigin { .. } => "FORBIDDEN_ORIGIN",
            Self::AdminBlocked { .. } => "ADMIN_BLOCKED",
            Self::NotFound { .. } => "NOT_FOUND",
            Self::MethodNotAllowed { .. } => "METHOD_NOT_ALLOWED",
            Self::TooLarge { part, .. } => match part {
                Part::QueuedBytes | Part::Uploads | Part::Watchers => "LLM_OVERLOADED",
                Part::Body | Part::Head | Part::Fields | Part::Uri => "TOO_LARGE",
            },
            Self::UnsupportedMediaType { .. } => "UNSUPPORTED_MEDIA_TYPE",
            Self::ShuttingDown => "SHUTTING_DOWN",
            Self::Internal => "INTERNAL",
        }
    }

    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Unavailable { .. }
            | Self::Loading { .. }
            | Self::Timeout { .. }
            | Self::RepeatedCrash { .. }
            | Self::Loop => Fault::Upstream,
            Self::Interrupted { how } => match how {
                Cut::Reset | Cut::ProcessGone { .. } | Cut::NoFinish => Fault::Upstream,
                Cut::Cancelled | Cut::Unbegun | Cut::ShuttingDown => Fault::Capacity,
            },
            Self::Overloaded { .. }
            | Self::QueueTimeout { .. }
            | Self::Paused { .. }
            | Self::MemoryPressure { .. }
            | Self::ShuttingDown => Fault::Capacity,
            Self::Upstream(error) => {
                // A redirect, or a success that is not an answer, is not the client's fault.
                if error.status.is_client_error() {
                    Fault::Client
                } else {
                    Fault::Upstream
                }
            }
            Self::TooLarge { part, .. } => match part {
                Part::QueuedBytes | Part::Uploads | Part::Watchers => Fault::Capacity,
                Part::Body | Part::Head | Part::Fields | Part::Uri => Fault::Client,
            },
            Self::ContextOverflow { .. }
            | Self::DialectUnsupported { .. }
            | Self::RemoteModelBlocked { .. }
            | Self::BadRequest { .. }
            | Self::Unauthorized { .. }
            | Self::ForbiddenHost { .. }
            | Self::ForbiddenOrigin { .. }
            | Self::AdminBlocked { .. }
            | Self::NotFound { .. }
            | Self::MethodNotAllowed { .. }
            | Self::UnsupportedMediaType { .. } => Fault::Client,
            Self::Internal => Fault::Gateway,
        }
    }

    /// Level of its log line.
    pub fn severity(&self) -> Severity {
        match self.fault() {
            Fault::Client | Fault::Capacity => Severity::Info,
            Fault::Upstream => Severity::Warn,
            Fault::Gateway => Severity::Error,
        }
    }

    /// Its retry advice.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Unavailable { retry_in, .. }
            | Self::Overloaded { retry_in, .. }
            | Self::QueueTimeout { retry_in, .. }
            | Self::MemoryPressure { retry_in, .. } => Retry::After(*retry_in),
            Self::Loading { .. } => Retry::After(Duration::from_secs(5)),
            Self::Paused {
                left: Some(left),
                ends_in_time: true,
            } => Retry::After(*left),
            Self::Paused { .. } => Retry::Never,
            Self::RepeatedCrash { left } if *left <= Duration::from_secs(60) => {
                Retry::NotByItself(*left)
            }
            Self::RepeatedCrash { .. } => Retry::Never,
            Self::Upstream(error) => match error.retry_after {
                // Of all 4xx only 429 may succeed unchanged.
                Some(seconds)
                    if error.status.is_client_error()
                        && error.status != StatusCode::TOO_MANY_REQUESTS =>
                {
                    Retry::NotByItself(Duration::from_secs(seconds))
                }
                Some(seconds) => Retry::After(Duration::from_secs(seconds)),
                None => Retry::AsStatusSays,
            },
            Self::TooLarge {
                part: Part::QueuedBytes | Part::Uploads | Part::Watchers,
                ..
            } => Retry::After(Duration::from_secs(5)),
            Self::ShuttingDown => Retry::After(Duration::from_secs(5)),
            Self::ContextOverflow { .. }
            | Self::Timeout { .. }
            | Self::Interrupted { .. }
            | Self::Loop
            | Self::DialectUnsupported { .. }
            | Self::RemoteModelBlocked { .. }
            | Self::BadRequest { .. }
            | Self::Unauthorized { .. }
            | Self::ForbiddenHost { .. }
            | Self::ForbiddenOrigin { .. }
            | Self::AdminBlocked { .. }
            | Self::NotFound { .. }
            | Self::MethodNotAllowed { .. }
            | Self::TooLarge { .. }
            | Self::UnsupportedMediaType { .. }
            | Self::Internal => Retry::Never,
        }
    }

    /// What happened and what to do, in one or two sentences, for the client.
    pub fn message(&self) -> String {
        match self {
            Self::Unavailable { outage, retry_in } => {
                let when = seconds(*retry_in);
                format!("{outage}. OneSlot checks again in {when}; start the model server or run `oneslotd doctor`")
            }
            Self::Loading { waited } => format!(
                "The model is still loading after {}. Retry in a few seconds",
                seconds(*waited)
            ),
            Self::Overloaded { waiting, retry_in, .. } => {
                let verb = if *waiting == 1 { "is" } else { "are" };
                format!(
                    "The queue is full: 1 request is running and {waiting} {verb} waiting. Retry in about {}",
                    seconds(*retry_in)
                )
            }
            Self::QueueTimeout { waited, .. } => format!(
                "The request waited {} in the queue without being started. Retry later, or raise queue.max_wait_s",
                seconds(*waited)
            ),
            Self::Paused { left: Some(left), .. } => format!(
                "Inference is paused for another {}. Resume it with `oneslotd resume`",
                seconds(*left)
            ),
            Self::Paused { left: None, .. } => "Inference is paused. Resume it with `oneslotd resume`".to_owned(),
            Self::MemoryPressure { cause, .. } => format!(
                "Memory is critically low ({cause}), so the request was not started. Close a large program or retry later"
            ),
            Self::ContextOverflow { needed, reserved, window } => format!(
                "This model's maximum context length is {window} tokens. However, the messages that must be kept need {needed} tokens and {reserved} are reserved for the answer. Shorten the messages, or load the model with a larger window"
            ),
            Self::Timeout { clock, limit } => {
                let limit = seconds(*limit);
                match clock {
                    Clock::FirstByte => format!("The model server sent nothing within {limit}. Check whether it is stuck, or raise timeouts.first_byte_s"),
                    Clock::Stall => format!("The model server sent nothing for {limit} in the middle of its answer"),
                    Clock::Total => format!("The answer was not complete within {limit}. Request fewer tokens, use a stream, or raise timeouts.total_s"),
                }
            }
            Self::Upstream(error) => {
                let (status, excerpt) = (error.status.as_u16(), &error.excerpt);
                match (excerpt.is_empty(), error.status.is_success()) {
                    (true, false) => format!("The model server answered {status} without a message"),
                    (true, true) => format!("The model server answered {status}, with an error that has no message"),
                    (false, true) => format!("The model server answered {status}, but not with an answer: {excerpt}"),
                    (false, false) => format!("The model server answered {status}: {excerpt}"),
                }
            }
            Self::Interrupted { how } => how.to_string(),
            Self::RepeatedCrash { left } => format!(
                "The model server crashed twice while it processed this request, so the request is not sent again for {}. Change the request",
                seconds(*left)
            ),
            Self::Loop => "The request came back to OneSlot: its upstream.base_url leads to itself. Set it to the address of the model server".to_owned(),
            Self::DialectUnsupported { path, server, spoken_by } => format!(
                "{server} does not support {path}. Servers that do: {spoken_by}"
            ),
            Self::RemoteModelBlocked { model } => format!(
                "The model {model} runs on another machine, which access.block_remote_models forbids. Choose a local model"
            ),
            Self::BadRequest { message, .. } => message.clone(),
            Self::Unauthorized { wanted: Wanted::Key } => "A gateway key is required: send it as `Authorization: Bearer …` or `x-api-key`. Create one with `oneslotd key add NAME`".to_owned(),
            Self::Unauthorized { wanted: Wanted::Token } => "The control token is required in the header x-oneslot-token. It is in the file control.token of the state directory; the commands of `oneslotd` send it".to_owned(),
            Self::ForbiddenHost { host } => format!(
                "The Host {host:?} is not allowed. Use 127.0.0.1 or localhost with its port, or add the name to access.allowed_hosts"
            ),
            Self::ForbiddenOrigin { origin } => format!(
                "Requests from {origin} are not allowed. To allow them, add the origin to access.allowed_origins"
            ),
            Self::AdminBlocked { path } => format!(
                "{path} manages models and is not relayed. To relay it, set access.allow_admin"
            ),
            Self::NotFound { path } if NOT_YET.contains(&path.as_str()) => format!(
                "OneSlot does not serve {path} yet. Use /v1/chat/completions"
            ),
            Self::NotFound { path } => format!(
                "OneSlot has no route {path}. Use the base URL with /v1 for OpenAI clients; docs/clients.md lists every route"
            ),
            Self::MethodNotAllowed { allow } => format!("This route supports {allow} only"),
            Self::TooLarge { part, limit } => match part {
                Part::Body => format!("The body is larger than {limit} bytes"),
                Part::Head => format!("The request header is larger than {limit} bytes"),
                Part::Fields => format!("The request has more than {limit} header fields"),
                Part::Uri => format!("The request target is longer than {limit} bytes"),
                Part::QueuedBytes => format!("The queued requests already hold {limit} bytes. Retry when the queue is shorter"),
                Part::Uploads => format!("The uploads in progress already hold {limit} bytes. Retry when they are complete"),
                Part::Watchers => format!("{limit} event streams are open already. Close one, or poll /oneslot/status instead"),
            },
            Self::UnsupportedMediaType { sent } => format!(
                "Send an uncompressed JSON body with content-type application/json ({sent} was sent)"
            ),
            Self::ShuttingDown => "OneSlot is shutting down. Retry when it runs again".to_owned(),
            Self::Internal => "OneSlot failed with an unexpected error; the log has its location. The model server did not cause it".to_owned(),
        }
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoneFound => "No model server was found on ports 11434, 1234 and 8080",
            Self::Refused => "The model server is not running: the connection was refused",
            Self::ConnectTimeout => "The model server did not accept a connection in time",
            Self::Reset => "The model server closed the connection before its answer was complete",
            Self::ProbeTimeout => "The model server did not answer the health check in time",
            Self::ProbeFailed => "The model server failed the health check",
            Self::WrongBaseUrl => "upstream.base_url is wrong: it has no /v1/models",
            Self::Redirected => {
                "The server at upstream.base_url answered with a redirect, which is not followed: set it to the address it leads to"
            }
            Self::UntrustedCertificate => {
                "The certificate of the server at upstream.base_url is not trusted: add its issuer to the system's certificates"
            }
            Self::WrongCertificateName => {
                "The certificate of the server at upstream.base_url is for another host name: use the name in the certificate"
            }
            Self::NotHttps => {
                "The server at upstream.base_url speaks plain HTTP: set it to an address with http://"
            }
            Self::WantsHttps => {
                "The server at upstream.base_url speaks HTTPS: set it to an address with https://"
            }
            Self::Garbled => "The server at upstream.base_url sent an invalid HTTP response",
            Self::Loop => "upstream.base_url leads back to OneSlot itself",
            Self::ProcessGone { death } => return death.fmt(f),
            Self::Silent => {
                "The model server stopped responding during a request and is in its cooldown"
            }
            Self::ServerError => "The model server failed a request and is in its cooldown",
        })
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reset => "The connection to the model server broke in the middle of the answer, which is incomplete",
            Self::ProcessGone { death } => return write!(f, "{death}, in the middle of the answer, which is incomplete"),
            Self::NoFinish => "The model server ended the answer without a finish marker, so it may be incomplete",
            Self::Unbegun => "The request was cancelled by a person before it was started",
            Self::Cancelled => "The answer was cancelled by a person and is incomplete",
            Self::ShuttingDown => "OneSlot was shut down in the middle of the answer, which is incomplete",
        })
    }
}

/// Routes of model servers that apps know and the gateway does not serve yet.
const NOT_YET: [&str; 14] = [
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/v1/messages",
    "/v1/rerank",
    "/api/chat",
    "/api/generate",
    "/api/embed",
    "/api/embeddings",
    "/completion",
    "/completions",
    "/infill",
    "/embedding",
    "/rerank",
];

/// The status a relayed upstream error keeps: its own 4xx, else 503.
fn relayed_status(upstream: StatusCode) -> StatusCode {
    if !upstream.is_client_error() {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    match upstream.as_u16() {
        // SDKs retry 408 and 409 at once, and 499 is no registered status.
        408 | 409 | 499 => StatusCode::BAD_REQUEST,
        _ => upstream,
    }
}

/// "3 seconds", "1 second", "12 minutes": rounded up, for people.
fn seconds(duration: Duration) -> String {
    let whole = duration.as_millis().div_ceil(1000);
    match whole {
        0 | 1 => "1 second".to_owned(),
        2..=119 => format!("{whole} seconds"),
        _ => format!("{} minutes", whole.div_ceil(60)),
    }
}
