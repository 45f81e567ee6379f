//! Cheap looks at a chunk's bytes that decide whether it is worth parsing.
//!
//! Inside a JSON string a quote always has a backslash before it, so `"name"` followed by a colon
//! can only be a member's name: what a model wrote cannot look like one.

use memchr::memmem;

/// Members whose value is text of the answer.
const TEXT: [&[u8]; 3] = [b"\"content\"", b"\"text\"", b"\"refusal\""];
/// Members whose value is reasoning; servers differ.
const REASONING: [&[u8]; 2] = [b"\"reasoning_content\"", b"\"reasoning\""];
/// Members that say something when they are not `null`.
const MARKERS: [&[u8]; 3] = [b"\"finish_reason\"", b"\"usage\"", b"\"timings\""];

/// Whether the chunk must be parsed: a finish, usage, timings or anything called error.
pub(super) fn may_matter(chunk: &[u8]) -> bool {
    MARKERS
        .iter()
        .any(|name| values(chunk, name).any(|value| !value.starts_with(b"null")))
        || memmem::find(chunk, b"\"error\"").is_some()
}

/// Whether the chunk carries text, reasoning or a tool call that is not empty.
pub(super) fn carries_content(chunk: &[u8]) -> bool {
    TEXT.iter()
        .any(|name| values(chunk, name).any(is_filled_string))
        || carries_reasoning(chunk)
        || values(chunk, b"\"tool_calls\"").any(is_filled_array)
        || values(chunk, b"\"function_call\"").any(|value| value.starts_with(b"{"))
}

/// Whether the chunk carries reasoning that is not empty.
pub(super) fn carries_reasoning(chunk: &[u8]) -> bool {
    REASONING
        .iter()
        .any(|name| values(chunk, name).any(is_filled_string))
}

/// What stands behind each `name` and its colon.
fn values<'a>(chunk: &'a [u8], name: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
    memmem::find_iter(chunk, name).filter_map(|at| {
        chunk[at + name.len()..]
            .trim_ascii_start()
            .strip_prefix(b":")
            .map(<[u8]>::trim_ascii_start)
    })
}

fn is_filled_string(value: &[u8]) -> bool {
    value.starts_with(b"\"") && !value.starts_with(b"\"\"")
}

fn is_filled_array(value: &[u8]) -> bool {
    value
        .strip_prefix(b"[")
        .is_some_and(|inside| !inside.trim_ascii_start().starts_with(b"]"))
}
