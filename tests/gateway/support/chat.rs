//! Chat bodies.

use serde_json::{Value, json};

use super::canary::CANARY;

/// One user message, not streamed.
pub(crate) fn whole(text: &str) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": text}], "user": CANARY})
}

/// One user message, streamed.
pub(crate) fn streamed(text: &str) -> Value {
    let mut body = whole(text);
    body["stream"] = json!(true);
    body
}

/// A chat of these messages.
pub(crate) fn of(messages: &[Value]) -> Value {
    json!({"model": "m", "messages": messages})
}

/// One message.
pub(crate) fn message(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

/// `count` words, each marked with `mark`, so that what was cut can be seen.
pub(crate) fn words(mark: &str, count: usize) -> String {
    let mut text = String::with_capacity(count * (mark.len() + 1));
    for at in 0..count {
        if at > 0 {
            text.push(' ');
        }
        text.push_str(mark);
    }
    text
}

/// A system message and `turns` exchanges of `size` words a message, ending in a question.
pub(crate) fn history(turns: usize, size: usize) -> Vec<Value> {
    let mut messages = vec![message("system", "You answer in one short sentence.")];
    for turn in 0..turns {
        messages.push(message("user", &words(&format!("u{turn}"), size)));
        messages.push(message("assistant", &words(&format!("a{turn}"), size)));
    }
    messages.push(message("user", "And what is the last word?"));
    messages
}
