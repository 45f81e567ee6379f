//! The total functions of a [`Refusal`]: status, code, fault, severity, retry advice.
//!
//! Every match is exhaustive without a wildcard arm, so that a new refusal cannot be added
//! without deciding all of them.

use std::time::Duration;

use http::StatusCode;

use super::{Cut, FullStatus, Part, Refusal};

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
}

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
