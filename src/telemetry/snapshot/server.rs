//! The model server and its process, as they are shown.

use serde::{Deserialize, Serialize};

/// The model server.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct Upstream {
    /// Its address, without user and password.
    pub base_url: Option<String>,
    /// What it proved to be.
    pub kind: Option<String>,
    /// The loaded model.
    pub model: Option<String>,
    /// Its process, where the platform tells.
    pub process: Option<Process>,
    /// It answers 401 or 403 to a probe: a key is missing or wrong.
    pub wants_key: bool,
    /// The last end of its process that was seen in this run.
    pub last_death: Option<Death>,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Bytes of memory it holds, with the processes below it.
    pub resident: Option<u64>,
    /// Its program's file.
    pub executable: Option<String>,
    /// When it was started, in Unix milliseconds.
    pub started_ms: Option<u64>,
    /// Processes below it: a server's runner or engine.
    pub children: Vec<Child>,
    /// It belongs to this other user (its number), and was told by its name.
    pub guessed_of_user: Option<u32>,
}

/// A process below the server's.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct Child {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Bytes of memory it holds.
    pub resident: Option<u64>,
}

/// How the model server's process ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct Death {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// `exited`, `killed`, `out_of_memory`, `likely_out_of_memory` or `unknown`.
    #[cfg_attr(
        feature = "bindings",
        ts(
            type = "\"exited\" | \"killed\" | \"out_of_memory\" | \"likely_out_of_memory\" | \"unknown\""
        )
    )]
    pub how: String,
    /// The status it exited with, or the signal that killed it.
    pub status: Option<u8>,
    /// Whether memory was short at that moment.
    pub memory_short: bool,
    /// Bytes it held when last seen.
    pub resident: Option<u64>,
    /// Bytes of RAM that were available when last read before.
    pub available: Option<u64>,
    /// From its start to its end.
    pub lived_ms: Option<u64>,
    /// When its end was seen, in Unix milliseconds.
    pub at_ms: u64,
}
