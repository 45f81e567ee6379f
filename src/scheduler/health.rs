//! What is known of the upstream: a state that carries its own numbers, and the cooldown.
//!
//! Invariants: arrivals never extend a cooldown; a success forgets all failures; loading is not
//! a failure. Not here: the probe itself ([`crate::upstream`]) and who is refused
//! ([`crate::scheduler`]).

use std::time::Duration;

use crate::memory::Level;
use crate::refusal::Outage;

/// No cooldown is longer, whatever the pressure.
const COOLDOWN_CEILING: Duration = Duration::from_secs(60);

/// While no server is found at all, the usual ports are looked at this often.
const SEARCH_EVERY: Duration = Duration::from_secs(10);

/// What the last evidence said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Nothing was asked of it yet.
    #[default]
    Unknown,
    /// It answered.
    Ready,
    /// It said that its model is loading.
    Loading {
        /// Since when.
        since: Duration,
    },
    /// It failed.
    Down {
        /// What was seen.
        outage: Outage,
        /// The end of the cooldown: nothing is sent before it.
        until: Duration,
    },
}

/// How long a failed upstream is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub base: Duration,
    /// The doubling stops here; equal to `base` for no doubling.
    pub max: Duration,
    /// Whether memory pressure makes it longer.
    pub stretch: Stretch,
}

/// Whether memory pressure lengthens a cooldown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stretch {
    /// Twice at high, four times at critical: a process that died of memory needs room to reload.
    UnderPressure,
    /// Never (preset `strict`).
    Never,
}

/// The upstream's health over time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    state: State,
    consecutive_failures: u32,
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

    /// The last failure, kept after recovery so that a person can read it.
    pub fn last_error(&self) -> Option<Outage> {
        self.last_error
    }

    /// When the upstream last showed life.
    pub fn evidence(&self) -> Option<Duration> {
        self.evidence
    }

    /// Whether the upstream asked for a key at the last probe.
    pub fn wants_key(&self) -> bool {
        self.wants_key
    }

    /// Whether evidence of life is younger than `fresh`; with `fresh` zero, never.
    pub fn is_fresh(&self, now: Duration, fresh: Duration) -> bool {
        self.state == State::Ready
            && self
                .evidence
                .is_some_and(|at| now.saturating_sub(at) < fresh)
    }

    /// Cooldown left; zero when there is none.
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
        self.evidence = Some(now);
    }

    /// Notes what a probe said about keys.
    pub fn asked_for_key(&mut self, wants: bool) {
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
    }

    /// any state => down, with a cooldown from now.
    pub fn failed(&mut self, outage: Outage, now: Duration, pressure: Level, backoff: Backoff) {
        self.consecutive_failures = self.consecutive_failures.saturating_add(1);
        self.last_error = Some(outage);
        let length = match outage {
            Outage::NoneFound => SEARCH_EVERY,
            Outage::Refused
            | Outage::ConnectTimeout
            | Outage::Reset
            | Outage::ProbeTimeout
            | Outage::ProbeFailed
            | Outage::WrongBaseUrl
            | Outage::Garbled
            | Outage::Loop
            | Outage::ProcessGone { .. }
            | Outage::Silent
            | Outage::ServerError => cooldown(self.consecutive_failures, pressure, backoff),
        };
        let until = now + length;
        self.state = State::Down { outage, until };
    }

    /// down => down: what was seen is known better now. Says whether there was anything to
    /// explain.
    pub fn explained(&mut self, outage: Outage) -> bool {
        let State::Down { until, .. } = self.state else {
            return false;
        };
        self.state = State::Down { outage, until };
        self.last_error = Some(outage);
        true
    }

    /// The cooldown that a failure now would start.
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
    fn pressure_stretches_the_cooldown_but_never_past_a_minute() {
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
    fn strict_keeps_the_articles_three_seconds_whatever_happens() {
        assert_eq!(
            cooldown(9, Level::Critical, STRICT).as_secs(),
            3,
            "no doubling, no stretch"
        );
    }

    #[test]
    fn a_success_forgets_failures_but_keeps_the_last_error_to_read() {
        let mut health = Health::default();
        health.failed(Outage::Refused, Duration::ZERO, Level::Normal, BALANCED);
        health.alive(Duration::from_secs(4));
        assert_eq!(
            health.consecutive_failures(),
            0,
            "a success ends the row of failures"
        );
        assert_eq!(
            health.last_error(),
            Some(Outage::Refused),
            "a person may still want to read it"
        );
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
