//! An error the model server reported inside an answer, in any of the shapes seen in the field.
//!
//! Its words are for the caller and for recognising an overflow; `Debug` leaves them out, so that
//! a log line cannot carry them. Type and code are kept only when they look like identifiers.

use std::fmt;

use http::StatusCode;
use serde_json::{Map, Value};

use super::answer::CompletionFields;
use crate::refusal::UpstreamError;

/// Characters of the server's message that are kept for recognising it.
const MESSAGE_LIMIT: usize = 4096;
/// Characters of the message that the caller is shown.
const EXCERPT_LIMIT: usize = 200;
/// Characters of type, code and param.
const WORD_LIMIT: usize = 64;

/// A failure as the server told it. Everything is optional: some servers say only `error`.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ObservedError {
    /// `type`, if it looks like an identifier of at most 64 characters.
    pub kind: Option<String>,
    /// `code`, if it is a string that looks like an identifier of at most 64 characters.
    pub code: Option<String>,
    /// `param`, if it looks like an identifier of at most 64 characters.
    pub param: Option<String>,
    /// A numeric `code` (or `status`) between 400 and 599: llama.cpp puts the HTTP status there.
    pub status: Option<u16>,
    /// At most 4,096 characters of the server's words. It may quote the prompt: never log it.
    pub message: String,
    /// llama.cpp's `n_prompt_tokens`: what the prompt needs.
    pub prompt_tokens: Option<u64>,
    /// llama.cpp's `n_ctx`: what there is.
    pub window: Option<u64>,
    /// Length in bytes of what the server sent.
    pub length: usize,
}

// === impl ObservedError ===

impl ObservedError {
    /// Reads what followed an `error` event or field, or the body of an error answer: JSON in any
    /// shape, plain text, or nothing.
    pub fn read(said: &[u8]) -> Self {
        let text = said.trim_ascii();
        let mut error = match super::parse(text) {
            Some(answer) => {
                Self::of(&answer, text.len()).unwrap_or_else(|| Self::from_members(&answer.flat))
            }
            None => Self::from_text(&String::from_utf8_lossy(text)),
        };
        error.length = said.len();
        error
    }

    /// The error `answer` carries, if it carries one with anything in it.
    pub(super) fn of(answer: &CompletionFields, length: usize) -> Option<Self> {
        let says_error = |value: &Value| value.as_str() == Some("error");
        let mut error = match &answer.error {
            Some(Value::Object(members)) if !members.is_empty() => Self::from_members(members),
            Some(Value::String(text)) if !text.is_empty() => Self::from_text(text),
            Some(Value::Array(_) | Value::Number(_) | Value::Bool(true)) => Self::default(),
            Some(Value::Object(_) | Value::String(_) | Value::Null | Value::Bool(false)) => {
                return None;
            }
            // The whole object is the error; `choices` tells a chunk that merely has a `type`.
            None if says_error(&answer.object)
                || (answer.choices.is_null()
                    && answer.flat.get("type").is_some_and(says_error)) =>
            {
                Self::from_members(&answer.flat)
            }
            None => return None,
        };
        error.length = length;
        Some(error)
    }

    /// The same error as the gateway's refusals carry it; `answered` is the status of the answer,
    /// and counts where the error names none of its own.
    pub fn to_upstream_error(&self, answered: StatusCode) -> UpstreamError {
        UpstreamError {
            status: self
                .status
                .and_then(|status| StatusCode::from_u16(status).ok())
                .unwrap_or(answered),
            kind: self.kind.clone(),
            code: self.code.clone(),
            param: self.param.clone(),
            excerpt: self.excerpt(),
            length: self.length,
            retry_after: None,
        }
    }

    /// At most 200 characters of the message on one line, for the caller only.
    pub fn excerpt(&self) -> String {
        self.message
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .take(EXCERPT_LIMIT)
            .collect()
    }

    fn from_members(members: &Map<String, Value>) -> Self {
        let number = |name: &str| members.get(name).and_then(Value::as_u64);
        let code = members.get("code");
        let mut error = match members.get("message").and_then(Value::as_str) {
            Some(message) => Self::from_text(message),
            None => Self::default(),
        };
        error.kind = word(members.get("type")).or(error.kind);
        error.param = word(members.get("param")).or(error.param);
        error.code = word(code).or(error.code);
        error.status = code
            .and_then(Value::as_u64)
            .or_else(|| code.and_then(Value::as_str)?.parse().ok())
            .or_else(|| number("status"))
            .and_then(|status| u16::try_from(status).ok())
            .filter(|status| (400..600).contains(status))
            .or(error.status);
        error.prompt_tokens = number("n_prompt_tokens").or(error.prompt_tokens);
        error.window = number("n_ctx").or(error.window);
        error
    }

    /// Plain words, or (Ollama does that) another server's error body as a string.
    fn from_text(text: &str) -> Self {
        let inner = text
            .starts_with('{')
            .then(|| serde_json::from_str::<Map<String, Value>>(text).ok())
            .flatten();
        let members = inner.as_ref().and_then(|outer| match outer.get("error") {
            Some(Value::Object(members)) => Some(members),
            Some(_) | None => None,
        });
        let number = |name: &str| members?.get(name)?.as_u64();
        let message = members
            .and_then(|members| members.get("message")?.as_str())
            .unwrap_or(text);
        Self {
            kind: word(members.and_then(|members| members.get("type"))),
            status: number("code")
                .and_then(|code| u16::try_from(code).ok())
                .filter(|status| (400..600).contains(status)),
            message: message.chars().take(MESSAGE_LIMIT).collect(),
            prompt_tokens: number("n_prompt_tokens"),
            window: number("n_ctx"),
            ..Self::default()
        }
    }
}

impl fmt::Debug for ObservedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObservedError")
            .field("kind", &self.kind)
            .field("code", &self.code)
            .field("status", &self.status)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

fn word(value: Option<&Value>) -> Option<String> {
    identifier(value?.as_str()?).map(str::to_owned)
}

/// `text` if it is an identifier of at most 64 characters: anything else a server puts into
/// `type` or `code` could quote what a person wrote. A mere number is a status, not a code.
pub(crate) fn identifier(text: &str) -> Option<&str> {
    let spells_a_word = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    (spells_a_word && !is_number && text.len() <= WORD_LIMIT).then_some(text)
}
