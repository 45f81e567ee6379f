//! A pause: until resumed, or until an absolute time.
//!
//! The deadline is wall time in Unix milliseconds, so that a pause of an hour survives a restart
//! and sleep of the machine. Not here: its file ([`crate::state`]).

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A pause in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Unix time in milliseconds at which it ends by itself; `None`: when it is resumed.
    pub until_ms: Option<i64>,
}

/// What happens to running answers when a pause begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Running {
    /// They finish.
    Finish,
    /// They are stopped.
    Stop,
}

impl Pause {
    /// Time left at `unix_ms`; `None` for a pause without an end.
    pub fn left(&self, unix_ms: i64) -> Option<Duration> {
        let left = self.until_ms?.saturating_sub(unix_ms);
        Some(Duration::from_millis(u64::try_from(left).unwrap_or(0)))
    }

    /// Whether it ends by itself within `wait`.
    pub fn ends_within(&self, wait: Duration, unix_ms: i64) -> bool {
        self.left(unix_ms).is_some_and(|left| left <= wait)
    }

    /// Whether it is over at `unix_ms`.
    pub fn is_over(&self, unix_ms: i64) -> bool {
        self.until_ms.is_some_and(|until| until <= unix_ms)
    }
}
