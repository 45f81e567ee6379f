//! What an upstream's error says, whatever its shape, and whose fault it is.
//!
//! Servers send error objects, bare strings, error objects *as* strings inside strings, plain
//! text, HTML pages and nothing at all. Here all of them become one [`UpstreamError`]. The text
//! may quote a prompt: it goes to the client only.
//!
//! Not here: "too long" in all its wordings ([`super::overflow`]).

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value};

use super::overflow;
use crate::refusal::UpstreamError;
use crate::upstream::servers::Kind;

/// Longest `type`, `code` and `param` kept, in characters.
const LONGEST_NAME: usize = 64;

/// Longest excerpt for the client, in characters.
const LONGEST_EXCERPT: usize = 200;

/// How deep an error inside an error's text is followed.
const DEEPEST: u32 = 4;

/// Whose fault a failed answer is, as far as the server's health is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault5xx {
    /// The server's: it starts a cooldown.
    Server,
    /// The request's own: the next one may be served at once.
    Request,
}

/// An error body, read.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) message: String,
    pub(super) kind: Option<String>,
    pub(super) code: Option<Value>,
    pub(super) param: Option<String>,
    pub(super) prompt: Option<u64>,
    pub(super) window: Option<u64>,
}

/// The upstream's error for the refusal table.
///
/// `status` is that of the answer; for an error inside a stream it is a 2xx, and the error's own
/// number takes its place (500 where it has none).
pub fn error_of(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> UpstreamError {
    let said = said(body).unwrap_or_default();
    let status = if status.is_success() {
        own_status(&said)
    } else {
        status
    };
    let code = match &said.code {
        Some(Value::String(code)) => Some(code.clone()),
        Some(Value::Number(code)) if code.as_u64() != Some(status.as_u16().into()) => {
            Some(code.to_string())
        }
        _ => None,
    };
    UpstreamError {
        status,
        kind: said.kind.as_deref().and_then(name),
        code: code.as_deref().and_then(name),
        param: said.param.as_deref().and_then(name),
        excerpt: shortened(&said.message, LONGEST_EXCERPT),
        length: body.len(),
        retry_after: headers
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.trim().parse().ok()),
    }
}

/// Whether a failed answer speaks against the server or against the request alone.
///
/// `status` and `body` as for [`error_of`].
pub fn fault_of(kind: Option<Kind>, status: StatusCode, body: &[u8]) -> Fault5xx {
    let said = said(body).unwrap_or_default();
    let seen = if status.is_success() {
        own_status(&said)
    } else {
        status
    };
    // 501 says that the server lacks the feature, which no rest will mend.
    if !seen.is_server_error() || seen == StatusCode::NOT_IMPLEMENTED {
        return Fault5xx::Request;
    }
    if overflow::overflow(status, body).is_some() {
        return Fault5xx::Request;
    }
    let text = said.message.to_lowercase();
    // A runner that died says why in the same breath: the death counts.
    if text.contains("runner") {
        return Fault5xx::Server;
    }
    let own_faults: &[&str] = match kind {
        Some(Kind::LlamaCpp) => &LLAMA_CPP_REQUEST_FAULTS,
        Some(Kind::Ollama) => &OLLAMA_REQUEST_FAULTS,
        Some(Kind::LmStudio | Kind::Plain) | None => &[],
    };
    let own = own_faults.iter().any(|fault| text.contains(fault))
        || said.kind.as_deref() == Some("invalid_request_error");
    if own {
        Fault5xx::Request
    } else {
        Fault5xx::Server
    }
}

/// llama.cpp: an input larger than the batch, a caller's own `fail_on_no_slot`, a router's word on
/// a model, and templates, grammars and media that cannot be read.
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

/// Reads an error body; `None` when it is empty, or JSON that says nothing.
pub(super) fn said(body: &[u8]) -> Option<Said> {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        return said_in(&value, DEEPEST);
    }
    let message = if is_html(text) {
        page_title(text)
    } else {
        text.to_owned()
    };
    Some(Said {
        message,
        ..Said::default()
    })
}

fn said_in(value: &Value, depth: u32) -> Option<Said> {
    match value {
        Value::String(text) => Some(said_in_text(text, depth)),
        Value::Object(object) => match object.get("error") {
            Some(Value::Object(error)) => {
                let mut said = said_in_object(error, depth);
                // Some put the text beside the object.
                if said.message.is_empty()
                    && let Some(text) = object.get("message").and_then(Value::as_str)
                {
                    text.clone_into(&mut said.message);
                }
                Some(said)
            }
            Some(Value::String(text)) => Some(said_in_text(text, depth)),
            Some(_) => None,
            None if object.contains_key("message") || object.contains_key("detail") => {
                Some(said_in_object(object, depth))
            }
            None => None,
        },
        _ => None,
    }
}

fn said_in_object(error: &Map<String, Value>, depth: u32) -> Said {
    let text = |name: &str| error.get(name).and_then(Value::as_str);
    let number = |name: &str| error.get(name).and_then(Value::as_u64);
    let message = text("message")
        .or_else(|| text("error"))
        .or_else(|| text("detail"))
        .unwrap_or_default();
    let inner = said_in_text(message, depth);
    Said {
        message: inner.message,
        kind: inner.kind.or_else(|| text("type").map(str::to_owned)),
        code: inner.code.or_else(|| error.get("code").cloned()),
        param: inner.param.or_else(|| text("param").map(str::to_owned)),
        prompt: inner.prompt.or_else(|| number("n_prompt_tokens")),
        window: inner.window.or_else(|| number("n_ctx")),
    }
}

/// Ollama hands on its runner's error JSON as a string, sometimes with words in front.
fn said_in_text(text: &str, depth: u32) -> Said {
    if depth > 0
        && let Some(start) = text.find('{')
        && let Some(end) = text.rfind('}')
        && start < end
        && let Ok(value) = serde_json::from_str::<Value>(&text[start..=end])
        && let Some(inner) = said_in(&value, depth - 1)
    {
        return inner;
    }
    Said {
        message: text.to_owned(),
        ..Said::default()
    }
}

/// The status an error inside a 200 would have had.
fn own_status(said: &Said) -> StatusCode {
    let number = match &said.code {
        Some(Value::Number(code)) => code.as_u64(),
        Some(Value::String(code)) => code.parse().ok(),
        _ => None,
    };
    if let Some(number) = number
        && let Ok(number) = u16::try_from(number)
        && (400..600).contains(&number)
        && let Ok(status) = StatusCode::from_u16(number)
    {
        return status;
    }
    match said.kind.as_deref() {
        Some("invalid_request_error" | "exceed_context_size_error") => StatusCode::BAD_REQUEST,
        Some("not_found_error") => StatusCode::NOT_FOUND,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn name(text: &str) -> Option<String> {
    let text = shortened(text, LONGEST_NAME);
    (!text.is_empty()).then_some(text)
}

/// At most `longest` characters, on one line, without control characters.
fn shortened(text: &str, longest: usize) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let mut short: String = text.trim().chars().take(longest).map(clean).collect();
    if text.trim().chars().nth(longest).is_some() {
        short.pop();
        short.push('…');
    }
    short
}

fn is_html(text: &str) -> bool {
    let start: String = text
        .chars()
        .take(64)
        .collect::<String>()
        .to_ascii_lowercase();
    start.starts_with("<!doctype html") || start.starts_with("<html") || start.starts_with("<head")
}

/// What an error page is called; never its markup.
fn page_title(html: &str) -> String {
    let lower = html.to_ascii_lowercase();
    let title = lower.find("<title>").and_then(|start| {
        let start = start + "<title>".len();
        let end = start + lower[start..].find('<')?;
        html.get(start..end)
    });
    match title.map(str::trim).filter(|title| !title.is_empty()) {
        Some(title) => format!("an HTML page, \"{title}\""),
        None => "an HTML page".to_owned(),
    }
}
