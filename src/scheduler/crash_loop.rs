//! Bodies that were in flight when the server died: twice is enough.

use std::time::Duration;

/// Deaths at which a body is not sent again.
const LIMIT: u32 = 2;
/// A death is forgotten after half an hour: by then the machine is another one.
const MEMORY: Duration = Duration::from_secs(1800);
/// How many bodies are remembered.
const CAPACITY: usize = 64;

/// The fingerprints of bodies that were in flight at a death.
#[derive(Debug, Default)]
pub(super) struct Crashes {
    seen: Vec<Crash>,
}

#[derive(Debug)]
struct Crash {
    body_hash: u64,
    deaths: u32,
    last: Duration,
}

impl Crashes {
    /// One more death while `body_hash` was in flight.
    pub(super) fn note(&mut self, body_hash: u64, now: Duration) {
        self.seen
            .retain(|crash| now.saturating_sub(crash.last) < MEMORY);
        if let Some(crash) = self
            .seen
            .iter_mut()
            .find(|crash| crash.body_hash == body_hash)
        {
            crash.deaths += 1;
            crash.last = now;
            return;
        }
        if self.seen.len() == CAPACITY {
            self.seen.remove(0);
        }
        self.seen.push(Crash {
            body_hash,
            deaths: 1,
            last: now,
        });
    }

    /// It was answered: whatever killed the server, it was not this body.
    pub(super) fn forget(&mut self, body_hash: u64) {
        self.seen.retain(|crash| crash.body_hash != body_hash);
    }

    /// Whether the body was in flight at two deaths within half an hour.
    pub(super) fn is_repeated(&self, body_hash: u64, now: Duration) -> bool {
        self.seen.iter().any(|crash| {
            crash.body_hash == body_hash
                && crash.deaths >= LIMIT
                && now.saturating_sub(crash.last) < MEMORY
        })
    }
}
