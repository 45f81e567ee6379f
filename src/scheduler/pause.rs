//! A pause by a person: until resumed, or until an absolute moment.
//!
//! The deadline is wall time in Unix milliseconds, so that a pause of an hour survives a restart
//! and the machine's sleep. Not here: where it is kept on disk ([`crate::state`]).

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A pause in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Unix time in milliseconds at which it ends by itself; `None`: when a person resumes.
    pub until_ms: Option<i64>,
}

/// What becomes of the answers that run when a pause begins.
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

    /// Whether it is over at `unix_ms`.
    pub fn is_over(&self, unix_ms: i64) -> bool {
        self.until_ms.is_some_and(|until| until <= unix_ms)
    }
}
