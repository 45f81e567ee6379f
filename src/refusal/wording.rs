//! The English words of a refusal, as its client reads them: what happened and what to do.
//!
//! Not here: notices and the status, which are codes ([`crate::telemetry::message`]).

use std::fmt;
use std::time::Duration;

use super::{Clock, Cut, Outage, Part, Refusal, Wanted};

impl Refusal {
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

/// "3 seconds", "1 second", "12 minutes": rounded up, for people.
fn seconds(duration: Duration) -> String {
    let whole = duration.as_millis().div_ceil(1000);
    match whole {
        0 | 1 => "1 second".to_owned(),
        2..=119 => format!("{whole} seconds"),
        _ => format!("{} minutes", whole.div_ceil(60)),
    }
}
