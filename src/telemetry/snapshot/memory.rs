//! Memory, as it is shown: sizes in bytes, unknown is `null`.

use serde::{Deserialize, Serialize};

use crate::telemetry::message::Message;

/// Memory.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct Pressure {
    /// The level.
    pub level: Level,
    /// The reading that caused it, with its numbers.
    pub cause: Option<Message>,
    /// Main memory.
    pub ram: Ram,
    /// Swap. In use it is no pressure.
    pub swap: Swap,
    /// Percent of the last ten seconds in which every program waited for memory.
    pub stalled: Option<f64>,
    /// Each graphics card that tells.
    pub vram: Vec<Vram>,
}

/// How short memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Enough, or unknown.
    #[default]
    Normal,
    /// Getting short.
    Elevated,
    /// Short.
    High,
    /// Nothing new is started.
    Critical,
}

/// Main memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct Ram {
    /// All there is.
    pub total: Option<u64>,
    /// What programs could still get.
    pub available: Option<u64>,
}

/// Swap in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct Swap {
    /// All there is.
    pub total: Option<u64>,
    /// What is in use.
    pub used: Option<u64>,
}

/// A graphics card's memory in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct Vram {
    /// The card's name.
    pub name: String,
    /// All there is.
    pub total: Option<u64>,
    /// What is free.
    pub free: Option<u64>,
    /// What the model's processes hold of it.
    pub model: Option<u64>,
    /// It borrows the machine's memory, and is judged by that.
    pub shared: bool,
    /// When it was read, in Unix milliseconds: cards are left alone while nothing runs.
    pub read_ms: u64,
}
