//! Edits of a chat body: byte ranges are replaced, everything else stays.
//!
//! Between kept messages the body's own separators stay, so that a body printed over several
//! lines stays readable.

use std::ops::Range;

use bytes::Bytes;

use super::dialect::openai::{MAX_TOKENS, MODEL};
use super::{Chat, Model, RequestedLimit};

/// Changes to a body; the default changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Edit {
    /// Indices of the messages to keep, in the order in which they are sent; `None` keeps all.
    pub keep: Option<Vec<usize>>,
    /// The limit to write, in tokens, into whichever member the client used.
    pub limit: Option<u64>,
    /// Also write `max_tokens` where the client used only `max_completion_tokens`, for an
    /// upstream that ignores the newer member.
    pub also_max_tokens: bool,
    /// The model to insert if the body names none.
    pub model: Option<String>,
}

/// Replaces a range of the body.
type Splice = (Range<usize>, Vec<u8>);

pub(super) fn apply(chat: &Chat, edit: &Edit) -> Bytes {
    let mut splices = Vec::new();
    let mut added = Vec::new();
    splices.extend(edit.keep.as_ref().and_then(|keep| kept(chat, keep)));
    limits(chat, edit, &mut splices, &mut added);
    if let Some(name) = &edit.model {
        let name = serde_json::Value::from(name.as_str())
            .to_string()
            .into_bytes();
        match &chat.model {
            Model::Named(_) => {}
            Model::Blank(range) => splices.push((range.clone(), name)),
            Model::Absent => member(&mut added, MODEL, &name),
        }
    }
    if !added.is_empty() {
        splices.push((chat.end..chat.end, added));
    }
    splices.retain(|(range, text)| bytes(chat, range) != text.as_slice());
    if splices.is_empty() {
        return chat.raw.clone();
    }
    // Where the last member's value is replaced, new members come after it.
    splices.sort_by_key(|(range, _)| (range.start, range.end));
    let grown: usize = splices.iter().map(|(_, text)| text.len()).sum();
    let mut body = Vec::with_capacity(chat.raw.len() + grown);
    let mut at = 0;
    for (range, text) in &splices {
        body.extend_from_slice(bytes(chat, &(at..range.start)));
        body.extend_from_slice(text);
        at = range.end;
    }
    body.extend_from_slice(bytes(chat, &(at..chat.raw.len())));
    body.into()
}

fn bytes<'a>(chat: &'a Chat, range: &Range<usize>) -> &'a [u8] {
    chat.raw.get(range.clone()).unwrap_or_default()
}

/// The new text of the messages; `None` when all stay as they are.
fn kept(chat: &Chat, keep: &[usize]) -> Option<Splice> {
    let messages = &chat.messages;
    let range = messages.first()?.range.start..messages.last()?.range.end;
    if keep.iter().copied().eq(0..messages.len()) {
        return None;
    }
    let mut text = Vec::with_capacity(range.len());
    for index in keep {
        let Some(message) = messages.get(*index) else {
            continue;
        };
        if !text.is_empty() {
            let before = index.checked_sub(1).and_then(|before| messages.get(before));
            text.extend_from_slice(match before {
                Some(before) => bytes(chat, &(before.range.end..message.range.start)),
                None => b",",
            });
        }
        text.extend_from_slice(bytes(chat, &message.range));
    }
    Some((range, text))
}

fn limits(chat: &Chat, edit: &Edit, splices: &mut Vec<Splice>, added: &mut Vec<u8>) {
    let (older, newer) = (&chat.max_tokens, &chat.max_completion_tokens);
    if let Some(limit) = edit.limit {
        let text = limit.to_string().into_bytes();
        let present = || [older, newer].into_iter().flatten();
        let mut written: Vec<_> = present()
            .filter(|limit| limit.value != RequestedLimit::Null)
            .collect();
        if written.is_empty() {
            // A member that is `null` is the one the client uses; never add a second one.
            written.extend(present().next());
        }
        if written.is_empty() {
            member(added, MAX_TOKENS, &text);
        }
        splices.extend(
            written
                .iter()
                .map(|limit| (limit.range.clone(), text.clone())),
        );
    }
    if !edit.also_max_tokens || newer.is_none() {
        return;
    }
    // The upstream sees only `max_tokens`: it must say what both members together mean.
    let Some(limit) = edit.limit.or(chat.asked()) else {
        return;
    };
    let text = limit.to_string().into_bytes();
    match older {
        None => member(added, MAX_TOKENS, &text),
        Some(older) if older.tokens().is_none_or(|tokens| tokens > limit) => {
            if !splices.iter().any(|(range, _)| *range == older.range) {
                splices.push((older.range.clone(), text));
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
