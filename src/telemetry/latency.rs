//! Quantiles of the last requests. Pure: the time is an argument.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Outcome, Record};

/// Requests that are remembered for quantiles.
const KEPT: usize = 500;
/// Of those, how many of the latest speak for the usual service time: it must follow a change of
/// model soon.
const RECENT: usize = 50;
/// The span of the second set of quantiles: 15 minutes, in milliseconds.
const LATELY_MS: u64 = 15 * 60 * 1000;
/// What a request is taken to cost while none has been seen.
const UNKNOWN_SERVICE: Duration = Duration::from_secs(10);

/// Median and 95th percentile by nearest rank, in milliseconds; `None` without a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct Quantiles {
    /// Half of the requests took at most this long.
    pub p50: Option<u64>,
    /// All but one in twenty took at most this long.
    pub p95: Option<u64>,
}

/// Quantiles of the three times a person notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct Spread {
    /// From arrival to dispatch, of every request that was dispatched.
    pub wait: Quantiles,
    /// From arrival to the first byte of the answer.
    pub first_token: Quantiles,
    /// From arrival to the end, of answers that were whole.
    pub total: Quantiles,
}

/// Quantiles over the last 500 requests, and over those of them that ended in the last 15 minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct Latency {
    /// The last 500.
    #[serde(flatten)]
    pub all: Spread,
    /// The last 15 minutes.
    pub last_15_min: Spread,
}

/// The remembered times.
#[derive(Debug, Default)]
pub(super) struct Samples(VecDeque<Sample>);

#[derive(Debug, Clone, Copy)]
struct Sample {
    ended_ms: u64,
    wait: Option<u64>,
    first_token: Option<u64>,
    total: Option<u64>,
    service: Option<u64>,
}

// === impl Samples ===

impl Samples {
    /// Remembers a request that held the slot; others say nothing about speed.
    pub(super) fn add(&mut self, record: &Record) {
        if record.wait_ms.is_none() && record.infer_ms.is_none() {
            return;
        }
        let done = record.outcome == Outcome::Done;
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(Sample {
            ended_ms: record.arrived.saturating_add(record.total_ms),
            wait: record.wait_ms,
            first_token: record.first_token_ms,
            total: done.then_some(record.total_ms),
            service: record.infer_ms.filter(|_| done),
        });
    }

    /// Quantiles as of `now_ms` (Unix milliseconds).
    pub(super) fn latency(&self, now_ms: u64) -> Latency {
        let since = now_ms.saturating_sub(LATELY_MS);
        Latency {
            all: spread(self.0.iter()),
            last_15_min: spread(self.0.iter().filter(|sample| sample.ended_ms >= since)),
        }
    }

    /// The median time a whole answer held the slot; 10 s while none has been seen.
    ///
    /// Waiting is excluded: multiplied by the length of the queue it would count twice.
    pub(super) fn usual_service_time(&self) -> Duration {
        let times = self.0.iter().rev().filter_map(|sample| sample.service);
        quantiles(times.take(RECENT))
            .p50
            .map_or(UNKNOWN_SERVICE, Duration::from_millis)
    }
}

fn spread<'a>(samples: impl Iterator<Item = &'a Sample> + Clone) -> Spread {
    Spread {
        wait: quantiles(samples.clone().filter_map(|sample| sample.wait)),
        first_token: quantiles(samples.clone().filter_map(|sample| sample.first_token)),
        total: quantiles(samples.filter_map(|sample| sample.total)),
    }
}

fn quantiles(times: impl Iterator<Item = u64>) -> Quantiles {
    let mut times: Vec<u64> = times.collect();
    times.sort_unstable();
    let rank = |percent: usize| {
        let rank = (times.len() * percent).div_ceil(100);
        times.get(rank.saturating_sub(1)).copied()
    };
    Quantiles {
        p50: rank(50),
        p95: rank(95),
    }
}
