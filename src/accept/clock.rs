//! A limit on how long something may be awaited, for hand-written polling.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// A limit that runs while something is awaited.
#[derive(Debug, Default)]
pub(super) struct Stopwatch {
    sleep: Option<Pin<Box<Sleep>>>,
    running: bool,
}

impl Stopwatch {
    /// Stops it; the next wait starts anew.
    pub(super) fn stop(&mut self) {
        self.running = false;
    }

    /// Starts on its first call after a stop; ready when `limit` has passed since.
    pub(super) fn poll_over(&mut self, cx: &mut Context<'_>, limit: Duration) -> Poll<()> {
        let ends = Instant::now() + limit;
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(ends)));
        if !self.running {
            sleep.as_mut().reset(ends);
            self.running = true;
        }
        sleep.as_mut().poll(cx)
    }
}
