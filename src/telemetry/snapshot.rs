//! The gateway's state as `GET /oneslot/status`, its events and the panel show it.
//!
//! Plain values: times in milliseconds, sizes in bytes. No member ever vanishes; what is unknown
//! is `null`. Read back (by the command line, or by a tray that is a daemon's face) a member an
//! older gateway did not send takes its default. Not here: where the values come from.

mod memory;
mod server;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::message::Message;
use super::{Latency, Record, Word};

pub use memory::{Level, Pressure, Ram, Swap, Vram};
pub use server::{Child, Death, Process, Upstream};

/// Everything that is shown, at one moment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct Snapshot {
    /// Grows by one with each snapshot that differs.
    pub seq: u64,
    /// The gateway's version.
    pub version: String,
    /// The moment, in Unix milliseconds.
    pub now_ms: u64,
    /// The one word for all of it.
    pub state: Face,
    /// Addresses it listens on.
    pub listen: Vec<String>,
    /// The model server.
    pub upstream: Upstream,
    /// Who runs and who waits.
    pub queue: Queue,
    /// Whether the model server is fit to be asked.
    pub health: Health,
    /// How long requests took lately.
    pub latency: Latency,
    /// Memory.
    pub pressure: Pressure,
    /// What the ladder would do to a request that came now.
    pub plan: Plan,
    /// The context window.
    pub window: Window,
    /// The pause in force, if there is one.
    pub pause: Option<Pause>,
    /// Web pages and hosts that were turned away.
    pub refused_origins: Vec<RefusedOrigin>,
    /// The latest requests, newest first.
    pub recent: Vec<Arc<Record>>,
    /// What a person should know and can act on.
    pub notices: Vec<Message>,
}

/// The state at a glance; the tray has one shape for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Face {
    /// Not probed yet.
    #[default]
    Starting,
    /// Nothing runs, the server is fit.
    Ready,
    /// One is running, none is queued.
    Busy,
    /// One runs and others wait.
    Waiting,
    /// Answers are shortened because of memory.
    Degraded,
    /// The server loads a model.
    Loading,
    /// The server failed and is given time.
    Cooling,
    /// The server does not answer.
    Down,
    /// A person paused inference.
    Paused,
    /// No model server was found.
    NoServer,
    /// The port is taken.
    NotServing,
}

/// The slot and the queue.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct Queue {
    /// Requests in the slot.
    pub running: u64,
    /// Queued requests.
    pub waiting: u64,
    /// Most that may wait.
    pub max_waiting: u64,
    /// All of them: the running ones first, then the queue in its order.
    pub items: Vec<Item>,
}

/// A request that runs or waits.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct Item {
    /// Its id.
    pub id: String,
    /// The calling app.
    pub app: Option<String>,
    /// 0 in the slot, 1 at the front of the queue.
    pub position: u64,
    /// What happens to it.
    pub phase: Phase,
    /// Time since it arrived.
    pub age_ms: u64,
    /// The model asked for.
    pub model: Option<String>,
    /// Whether it is a stream.
    pub stream: bool,
    /// Pieces of the answer so far; about one token each.
    pub tokens: Option<u64>,
    /// Pieces per second since the first.
    pub tokens_per_s: Option<f64>,
    /// What was decided for it at its turn; `null` before, and for what is relayed as it is.
    pub plan: Option<ItemPlan>,
}

/// What was decided for a request at its turn, in tokens; named as in its record.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct ItemPlan {
    /// The prompt as it came.
    pub prompt_before: Option<u64>,
    /// The prompt as it was sent.
    pub prompt_after: Option<u64>,
    /// Messages dropped.
    pub dropped: u64,
    /// The answer's limit asked for.
    pub asked: Option<u64>,
    /// The limit granted, where it is not the one asked for.
    pub granted: Option<u64>,
    /// Why it is not.
    #[cfg_attr(
        feature = "bindings",
        ts(type = "\"waiting\" | \"pressure\" | \"window\" | \"preset\" | null")
    )]
    pub grant_reason: Option<Word>,
}

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It is queued.
    #[default]
    Waiting,
    /// The server loads its model.
    Loading,
    /// The server reads its prompt.
    Prompt,
    /// Its answer is arriving.
    Answer,
    /// It has ended; the server may still be working on it.
    Settling,
}

/// The server's health.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct Health {
    /// The state.
    pub state: HealthState,
    /// Failures in a row.
    pub consecutive_failures: u64,
    /// The last failure.
    pub last_error: Option<Message>,
    /// Cooldown left; 0 when there is none.
    pub cooldown_ms: u64,
    /// The last sign of life, in Unix milliseconds.
    pub last_ok_ms: Option<u64>,
}

/// The server's health in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum HealthState {
    /// Not probed yet.
    #[default]
    Unknown,
    /// It can serve.
    Ready,
    /// Loading a model.
    Loading,
    /// Failed.
    Down,
    /// Silent in the middle of an answer.
    Stalled,
}

/// The degradation ladder.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct Plan {
    /// The rung, 0 to 3.
    pub rung: u8,
    /// The answer's token limit on that rung.
    pub ceiling: Option<u64>,
    /// Why it is not 0: `waiting` or `pressure`.
    #[cfg_attr(feature = "bindings", ts(type = "\"waiting\" | \"pressure\" | null"))]
    pub reason: Option<Word>,
}

/// The context window.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct Window {
    /// Its size in tokens.
    pub size: Option<u64>,
    /// Where the size is from.
    pub source: Option<String>,
    /// How prompts are counted.
    pub counting: Option<String>,
}

/// A pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct Pause {
    /// When it ends, in Unix milliseconds; `null` when a person must end it.
    pub until_ms: Option<u64>,
}

/// A web page's origin, or a host name, that was turned away.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct RefusedOrigin {
    /// Which list it would have to be on.
    pub kind: RefusedKind,
    /// As it was sent, shortened.
    pub value: String,
    /// How often.
    pub count: u64,
    /// When last, in Unix milliseconds.
    pub last_ms: u64,
}

/// Which list a refused caller would have to be on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum RefusedKind {
    /// `access.allowed_origins`.
    #[default]
    Origin,
    /// `access.allowed_hosts`.
    Host,
}
