//! An index over a chat body that keeps the body's own bytes.
//!
//! A body is scanned once; what the gateway needs to know is noted with the place where it
//! stands. An edit cuts those places and leaves every other byte: unknown members, the spelling
//! of numbers, key order, `null`s and white space pass as they came. An edit that changes
//! nothing gives back the very same bytes.
//!
//! A member the gateway acts on may stand only once: two parsers would give it two meanings.
//!
//! Not here: what a chat costs and what is cut from it ([`crate::window`]).

mod edit;
mod size;
mod message;
mod parse;
mod scan;
mod span;
mod text;

#[cfg(test)]
#[expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
mod tests;

use bytes::Bytes;

use crate::refusal::Refusal;
use span::Span;

pub use edit::{Edit, OlderLimit};
pub use message::{CallId, Message, Role};
pub use size::Size;

/// A chat body and where everything stands in it.
#[derive(Debug, Clone)]
pub struct Chat {
    raw: Bytes,
    /// Behind the last member: where a new one goes.
    end: usize,
    messages: Vec<Message>,
    model: Model,
    stream: Streaming,
    usage: Usage,
    max_tokens: Option<Limit>,
    max_completion_tokens: Option<Limit>,
    tools: Tools,
    schema: Schema,
    outside: Size,
}

/// Whether the answer is streamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Streaming {
    Asked,
    NotAsked,
}

/// Whether the stream's last chunk should carry the usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Usage {
    Asked,
    NotAsked,
}

/// Whether the model may call something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tools {
    Offered,
    None,
}

/// Whether the answer must follow a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Schema {
    Wanted,
    None,
}

/// The member `model`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Model {
    Named(String),
    /// There, but `null` or empty.
    Blank(Span),
    Absent,
}

/// A token limit that is there, by whichever name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit {
    span: Span,
    value: RequestedLimit,
}

/// What a limit says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestedLimit {
    Tokens(u64),
    /// −1: as long as it gets.
    Endless,
    Null,
}

impl Chat {
    /// Reads a body.
    ///
    /// # Errors
    ///
    /// [`Refusal::BadRequest`] when it is not JSON (UTF-8, at most 128 levels deep), not an
    /// object, has no array of objects as `messages`, gives `model`, `messages`, `stream` or a
    /// limit twice, or gives one of those a value of the wrong type.
    pub fn read(raw: Bytes) -> Result<Self, Refusal> {
        parse::read(raw).map_err(parse::Malformed::refusal)
    }

    /// The body as it came.
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// The model asked for; `null` and the empty string name none.
    pub fn model(&self) -> Option<&str> {
        match &self.model {
            Model::Named(name) => Some(name),
            Model::Blank(_) | Model::Absent => None,
        }
    }

    /// Whether the answer is to be streamed.
    pub fn is_stream(&self) -> bool {
        self.stream == Streaming::Asked
    }

    /// Whether `stream_options.include_usage` is true.
    pub fn wants_usage(&self) -> bool {
        self.usage == Usage::Asked
    }

    /// The limit asked for, in tokens: the smaller when both members give one. `null` and −1
    /// ask for none.
    pub fn asked(&self) -> Option<u64> {
        let limits = [self.max_tokens, self.max_completion_tokens];
        limits.into_iter().flatten().filter_map(Limit::tokens).min()
    }

    /// Whether `tools` or `functions` offer anything.
    pub fn has_tools(&self) -> bool {
        self.tools == Tools::Offered
    }

    /// Whether `response_format` asks for JSON.
    pub fn wants_schema(&self) -> bool {
        self.schema == Schema::Wanted
    }

    /// The messages, in order.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// What counts towards the prompt beside the messages: tools, functions, response format.
    pub fn outside(&self) -> Size {
        self.outside
    }

    /// The body with `edit` applied: also what llama.cpp's
    /// `/v1/chat/completions/input_tokens` counts for a set of kept messages.
    pub fn edited(&self, edit: &Edit) -> Bytes {
        edit::apply(self, edit)
    }
}

impl Limit {
    fn tokens(self) -> Option<u64> {
        match self.value {
            RequestedLimit::Tokens(tokens) => Some(tokens),
            RequestedLimit::Endless | RequestedLimit::Null => None,
        }
    }
}
