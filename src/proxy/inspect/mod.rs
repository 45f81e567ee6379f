//! Observes a copy of an OpenAI answer: how it ended, its usage, errors inside it.
//!
//! A stream that ends cleanly without its finish marker looks complete to nearly every client,
//! and an error inside a `200` looks like success; both are detected here. Chunks are scanned for
//! member names, and every hit is confirmed by parsing, so text that a person or a model wrote
//! cannot pass for a marker.
//!
//! Not here: the relayed bytes, timeouts, and the reaction to a bad ending. No text of an answer
//! is kept.

mod scan;
pub mod sse;

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::proxy::inspect::sse::{Event, Splitter};
use crate::upstream::ReportedError;

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The answer is complete.
    Stop,
    /// The token limit or the window was reached.
    Length,
    /// It calls tools (also the older `function_call`).
    ToolCalls,
    /// A filter of the server stopped it.
    ContentFilter,
    /// The server failed.
    Error,
    /// Any other reason.
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

/// What was observed of one answer so far.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observed {
    /// The last finish reason that was neither `null` nor empty.
    pub finish: Option<Finish>,
    /// `[DONE]` was seen.
    pub done: bool,
    /// The last usage that was reported.
    pub usage: Option<Usage>,
    /// The last timings that were reported.
    pub timings: Option<Timings>,
    /// The first error.
    pub error: Option<ReportedError>,
    /// Chunks that carried text, reasoning or a tool call; 0 or 1 for a whole answer.
    pub content_chunks: u64,
    /// Reasoning was among them.
    pub reasoning: bool,
    /// An empty `error` member was seen: an error only if no finish follows.
    empty_error: bool,
}

/// How a stream ended, by its content alone.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEnd {
    /// A finish reason or `[DONE]` was seen, and no error.
    Complete,
    /// Neither was seen: what came before may be incomplete.
    NoFinish,
    /// The server reported a failure inside the stream.
    Error(ReportedError),
}

/// What a whole answer is.
#[derive(Debug, Clone, PartialEq)]
pub enum WholeEnd {
    /// JSON with `choices` and without an error.
    Complete,
    /// JSON with an error in it, despite its status.
    Error(ReportedError),
    /// Not an answer of a model server at all.
    Garbled(Garbled),
}

/// What came instead of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Garbled {
    /// Nothing (also a 204).
    Empty,
    /// A web page.
    Html,
    /// Anything else that is not a JSON object or array.
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
    let garbled = match (text.first(), parse(text)) {
        (None, _) => Garbled::Empty,
        (Some(b'<'), _) => Garbled::Html,
        (Some(_), None) => Garbled::NotJson,
        (Some(_), Some(answer)) => {
            seen.content_chunks = u64::from(scan::carries_content(text));
            seen.reasoning = scan::carries_reasoning(text);
            seen.take(&answer, text.len());
            let empty = seen.empty_error.then(ReportedError::default);
            let end = match seen.error.clone().or(empty) {
                Some(error) => WholeEnd::Error(error),
                None if !has_choices(&answer) => WholeEnd::Garbled(Garbled::NoAnswer),
                None => WholeEnd::Complete,
            };
            return (end, seen);
        }
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

    /// What was observed so far.
    pub fn observed(&self) -> &Observed {
        &self.seen
    }

    /// The verdict once the stream has ended: an unterminated last event counts, also for
    /// [`observed`](Self::observed). Call it once.
    pub fn end(&mut self) -> StreamEnd {
        let seen = &mut self.seen;
        self.splitter.tail(|event| seen.event(event));
        self.verdict()
    }

    /// `[DONE]` was seen and no error before it; its blank line may still be missing.
    pub fn is_done(&self) -> bool {
        self.seen.error.is_none() && (self.seen.done || self.splitter.open_data() == b"[DONE]")
    }

    /// The verdict on the events seen so far.
    pub fn verdict(&self) -> StreamEnd {
        let seen = &self.seen;
        if let Some(error) = &seen.error {
            StreamEnd::Error(error.clone())
        } else if seen.done || seen.finish.is_some() {
            StreamEnd::Complete
        } else if seen.empty_error {
            StreamEnd::Error(ReportedError::default())
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
            // No client reads past `[DONE]`.
            return;
        }
        if event.name == b"error" || event.error.is_some() {
            let error = event.error.unwrap_or(event.data);
            self.fail(ReportedError::read(error));
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

    fn take(&mut self, answer: &Map<String, Value>, length: usize) {
        if let Some(error) = ReportedError::in_answer(answer, length) {
            self.fail(error);
        } else if answer.contains_key("error") && !has_choices(answer) {
            self.empty_error = true;
        }
        self.usage = answer.get("usage").and_then(Usage::read).or(self.usage);
        self.timings = answer
            .get("timings")
            .and_then(Timings::read)
            .or(self.timings);
        let choices = answer.get("choices").and_then(Value::as_array);
        for choice in choices.into_iter().flatten() {
            let reason = choice.get("finish_reason").and_then(Value::as_str);
            let Some(reason) = reason.filter(|reason| !reason.is_empty()) else {
                continue;
            };
            let finish = Finish::read(reason);
            self.finish = Some(finish);
            if finish == Finish::Error {
                self.fail(ReportedError::default());
            }
        }
    }

    fn fail(&mut self, error: ReportedError) {
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

fn has_choices(answer: &Map<String, Value>) -> bool {
    answer
        .get("choices")
        .is_some_and(|choices| !choices.is_null())
}

/// Parses an object; an array reads as an empty one. Invalid UTF-8 inside strings is ignored.
fn parse(text: &[u8]) -> Option<Map<String, Value>> {
    let value =
        serde_json::from_slice(text)
            .ok()
            .or_else(|| match String::from_utf8_lossy(text) {
                Cow::Borrowed(_) => None,
                Cow::Owned(repaired) => serde_json::from_str(&repaired).ok(),
            })?;
    match value {
        Value::Object(members) => Some(members),
        Value::Array(_) => Some(Map::new()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

#[cfg(test)]
#[expect(clippy::panic, reason = "a test fails by panicking")]
mod tests;
