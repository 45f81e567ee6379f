//! Counters, and the text of `/metrics` in the OpenMetrics format.
//!
//! Labels are bounded: outcomes and codes are closed sets, at most 20 apps have a name of their
//! own, and models have none. Not here: serving it.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use super::snapshot::{HealthState, Snapshot};
use super::{Outcome, Record};

/// The content type of [`render`]'s text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Apps that are counted by name; all further ones are "other".
const NAMED_APPS: usize = 20;

/// Upper bounds of the histograms' buckets in seconds, up to the longest wait allowed by default.
const BUCKETS: [f64; 12] = [
    0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
];

const HEALTH_STATES: [(HealthState, &str); 5] = [
    (HealthState::Unknown, "unknown"),
    (HealthState::Ready, "ready"),
    (HealthState::Loading, "loading"),
    (HealthState::Down, "down"),
    (HealthState::Stalled, "stalled"),
];

/// Names and values of labels.
type Labels<const N: usize> = [(&'static str, String); N];

/// Gauges hold fractions too.
type FloatGauge = Gauge<f64, std::sync::atomic::AtomicU64>;

/// Counters since the start. Clones share them.
#[derive(Debug, Clone)]
pub struct Counts {
    outcomes: Family<Labels<2>, Counter>,
    apps: Family<Labels<1>, Counter>,
    /// Apps with a name of their own.
    named_apps: usize,
    dropped_messages: Counter,
    prompt_tokens: Counter,
    completion_tokens: Counter,
    wait: Histogram,
    first_token: Histogram,
    total: Histogram,
}

/// The text of `/metrics`. A gauge whose value is unknown is left out.
pub fn render(snapshot: &Snapshot, counts: &Counts) -> String {
    let mut registry = Registry::default();
    counts.register(&mut registry);
    register_states(&mut registry, snapshot);
    register_gauges(&mut registry, snapshot);
    let mut text = String::with_capacity(8 * 1024);
    // Writing to a string cannot fail.
    let _ = encode(&mut text, &registry);
    text
}

fn register_states(registry: &mut Registry, snapshot: &Snapshot) {
    let version = Info::new([("version", snapshot.version.clone())]);
    registry.register("oneslot_build", "The gateway's version", version);
    let health = Family::<Labels<1>, Gauge>::default();
    for (state, name) in HEALTH_STATES {
        let labels = [("oneslot_health", name.to_owned())];
        let is = i64::from(snapshot.health.state == state);
        health.get_or_create(&labels).set(is);
    }
    let help = "1 for the state of the model server's health";
    registry.register("oneslot_health", help, health);
}

fn register_gauges(registry: &mut Registry, snapshot: &Snapshot) {
    let health = &snapshot.health;
    let known = |value: u64| Some(value as f64);
    for (name, help, unit, value) in [
        (
            "running",
            "Requests in the slot",
            None,
            known(snapshot.queue.running),
        ),
        (
            "waiting",
            "Queued requests",
            None,
            known(snapshot.queue.waiting),
        ),
        (
            "paused",
            "1 while inference is paused",
            None,
            known(u64::from(snapshot.pause.is_some())),
        ),
        (
            "consecutive_failures",
            "Health failures in a row",
            None,
            known(health.consecutive_failures),
        ),
        (
            "rung",
            "Rung of the degradation ladder",
            None,
            known(u64::from(snapshot.plan.rung)),
        ),
        (
            "window_tokens",
            "Size of the context window",
            None,
            snapshot.window.size.and_then(known),
        ),
        (
            "ram_available",
            "Main memory that programs can still allocate",
            Some(Unit::Bytes),
            snapshot.pressure.ram.available.and_then(known),
        ),
        (
            "cooldown",
            "Cooldown left",
            Some(Unit::Seconds),
            Some(seconds(health.cooldown_ms)),
        ),
    ] {
        let Some(value) = value else { continue };
        let gauge = FloatGauge::default();
        gauge.set(value);
        let name = format!("oneslot_{name}");
        match unit {
            Some(unit) => registry.register_with_unit(name, help, unit, gauge),
            None => registry.register(name, help, gauge),
        }
    }
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

// === impl Counts ===

impl Default for Counts {
    fn default() -> Self {
        Self {
            outcomes: Family::default(),
            apps: Family::default(),
            named_apps: 0,
            dropped_messages: Counter::default(),
            prompt_tokens: Counter::default(),
            completion_tokens: Counter::default(),
            wait: Histogram::new(BUCKETS),
            first_token: Histogram::new(BUCKETS),
            total: Histogram::new(BUCKETS),
        }
    }
}

impl Counts {
    pub(super) fn add(&mut self, record: &Record) {
        let code = record.code.as_deref().unwrap_or("none");
        self.outcomes
            .get_or_create(&labels(record.outcome, code))
            .inc();
        let app = |name: &str| [("app", name.to_owned())];
        let mut named = app(record.app.as_deref().unwrap_or("unknown"));
        if self.apps.get(&named).is_none() {
            if self.named_apps < NAMED_APPS {
                self.named_apps += 1;
            } else {
                named = app("other");
            }
        }
        self.apps.get_or_create(&named).inc();
        self.dropped_messages.inc_by(record.dropped);
        self.prompt_tokens.inc_by(record.prompt_tokens.unwrap_or(0));
        self.completion_tokens
            .inc_by(record.completion_tokens.unwrap_or(0));
        let held_the_slot = record.infer_ms.is_some() && record.outcome == Outcome::Done;
        let total = held_the_slot.then_some(record.total_ms);
        for (histogram, ms) in [
            (&self.wait, record.wait_ms),
            (&self.first_token, record.first_token_ms),
            (&self.total, total),
        ] {
            if let Some(ms) = ms {
                histogram.observe(seconds(ms));
            }
        }
    }

    fn register(&self, registry: &mut Registry) {
        let outcomes = self.outcomes.clone();
        registry.register("oneslot_requests", "Requests by outcome and code", outcomes);
        registry.register("oneslot_app_requests", "Requests by app", self.apps.clone());
        for (name, help, counter) in [
            (
                "oneslot_dropped_messages",
                "Messages dropped to fit the window",
                &self.dropped_messages,
            ),
            (
                "oneslot_prompt_tokens",
                "Prompt tokens as the server counted them",
                &self.prompt_tokens,
            ),
            (
                "oneslot_completion_tokens",
                "Answer tokens as the server counted them",
                &self.completion_tokens,
            ),
        ] {
            registry.register(name, help, counter.clone());
        }
        for (name, help, histogram) in [
            ("oneslot_wait", "From arrival to dispatch", &self.wait),
            (
                "oneslot_first_token",
                "From arrival to the first byte of the answer",
                &self.first_token,
            ),
            (
                "oneslot_total",
                "From arrival to the end of a complete answer",
                &self.total,
            ),
        ] {
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
        }
    }

    /// Requests that ended in `outcome` without a code.
    #[cfg(test)]
    pub(super) fn ended_in(&self, outcome: Outcome) -> u64 {
        self.outcomes.get_or_create(&labels(outcome, "none")).get()
    }
}

fn labels(outcome: Outcome, code: &str) -> Labels<2> {
    [
        ("outcome", outcome.as_str().to_owned()),
        ("code", code.to_owned()),
    ]
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
