//! Limits that no user has a reason to change: constants, kept beside the settings. Those of the
//! HTTP edge stand in `http/limits.rs`.
//!
//! The tests make them smaller: with the feature `fault-injection`, which no shipped program has,
//! the variable `ONESLOT_LIMITS` holds other values as JSON (`{"body_idle_ms": 500}`).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::values::{Preset, millis};

const MIB: u64 = 1 << 20;

/// Limits that are not settings. [`Default`] is what the shipped program uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Of one health probe, from its start to its whole response. A healthy local server responds
    /// within milliseconds.
    #[serde(rename = "probe_ms", with = "millis")]
    pub probe: Duration,
    /// Evidence of life older than this is renewed before a dispatch. Zero, as in preset strict,
    /// probes before each one.
    #[serde(rename = "fresh_ms", with = "millis")]
    pub fresh: Duration,
    /// Where doubling of the cooldown stops. Never under `health.cooldown_ms`; equal to it, as in
    /// preset strict, means no doubling.
    #[serde(rename = "cooldown_max_ms", with = "millis")]
    pub cooldown_max: Duration,
    /// From the start of a connection to the model server until it is established.
    #[serde(rename = "connect_ms", with = "millis")]
    pub connect: Duration,
    /// From a stop signal to the end of the program; a running answer is interrupted then.
    #[serde(rename = "shutdown_ms", with = "millis")]
    pub shutdown: Duration,
    /// Bytes of all queued request bodies together, so that a queue of images cannot fill the
    /// memory a model needs.
    pub max_queued_bytes: u64,
    /// A response without streaming is buffered up to this many bytes, so that a server that dies
    /// midway is a refusal and not half an answer.
    pub hold_bytes: u64,
    /// Tokens kept free besides prompt and answer, for what the chat template adds.
    pub margin: u64,
    /// When memory counts as short.
    pub memory: MemoryLimits,
}

/// When memory counts as short, at sensitivity `normal`. For RAM both conditions of a level must
/// hold: a share alone is wrong on large machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryLimits {
    /// Between two readings while a request runs or is queued.
    #[serde(rename = "interval_ms", with = "millis")]
    pub interval: Duration,
    /// Percent of RAM available under which pressure is elevated, high and critical.
    pub ram_percent: [u8; 3],
    /// MiB of RAM available under which pressure is elevated, high and critical.
    pub ram_mib: [u64; 3],
    /// Percent of the last ten seconds in which every program waited for memory (Linux), over
    /// which the level of RAM is one higher.
    pub stall_percent: u8,
    /// Free MiB of the model's graphics card under which pressure is elevated and high. An amount,
    /// since what an answer needs does not grow with the card; a card alone is never critical.
    pub vram_mib: [u64; 2],
    /// MiB other programs must have taken of the card since the model was loaded for that to
    /// count: a card that its model fills is normal.
    pub vram_fall_mib: u64,
    /// Agreeing readings until the level rises: one odd reading changes nothing.
    pub rise_readings: u32,
    /// Quiet time until the level falls, so that limits do not flutter.
    #[serde(rename = "fall_quiet_ms", with = "millis")]
    pub fall_quiet: Duration,
    /// Critical that has not grown worse for this long counts as high: a machine that is always
    /// full still serves, with short answers.
    #[serde(rename = "critical_holds_ms", with = "millis")]
    pub critical_holds: Duration,
}

impl Limits {
    /// The limits of a preset, with the cooldown in force.
    pub(super) fn of(preset: Preset, cooldown: Duration) -> Self {
        let limits = Self::default();
        match preset {
            Preset::Balanced => limits,
            Preset::Strict => Self {
                fresh: Duration::ZERO,
                cooldown_max: cooldown,
                ..limits
            },
        }
    }

    /// With the values a test asks for.
    #[cfg(feature = "fault-injection")]
    pub(super) fn overridden(self) -> Self {
        let Ok(text) = std::env::var("ONESLOT_LIMITS") else {
            return self;
        };
        let merged = serde_json::to_value(&self).and_then(|mut tree| {
            merge(&mut tree, serde_json::from_str(&text)?);
            serde_json::from_value(tree)
        });
        merged.unwrap_or_else(|error| {
            tracing::error!(%error, "ONESLOT_LIMITS is not usable");
            self
        })
    }

    /// The same.
    #[cfg(not(feature = "fault-injection"))]
    pub(super) fn overridden(self) -> Self {
        self
    }
}

#[cfg(feature = "fault-injection")]
fn merge(tree: &mut serde_json::Value, over: serde_json::Value) {
    match (tree, over) {
        (serde_json::Value::Object(tree), serde_json::Value::Object(over)) => {
            for (name, value) in over {
                merge(tree.entry(name).or_insert_with(Default::default), value);
            }
        }
        (tree, over) => *tree = over,
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            probe: Duration::from_secs(2),
            fresh: Duration::from_secs(1),
            cooldown_max: Duration::from_secs(15),
            connect: Duration::from_secs(2),
            shutdown: Duration::from_secs(3),
            max_queued_bytes: 256 * MIB,
            hold_bytes: 16 * MIB,
            margin: 32,
            memory: MemoryLimits::default(),
        }
    }
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(2),
            ram_percent: [15, 8, 4],
            ram_mib: [3072, 1536, 600],
            stall_percent: 10,
            vram_mib: [700, 400],
            vram_fall_mib: 256,
            rise_readings: 2,
            fall_quiet: Duration::from_secs(30),
            critical_holds: Duration::from_secs(60),
        }
    }
}
