//! Request bodies: parsed once for what the gateway acts on, edited without touching other bytes.
//!
//! Unknown members, number spelling, key order, `null`s and white space stay as the client sent
//! them. An edit that changes nothing returns the original buffer. A member that the gateway acts
//! on may occur only once, because two parsers would read a duplicate in two ways.
//!
//! Not here: token counts and which messages are dropped ([`crate::window`]).

pub mod dialect;
mod edit;
mod message;
mod parse;
mod size;

#[cfg(test)]
#[expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
mod tests;

use std::ops::Range;

use bytes::Bytes;

use crate::refusal::Refusal;

pub use edit::Edit;
pub use message::{CallId, Message, Role};
pub use size::Size;

/// A chat body and the byte ranges of the members that the gateway acts on.
#[derive(Debug, Clone)]
pub struct Chat {
    raw: Bytes,
    /// End of the last member: new members are inserted here.
    end: usize,
    messages: Vec<Message>,
    model: Model,
    is_stream: bool,
    wants_usage: bool,
    max_tokens: Option<Limit>,
    max_completion_tokens: Option<Limit>,
    has_tools: bool,
    wants_schema: bool,
    outside: Size,
}

/// The member `model`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Model {
    Named(String),
    /// Present, but `null` or empty.
    Blank(Range<usize>),
    Absent,
}

/// A token limit in the body.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Limit {
    range: Range<usize>,
    value: RequestedLimit,
}

/// The value of a token limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestedLimit {
    Tokens(u64),
    /// -1: no limit.
    Endless,
    Null,
}

impl Chat {
    /// Parses an OpenAI chat body.
    ///
    /// # Errors
    ///
    /// [`Refusal::BadRequest`] when the body is not a JSON object (UTF-8, at most 128 levels
    /// deep), has no array of objects as `messages`, repeats `model`, `messages`, `stream` or a
    /// limit, or gives one of them a value of the wrong type.
    pub fn read(raw: Bytes) -> Result<Self, Refusal> {
        dialect::openai::read(raw)
    }

    /// The body as received.
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// The requested model; `None` if the member is absent, `null` or empty.
    pub fn model(&self) -> Option<&str> {
        match &self.model {
            Model::Named(name) => Some(name),
            Model::Blank(_) | Model::Absent => None,
        }
    }

    /// Whether the answer is to be streamed.
    pub fn is_stream(&self) -> bool {
        self.is_stream
    }

    /// Whether `stream_options.include_usage` is true.
    pub fn wants_usage(&self) -> bool {
        self.wants_usage
    }

    /// The requested limit in tokens: the smaller one when both members give one. `null` and -1
    /// request none.
    pub fn asked(&self) -> Option<u64> {
        let limits = [&self.max_tokens, &self.max_completion_tokens];
        limits.into_iter().flatten().filter_map(Limit::tokens).min()
    }

    /// Whether `tools` or `functions` has an entry.
    pub fn has_tools(&self) -> bool {
        self.has_tools
    }

    /// Whether `response_format` requests JSON.
    pub fn wants_schema(&self) -> bool {
        self.wants_schema
    }

    /// The messages, in order.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Size of what counts towards the prompt besides the messages: tools, functions, response
    /// format.
    pub fn outside(&self) -> Size {
        self.outside
    }

    /// The body with `edit` applied.
    pub fn edited(&self, edit: &Edit) -> Bytes {
        edit::apply(self, edit)
    }
}

impl Limit {
    fn tokens(&self) -> Option<u64> {
        match self.value {
            RequestedLimit::Tokens(tokens) => Some(tokens),
            RequestedLimit::Endless | RequestedLimit::Null => None,
        }
    }
}
