//! The resolved settings: plain typed values that every stage reads.
//!
//! A duration is a [`Duration`], a size is bytes, a choice is an enum. Where a value came from,
//! how it is spelled and which range it may have stand in [`members`](super::members), not here;
//! default values stand in [`presets`](super::presets).

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use super::base_url::BaseUrl;
use crate::refusal::FullStatus;

/// Everything that can be configured, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The starting point of all other members.
    pub preset: Preset,
    /// Addresses the gateway serves on. Port 0 picks a free one.
    pub listen: Vec<SocketAddr>,
    /// The model server.
    pub upstream: Upstream,
    /// The line.
    pub queue: Queue,
    /// Probes and cooldown.
    pub health: Health,
    /// The ladder of shorter answers.
    pub degrade: Degrade,
    /// The context window.
    pub window: Window,
    /// Limits on waiting for bytes.
    pub timeouts: Timeouts,
    /// When memory counts as short.
    pub pressure: Pressure,
    /// Battery and sleep.
    pub power: Power,
    /// How an answer is passed on.
    pub relay: Relay,
    /// Who may call, and how much.
    pub access: Access,
    /// What is written down.
    pub log: Log,
}

/// The starting point of all other members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preset {
    /// The program's own rules.
    #[default]
    Balanced,
    /// The article's rules: its ceilings, its counting, its refusals, and
    /// [`Window::fallback`] acted on where no window is known.
    Strict,
}

/// The model server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// Where it is.
    pub base_url: BaseUrl,
    /// Sent as `Authorization: Bearer …` in place of the client's own credential.
    pub api_key: Option<Secret>,
    /// Put into requests that name no model, and only those.
    pub model: Option<String>,
    /// Requests in flight at once, 1 or more.
    pub slots: usize,
}

/// The line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// Requests that may wait beside the running ones; 0 refuses whoever cannot start at once.
    pub max_waiting: usize,
    /// Longest wait of a stream, from arrival in the line.
    pub max_wait: Duration,
    /// Longest wait of a request whose answer comes whole, from arrival in the line.
    pub max_wait_whole: Duration,
    /// Bytes of all bodies that wait together.
    pub max_bytes: u64,
    /// The status of a full line.
    pub full_status: FullStatus,
}

/// Probes and cooldown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Limit of one probe, from its start to its whole answer.
    pub timeout: Duration,
    /// Evidence of life older than this is renewed before a dispatch; zero probes each time.
    pub fresh: Duration,
    /// Between two probes while nothing flows.
    pub idle_interval: Duration,
    /// The first cooldown after a failure.
    pub cooldown: Duration,
    /// Where doubling stops; never under [`Health::cooldown`].
    pub cooldown_max: Duration,
}

/// The ladder of shorter answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Degrade {
    /// Whether queue and memory may shorten answers at all.
    pub ladder: bool,
}

/// The context window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Its size.
    pub context: Context,
    /// Tokens assumed where no window is known; only [`Preset::Strict`] acts on it.
    pub fallback: u64,
    /// Tokens kept free beside prompt and answer.
    pub margin: u64,
    /// How a chat is cut.
    pub trim: Trim,
    /// How tokens are counted.
    pub counting: Counting,
}

/// Where the window's size comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Context {
    /// Read from the model server.
    #[default]
    Auto,
    /// This many tokens, whatever the server says.
    Tokens(u64),
}

/// How a chat is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trim {
    /// In coarse steps, so that the cut stays put and the server's prompt cache survives.
    #[default]
    Steady,
    /// As little as fits.
    Minimal,
    /// Never; what does not fit is refused.
    Off,
}

/// How tokens are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Counting {
    /// The best that is available.
    #[default]
    Auto,
    /// By the server's own tokenizer.
    Exact,
    /// By weights learned from the usage the server reports.
    Learned,
    /// UTF-8 bytes ÷ 3, rounded up.
    Bytes,
    /// One per Unicode scalar value.
    Scalar,
}

/// Limits on waiting for bytes; each says from which event to which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// From the start of a connection to its being made.
    pub connect: Duration,
    /// From dispatch to the first byte; streams only.
    pub first_byte: Duration,
    /// Between two bytes; streams only.
    pub stall: Duration,
    /// From dispatch to the end of the answer; never for streams.
    pub total: Duration,
    /// From dispatch to the end of a load; the other clocks stand still meanwhile.
    pub loading: Duration,
    /// From a write to a client to its being taken.
    pub write_idle: Duration,
    /// From a request's first byte to the end of its head.
    pub header: Duration,
    /// Between two bytes of a request's body.
    pub body_idle: Duration,
    /// From the wish to stop to the end of the program.
    pub shutdown: Duration,
}

/// When memory counts as short. Of RAM both conditions of a level must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pressure {
    /// Between two readings while a request runs or waits.
    pub interval: Duration,
    /// Percent of RAM available under which pressure is elevated.
    pub ram_elevated_percent: u8,
    /// Bytes of RAM available under which pressure is elevated.
    pub ram_elevated: u64,
    /// Percent of RAM available under which pressure is high.
    pub ram_high_percent: u8,
    /// Bytes of RAM available under which pressure is high.
    pub ram_high: u64,
    /// Percent of RAM available under which pressure is critical.
    pub ram_critical_percent: u8,
    /// Bytes of RAM available under which pressure is critical.
    pub ram_critical: u64,
    /// Percent of the time lost to waiting for memory over which RAM's level is one higher.
    pub stall_percent: u8,
    /// Free bytes of the model's graphics card under which pressure is elevated.
    pub vram_elevated: u64,
    /// Free bytes of the model's graphics card under which pressure is high.
    pub vram_high: u64,
    /// Bytes others must have taken since the model was loaded for the two above to count.
    pub vram_fall: u64,
    /// Agreeing readings it takes to rise a level.
    pub rise_readings: u32,
    /// Quiet time it takes to fall a level.
    pub fall_quiet: Duration,
    /// Critical that has not grown worse for this long counts as high.
    pub critical_holds: Duration,
}

/// Battery and sleep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Power {
    /// Whether readings and idle probes come more seldom on battery.
    pub slow_on_battery: bool,
    /// Whether the machine is kept from falling asleep while a request is in flight.
    pub keep_awake: bool,
}

/// How an answer is passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relay {
    /// From a stream's arrival to its committing to a 200 that is kept alive; `None` never does.
    pub commit_after: Option<Duration>,
    /// A whole answer is held up to this many bytes, then it flows.
    pub hold_bytes: u64,
}

/// Who may call, and how much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Host names answered for beside the loopback ones, without a port.
    pub allowed_hosts: Vec<String>,
    /// Origins allowed beside local pages and desktop shells.
    pub allowed_origins: Vec<String>,
    /// Whether every request needs one of [`Access::keys`].
    pub require_key: bool,
    /// Keys, by name and digest.
    pub keys: Vec<Key>,
    /// Whether model management is relayed.
    pub allow_admin: bool,
    /// Whether models that run elsewhere are refused.
    pub block_remote_models: bool,
    /// Bytes of one request body.
    pub max_body_bytes: u64,
    /// Bytes of all large bodies that are being received together.
    pub max_upload_bytes: u64,
    /// Connections held at once; more wait before they are accepted.
    pub max_connections: usize,
}

/// A key of one app: the name is shown, of the key itself only a digest is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Names the app in the line, the record and the panel.
    pub name: String,
    /// SHA-256 of the key's text.
    pub sha256: [u8; 32],
}

/// What is written down; never a prompt, an answer or a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// The least important line that is kept.
    pub level: Level,
    /// Whether outcomes are also kept in a file in the state directory.
    pub record: bool,
}

/// The least important log line that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Level {
    /// Faults of our own.
    Error,
    /// And failures of the model server.
    Warn,
    /// And one line per request.
    #[default]
    Info,
    /// And decisions.
    Debug,
    /// And everything.
    Trace,
}

/// A credential. `Debug` never shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Level {
    /// Its word.
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

impl Secret {
    /// Wraps a credential.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The credential itself: for the header that carries it, and nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
