//! Counting, trimming and fitting: the rule's own promises as properties, the article's vectors,
//! and the failures people reported of comparable software.

mod fields;
mod rules;
mod steady;

use serde_json::{Value, json};

use super::{ByteBound, Certainty, Fit, FitRules, Trim, fit};
use crate::config::Preset;
use crate::degrade::{MARGIN, NoneAsked, Overflow, Plan, Terms};
use crate::request::{Chat, Edit};

/// A chat from messages, and members beside them.
fn chat_with(messages: &[Value], members: Value) -> Chat {
    let mut body = members;
    body["messages"] = Value::from(messages.to_vec());
    match Chat::read(body.to_string().into()) {
        Ok(chat) => chat,
        Err(refusal) => panic!("the test's own body is a chat: {refusal:?}"),
    }
}

fn chat(messages: &[Value]) -> Chat {
    chat_with(messages, json!({"model": "m"}))
}

fn say(role: &str, text: impl Into<String>) -> Value {
    json!({"role": role, "content": text.into()})
}

fn call(ids: &[&str]) -> Value {
    let function = json!({"name": "f", "arguments": "{\"path\":\"a\"}"});
    let calls: Vec<Value> = ids
        .iter()
        .map(|id| json!({"id": id, "type": "function", "function": function}))
        .collect();
    json!({"role": "assistant", "content": null, "tool_calls": calls})
}

fn result(id: &str, text: impl Into<String>) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": text.into()})
}

fn rules(window: u64, asked: Option<u64>, trim: Trim) -> FitRules {
    let terms = Terms {
        preset: Preset::Balanced,
        plan: Plan::default(),
        window: Some(window),
        margin: MARGIN,
        asked,
        none_asked: NoneAsked::EndsAtWindow,
    };
    FitRules {
        terms,
        trim,
        certainty: Certainty::Certain,
        bytes: ByteBound::Holds,
    }
}

/// What the simulated server counts: about what a real tokenizer makes of English.
fn tokens(chat: &Chat, keep: Option<&[usize]>) -> u64 {
    let all: Vec<usize> = (0..chat.messages().len()).collect();
    let keep = keep.unwrap_or(&all);
    let text: u64 = keep
        .iter()
        .map(|index| chat.messages()[*index].size())
        .map(|size| size.bytes * 10 / 48 + size.media * 300 + 5)
        .sum();
    text + chat.outside().bytes * 10 / 35 + 12
}

/// Fits with the simulated server's counts, and says how many were asked for.
fn fit_exactly(chat: &Chat, rules: FitRules) -> (Result<Fit, Overflow>, u32) {
    let mut asked = 0;
    let found = fit(chat, rules, |keep| {
        asked += 1;
        tokens(chat, keep)
    });
    (found, asked)
}

/// The chat as it would be sent.
fn sent(chat: &Chat, fit: &Fit) -> Chat {
    let body = chat.edited(&Edit {
        keep: fit.keep.clone(),
        ..Edit::default()
    });
    match Chat::read(body) {
        Ok(chat) => chat,
        Err(refusal) => panic!("a fitted chat is a chat: {refusal:?}"),
    }
}
