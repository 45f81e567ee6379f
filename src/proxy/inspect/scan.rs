//! Cheap looks at a chunk's bytes that decide whether it is worth parsing.
//!
//! Inside a JSON string a quote always has a backslash before it, so `"name"` followed by a colon
//! can only be a member's name: what a model wrote cannot look like one.

use std::sync::LazyLock;

use memchr::memmem::Finder;

/// What is looked for in every chunk. Made once: making one costs more than looking with it.
static NAMES: LazyLock<Names> = LazyLock::new(Names::new);

struct Names {
    /// Members whose value is text of the answer.
    text: [Finder<'static>; 3],
    /// Members whose value is reasoning; servers differ.
    reasoning: [Finder<'static>; 2],
    tool_calls: Finder<'static>,
    function_call: Finder<'static>,
    /// Members that say something when they are not `null`.
    markers: [Finder<'static>; 3],
    error: Finder<'static>,
}

impl Names {
    fn new() -> Self {
        let name = |name: &'static str| Finder::new(name);
        Self {
            text: ["\"content\"", "\"text\"", "\"refusal\""].map(name),
            reasoning: ["\"reasoning_content\"", "\"reasoning\""].map(name),
            tool_calls: name("\"tool_calls\""),
            function_call: name("\"function_call\""),
            markers: ["\"finish_reason\"", "\"usage\"", "\"timings\""].map(name),
            error: name("\"error\""),
        }
    }
}

/// Whether the chunk must be parsed: a finish, usage, timings or anything called error.
pub(super) fn may_matter(chunk: &[u8]) -> bool {
    NAMES
        .markers
        .iter()
        .any(|name| values(chunk, name).any(|value| !value.starts_with(b"null")))
        || NAMES.error.find(chunk).is_some()
}

/// Whether the chunk carries text, reasoning or a tool call that is not empty.
pub(super) fn carries_content(chunk: &[u8]) -> bool {
    NAMES
        .text
        .iter()
        .any(|name| values(chunk, name).any(is_filled_string))
        || carries_reasoning(chunk)
        || values(chunk, &NAMES.tool_calls).any(is_filled_array)
        || values(chunk, &NAMES.function_call).any(|value| value.starts_with(b"{"))
}

/// Whether the chunk carries reasoning that is not empty.
pub(super) fn carries_reasoning(chunk: &[u8]) -> bool {
    NAMES
        .reasoning
        .iter()
        .any(|name| values(chunk, name).any(is_filled_string))
}

/// What stands behind each `name` and its colon.
fn values<'a>(chunk: &'a [u8], name: &'a Finder<'static>) -> impl Iterator<Item = &'a [u8]> {
    name.find_iter(chunk).filter_map(|at| {
        chunk[at + name.needle().len()..]
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
