//! Changing a chat body by cutting and splicing its bytes.
//!
//! Only the named members change. Between kept messages the body's own separators stay, so
//! that a body printed over many lines stays readable.

use std::ops::Range;

use bytes::Bytes;

use super::{Chat, Limit, Model, RequestedLimit};

/// What is to change in a body; the default changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Edit {
    /// Indices of the messages to keep, in the order in which they are sent; `None` keeps all.
    pub keep: Option<Vec<usize>>,
    /// The limit to write, in tokens, into whichever member the client used.
    pub limit: Option<u64>,
    /// What to do for an upstream that knows only `max_tokens`.
    pub older_limit: OlderLimit,
    /// The model to put in if the body names none.
    pub model: Option<String>,
}

/// Whether the upstream understands `max_completion_tokens`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OlderLimit {
    /// It does: the client's own member is enough.
    #[default]
    AsSent,
    /// It ignores it: `max_tokens` is written as well where the client used only the newer one.
    AlsoOlder,
}

/// Bytes to put in place of a range of the body.
struct Splice {
    range: Range<usize>,
    text: Vec<u8>,
}

pub(super) fn apply(chat: &Chat, edit: &Edit) -> Bytes {
    let mut splices = Vec::new();
    let mut added = Vec::new();
    if let Some(keep) = &edit.keep {
        splices.extend(kept(chat, keep));
    }
    limits(chat, edit, &mut splices, &mut added);
    if let Some(name) = &edit.model {
        let name = serde_json::Value::from(name.as_str())
            .to_string()
            .into_bytes();
        match &chat.model {
            Model::Named(_) => {}
            Model::Blank(span) => splices.push(Splice {
                range: span.range(),
                text: name,
            }),
            Model::Absent => member(&mut added, "model", &name),
        }
    }
    if !added.is_empty() {
        splices.push(Splice {
            range: chat.end..chat.end,
            text: added,
        });
    }
    splices.retain(|splice| chat.raw.get(splice.range.clone()) != Some(splice.text.as_slice()));
    if splices.is_empty() {
        return chat.raw.clone();
    }
    // At one place a member's new value goes before a new member.
    splices.sort_by_key(|splice| (splice.range.start, splice.range.end));
    join(&chat.raw, &splices)
}

fn join(raw: &[u8], splices: &[Splice]) -> Bytes {
    let grown: usize = splices.iter().map(|splice| splice.text.len()).sum();
    let mut body = Vec::with_capacity(raw.len() + grown);
    let mut at = 0;
    for splice in splices {
        body.extend_from_slice(raw.get(at..splice.range.start).unwrap_or_default());
        body.extend_from_slice(&splice.text);
        at = splice.range.end;
    }
    body.extend_from_slice(raw.get(at..).unwrap_or_default());
    body.into()
}

/// The messages' new text; `None` where all are kept as they stand.
fn kept(chat: &Chat, keep: &[usize]) -> Option<Splice> {
    let messages = &chat.messages;
    let range = messages.first()?.span.start..messages.last()?.span.end;
    if keep.iter().copied().eq(0..messages.len()) {
        return None;
    }
    let mut text = Vec::with_capacity(range.len());
    for (index, message) in keep
        .iter()
        .filter_map(|index| Some((*index, messages.get(*index)?)))
    {
        if !text.is_empty() {
            text.extend_from_slice(separator(chat, index));
        }
        text.extend_from_slice(chat.raw.get(message.span.range()).unwrap_or_default());
    }
    Some(Splice { range, text })
}

/// The bytes that stand before a message that has one before it.
fn separator(chat: &Chat, index: usize) -> &[u8] {
    let before = index
        .checked_sub(1)
        .and_then(|before| chat.messages.get(before));
    match (before, chat.messages.get(index)) {
        (Some(before), Some(message)) => chat
            .raw
            .get(before.span.end..message.span.start)
            .unwrap_or(b","),
        (None, _) | (_, None) => b",",
    }
}

fn limits(chat: &Chat, edit: &Edit, splices: &mut Vec<Splice>, added: &mut Vec<u8>) {
    let older = chat.max_tokens;
    let newer = chat.max_completion_tokens;
    if let Some(limit) = edit.limit {
        let text = limit.to_string().into_bytes();
        let mut places: Vec<Limit> = [older, newer]
            .into_iter()
            .flatten()
            .filter(|limit| limit.value != RequestedLimit::Null)
            .collect();
        if places.is_empty() {
            // A member that only says `null` is the one the client has; never a second one.
            places.extend(older.or(newer));
        }
        if places.is_empty() {
            member(added, "max_tokens", &text);
        }
        splices.extend(places.into_iter().map(|place| Splice {
            range: place.span.range(),
            text: text.clone(),
        }));
    }
    if edit.older_limit == OlderLimit::AsSent || newer.is_none() {
        return;
    }
    // The upstream sees only `max_tokens`: it must say what both members together mean.
    let Some(limit) = edit.limit.or(chat.asked()) else {
        return;
    };
    let text = limit.to_string().into_bytes();
    match older {
        None => member(added, "max_tokens", &text),
        Some(older) if older.tokens().is_none_or(|tokens| tokens > limit) => {
            let range = older.span.range();
            if !splices.iter().any(|splice| splice.range == range) {
                splices.push(Splice { range, text });
            }
        }
        Some(_) => {}
    }
}

fn member(added: &mut Vec<u8>, name: &str, value: &[u8]) {
    added.extend_from_slice(b",\"");
    added.extend_from_slice(name.as_bytes());
    added.extend_from_slice(b"\":");
    added.extend_from_slice(value);
}
