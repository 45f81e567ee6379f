//! Whether an error answer counts against the server's health or only against its request.

use http::StatusCode;

use super::errors::ReportedError;
use super::overflow;
use crate::upstream::servers::Kind;

/// What a failed answer says about the server's health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault5xx {
    /// The server failed: it starts a cooldown.
    Server,
    /// The request caused it: the next one may be served at once.
    Request,
}

/// Whether a failed answer counts against the server or only against the request.
///
/// `status` and `body` as for [`error_of`].
pub fn fault_of(kind: Option<Kind>, status: StatusCode, body: &[u8]) -> Fault5xx {
    let error = ReportedError::read(body);
    let seen = error.status_in(status);
    // 501 means that the server lacks the feature: a cooldown would not change that.
    if !seen.is_server_error() || seen == StatusCode::NOT_IMPLEMENTED {
        return Fault5xx::Request;
    }
    if overflow::overflow(status, body).is_some() {
        return Fault5xx::Request;
    }
    let text = error.message.to_lowercase();
    // Ollama names the cause of a runner's death in the same message: the death counts.
    if text.contains("runner") {
        return Fault5xx::Server;
    }
    let request_faults: &[&str] = match kind {
        Some(Kind::LlamaCpp) => &LLAMA_CPP_REQUEST_FAULTS,
        Some(Kind::Ollama) => &OLLAMA_REQUEST_FAULTS,
        Some(Kind::LmStudio | Kind::Plain) | None => &[],
    };
    let is_request_fault = request_faults.iter().any(|fault| text.contains(fault))
        || error.kind.as_deref() == Some("invalid_request_error");
    if is_request_fault {
        Fault5xx::Request
    } else {
        Fault5xx::Server
    }
}

/// llama.cpp: an input larger than the batch, `fail_on_no_slot`, a router's unknown model, and
/// templates, grammars and media that cannot be parsed.
const LLAMA_CPP_REQUEST_FAULTS: [&str; 12] = [
    "too large to process",
    "physical batch size",
    "no slot available",
    "model is not loaded",
    "' not found",
    "failed to parse",
    "json schema",
    "grammar",
    "jinja",
    "template",
    "input is not supported",
    "does not support",
];

/// Ollama: a model larger than the machine or unreadable, and inputs that cannot be processed.
const OLLAMA_REQUEST_FAULTS: [&str; 8] = [
    "requires more system memory",
    "unable to load model",
    "unknown model architecture",
    "failed to process inputs",
    "unsupported image",
    "invalid image",
    "does not support",
    "not found",
];
