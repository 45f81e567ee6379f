//! The two clocks, read in one place and handed to the pure stages as arguments.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::desk::Now;

/// Monotonic time since the gateway started, and wall time.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// Both clocks, read together.
    pub fn now(&self) -> Now {
        Now {
            at: self.start.elapsed(),
            unix_ms: unix_ms(),
        }
    }

    /// Time since the start.
    pub fn at(&self) -> Duration {
        self.start.elapsed()
    }

    /// The instant that is `at` after the start, for sleeping until it.
    pub fn instant(&self, at: Duration) -> Instant {
        self.start + at
    }
}

/// Wall time in Unix milliseconds; 0 for a machine whose clock stands before 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that reads the wall clock"
)]
pub fn unix_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or(0)
}
