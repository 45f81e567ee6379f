//! What a scripted upstream does with one request: steps, and the gates a test opens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::canary::CANARY;
use super::wire::{LAST_CHUNK, chunk, json_response, reason, response};

/// A latch: closed until somebody opens it, then open for good.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gate(Arc<AtomicBool>);

impl Gate {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn open(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// One thing the upstream does.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Does nothing for a while, but sees its peer leave.
    Wait(Duration),
    /// Does nothing until the test opens the gate, but sees its peer leave.
    WaitFor(Gate),
    /// Tells the test that the script has come this far.
    Open(Gate),
    /// Writes the bytes at once.
    Send(Vec<u8>),
    /// Writes each byte in a packet of its own.
    SendByteByByte(Vec<u8>),
    /// Writes the same bytes again and again.
    Drip {
        piece: Vec<u8>,
        every: Duration,
        times: usize,
    },
    /// Closes its end politely.
    Fin,
    /// Closes with a reset.
    Rst,
    /// Does nothing until the peer leaves.
    Hang,
}

/// The steps for one request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    pub(crate) steps: Vec<Step>,
}

impl Script {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A whole JSON answer.
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::new().send(&json_response(status, body))
    }

    /// A whole answer of any kind.
    pub(crate) fn whole(status: u16, content_type: &str, body: &[u8]) -> Self {
        Self::new().send(&response(status, &[("content-type", content_type)], body))
    }

    /// A whole chat answer.
    pub(crate) fn answer(text: &str) -> Self {
        Self::json(200, &completion(text))
    }

    /// The head of an SSE stream, chunked.
    pub(crate) fn stream() -> Self {
        Self::new().sse_head()
    }

    /// A whole stream in one go: one delta for each word.
    pub(crate) fn streamed(text: &str) -> Self {
        let mut script = Self::stream();
        for word in text.split_inclusive(' ') {
            script = script.delta(word);
        }
        script.ending()
    }

    pub(crate) fn wait(self, time: Duration) -> Self {
        self.step(Step::Wait(time))
    }

    pub(crate) fn wait_for(self, gate: &Gate) -> Self {
        self.step(Step::WaitFor(gate.clone()))
    }

    pub(crate) fn open(self, gate: &Gate) -> Self {
        self.step(Step::Open(gate.clone()))
    }

    pub(crate) fn send(self, bytes: &[u8]) -> Self {
        self.step(Step::Send(bytes.to_vec()))
    }

    pub(crate) fn send_byte_by_byte(self, bytes: &[u8]) -> Self {
        self.step(Step::SendByteByByte(bytes.to_vec()))
    }

    pub(crate) fn drip(self, piece: &[u8], every: Duration, times: usize) -> Self {
        self.step(Step::Drip {
            piece: piece.to_vec(),
            every,
            times,
        })
    }

    pub(crate) fn fin(self) -> Self {
        self.step(Step::Fin)
    }

    pub(crate) fn rst(self) -> Self {
        self.step(Step::Rst)
    }

    pub(crate) fn hang(self) -> Self {
        self.step(Step::Hang)
    }

    pub(crate) fn sse_head(self) -> Self {
        self.send(
            format!(
                "HTTP/1.1 200 {}\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
                reason(200)
            )
            .as_bytes(),
        )
    }

    /// One chunk with these bytes.
    pub(crate) fn chunk(self, bytes: &[u8]) -> Self {
        self.send(&chunk(bytes))
    }

    /// One delta in one chunk.
    pub(crate) fn delta(self, text: &str) -> Self {
        self.chunk(delta(text).as_bytes())
    }

    /// The finish marker, `[DONE]` and the last chunk, in one write.
    pub(crate) fn ending(self) -> Self {
        let mut bytes = chunk(format!("{}{DONE}", finish("stop")).as_bytes());
        bytes.extend_from_slice(LAST_CHUNK);
        self.send(&bytes)
    }

    /// The last chunk alone: the framing ends, whatever was said before.
    pub(crate) fn last_chunk(self) -> Self {
        self.send(LAST_CHUNK)
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }
}

/// The event that ends an OpenAI stream.
pub(crate) const DONE: &str = "data: [DONE]\n\n";

/// One content event.
pub(crate) fn delta(text: &str) -> String {
    event(&json!({"content": text}), None)
}

/// The event that carries the finish reason.
pub(crate) fn finish(reason: &str) -> String {
    event(&json!({}), Some(reason))
}

/// One chat chunk as an event.
pub(crate) fn event(delta: &Value, finish: Option<&str>) -> String {
    let chunk = json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        "system_fingerprint": CANARY,
    });
    format!("data: {chunk}\n\n")
}

/// A whole chat answer.
pub(crate) fn completion(text: &str) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text},
            "finish_reason": "stop"}],
        "system_fingerprint": CANARY,
    })
}
