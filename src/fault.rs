//! Panics on demand, for the tests that prove what a panic may not do.
//!
//! Only with the feature `fault-injection`, which no shipped program has; without it a call is
//! nothing. The file named by `ONESLOT_FAULT` holds the stage that shall panic, and on a second
//! line what it shall say; it is used up by the panic.

/// Where a panic can be asked for, in the order of a request's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// While the head is judged.
    Gate,
    /// With a place in the line.
    Queue,
    /// While the chat is fitted into the window, holding the slot.
    Trim,
    /// Before the upstream is reached.
    Connect,
    /// With the upstream's head at hand.
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
    let Some(file) = std::env::var_os("ONESLOT_FAULT") else {
        return;
    };
    let Ok(wish) = std::fs::read_to_string(&file) else {
        return;
    };
    let (wanted, words) = wish.split_once('\n').unwrap_or((&wish, ""));
    if wanted == format!("{stage:?}") && std::fs::remove_file(&file).is_ok() {
        panic!("{words}");
    }
}

/// Nothing.
#[cfg(not(feature = "fault-injection"))]
pub(crate) fn at(_stage: Stage) {}
