//! What the demo says, and the bodies it says it in. Pure: no sockets and no clock.

use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{MODEL, WINDOW};

/// The whole answer. It never repeats the prompt.
const SPEECH: &str = "This is OneSlot's built-in demo, not a model: nothing thought about your \
message, and these words are always the same. They still took the whole way: your request was \
checked, waited until the one slot was free, and is now streamed back to you word by word while \
the slot is held. Ask again from two windows at once to see the queue, or close this one in the \
middle to see the slot come free. For real answers start Ollama, LM Studio or llama.cpp and run \
OneSlot without the demo.";

/// Stands in every answer and every piece of one, also where a limit cuts the speech short.
const CONFESSION: &str = "OneSlot's built-in demo, not a model";

/// Words reckoned per message for its role and marks.
const PER_MESSAGE: u64 = 4;

/// One answer, planned.
pub(super) struct Answer {
    words: Vec<&'static str>,
    finish: &'static str,
    prompt: u64,
    stream: bool,
    usage: bool,
}

#[derive(Deserialize)]
struct Chat {
    messages: Vec<Value>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Value,
    #[serde(default)]
    max_tokens: Option<i64>,
    #[serde(default)]
    max_completion_tokens: Option<i64>,
}

/// The body of `/v1/models`, in the words of a plain server that names its window.
pub(super) fn models() -> Bytes {
    let model = json!({
        "id": MODEL,
        "object": "model",
        "created": 0,
        "owned_by": CONFESSION,
        "max_model_len": WINDOW,
    });
    bytes(&json!({ "object": "list", "data": [model] }))
}

/// An error in the OpenAI dialect, which says whose it is.
pub(super) fn refusal(
    status: StatusCode,
    what: &str,
    code: Option<&'static str>,
) -> (StatusCode, Bytes) {
    let body = json!({"error": {
        "message": format!("{CONFESSION}: {what}"),
        "type": "invalid_request_error",
        "param": null,
        "code": code,
    }});
    (status, bytes(&body))
}

// === impl Answer ===

impl Answer {
    /// Plans the answer to the chat in `body`.
    ///
    /// # Errors
    /// A status and a body when it is no chat, or does not fit the window.
    pub(super) fn plan(body: &[u8]) -> Result<Self, (StatusCode, Bytes)> {
        let chat: Chat = serde_json::from_slice(body).map_err(|_| {
            let what = "the body is not a chat completion request";
            refusal(StatusCode::BAD_REQUEST, what, None)
        })?;
        let prompt: u64 = chat
            .messages
            .iter()
            .map(|message| PER_MESSAGE + count_words(message))
            .sum();
        if prompt >= WINDOW {
            let what = format!(
                "this model's maximum context length is {WINDOW} tokens, and your messages have {prompt}"
            );
            let code = Some("context_length_exceeded");
            return Err(refusal(StatusCode::BAD_REQUEST, &what, code));
        }
        let asked = chat.max_completion_tokens.or(chat.max_tokens);
        let limit = asked.and_then(|limit| u64::try_from(limit).ok());
        let room = limit.unwrap_or(u64::MAX).min(WINDOW - prompt);
        let all: Vec<&'static str> = SPEECH.split_inclusive(' ').collect();
        let said = usize::try_from(room).unwrap_or(usize::MAX).min(all.len());
        let usage = chat.stream_options.get("include_usage");
        Ok(Self {
            finish: if said < all.len() { "length" } else { "stop" },
            words: all[..said].to_vec(),
            prompt,
            stream: chat.stream == Some(true),
            usage: usage.and_then(Value::as_bool) == Some(true),
        })
    }

    /// Whether it was asked for as a stream.
    pub(super) fn streams(&self) -> bool {
        self.stream
    }

    /// How many words it has.
    pub(super) fn words(&self) -> usize {
        self.words.len()
    }

    /// The body of a whole answer.
    pub(super) fn whole(&self) -> Bytes {
        let message = json!({"role": "assistant", "content": self.words.concat()});
        bytes(&json!({
            "id": "chatcmpl-demo",
            "object": "chat.completion",
            "created": 0,
            "model": MODEL,
            "system_fingerprint": CONFESSION,
            "choices": [{"index": 0, "message": message, "finish_reason": self.finish}],
            "usage": self.usage(),
        }))
    }

    /// The events of a stream, one a piece: role, words, finish, usage if asked for, `[DONE]`.
    pub(super) fn chunks(&self) -> Vec<Bytes> {
        let delta = |delta: Value, finish: Option<&str>| {
            let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
            event(json!([choice]), None)
        };
        let mut chunks = vec![delta(json!({"role": "assistant", "content": ""}), None)];
        let words = self.words.iter();
        chunks.extend(words.map(|word| delta(json!({"content": word}), None)));
        chunks.push(delta(json!({}), Some(self.finish)));
        if self.usage {
            chunks.push(event(json!([]), Some(self.usage())));
        }
        chunks.push(Bytes::from_static(b"data: [DONE]\n\n"));
        chunks
    }

    fn usage(&self) -> Value {
        let said = self.words.len() as u64;
        json!({
            "prompt_tokens": self.prompt,
            "completion_tokens": said,
            "total_tokens": self.prompt + said,
        })
    }
}

fn event(choices: Value, usage: Option<Value>) -> Bytes {
    let mut chunk = json!({
        "id": "chatcmpl-demo",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": MODEL,
        "system_fingerprint": CONFESSION,
        "choices": choices,
    });
    if let Some(usage) = usage {
        chunk["usage"] = usage;
    }
    Bytes::from(format!("data: {chunk}\n\n"))
}

/// Words of every text in a message, however deep.
fn count_words(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.split_whitespace().count() as u64,
        Value::Array(items) => items.iter().map(count_words).sum(),
        Value::Object(members) => members.values().map(count_words).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn bytes(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}
