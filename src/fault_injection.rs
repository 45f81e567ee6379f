//! Panics on demand, for the tests that prove what a panic may not do, and sleep of the machine,
//! which no test can bring about.
//!
//! Only with the feature `fault-injection`, which no shipped program has; without it a call is
//! nothing. The file named by `ONESLOT_FAULT` holds the stage that shall panic and on a second
//! line what it shall say, or `Slept` and the seconds; it is used up by what it asks for.

use std::time::Duration;

/// Where a panic can be asked for, in the order of a request's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// While the head is judged.
    Gate,
    /// While it is queued.
    Queue,
    /// While the chat is fitted into the window, holding the slot.
    Trim,
    /// Before the upstream is reached.
    Connect,
    /// After the upstream's response header.
    Head,
    /// Between two pieces of the answer.
    Body,
    /// While the outcome is recorded.
    Record,
    /// Beside all requests, while the upstream is probed.
    Probe,
}

/// Panics if a test wants it here.
#[cfg(feature = "fault-injection")]
#[expect(clippy::panic, reason = "that is what it is for")]
pub(crate) fn at(stage: Stage) {
    if let Some(words) = wish(&format!("{stage:?}")) {
        panic!("{words}");
    }
}

/// How long the machine slept since this was last asked, if a test says that it did.
#[cfg(feature = "fault-injection")]
pub(crate) fn slept() -> Option<Duration> {
    wish("Slept")?.parse().ok().map(Duration::from_secs)
}

/// What a test wants by this name, once.
#[cfg(feature = "fault-injection")]
fn wish(name: &str) -> Option<String> {
    let file = std::env::var_os("ONESLOT_FAULT")?;
    let wish = std::fs::read_to_string(&file).ok()?;
    let (wanted, words) = wish.split_once('\n').unwrap_or((&wish, ""));
    (wanted == name && std::fs::remove_file(&file).is_ok()).then(|| words.to_owned())
}

/// Nothing.
#[cfg(not(feature = "fault-injection"))]
pub(crate) fn at(_stage: Stage) {}

/// Never.
#[cfg(not(feature = "fault-injection"))]
pub(crate) fn slept() -> Option<Duration> {
    None
}
