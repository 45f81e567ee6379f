//! What the gateway learns from a copy of an OpenAI answer: how it ended, what it used, whether
//! it failed inside.
//!
//! A stream that ends politely without its finish marker looks complete to nearly every client,
//! and a failure inside a `200` looks like success; both are found here. Chunks that cannot hold
//! anything of interest are only scanned; every hit is confirmed by parsing, so text a person or
//! a model wrote cannot pass for a marker.
//!
//! Not here: the relayed bytes, clocks, and what is done about a bad ending. No text of an answer
//! is kept.

pub mod sse;
mod answer;
mod error;
mod scan;

use std::borrow::Cow;

use serde_json::Value;

use self::answer::CompletionFields;
pub use self::error::ObservedError;
pub(crate) use self::error::identifier;
use crate::proxy::inspect::sse::{Event, Splitter};

/// Why the model stopped, as far as the gateway tells reasons apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// It was done.
    Stop,
    /// Its token limit or the window ran out.
    Length,
    /// It calls tools (also the older `function_call`).
    ToolCalls,
    /// A filter of the server stopped it.
    ContentFilter,
    /// The server says that it failed.
    Error,
    /// A reason only this server knows.
    Other,
}

/// Tokens as the server counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the answer, reasoning included.
    pub completion_tokens: Option<u64>,
    /// Prompt tokens taken from the server's cache.
    pub cached_tokens: Option<u64>,
}

/// llama.cpp's own measurements.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Timings {
    /// Prompt tokens taken from the cache.
    pub cache_n: Option<u64>,
    /// Prompt tokens evaluated.
    pub prompt_n: Option<u64>,
    /// Milliseconds spent on them.
    pub prompt_ms: Option<f64>,
    /// Tokens generated.
    pub predicted_n: Option<u64>,
    /// Milliseconds spent on them.
    pub predicted_ms: Option<f64>,
}

/// Everything learnt from one answer so far.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observed {
    /// The last finish reason that was not `null`.
    pub finish: Option<Finish>,
    /// `[DONE]` was seen.
    pub done: bool,
    /// The last usage that was reported.
    pub usage: Option<Usage>,
    /// The last timings that were reported.
    pub timings: Option<Timings>,
    /// The first error.
    pub error: Option<ObservedError>,
    /// Chunks that carried text, reasoning or a tool call; 0 or 1 for a whole answer.
    pub content_chunks: u64,
    /// Reasoning was among them.
    pub reasoning: bool,
    /// An `error` member with nothing in it: an error only if no finish follows.
    empty_error: bool,
}

/// How a stream ended, seen from its content alone.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEnd {
    /// A finish reason or `[DONE]` was seen, and no error.
    Complete,
    /// Neither was seen: what came before may be incomplete.
    NoFinish,
    /// The server reported a failure inside the stream.
    Error(ObservedError),
}

/// How a whole answer is to be taken.
#[derive(Debug, Clone, PartialEq)]
pub enum WholeEnd {
    /// JSON with `choices` and without an error.
    Complete,
    /// JSON that carries an error, whatever its status said.
    Error(ObservedError),
    /// Not an answer of a model server at all.
    Garbled(Garbled),
}

/// What was there instead of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Garbled {
    /// Nothing (also a 204).
    Empty,
    /// A web page.
    Html,
    /// Something else that is no JSON object or array.
    NotJson,
    /// JSON that has neither `choices` nor an error.
    NoAnswer,
}

/// Observes an OpenAI stream.
#[derive(Clone, Default)]
pub struct StreamObserver {
    splitter: Splitter,
    seen: Observed,
}

/// Observes a whole answer with a success status.
pub fn observe_whole(body: &[u8]) -> (WholeEnd, Observed) {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    let text = body.trim_ascii();
    let mut seen = Observed::default();
    let garbled = match text.first() {
        None => Garbled::Empty,
        Some(b'<') => Garbled::Html,
        Some(_) => match parse(text) {
            Some(answer) => {
                seen.content_chunks = u64::from(scan::carries_content(text));
                seen.reasoning = scan::carries_reasoning(text);
                seen.take(&answer, text.len());
                let empty = seen.empty_error.then(ObservedError::default);
                let end = match seen.error.clone().or(empty) {
                    Some(error) => WholeEnd::Error(error),
                    None if answer.choices.is_null() => WholeEnd::Garbled(Garbled::NoAnswer),
                    None => WholeEnd::Complete,
                };
                return (end, seen);
            }
            None => Garbled::NotJson,
        },
    };
    (WholeEnd::Garbled(garbled), seen)
}

// === impl Finish ===

impl Finish {
    /// The reason's name in records and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
            Self::Error => "error",
            Self::Other => "other",
        }
    }

    fn read(reason: &str) -> Self {
        match reason {
            "stop" => Self::Stop,
            "length" => Self::Length,
            "tool_calls" | "function_call" => Self::ToolCalls,
            "content_filter" => Self::ContentFilter,
            "error" => Self::Error,
            _ => Self::Other,
        }
    }
}

// === impl StreamObserver ===

impl StreamObserver {
    /// Takes the next piece of the stream, cut anywhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        let seen = &mut self.seen;
        self.splitter.feed(bytes, |event| seen.event(event));
    }

    /// What was learnt so far.
    pub fn observed(&self) -> &Observed {
        &self.seen
    }

    /// The verdict if the stream ended politely now. A last event without its blank line counts.
    pub fn verdict(&self) -> StreamEnd {
        let mut seen = self.seen.clone();
        self.splitter.tail(|event| seen.event(event));
        if let Some(error) = seen.error {
            StreamEnd::Error(error)
        } else if seen.done || seen.finish.is_some() {
            StreamEnd::Complete
        } else if seen.empty_error {
            StreamEnd::Error(ObservedError::default())
        } else {
            StreamEnd::NoFinish
        }
    }

    /// What must be sent before an event of our own; see [`Splitter::closing_bytes`].
    pub fn closing_bytes(&self) -> &'static [u8] {
        self.splitter.closing_bytes()
    }
}

// === impl Observed ===

impl Observed {
    fn event(&mut self, event: Event<'_>) {
        if self.done {
            // No client reads behind `[DONE]`.
            return;
        }
        if event.name == b"error" || event.error.is_some() {
            let said = event.error.unwrap_or(event.data);
            self.fail(ObservedError::read(said));
            return;
        }
        let text = event.data.trim_ascii();
        if text == b"[DONE]" {
            self.done = true;
            return;
        }
        if scan::carries_content(text) {
            self.content_chunks += 1;
            self.reasoning = self.reasoning || scan::carries_reasoning(text);
        }
        if scan::may_matter(text)
            && let Some(chunk) = parse(text)
        {
            self.take(&chunk, text.len());
        }
    }

    fn take(&mut self, answer: &CompletionFields, length: usize) {
        if let Some(error) = ObservedError::of(answer, length) {
            self.fail(error);
        } else if answer.error.is_some() && answer.choices.is_null() {
            self.empty_error = true;
        }
        self.usage = Usage::read(&answer.usage).or(self.usage);
        self.timings = Timings::read(&answer.timings).or(self.timings);
        for choice in answer.choices.as_array().into_iter().flatten() {
            let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) else {
                continue;
            };
            let finish = Finish::read(reason);
            self.finish = Some(finish);
            if finish == Finish::Error {
                self.fail(ObservedError::default());
            }
        }
    }

    fn fail(&mut self, error: ObservedError) {
        self.error.get_or_insert(error);
    }
}

// === impl Usage and Timings ===

impl Usage {
    fn read(usage: &Value) -> Option<Self> {
        let number = |name: &str| usage.get(name).and_then(Value::as_u64);
        usage.as_object()?;
        Some(Self {
            prompt_tokens: number("prompt_tokens"),
            completion_tokens: number("completion_tokens"),
            cached_tokens: usage
                .pointer("/prompt_tokens_details/cached_tokens")
                .and_then(Value::as_u64),
        })
    }
}

impl Timings {
    fn read(timings: &Value) -> Option<Self> {
        let number = |name: &str| timings.get(name).and_then(Value::as_u64);
        let millis = |name: &str| timings.get(name).and_then(Value::as_f64);
        timings.as_object()?;
        Some(Self {
            cache_n: number("cache_n"),
            prompt_n: number("prompt_n"),
            prompt_ms: millis("prompt_ms"),
            predicted_n: number("predicted_n"),
            predicted_ms: millis("predicted_ms"),
        })
    }
}

/// Parses an object or array; bytes that are no UTF-8 inside its strings do not matter.
fn parse(text: &[u8]) -> Option<CompletionFields> {
    serde_json::from_slice(text)
        .ok()
        .or_else(|| match String::from_utf8_lossy(text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(repaired) => serde_json::from_str(&repaired).ok(),
        })
}

#[cfg(test)]
#[expect(clippy::panic, reason = "a test fails by panicking")]
mod tests;
