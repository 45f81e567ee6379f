//! Health of the upstream: its state, missed probes, failures and the cooldown.
//!
//! Invariants: arrivals never extend a cooldown; a success resets failures and misses; loading is
//! not a failure. Not here: the probe itself ([`crate::upstream`]) and which requests are refused
//! ([`crate::scheduler`]).

use std::time::Duration;

use crate::memory::Level;
use crate::refusal::Outage;

/// The longest cooldown, whatever the pressure.
const COOLDOWN_CEILING: Duration = Duration::from_secs(60);

/// Between two searches on the usual ports while no server is found.
const SEARCH_INTERVAL: Duration = Duration::from_secs(10);

/// Limits of one probe. A probe that times out is sent again with the next limit: the server may
/// be busy, or still reading a cancelled prompt.
pub const PROBE_LIMITS: [Duration; 3] = [
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
];

/// The state by the latest evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// It was not probed yet.
    #[default]
    Unknown,
    /// It answered.
    Ready,
    /// It answered that its model is loading.
    Loading {
        /// Since when.
        since: Duration,
    },
    /// It failed, or missed as many probes as the rules allow.
    Down {
        /// What was seen.
        outage: Outage,
        /// The end of the cooldown: nothing is sent before it.
        until: Duration,
    },
}

/// Length of the cooldown after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub base: Duration,
    /// The doubling stops here; equal to `base` for no doubling.
    pub max: Duration,
    /// Whether memory pressure lengthens it.
    pub stretch: Stretch,
}

/// Whether memory pressure lengthens a cooldown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stretch {
    /// Twice at high, four times at critical: a process killed for memory needs room to reload.
    UnderPressure,
    /// Never (preset `strict`).
    Never,
}

/// The upstream's health over time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    state: State,
    consecutive_failures: u32,
    misses: u32,
    last_error: Option<Outage>,
    evidence: Option<Duration>,
    wants_key: bool,
}

impl Health {
    /// Whether the last probe or request failed.
    pub fn is_down(&self) -> bool {
        matches!(self.state, State::Down { .. })
    }

    /// The state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Failures since the last success.
    pub fn consecutive_failures(&self) -> u32 {
        self.consecutive_failures
    }

    /// Probes in a row that timed out.
    pub fn misses(&self) -> u32 {
        self.misses
    }

    /// Whether probes timed out and the upstream is asked again before it counts as down.
    pub fn is_retrying(&self) -> bool {
        self.misses > 0 && !self.is_down()
    }

    /// The limit of the next probe; `allowed` is [`Rules::misses`](crate::scheduler::Rules).
    pub fn probe_limit(&self, allowed: u32) -> Duration {
        let last = allowed.clamp(1, 3) - 1;
        let [first, second, third] = PROBE_LIMITS;
        match self.misses.min(last) {
            0 => first,
            1 => second,
            _ => third,
        }
    }

    /// The last failure or miss, kept after recovery so that a person can read it.
    pub fn last_error(&self) -> Option<Outage> {
        self.last_error
    }

    /// When the upstream last answered or sent bytes.
    pub fn evidence(&self) -> Option<Duration> {
        self.evidence
    }

    /// Whether the last probe was answered with 401 or 403.
    pub fn wants_key(&self) -> bool {
        self.wants_key
    }

    /// Whether evidence of life is younger than `fresh`; with `fresh` zero, never.
    pub fn is_fresh(&self, now: Duration, fresh: Duration) -> bool {
        self.state == State::Ready
            && self.misses == 0
            && self
                .evidence
                .is_some_and(|at| now.saturating_sub(at) < fresh)
    }

    /// Cooldown left; zero outside one.
    pub fn cooldown_left(&self, now: Duration) -> Duration {
        match self.state {
            State::Down { until, .. } => until.saturating_sub(now),
            State::Unknown | State::Ready | State::Loading { .. } => Duration::ZERO,
        }
    }

    /// any state => ready: a probe was answered, or bytes came.
    pub fn alive(&mut self, now: Duration) {
        self.state = State::Ready;
        self.consecutive_failures = 0;
        self.misses = 0;
        self.evidence = Some(now);
    }

    /// Notes whether a probe was answered with 401 or 403.
    pub fn set_wants_key(&mut self, wants: bool) {
        self.wants_key = wants;
    }

    /// any state => loading, keeping the start of a load that goes on.
    pub fn loading(&mut self, now: Duration) {
        let since = match self.state {
            State::Loading { since } => since,
            State::Unknown | State::Ready | State::Down { .. } => now,
        };
        self.state = State::Loading { since };
        self.consecutive_failures = 0;
        self.misses = 0;
    }

    /// Notes a probe that timed out. Returns whether the upstream is down for it: at the last of
    /// `allowed` misses in a row, or because it was down already.
    pub fn missed(&mut self, outage: Outage, allowed: u32) -> bool {
        self.misses = self.misses.saturating_add(1);
        self.last_error = Some(outage);
        self.misses >= allowed || self.is_down()
    }

    /// any state => down, with a cooldown from now.
    pub fn failed(&mut self, outage: Outage, now: Duration, pressure: Level, backoff: Backoff) {
        self.consecutive_failures = self.consecutive_failures.saturating_add(1);
        self.last_error = Some(outage);
        if !is_miss(outage) {
            self.misses = 0;
        }
        let length = if outage == Outage::NoneFound {
            SEARCH_INTERVAL
        } else {
            cooldown(self.consecutive_failures, pressure, backoff)
        };
        let until = now + length;
        self.state = State::Down { outage, until };
    }

    /// down => down, with a better explanation. Returns whether the upstream was down at all.
    pub fn explained(&mut self, outage: Outage) -> bool {
        let State::Down { until, .. } = self.state else {
            return false;
        };
        self.state = State::Down { outage, until };
        self.last_error = Some(outage);
        true
    }

    /// The cooldown that a failure would start now.
    pub fn next_cooldown(&self, pressure: Level, backoff: Backoff) -> Duration {
        cooldown(
            self.consecutive_failures.saturating_add(1),
            pressure,
            backoff,
        )
    }

    /// down => down, its cooldown over: a person asked, or a new process listens.
    pub fn end_cooldown(&mut self, now: Duration) {
        if let State::Down { outage, until } = self.state {
            self.state = State::Down {
                outage,
                until: until.min(now),
            };
        }
    }

    /// any state => unknown: another upstream was configured.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

/// Whether a failed probe timed out: the server may be alive, but busy.
pub fn is_miss(outage: Outage) -> bool {
    matches!(outage, Outage::ProbeTimeout | Outage::ConnectTimeout)
}

fn cooldown(failures: u32, pressure: Level, backoff: Backoff) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let plain = backoff
        .base
        .saturating_mul(1 << doublings)
        .min(backoff.max.max(backoff.base));
    let factor = match (backoff.stretch, pressure) {
        (Stretch::Never, _) | (Stretch::UnderPressure, Level::Normal | Level::Elevated) => 1,
        (Stretch::UnderPressure, Level::High) => 2,
        (Stretch::UnderPressure, Level::Critical) => 4,
    };
    plain.saturating_mul(factor).min(COOLDOWN_CEILING)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BALANCED: Backoff = Backoff {
        base: Duration::from_secs(3),
        max: Duration::from_secs(15),
        stretch: Stretch::UnderPressure,
    };
    const STRICT: Backoff = Backoff {
        base: Duration::from_secs(3),
        max: Duration::from_secs(3),
        stretch: Stretch::Never,
    };

    #[test]
    fn the_cooldown_doubles_from_three_to_fifteen_seconds() {
        let lengths: Vec<u64> = (1..=5)
            .map(|n| cooldown(n, Level::Normal, BALANCED).as_secs())
            .collect();
        assert_eq!(
            lengths,
            [3, 6, 12, 15, 15],
            "base 3 s, doubling, 15 s at most"
        );
    }

    #[test]
    fn pressure_lengthens_the_cooldown_to_a_minute_at_most() {
        assert_eq!(
            cooldown(1, Level::High, BALANCED).as_secs(),
            6,
            "high doubles it"
        );
        assert_eq!(
            cooldown(1, Level::Critical, BALANCED).as_secs(),
            12,
            "critical: four times"
        );
        assert_eq!(
            cooldown(9, Level::Critical, BALANCED).as_secs(),
            60,
            "never over a minute"
        );
    }

    #[test]
    fn strict_cooldown_is_always_three_seconds() {
        assert_eq!(
            cooldown(9, Level::Critical, STRICT).as_secs(),
            3,
            "no doubling, no stretch"
        );
    }

    #[test]
    fn a_success_resets_failures_and_keeps_the_last_error() {
        let mut health = Health::default();
        health.failed(Outage::Refused, Duration::ZERO, Level::Normal, BALANCED);
        health.alive(Duration::from_secs(4));
        assert_eq!(
            health.consecutive_failures(),
            0,
            "a success resets the count"
        );
        assert_eq!(
            health.last_error(),
            Some(Outage::Refused),
            "shown after recovery"
        );
    }

    #[test]
    fn misses_raise_the_limit_of_the_next_probe() {
        let mut health = Health::default();
        health.alive(Duration::ZERO);
        let mut limits = Vec::new();
        for _ in 0..3 {
            limits.push(health.probe_limit(3).as_secs());
            health.missed(Outage::ProbeTimeout, 3);
        }
        assert_eq!(limits, [2, 5, 10]);
        assert_eq!(health.probe_limit(3).as_secs(), 10, "the last one stays");
        assert!(health.is_retrying());
        assert_eq!(Health::default().probe_limit(1).as_secs(), 2, "strict");
        health.alive(Duration::ZERO);
        assert!(!health.is_retrying());
        assert_eq!(health.probe_limit(3).as_secs(), 2, "a success resets it");
    }

    #[test]
    fn with_a_fresh_limit_of_zero_evidence_is_never_fresh() {
        let mut health = Health::default();
        health.alive(Duration::from_secs(1));
        assert!(
            !health.is_fresh(Duration::from_secs(1), Duration::ZERO),
            "strict probes before each dispatch"
        );
    }
}
