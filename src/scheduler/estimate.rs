//! Retry-After of a full queue: an estimate of when a place in it is free.
//!
//! Waiting requests × usual service time ÷ slots. An app that was refused before without getting
//! through is sent away for longer each time, so that it does not hammer a full queue.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Service time assumed before any answer was completed.
const ASSUMED: Duration = Duration::from_secs(10);
/// The usual service time is the median of this many answers.
const SERVICE_TIMES: usize = 20;
/// How many apps are counted; the oldest is forgotten first.
const APPS: usize = 64;
/// The estimate grows to this many times its value, not further.
const MOST_REPEATS: u32 = 8;

/// Service times of the last answers, and refusals in a row per app.
#[derive(Debug, Default)]
pub(super) struct Estimate {
    service_times: VecDeque<Duration>,
    refused: Vec<(Arc<str>, u32)>,
}

impl Estimate {
    /// Notes the time from dispatch to the end of a complete answer.
    pub(super) fn completed(&mut self, took: Duration) {
        if self.service_times.len() == SERVICE_TIMES {
            self.service_times.pop_front();
        }
        self.service_times.push_back(took);
    }

    /// Notes that the queue was full for `app`.
    pub(super) fn refused(&mut self, app: &Arc<str>) {
        if let Some((_, times)) = self.refused.iter_mut().find(|(known, _)| known == app) {
            *times = (*times + 1).min(MOST_REPEATS - 1);
            return;
        }
        if self.refused.len() == APPS {
            self.refused.remove(0);
        }
        self.refused.push((Arc::clone(app), 1));
    }

    /// Notes that a request of `app` was queued: its refusals are over.
    pub(super) fn admitted(&mut self, app: &str) {
        self.refused.retain(|(known, _)| &**known != app);
    }

    /// The median service time of the last answers.
    pub(super) fn usual(&self) -> Duration {
        let mut sorted: Vec<Duration> = self.service_times.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or(ASSUMED)
    }

    /// Until a place is free behind `waiting` requests, while the oldest running one has taken
    /// `running_for` so far.
    pub(super) fn wait(&self, waiting: usize, slots: usize, running_for: Duration) -> Duration {
        let ahead = u32::try_from(waiting + 1).unwrap_or(u32::MAX);
        let slots = u32::try_from(slots.max(1)).unwrap_or(u32::MAX);
        self.usual().max(running_for).saturating_mul(ahead) / slots
    }

    /// How many times the estimate is advised to `app`: 1 at its first refusal.
    pub(super) fn repeats(&self, app: &str) -> u32 {
        self.refused
            .iter()
            .find(|(known, _)| &**known == app)
            .map_or(1, |(_, times)| times + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn usual_is_the_median_of_the_last_twenty_answers() {
        let mut estimate = Estimate::default();
        assert_eq!(estimate.usual(), ASSUMED, "before any answer");
        for _ in 0..20 {
            estimate.completed(SECOND * 100);
        }
        for _ in 0..11 {
            estimate.completed(SECOND);
        }
        assert_eq!(estimate.usual(), SECOND, "older answers are forgotten");
    }

    #[test]
    fn the_wait_counts_requests_slots_and_what_runs() {
        let mut estimate = Estimate::default();
        estimate.completed(SECOND * 2);
        assert_eq!(estimate.wait(4, 1, SECOND), SECOND * 10);
        assert_eq!(estimate.wait(4, 2, SECOND), SECOND * 5);
        assert_eq!(
            estimate.wait(0, 1, SECOND * 90),
            SECOND * 90,
            "the running answer is slower than usual"
        );
    }

    #[test]
    fn refusals_in_a_row_grow_and_end_when_the_app_gets_through() {
        let mut estimate = Estimate::default();
        let app: Arc<str> = "zed".into();
        assert_eq!(estimate.repeats("zed"), 1);
        estimate.refused(&app);
        estimate.refused(&app);
        assert_eq!(estimate.repeats("zed"), 3);
        assert_eq!(estimate.repeats("other"), 1);
        for _ in 0..100 {
            estimate.refused(&app);
        }
        assert_eq!(estimate.repeats("zed"), MOST_REPEATS);
        estimate.admitted("zed");
        assert_eq!(estimate.repeats("zed"), 1);
        for number in 0..1000 {
            estimate.refused(&format!("app {number}").into());
        }
        assert_eq!(estimate.refused.len(), APPS, "bounded");
    }
}
