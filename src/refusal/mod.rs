//! Every refusal of the gateway, in one closed set.
//!
//! Status, code, whose fault, log level and retry advice are total functions of a [`Refusal`]:
//! nothing else in the program chooses a status. What the *client* gets (the message, and an
//! upstream's excerpt) is separate from what the *log* gets (code, kind, lengths), so that
//! nothing a user wrote can reach a log through an error text.
//!
//! Not here: when to refuse (the stages decide) and how it is sent ([`crate::proxy::body`]).

mod advice;
mod body;
mod death;
mod wording;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::time::Duration;

use http::StatusCode;

pub use advice::{Fault, Retry, Severity};
pub use body::{ErrorFormat, in_stream_event, retry_after_seconds};
pub use death::{Death, HowEnded, MemoryThen};

/// Why a request was not answered, with everything its message needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The model server is gone: refused, reset before the first byte, or cooling down.
    Unavailable {
        /// The cause.
        outage: Outage,
        /// Cooldown left.
        retry_in: Duration,
    },
    /// The model was still loading when the loading budget (or the wait) ran out.
    Loading {
        /// How long this request waited for the load.
        waited: Duration,
    },
    /// The queue is full.
    Overloaded {
        /// Requests that are waiting.
        waiting: usize,
        /// Queue length × usual service time.
        retry_in: Duration,
        /// 503, or 429 by `queue.full_status`.
        status: FullStatus,
    },
    /// Waited longer than `queue.max_wait_s`.
    QueueTimeout {
        /// From arrival in the queue to this refusal.
        waited: Duration,
        /// Queue length × usual service time.
        retry_in: Duration,
    },
    /// A person paused inference.
    Paused {
        /// Time left of a timed pause; `None` until a person resumes.
        left: Option<Duration>,
        /// Whether the pause ends within the request's wait limit, so that a retry is worth it.
        ends_in_time: bool,
    },
    /// Memory stayed critical until the wait ran out.
    MemoryPressure {
        /// The reading and the number that caused it, in words.
        cause: String,
        /// When to retry.
        retry_in: Duration,
    },
    /// The prompt cannot fit, even after trimming.
    ContextOverflow {
        /// Tokens that must be kept.
        needed: u64,
        /// Tokens kept free for the answer, margin included.
        reserved: u64,
        /// The window, in tokens.
        window: u64,
    },
    /// The upstream exceeded a timeout.
    Timeout {
        /// Which timeout elapsed.
        clock: Clock,
        /// Its limit.
        limit: Duration,
    },
    /// The upstream answered with an error of its own.
    Upstream(UpstreamError),
    /// The answer ended in the middle.
    Interrupted {
        /// How it ended.
        how: Cut,
    },
    /// The same app's same body was in flight at two crashes of the server's process.
    RepeatedCrash {
        /// How much longer it is refused.
        left: Duration,
    },
    /// The request has passed through this gateway before: its upstream leads back to it.
    Loop,
    /// The upstream does not support this route.
    DialectUnsupported {
        /// The path that was asked for.
        path: String,
        /// The upstream.
        server: String,
        /// Servers that support it.
        spoken_by: &'static str,
    },
    /// A model that runs elsewhere, refused by `access.block_remote_models`.
    RemoteModelBlocked {
        /// The model asked for.
        model: String,
    },
    /// The request is malformed.
    BadRequest {
        /// What is wrong and what to do.
        message: String,
        /// The member at fault.
        param: Option<&'static str>,
    },
    /// A credential is required and was missing or wrong.
    Unauthorized {
        /// Which.
        wanted: Wanted,
    },
    /// The Host header names a host this gateway does not answer for.
    ForbiddenHost {
        /// The host as sent, shortened.
        host: String,
    },
    /// A web page or app whose Origin is not allowed.
    ForbiddenOrigin {
        /// The Origin as sent, shortened; or what Fetch metadata said.
        origin: String,
    },
    /// Model management is not relayed.
    AdminBlocked {
        /// The path that was asked for.
        path: String,
    },
    /// No such route.
    NotFound {
        /// The path that was asked for, shortened.
        path: String,
    },
    /// The route exists with another method.
    MethodNotAllowed {
        /// Methods the route has, for `Allow`.
        allow: &'static str,
    },
    /// Body, header or URI over its limit.
    TooLarge {
        /// Which part.
        part: Part,
        /// Its limit in bytes (or fields).
        limit: u64,
    },
    /// A body that is not JSON, or is compressed.
    UnsupportedMediaType {
        /// What was sent.
        sent: String,
    },
    /// The gateway is shutting down.
    ShuttingDown,
    /// An unexpected error of the gateway.
    Internal,
}

/// Why the upstream is not available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// No server was found on the ports `auto` looks at.
    NoneFound,
    /// The connection was refused.
    Refused,
    /// The connection could not be made within the connect limit.
    ConnectTimeout,
    /// The connection was closed or reset before an answer (or before a whole one).
    Reset,
    /// The health probe got no answer in time.
    ProbeTimeout,
    /// The health probe got an answer that is not a model server's.
    ProbeFailed,
    /// `404` for `/v1/models`: the base URL is wrong.
    WrongBaseUrl,
    /// It answered with a redirect, which is not followed.
    Redirected,
    /// The system does not trust the server's certificate.
    UntrustedCertificate,
    /// The server's certificate is for another host name.
    WrongCertificateName,
    /// `https` is configured and the server speaks plain HTTP.
    NotHttps,
    /// `http` is configured and the server speaks HTTPS.
    WantsHttps,
    /// The answer was not valid HTTP.
    Garbled,
    /// The upstream is this gateway itself, perhaps through another one.
    Loop,
    /// The upstream's process vanished.
    ProcessGone {
        /// How, and how memory was at that moment.
        death: Death,
    },
    /// A dispatched request got no answer in time.
    Silent,
    /// It answered with an error that the request did not cause.
    ServerError,
}

/// Which timeout elapsed; each has its own message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// From dispatch to the first byte of a stream.
    FirstByte,
    /// Between two bytes of a stream.
    Stall,
    /// From dispatch to the end of the answer.
    Total,
}

/// Which credential was missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// One of the gateway's own keys.
    Key,
    /// The control token of this run.
    Token,
}

/// How an answer was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The connection was reset or ended inside the framing.
    Reset,
    /// The connection was lost because the server's process ended.
    ProcessGone {
        /// How.
        death: Death,
    },
    /// It ended cleanly, without a finish marker.
    NoFinish,
    /// A person cancelled it.
    Cancelled,
    /// A person cancelled it in the queue.
    Unbegun,
    /// The gateway is shutting down.
    ShuttingDown,
}

/// What was too large, in one request or in all together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The body.
    Body,
    /// The request header.
    Head,
    /// The number of header fields.
    Fields,
    /// The request target.
    Uri,
    /// All queued bodies together.
    QueuedBytes,
    /// All large bodies that are being received together.
    Uploads,
    /// All who follow events together.
    Watchers,
}

/// The status of a full queue, by `queue.full_status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FullStatus {
    /// 503, the default.
    #[default]
    Unavailable,
    /// 429, for clients that treat it as a lack of capacity.
    TooMany,
}

/// An error the upstream answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamError {
    /// The upstream's own status.
    pub status: StatusCode,
    /// `error.type`, if it sent JSON. Shortened to 64 characters.
    pub kind: Option<String>,
    /// `error.code`, if it sent JSON. Shortened to 64 characters.
    pub code: Option<String>,
    /// `error.param`, if it sent JSON. Shortened to 64 characters.
    pub param: Option<String>,
    /// At most 200 characters of its text: for the client only, never for log, record or panel.
    pub excerpt: String,
    /// Length of the upstream's body in bytes, for the log.
    pub length: usize,
    /// The upstream's own Retry-After, in whole seconds, if it sent a usable one.
    pub retry_after: Option<u64>,
}
