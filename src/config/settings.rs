//! The settings: plain structs that every stage reads.
//!
//! The doc comment of a field is the text that `oneslotd config --explain`, `docs/settings.md` and
//! the panel show; its attributes are the name in the file, the range and the unit
//! ([`schema`](super::schema) reads them). Default values stand in [`presets`](super::presets),
//! the serde form of single values in [`values`](super::values).

use std::net::SocketAddr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::key::{self, Key};
use super::limits::Limits;
use super::values::{self, BaseUrl, Context, Preset, Secret};
use crate::refusal::FullStatus;

/// Everything that can be configured, resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The starting point of all other settings. A setting made by hand wins over it.
    pub preset: Preset,
    /// Addresses the gateway listens on. The default has both loopback families, since localhost
    /// may mean either; a machine without IPv6 serves on IPv4 alone. Port 0 picks a free port.
    /// Any address beyond loopback needs access.require_key and a key.
    #[serde(with = "values::addresses")]
    #[schemars(with = "Vec<String>", extend("kind" = "addresses"))]
    pub listen: Vec<SocketAddr>,
    /// The model server.
    pub upstream: Upstream,
    /// The queue.
    pub queue: Queue,
    /// Health probes and cooldown.
    pub health: Health,
    /// Shorter answers while requests wait or memory is short.
    pub degrade: Degrade,
    /// The context window.
    pub window: Window,
    /// Timeouts towards the model server.
    pub timeouts: Timeouts,
    /// Memory pressure.
    pub pressure: Pressure,
    /// Sleep of the machine.
    pub power: Power,
    /// How responses are relayed.
    pub relay: Relay,
    /// Who may send requests.
    pub access: Access,
    /// Log and record. Neither holds a prompt, an answer or a key.
    pub log: Log,
    /// Limits that are not settings.
    #[serde(skip)]
    pub limits: Limits,
}

/// The model server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    /// The model server, with or without /v1. auto tries ports 11434, 1234 and 8080 and takes the
    /// first model server it can identify, for the whole run.
    #[serde(with = "values::base_url")]
    #[schemars(with = "String", extend("kind" = "server"))]
    pub base_url: BaseUrl,
    /// Sent to the model server instead of the client's own credential. If it is empty, the
    /// client's credential is passed on.
    #[serde(with = "values::secret")]
    #[schemars(with = "String", extend("kind" = "secret"))]
    pub api_key: Option<Secret>,
    /// Added to requests that name no model. If it is empty, such requests are passed on unchanged.
    #[serde(with = "values::optional_text")]
    #[schemars(with = "String")]
    pub model: Option<String>,
    /// Requests in flight at the model server at once. Raise it only for a server that batches.
    #[schemars(range(min = 1, max = 64), extend("unit" = "requests"))]
    pub slots: usize,
}

/// The queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Requests that may be queued besides the running ones; the next one is refused at once.
    #[schemars(range(min = 0, max = 10_000), extend("unit" = "requests"))]
    pub max_waiting: usize,
    /// Longest time in the queue for a streaming request. Pauses, cooldown and loading count.
    #[serde(rename = "max_wait_s", with = "values::seconds")]
    #[schemars(with = "u64", range(min = 1, max = 86_400))]
    pub max_wait: Duration,
    /// Longest time in the queue for a request without streaming. Shorter by default, since
    /// Node's fetch gives up after 300 s without response headers.
    #[serde(rename = "max_wait_whole_s", with = "values::seconds")]
    #[schemars(with = "u64", range(min = 1, max = 86_400))]
    pub max_wait_whole: Duration,
    /// The HTTP status of a refusal when the queue is full. 429 is for clients that retry only on
    /// that one.
    #[serde(with = "values::full_status")]
    #[schemars(with = "u16", extend("enum" = [503, 429]))]
    pub full_status: FullStatus,
}

/// Health probes and cooldown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// Time between two probes of an idle server while the panel is open or a request came
    /// recently; six times as long otherwise.
    #[serde(rename = "idle_interval_s", with = "values::seconds")]
    #[schemars(with = "u64", range(min = 1, max = 3600))]
    pub idle_interval: Duration,
    /// Time without any request to the model server after it failed. It doubles with each further
    /// failure, up to 15 s; with preset strict it stays the same.
    #[serde(rename = "cooldown_ms", with = "values::millis")]
    #[schemars(with = "u64", range(min = 0, max = 60_000))]
    pub cooldown: Duration,
}

/// Shorter answers while requests wait or memory is short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Degrade {
    /// Whether answers are limited while requests are queued or memory is short. A changed limit
    /// is always disclosed in a response header.
    pub ladder: bool,
}

/// The context window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// The size of the context window. auto reads it from the model server; a number is used
    /// whatever the server reports.
    #[serde(with = "values::context")]
    #[schemars(with = "u64", range(min = 64, max = 16_777_216))]
    #[schemars(extend("kind" = "auto", "unit" = "tokens"))]
    pub context: Context,
    /// Shown as assumed where the window is unknown. Only preset strict trims by it.
    #[schemars(range(min = 64, max = 16_777_216), extend("unit" = "tokens"))]
    pub fallback: u64,
    /// How old messages are dropped when a chat does not fit the window.
    pub trim: Trim,
    /// How tokens are counted.
    pub counting: Counting,
}

/// How old messages are dropped when a chat does not fit the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Trim {
    /// In coarse steps, so that the start of the prompt, and with it the server's prompt cache,
    /// stays the same for several turns.
    #[default]
    Steady,
    /// As few as possible.
    Minimal,
    /// Never; a chat that does not fit is refused.
    Off,
}

/// How tokens are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Counting {
    /// The best available: the server's own tokenizer, then weights learned from its reports,
    /// then bytes.
    #[default]
    Auto,
    /// UTF-8 bytes divided by three, rounded up.
    Bytes,
    /// One per Unicode character.
    Scalar,
}

/// Timeouts towards the model server. All but `total` and `loading` are for streams only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timeouts {
    /// From dispatch to the first byte of a stream. A long prompt takes minutes on a small
    /// machine.
    #[serde(rename = "first_byte_s", with = "values::seconds")]
    #[schemars(with = "u64", range(min = 1, max = 86_400))]
    pub first_byte: Duration,
    /// Between two bytes of a stream.
    #[serde(rename = "stall_s", with = "values::seconds")]
    #[schemars(with = "u64", range(min = 1, max = 86_400))]
    pub stall: Duration,
    /// From dispatch to the end of a response without streaming. Streams have no such limit.
    #[serde(rename = "total_s", with = "values::seconds")]
    #[schemars(with = "u64", range(min = 1, max = 86_400))]
    pub total: Duration,
    /// How long the model server may take to load a model; the other timeouts stop meanwhile. The
    /// default is a little more than Ollama's own 300 s.
    #[serde(rename = "loading_s", with = "values::seconds")]
    #[schemars(with = "u64", range(min = 1, max = 86_400))]
    pub loading: Duration,
}

/// Memory pressure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pressure {
    /// How early memory counts as short. Answers are then limited, and at the last level requests
    /// wait.
    pub sensitivity: Sensitivity,
    /// Whether graphics memory is read. With false no GPU library is opened.
    pub gpu: bool,
}

/// How early memory counts as short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Sensitivity {
    /// Never; memory is only shown.
    Off,
    /// At half the thresholds.
    Low,
    /// With less than 3 GiB and 15 % of RAM available, or 700 MiB of graphics memory free; more
    /// strictly in two further levels.
    #[default]
    Normal,
    /// At twice the thresholds.
    High,
}

/// Sleep of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// Whether the machine is kept from falling asleep while a request is in flight.
    pub keep_awake: bool,
}

/// How responses are relayed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Relay {
    /// A stream without a byte for this long after the request arrived gets status 200 and
    /// keep-alive comments, so that clients do not give up. A later failure is then reported
    /// inside the stream. 0 never does this.
    #[serde(rename = "commit_after_s", with = "values::optional_seconds")]
    #[schemars(with = "u64", range(min = 0, max = 3600))]
    pub commit_after: Option<Duration>,
}

/// Who may send requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// Host names accepted besides the loopback ones, without a port. Any other is refused, which
    /// stops DNS rebinding.
    #[serde(with = "values::hosts")]
    #[schemars(with = "Vec<String>", extend("kind" = "hosts"))]
    pub allowed_hosts: Vec<String>,
    /// Web origins accepted besides local pages and desktop apps. Every other page is refused.
    #[serde(with = "values::origins")]
    #[schemars(with = "Vec<String>", extend("kind" = "origins"))]
    pub allowed_origins: Vec<String>,
    /// Whether every request needs one of access.keys.
    pub require_key: bool,
    /// API keys, by name and SHA-256. Made with `oneslotd key add NAME`, which shows the key once.
    #[serde(deserialize_with = "key::keys")]
    #[schemars(with = "Vec<String>", extend("kind" = "keys"))]
    pub keys: Vec<Key>,
    /// Whether model management (pull, delete, load, unload) is passed on. Off by default, since
    /// any program on this machine can send requests.
    pub allow_admin: bool,
    /// Whether models that a local server runs in a cloud are refused.
    pub block_remote_models: bool,
}

/// Log and record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// The least important log line that is written. No level shows a prompt, an answer or a key.
    pub level: Level,
    /// Whether outcomes of requests, never texts, are also kept in a bounded file in the state
    /// directory.
    pub record: bool,
}

/// The least important log line that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Unexpected errors of the gateway.
    Error,
    /// Also failures of the model server.
    Warn,
    /// Also one line per request.
    #[default]
    Info,
    /// Also decisions.
    Debug,
    /// Everything.
    Trace,
}

impl Level {
    /// Its name in the file and for the log filter.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}
