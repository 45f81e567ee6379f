//! The clocks, read in one place and handed to the pure stages as arguments.
//!
//! The gateway's own clock never runs backwards and goes on while the machine sleeps: a wait, a
//! cooldown or the age of a probe is judged by the time that passed for people. What waits for
//! bytes of the upstream runs on the runtime's timers, which stand still meanwhile, as the
//! upstream does.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::fault_injection;
use crate::scheduler::Now;

/// A wall clock that gains more than this on the runtime's at once was not set right: the machine
/// slept. A person who sets it forward by more is taken for a sleep, where the system keeps no
/// count of its own; waits then end early.
const JUMP_MS: i64 = 5_000;

/// Time since the gateway started, and wall time.
#[derive(Debug, Clone)]
pub struct Clock {
    start: Instant,
    slept: Arc<Slept>,
}

/// How long the machine slept since the start.
#[derive(Debug)]
struct Slept {
    /// The system's own count at the start; none where it keeps none.
    counted_before: Option<u64>,
    /// What was seen as jumps, or added by hand, in milliseconds.
    seen: AtomicU64,
    /// Wall time less runtime's time when last compared, in milliseconds.
    offset: AtomicI64,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        let slept = Slept {
            counted_before: counted(),
            seen: AtomicU64::new(0),
            offset: AtomicI64::new(unix_ms()),
        };
        Self {
            start: Instant::now(),
            slept: Arc::new(slept),
        }
    }

    /// Both clocks, read together.
    pub fn now(&self) -> Now {
        Now {
            at: self.at(),
            unix_ms: unix_ms(),
        }
    }

    /// Time since the start.
    pub fn at(&self) -> Duration {
        self.start.elapsed() + self.slept()
    }

    /// The instant that is `at` after the start, for sleeping until it, if the machine does not
    /// sleep before.
    pub fn instant(&self, at: Duration) -> Instant {
        self.start + at.saturating_sub(self.slept())
    }

    /// How long the machine slept since the start, as far as anybody noticed.
    pub fn slept(&self) -> Duration {
        let seen = self.slept.seen.load(Ordering::Relaxed);
        let counted = match (counted(), self.slept.counted_before) {
            (Some(now), Some(before)) => now.saturating_sub(before),
            (Some(_) | None, None) | (None, Some(_)) => 0,
        };
        Duration::from_millis(seen.saturating_add(counted))
    }

    /// Notes that the machine slept this long without the runtime's clock running.
    pub fn sleep_seen(&self, slept: Duration) {
        let millis = u64::try_from(slept.as_millis()).unwrap_or(u64::MAX);
        self.slept.seen.fetch_add(millis, Ordering::Relaxed);
    }

    /// Compares the clocks, where the system keeps no count of its own.
    pub fn compare(&self) {
        if let Some(slept) = fault_injection::slept() {
            self.sleep_seen(slept);
        }
        if self.slept.counted_before.is_some() {
            return;
        }
        let ran = i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX);
        let offset = unix_ms().saturating_sub(ran);
        let before = self.slept.offset.swap(offset, Ordering::Relaxed);
        self.sleep_seen(jump(before, offset));
    }
}

/// The sleep behind a change of the offset between wall time and the runtime's.
fn jump(before: i64, now: i64) -> Duration {
    let gained = now.saturating_sub(before);
    if gained < JUMP_MS {
        return Duration::ZERO;
    }
    Duration::from_millis(u64::try_from(gained).unwrap_or(0))
}

/// How long the machine has slept since it was started, in milliseconds; none where the system
/// does not count it.
#[cfg(target_os = "linux")]
fn counted() -> Option<u64> {
    use rustix::time::{ClockId, clock_gettime};
    let millis = |clock| {
        let time = clock_gettime(clock);
        u64::try_from(time.tv_sec * 1000 + time.tv_nsec / 1_000_000).ok()
    };
    // Read in this order the difference is never too large.
    let boot = millis(ClockId::Boottime)?;
    let running = millis(ClockId::Monotonic)?;
    // A few milliseconds between the two readings are no sleep.
    Some(boot.saturating_sub(running) / 1000 * 1000)
}

#[cfg(not(target_os = "linux"))]
fn counted() -> Option<u64> {
    None
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

/// Whole milliseconds of a duration.
pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wall_clock_that_runs_ahead_far_and_at_once_is_a_sleep() {
        for (before, now, expected) in [
            (0, 0, 0),
            (0, 4_999, 0),
            (0, 3_600_000, 3_600_000),
            (3_600_000, 0, 0),
            (i64::MIN, i64::MAX, 9_223_372_036_854_775_807),
        ] {
            assert_eq!(
                jump(before, now),
                Duration::from_millis(expected),
                "from {before} to {now}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_hour_of_sleep_is_an_hour_and_timers_after_it_are_not_late() {
        let clock = Clock::start();
        let hour = Duration::from_secs(3600);
        clock.sleep_seen(hour);
        assert!(clock.at() >= hour, "waits and cooldowns ran on");
        let due = clock.at() + Duration::from_secs(2);
        let left = clock.instant(due).saturating_duration_since(Instant::now());
        assert!(
            left <= Duration::from_secs(2),
            "two seconds from now and not two and an hour"
        );
        assert_eq!(clock.clone().slept(), clock.slept(), "clones share it");
    }
}
