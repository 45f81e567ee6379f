//! Reads the error that a model server reports, in every shape seen.
//!
//! Servers send error objects, lists of errors, bare strings, error objects *as* strings inside
//! strings, plain text, HTML pages and nothing at all. All of them become one [`ReportedError`].
//! Its message may quote a prompt: it goes to the client only.
//!
//! Not here: the wordings of "too long" ([`super::overflow`]) and whose fault an error is
//! ([`super::request_fault`]).

use std::fmt;

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value};

use crate::refusal::UpstreamError;

/// Longest `type`, `code` and `param` kept, in characters.
const LONGEST_NAME: usize = 64;

/// Longest excerpt for the client, in characters.
const LONGEST_EXCERPT: usize = 200;

/// How many levels of errors inside errors are followed.
const DEEPEST: u32 = 5;

/// Members that hold the error or its message, by precedence.
const MESSAGE_MEMBERS: [&str; 5] = ["error", "errors", "message", "msg", "detail"];

/// An error as the server reported it. Everything is optional.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ReportedError {
    /// The message; empty if there is none. It may quote the prompt: never log it.
    pub message: String,
    /// `type`, of the innermost error that has one.
    pub kind: Option<String>,
    /// `code`, a string or a number.
    pub code: Option<String>,
    /// `param`.
    pub param: Option<String>,
    /// The HTTP status that `code`, `status` or `type` stands for.
    pub status: Option<StatusCode>,
    /// llama.cpp's `n_prompt_tokens`: what the prompt needs.
    pub prompt_tokens: Option<u64>,
    /// llama.cpp's `n_ctx`: the window.
    pub window: Option<u64>,
    /// Length of the error in bytes.
    pub length: usize,
}

/// The upstream's error for the refusal table.
///
/// `status` is that of the answer; if it is a success, the error's own status replaces it (500
/// where it has none).
pub fn error_of(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> UpstreamError {
    let retry_after = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let error = ReportedError::read(body);
    UpstreamError {
        retry_after,
        ..error.to_upstream_error(error.status_in(status))
    }
}

// === impl ReportedError ===

impl ReportedError {
    /// Reads an error body, or the data of an `error` event. A shape that is not known yields the
    /// text itself as the message.
    pub fn read(body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let text = text.trim();
        let mut error = match serde_json::from_str::<Value>(text) {
            Ok(Value::Null) => Self::default(),
            Ok(value) => Self::of(&value, DEEPEST)
                .unwrap_or_default()
                .or_message(text),
            Err(_) if is_html(text) => Self::default().or_message(&page_title(text)),
            Err(_) => Self::default().or_message(text),
        };
        error.length = body.len();
        error
    }

    /// The error inside an answer (a whole one or a chunk of `length` bytes), if it has one.
    pub fn in_answer(answer: &Map<String, Value>, length: usize) -> Option<Self> {
        let is_error = |name| answer.get(name).and_then(Value::as_str) == Some("error");
        let has_choices = answer
            .get("choices")
            .is_some_and(|choices| !choices.is_null());
        let mut error = match answer.get("error") {
            None | Some(Value::Null) if is_error("object") => Self::of_object(answer, DEEPEST)?,
            // `choices` identifies a chunk that merely has a `type`.
            None | Some(Value::Null) if !has_choices && is_error("type") => {
                Self::of_object(answer, DEEPEST)?
            }
            None | Some(Value::Null | Value::Bool(false)) => return None,
            Some(Value::Object(members)) if members.is_empty() => return None,
            Some(Value::String(text)) if text.is_empty() => return None,
            Some(error) => {
                let text = if error.is_string() {
                    String::new()
                } else {
                    error.to_string()
                };
                Self::of_object(answer, DEEPEST)
                    .unwrap_or_default()
                    .or_message(&text)
            }
        };
        error.length = length;
        Some(error)
    }

    /// The same error as refusals carry it. `answered` is the status of the answer; the error's
    /// own status, if it has one, replaces a success.
    pub fn to_upstream_error(&self, answered: StatusCode) -> UpstreamError {
        let status = if answered.is_success() {
            self.status.unwrap_or(answered)
        } else {
            answered
        };
        let name = |text: &Option<String>| {
            let name = shortened(text.as_deref()?, LONGEST_NAME);
            (!name.is_empty()).then_some(name)
        };
        UpstreamError {
            status,
            kind: name(&self.kind),
            // A code that repeats the status adds nothing.
            code: name(&self.code).filter(|code| code != status.as_str()),
            param: name(&self.param),
            excerpt: shortened(&self.message, LONGEST_EXCERPT),
            length: self.length,
            retry_after: None,
        }
    }

    pub(super) fn status_in(&self, answered: StatusCode) -> StatusCode {
        if answered.is_success() {
            self.status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
        } else {
            answered
        }
    }

    fn or_message(mut self, text: &str) -> Self {
        if self.message.is_empty() {
            text.clone_into(&mut self.message);
        }
        self
    }

    fn of(value: &Value, depth: u32) -> Option<Self> {
        let depth = depth.checked_sub(1)?;
        match value {
            Value::String(text) => Self::of_text(text, depth),
            Value::Array(items) => {
                let mut found = items.iter().filter_map(|item| Self::of(item, depth));
                let mut first = found.next()?;
                for error in found {
                    first.message = format!("{}; {}", first.message, error.message);
                }
                Some(first)
            }
            Value::Object(members) => Self::of_object(members, depth),
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        }
    }

    /// Ollama relays its runner's error JSON as a string, sometimes with words before it.
    fn of_text(text: &str, depth: u32) -> Option<Self> {
        if let Some(start) = text.find('{')
            && let Some(end) = text.rfind('}')
            && start < end
            && let Ok(value) = serde_json::from_str::<Value>(&text[start..=end])
            && let Some(inner) = Self::of(&value, depth)
        {
            return Some(inner);
        }
        (!text.is_empty()).then(|| Self::default().or_message(text))
    }

    /// What an inner error says takes precedence over the object around it.
    fn of_object(members: &Map<String, Value>, depth: u32) -> Option<Self> {
        let mut error = MESSAGE_MEMBERS
            .iter()
            .filter_map(|name| Self::of(members.get(*name)?, depth))
            .reduce(|first, next| {
                if first.message.is_empty() {
                    first.or_message(&next.message)
                } else {
                    first
                }
            })
            .unwrap_or_default();
        let text = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
        let number = |name: &str| members.get(name).and_then(Value::as_u64);
        let code = text("code").or_else(|| number("code").map(|code| code.to_string()));
        let kind = text("type").filter(|kind| kind != "error");
        let status = named_status(code.as_deref(), number("status"), kind.as_deref());
        // FastAPI names the place of what it found wrong.
        if let Some(Value::Array(path)) = members.get("loc") {
            let path: Vec<String> = path
                .iter()
                .map(|step| step.to_string().replace('"', ""))
                .collect();
            error.message = format!("{}: {}", path.join("."), error.message);
        }
        error.kind = error.kind.or(kind);
        error.code = error.code.or(code);
        error.param = error.param.or_else(|| text("param"));
        error.status = error.status.or(status);
        error.prompt_tokens = error.prompt_tokens.or_else(|| number("n_prompt_tokens"));
        error.window = error.window.or_else(|| number("n_ctx"));
        (error != Self::default()).then_some(error)
    }
}

impl fmt::Debug for ReportedError {
    /// Without any text of the server, so that a log line cannot carry it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReportedError")
            .field("status", &self.status)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

/// The HTTP status that an error stands for.
fn named_status(code: Option<&str>, status: Option<u64>, kind: Option<&str>) -> Option<StatusCode> {
    let is_error = |number: &u16| (400..600).contains(number);
    let number = code
        .and_then(|code| code.parse().ok())
        .filter(is_error)
        .or_else(|| {
            status
                .and_then(|status| u16::try_from(status).ok())
                .filter(is_error)
        });
    if let Some(number) = number {
        return StatusCode::from_u16(number).ok();
    }
    match kind {
        Some("invalid_request_error" | "exceed_context_size_error") => {
            Some(StatusCode::BAD_REQUEST)
        }
        Some("not_found_error") => Some(StatusCode::NOT_FOUND),
        _ => None,
    }
}

/// At most `longest` characters on one line, without control characters.
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
    let start: String = text.chars().take(64).collect();
    let start = start.to_ascii_lowercase();
    ["<!doctype html", "<html", "<head"]
        .iter()
        .any(|tag| start.starts_with(tag))
}

/// The title of an error page; never its markup.
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
