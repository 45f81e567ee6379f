//! Counters, and the text of `/metrics` in the OpenMetrics format.
//!
//! Labels are bounded: outcomes and codes are closed sets, at most 20 apps have a name of their
//! own, and models have none. Not here: serving it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};

use super::snapshot::{HealthState, Snapshot};
use super::{Outcome, Record, Word};

/// The content type of [`render`]'s text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Apps that are counted by name; all further ones are "other".
const NAMED_APPS: usize = 20;

/// Upper bounds of the histograms' buckets in milliseconds, and as OpenMetrics spells them in
/// seconds: from "at once" to the longest wait allowed by default.
const BUCKETS: [(u64, &str); 12] = [
    (10, "0.01"),
    (100, "0.1"),
    (500, "0.5"),
    (1_000, "1.0"),
    (2_500, "2.5"),
    (5_000, "5.0"),
    (10_000, "10.0"),
    (30_000, "30.0"),
    (60_000, "60.0"),
    (120_000, "120.0"),
    (300_000, "300.0"),
    (600_000, "600.0"),
];

const HEALTH_STATES: [(HealthState, &str); 5] = [
    (HealthState::Unknown, "unknown"),
    (HealthState::Ready, "ready"),
    (HealthState::Loading, "loading"),
    (HealthState::Down, "down"),
    (HealthState::Stalled, "stalled"),
];

/// Counters since the start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    outcomes: BTreeMap<(Outcome, Word), u64>,
    apps: BTreeMap<String, u64>,
    dropped_messages: u64,
    prompt_tokens: u64,
    completion_tokens: u64,
    wait: Histogram,
    first_token: Histogram,
    total: Histogram,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Histogram {
    buckets: [u64; BUCKETS.len()],
    count: u64,
    sum_ms: u64,
}

/// The text of `/metrics`.
pub fn render(snapshot: &Snapshot, counts: &Counts) -> String {
    let mut text = Text(String::with_capacity(8 * 1024));
    text.counters(counts);
    text.states(snapshot);
    text.gauges(snapshot);
    for (name, help, histogram) in [
        ("oneslot_wait", "From arrival to dispatch.", &counts.wait),
        (
            "oneslot_first_token",
            "From arrival to the first byte of the answer.",
            &counts.first_token,
        ),
        (
            "oneslot_total",
            "From arrival to the end of a whole answer.",
            &counts.total,
        ),
    ] {
        text.histogram(name, help, histogram);
    }
    text.0.push_str("# EOF\n");
    text.0
}

// === impl Counts ===

impl Counts {
    /// Requests that ended in `outcome`, whatever their code.
    pub fn ended_in(&self, outcome: Outcome) -> u64 {
        self.outcomes
            .iter()
            .filter(|((seen, _), _)| *seen == outcome)
            .map(|(_, count)| count)
            .sum()
    }

    pub(super) fn add(&mut self, record: &Record) {
        let code = record.code.clone().unwrap_or(Cow::Borrowed("none"));
        *self.outcomes.entry((record.outcome, code)).or_default() += 1;
        let app = record.app.as_deref().unwrap_or("unknown");
        let known = self.apps.contains_key(app) || self.apps.len() < NAMED_APPS;
        let name = if known { app } else { "other" };
        *self.apps.entry(name.to_owned()).or_default() += 1;
        self.dropped_messages += record.dropped;
        self.prompt_tokens += record.prompt_tokens.unwrap_or(0);
        self.completion_tokens += record.completion_tokens.unwrap_or(0);
        self.wait.add(record.wait_ms);
        self.first_token.add(record.first_token_ms);
        let held_the_slot = record.infer_ms.is_some() && record.outcome == Outcome::Done;
        self.total.add(held_the_slot.then_some(record.total_ms));
    }
}

impl Histogram {
    fn add(&mut self, sample: Option<u64>) {
        let Some(ms) = sample else { return };
        self.count += 1;
        self.sum_ms = self.sum_ms.saturating_add(ms);
        let first = BUCKETS.partition_point(|(bound, _)| *bound < ms);
        if let Some(bucket) = self.buckets.get_mut(first) {
            *bucket += 1;
        }
    }
}

// === impl Text ===

/// The text in the making.
struct Text(String);

/// Milliseconds, written as seconds.
struct Seconds(u64);

/// A label's value, escaped.
struct Label<'a>(&'a str);

impl Text {
    fn counters(&mut self, counts: &Counts) {
        self.family(
            "oneslot_requests",
            "counter",
            "Requests by outcome and code.",
        );
        for ((outcome, code), count) in &counts.outcomes {
            let outcome = outcome.as_str();
            self.sample(
                format_args!("oneslot_requests_total{{outcome=\"{outcome}\",code=\"{code}\"}}"),
                count,
            );
        }
        self.family(
            "oneslot_app_requests",
            "counter",
            "Requests by calling app.",
        );
        for (app, count) in &counts.apps {
            let app = Label(app);
            self.sample(
                format_args!("oneslot_app_requests_total{{app=\"{app}\"}}"),
                count,
            );
        }
        for (name, help, count) in [
            (
                "oneslot_dropped_messages",
                "Messages left out to fit the window.",
                counts.dropped_messages,
            ),
            (
                "oneslot_prompt_tokens",
                "Prompt tokens as the server counted them.",
                counts.prompt_tokens,
            ),
            (
                "oneslot_completion_tokens",
                "Answer tokens as the server counted them.",
                counts.completion_tokens,
            ),
        ] {
            self.family(name, "counter", help);
            self.sample(format_args!("{name}_total"), count);
        }
    }

    fn states(&mut self, snapshot: &Snapshot) {
        self.family("oneslot_build", "info", "The gateway's version.");
        let version = Label(&snapshot.version);
        self.sample(
            format_args!("oneslot_build_info{{version=\"{version}\"}}"),
            1,
        );
        self.family("oneslot_health", "stateset", "The model server's health.");
        for (state, name) in HEALTH_STATES {
            let is = u8::from(snapshot.health.state == state);
            self.sample(
                format_args!("oneslot_health{{oneslot_health=\"{name}\"}}"),
                is,
            );
        }
    }

    fn gauges(&mut self, snapshot: &Snapshot) {
        let health = &snapshot.health;
        for (name, help, value) in [
            (
                "oneslot_running",
                "Requests in the slot.",
                Some(snapshot.queue.running),
            ),
            (
                "oneslot_waiting",
                "Requests in line.",
                Some(snapshot.queue.waiting),
            ),
            (
                "oneslot_paused",
                "1 while a person paused inference.",
                Some(u64::from(snapshot.pause.is_some())),
            ),
            (
                "oneslot_consecutive_failures",
                "Health failures in a row.",
                Some(health.consecutive_failures),
            ),
            (
                "oneslot_rung",
                "Rung of the degradation ladder.",
                Some(u64::from(snapshot.plan.rung)),
            ),
            (
                "oneslot_window_tokens",
                "Size of the context window.",
                snapshot.window.size,
            ),
        ] {
            self.gauge(name, "", help, value);
        }
        self.gauge(
            "oneslot_ram_available_bytes",
            "bytes",
            "Main memory programs could still get.",
            snapshot.pressure.ram.available,
        );
        self.gauge(
            "oneslot_cooldown_seconds",
            "seconds",
            "Cooldown left.",
            Some(Seconds(health.cooldown_ms)),
        );
    }

    /// A gauge whose value is unknown has a family and no sample.
    fn gauge(&mut self, name: &str, unit: &str, help: &str, value: Option<impl Display>) {
        self.family(name, "gauge", help);
        if !unit.is_empty() {
            self.line(format_args!("# UNIT {name} {unit}"));
        }
        if let Some(value) = value {
            self.sample(format_args!("{name}"), value);
        }
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        let name = format!("{name}_seconds");
        self.family(&name, "histogram", help);
        self.line(format_args!("# UNIT {name} seconds"));
        let mut below = 0;
        for ((_, bound), count) in BUCKETS.iter().zip(histogram.buckets) {
            below += count;
            self.sample(format_args!("{name}_bucket{{le=\"{bound}\"}}"), below);
        }
        self.sample(
            format_args!("{name}_bucket{{le=\"+Inf\"}}"),
            histogram.count,
        );
        self.sample(format_args!("{name}_count"), histogram.count);
        self.sample(format_args!("{name}_sum"), Seconds(histogram.sum_ms));
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# TYPE {name} {kind}"));
        self.line(format_args!("# HELP {name} {help}"));
    }

    fn sample(&mut self, name: fmt::Arguments<'_>, value: impl Display) {
        self.line(format_args!("{name} {value}"));
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{line}");
    }
}

impl Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

impl Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                _ => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
