//! The gateway's state as `GET /oneslot/status`, its events and the panel show it.
//!
//! Plain values: times in milliseconds, sizes in bytes. No member ever vanishes; what is unknown
//! is `null`. Read back (by the command line, or by a tray that is a daemon's face) a member an
//! older gateway did not send takes its default. Not here: where the values come from.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Latency, Record, Word};

/// Everything that is shown, at one moment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
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
    pub notices: Vec<Notice>,
}

/// The state at a glance; the tray has one shape for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Face {
    /// Not probed yet.
    #[default]
    Starting,
    /// Nothing runs, the server is fit.
    Ready,
    /// One runs, nobody waits.
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

/// The model server.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
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
#[serde(default)]
pub struct Death {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// `exited`, `killed`, `out_of_memory`, `likely_out_of_memory` or `unknown`.
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
    /// The same in words.
    pub text: String,
}

/// The slot and the line.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Queue {
    /// Requests in the slot.
    pub running: u64,
    /// Requests in line.
    pub waiting: u64,
    /// Most that may wait.
    pub max_waiting: u64,
    /// All of them: those that run first, then the line in its order.
    pub items: Vec<Item>,
}

/// A request that runs or waits.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Item {
    /// Its id.
    pub id: String,
    /// The calling app.
    pub app: Option<String>,
    /// 0 in the slot, 1 at the head of the line.
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
    pub grant_reason: Option<Word>,
}

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It waits in line.
    #[default]
    Waiting,
    /// The server loads its model.
    Loading,
    /// The server reads its prompt.
    Prompt,
    /// Its answer flows.
    Answer,
    /// It has ended; the server is given time to stop working on it.
    Settling,
}

/// The server's health.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// The state.
    pub state: HealthState,
    /// Failures in a row.
    pub consecutive_failures: u64,
    /// The last failure, in the program's own words.
    pub last_error: Option<String>,
    /// Cooldown left; 0 when there is none.
    pub cooldown_ms: u64,
    /// The last sign of life, in Unix milliseconds.
    pub last_ok_ms: Option<u64>,
}

/// The server's health in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HealthState {
    /// Not probed yet.
    #[default]
    Unknown,
    /// Fit.
    Ready,
    /// Loading a model.
    Loading,
    /// Failed.
    Down,
    /// Silent in the middle of an answer.
    Stalled,
}

/// Memory.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Pressure {
    /// The level.
    pub level: Level,
    /// The reading and the number that caused it.
    pub cause: Option<String>,
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
#[serde(default)]
pub struct Ram {
    /// All there is.
    pub total: Option<u64>,
    /// What programs could still get.
    pub available: Option<u64>,
}

/// Swap in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Swap {
    /// All there is.
    pub total: Option<u64>,
    /// What is in use.
    pub used: Option<u64>,
}

/// A graphics card's memory in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
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

/// The degradation ladder.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Plan {
    /// The rung, 0 to 3.
    pub rung: u8,
    /// The answer's token limit on that rung.
    pub ceiling: Option<u64>,
    /// Why it is not 0.
    pub reason: Option<String>,
}

/// The context window.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
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
#[serde(default)]
pub struct Pause {
    /// When it ends, in Unix milliseconds; `null` when a person must end it.
    pub until_ms: Option<u64>,
}

/// A web page's origin, or a host name, that was turned away.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
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
#[serde(rename_all = "snake_case")]
pub enum RefusedKind {
    /// `access.allowed_origins`.
    #[default]
    Origin,
    /// `access.allowed_hosts`.
    Host,
}

/// Something a person should know.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Notice {
    /// A stable word for it, so that the panel has its own sentence.
    pub code: String,
    /// What happened and what to do, in English.
    pub text: String,
}
