//! Room for bodies on their way in.
//!
//! Queued bytes are capped by the line, but a body is in memory before it joins the line. Small
//! ones need no room, since the number of connections bounds them; a large one waits for its share
//! before it is read, in order of arrival, and gives it back when the line counts it. Nobody holds
//! a part of what it needs while it waits for the rest, so two can never wait for each other.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bodies up to this size are read without asking.
pub const SMALL: u64 = 1024 * 1024;

/// Bytes in one unit of room.
const UNIT: u64 = 1024;

/// The room there is for large bodies.
#[derive(Debug)]
pub struct Room {
    units: Arc<Semaphore>,
    all: u32,
}

/// A share of it. Dropping it makes room.
#[derive(Debug, Default)]
pub struct Share {
    _taken: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// Room for so many bytes, one body at least however large.
    pub fn of(bytes: u64) -> Self {
        let all = units(bytes).max(1);
        Self {
            units: Arc::new(Semaphore::new(all as usize)),
            all,
        }
    }

    /// Waits for room for a body of at most `bytes`.
    ///
    /// # Cancel safety
    /// Dropping it loses its place among those who wait, and takes nothing.
    pub async fn share(&self, bytes: u64) -> Share {
        if bytes <= SMALL {
            return Share::default();
        }
        let wanted = units(bytes).min(self.all);
        let taken = Arc::clone(&self.units).acquire_many_owned(wanted).await;
        // The semaphore is never closed; if it were, nobody would be kept waiting for it.
        Share { _taken: taken.ok() }
    }
}

fn units(bytes: u64) -> u32 {
    let most = u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX);
    u32::try_from(bytes.div_ceil(UNIT))
        .unwrap_or(most)
        .min(most)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    async fn waits(room: &Room, bytes: u64) -> bool {
        timeout(Duration::from_secs(60), room.share(bytes))
            .await
            .is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_take_turns_and_small_ones_pass() {
        let room = Room::of(10 * SMALL);
        let first = room.share(6 * SMALL).await;
        assert!(waits(&room, 5 * SMALL).await, "together they are too large");
        assert!(!waits(&room, SMALL).await, "a small one never waits");
        drop(first);
        assert!(!waits(&room, 5 * SMALL).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_larger_than_all_room_has_it_alone() {
        let room = Room::of(2 * SMALL);
        let alone = room.share(100 * SMALL).await;
        assert!(waits(&room, 2 * SMALL).await);
        drop(alone);
        assert!(!waits(&room, 2 * SMALL).await);
    }
}
