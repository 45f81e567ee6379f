//! The one table of members: path, kind, unit, range, reason.
//!
//! Range checks, names of variables, `oneslotd config --explain` and the documentation come from
//! it. Default values are not in it: they are what the presets' constructors say. A test proves
//! that the table and [`Settings`] name the same members.

use std::sync::LazyLock;

use super::field::Field;
use super::value::{Kind, Value};
use super::{Preset, Settings};

/// One setting.
#[derive(Debug)]
pub struct Member {
    /// Its path in the file, such as `queue.max_waiting`.
    pub path: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// In what it counts.
    pub unit: Unit,
    /// What it does and why its default is what it is.
    pub reason: &'static str,
    read: fn(&Settings) -> Value,
    write: fn(&mut Settings, &Value) -> Result<(), &'static str>,
}

/// In what a member counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// In nothing: a name, a choice, a switch.
    None,
    /// Milliseconds.
    Millis,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Units of 1,048,576 bytes.
    Mebibytes,
    /// Percent.
    Percent,
    /// Tokens.
    Tokens,
    /// Requests.
    Requests,
    /// Readings.
    Readings,
    /// Connections.
    Connections,
    /// Web origins.
    Origin,
}

macro_rules! members {
    ($($path:literal, $kind:expr, $unit:ident, $($field:ident).+, $reason:literal;)+) => {
        &[$(Member {
            path: $path,
            kind: $kind,
            unit: Unit::$unit,
            reason: $reason,
            read: |settings| Field::show(&settings.$($field).+, Unit::$unit),
            write: |settings, value| Field::take(&mut settings.$($field).+, value, Unit::$unit),
        }),+]
    };
}

const DAY_S: u64 = 86_400;
const TIB: u64 = 1 << 40;

/// Every member, in the order of the file.
pub static MEMBERS: &[Member] = members! {
    "preset", Kind::Word(&["balanced", "strict"]), None, preset,
        "The starting point of all other members. strict keeps to fixed numbers: ceilings of 256, 128 and 64 tokens, one token per character, refusals by that count, and window.fallback acted on where no window is known. A member set by hand wins over it.";
    "listen", Kind::Addresses, None, listen,
        "Where the gateway serves. Both loopback families, since localhost may mean either; a machine without IPv6 serves on IPv4 alone. Port 0 picks a free one. Anything beyond loopback needs access.require_key and a key.";

    "upstream.base_url", Kind::Server, None, upstream.base_url,
        "The model server, with or without /v1. auto looks on ports 11434, 1234 and 8080 and takes the first that proves what it is, for the whole run.";
    "upstream.api_key", Kind::Secret, None, upstream.api_key,
        "Sent to the model server in place of the client's own credential. Empty lets the client's through.";
    "upstream.model", Kind::Text, None, upstream.model,
        "Put into requests that name no model, and only those. Empty leaves them as they are.";
    "upstream.slots", Kind::Whole(1, 64), Requests, upstream.slots,
        "Requests in flight at once. One machine with one model does one thing at a time; raise it only for a server that batches.";

    "queue.max_waiting", Kind::Whole(0, 10_000), Requests, queue.max_waiting,
        "Requests that may wait beside the running one; the next is refused at once. A short line answers or refuses within a time people wait for.";
    "queue.max_wait_s", Kind::Whole(1, DAY_S), Seconds, queue.max_wait,
        "Longest wait of a stream, from its arrival in the line. It runs on through pause, cooldown and loading.";
    "queue.max_wait_whole_s", Kind::Whole(1, DAY_S), Seconds, queue.max_wait_whole,
        "Longest wait of a request whose answer comes whole. Shorter, since Node's fetch gives up at 300 s without a head.";
    "queue.max_bytes", Kind::Whole(1_048_576, TIB), Bytes, queue.max_bytes,
        "Bytes of all bodies that wait together, so that a line of images cannot fill the memory a model needs.";
    "queue.full_status", Kind::Number(&[503, 429]), None, queue.full_status,
        "The status of a full line. 429 is for callers that know only that word for it.";

    "health.timeout_ms", Kind::Whole(50, 60_000), Millis, health.timeout,
        "Limit of one health probe, from its start to its whole answer. A local server that lives answers in milliseconds.";
    "health.fresh_ms", Kind::Whole(0, 600_000), Millis, health.fresh,
        "Evidence of life older than this is renewed before a dispatch. 0 probes before each one, as strict does.";
    "health.idle_interval_s", Kind::Whole(1, 3600), Seconds, health.idle_interval,
        "Between two probes while nothing flows and somebody looks or asked lately; six times as long otherwise.";
    "health.cooldown_ms", Kind::Whole(0, 60_000), Millis, health.cooldown,
        "How long nothing is sent to a server after it failed. A process that died needs room to come back.";
    "health.cooldown_max_ms", Kind::Whole(0, 60_000), Millis, health.cooldown_max,
        "Where the doubling of the cooldown stops. A value under health.cooldown_ms means no doubling, as in strict.";

    "degrade.ladder", Kind::Bool, None, degrade.ladder,
        "Whether queue and memory may shorten answers. A changed limit is always said in a header.";

    "window.context", Kind::AutoOr(64, 16_777_216), Tokens, window.context,
        "The context window. auto reads what is loaded from the model server; a number is believed, whatever the server says.";
    "window.fallback", Kind::Whole(64, 16_777_216), Tokens, window.fallback,
        "Shown as assumed where no window is known. Only preset strict acts on it: cutting a chat on a guess loses what was said.";
    "window.margin", Kind::Whole(0, 65_536), Tokens, window.margin,
        "Kept free beside prompt and answer, for what the chat template adds.";
    "window.trim", Kind::Word(&["steady", "minimal", "off"]), None, window.trim,
        "How a chat is cut. steady cuts in coarse steps, so that the start of the prompt, and with it the server's cache, stays the same for several turns; minimal cuts the least; off refuses instead.";
    "window.counting", Kind::Word(&["auto", "exact", "learned", "bytes", "scalar"]), None, window.counting,
        "How tokens are counted. auto takes the best there is: the server's own tokenizer, weights learned from its reports, UTF-8 bytes divided by three. scalar counts one per character, as strict does.";

    "timeouts.connect_ms", Kind::Whole(10, 60_000), Millis, timeouts.connect,
        "From the start of a connection to the model server to its being made.";
    "timeouts.first_byte_s", Kind::Whole(1, DAY_S), Seconds, timeouts.first_byte,
        "From dispatch to the first byte of a stream. Long prompts take minutes on a small machine; an answer that comes whole has no byte before its last and is not judged by this.";
    "timeouts.stall_s", Kind::Whole(1, DAY_S), Seconds, timeouts.stall,
        "Between two bytes of a stream.";
    "timeouts.total_s", Kind::Whole(1, DAY_S), Seconds, timeouts.total,
        "From dispatch to the end of an answer that comes whole. A stream has none: a slow answer that still flows is not a failure.";
    "timeouts.loading_s", Kind::Whole(1, DAY_S), Seconds, timeouts.loading,
        "How long a load may take; the other clocks stand still meanwhile. A little more than Ollama's own 300 s, so that its verdict comes first.";
    "timeouts.write_idle_s", Kind::Whole(1, DAY_S), Seconds, timeouts.write_idle,
        "A client that takes no byte for this long is cut, since it holds the slot.";
    "timeouts.header_s", Kind::Whole(1, 3600), Seconds, timeouts.header,
        "From a request's first byte to the end of its head.";
    "timeouts.body_idle_s", Kind::Whole(1, 3600), Seconds, timeouts.body_idle,
        "Between two bytes of a request's body. A slow upload holds no place in the line.";
    "timeouts.shutdown_s", Kind::Whole(0, 3600), Seconds, timeouts.shutdown,
        "From the wish to stop to the end of the program; a running answer is cut then, and says so.";

    "pressure.interval_ms", Kind::Whole(250, 60_000), Millis, pressure.interval,
        "Between two memory readings while a request runs or waits; else they come with the probes.";
    "pressure.ram_elevated_percent", Kind::Whole(0, 100), Percent, pressure.ram_elevated_percent,
        "RAM available under which pressure is elevated, as a share. Both conditions of a level must hold: a share alone is wrong on large machines.";
    "pressure.ram_elevated_mib", Kind::Whole(0, TIB >> 20), Mebibytes, pressure.ram_elevated,
        "RAM available under which pressure is elevated, as an amount. Answers are shortened a little.";
    "pressure.ram_high_percent", Kind::Whole(0, 100), Percent, pressure.ram_high_percent,
        "RAM available under which pressure is high, as a share.";
    "pressure.ram_high_mib", Kind::Whole(0, TIB >> 20), Mebibytes, pressure.ram_high,
        "RAM available under which pressure is high, as an amount. Answers are shortened much.";
    "pressure.ram_critical_percent", Kind::Whole(0, 100), Percent, pressure.ram_critical_percent,
        "RAM available under which pressure is critical, as a share.";
    "pressure.ram_critical_mib", Kind::Whole(0, TIB >> 20), Mebibytes, pressure.ram_critical,
        "RAM available under which pressure is critical, as an amount. Nothing is sent to the model server.";
    "pressure.stall_percent", Kind::Whole(0, 100), Percent, pressure.stall_percent,
        "Share of the last ten seconds in which every program waited for memory, over which the level that RAM means is one higher (Linux). Swap in use is no pressure; swapping is, and it is seen here. 100 ignores it.";
    "pressure.vram_elevated_mib", Kind::Whole(0, TIB >> 20), Mebibytes, pressure.vram_elevated,
        "Free memory of the model's graphics card under which pressure is elevated. An amount and no share, since what an answer needs does not grow with the card.";
    "pressure.vram_high_mib", Kind::Whole(0, TIB >> 20), Mebibytes, pressure.vram_high,
        "The same for high. A card alone never makes pressure critical: servers fill it on purpose.";
    "pressure.vram_fall_mib", Kind::Whole(0, TIB >> 20), Mebibytes, pressure.vram_fall,
        "Both count only if other programs took this much of the card since the model was loaded: a card that its model fills is as it should be.";
    "pressure.rise_readings", Kind::Whole(1, 100), Readings, pressure.rise_readings,
        "Agreeing readings it takes to rise a level. A single odd reading changes nothing.";
    "pressure.fall_quiet_s", Kind::Whole(0, 3600), Seconds, pressure.fall_quiet,
        "Quiet time it takes to fall a level, so that the plan does not flutter. 0 falls with the next reading that is better.";
    "pressure.critical_holds_s", Kind::Whole(0, DAY_S), Seconds, pressure.critical_holds,
        "Critical that has not grown worse for this long counts as high: a machine that is always full still serves, shortly. 0 never holds back, and critical only shortens.";

    "power.slow_on_battery", Kind::Bool, None, power.slow_on_battery,
        "Whether memory is read, and an idle server probed, three times as seldom on battery. Off, since both cost next to nothing and shortness is seen later.";
    "power.keep_awake", Kind::Bool, None, power.keep_awake,
        "Whether the machine is kept from falling asleep by itself while a request is in flight and it is not on battery (Linux with logind). Off: when a machine sleeps is for its owner to say.";

    "relay.commit_after_s", Kind::Whole(0, 3600), Seconds, relay.commit_after,
        "A stream without a byte for this long after it arrived gets its 200 and is kept alive. It costs the status of a later failure, which is then said in the stream; clients that give up on a silent line are the commoner harm. 0 never does, as in strict.";
    "relay.hold_bytes", Kind::Whole(0, TIB), Bytes, relay.hold_bytes,
        "An answer that comes whole is held up to this size, so that a server that dies in the middle is a refusal and not half an answer.";

    "access.allowed_hosts", Kind::Hosts, None, access.allowed_hosts,
        "Host names answered for beside the loopback ones, without a port. Any other is refused, which stops DNS rebinding.";
    "access.allowed_origins", Kind::Origins, Origin, access.allowed_origins,
        "Web origins that may call, beside local pages and desktop shells. Every other page is refused.";
    "access.require_key", Kind::Bool, None, access.require_key,
        "Whether every request needs one of access.keys.";
    "access.keys", Kind::Keys, None, access.keys,
        "Keys by name and SHA-256. Made with `oneslotd key add NAME`, which shows the key once.";
    "access.allow_admin", Kind::Bool, None, access.allow_admin,
        "Whether model management (pull, delete, load, unload) is relayed. Off, since any program on this machine may call.";
    "access.block_remote_models", Kind::Bool, None, access.block_remote_models,
        "Whether models that a local server runs elsewhere are refused.";
    "access.max_body_bytes", Kind::Whole(1024, TIB), Bytes, access.max_body_bytes,
        "Bytes of one request body. Room for a few large images.";
    "access.max_upload_bytes", Kind::Whole(1_048_576, TIB), Bytes, access.max_upload_bytes,
        "Bytes of all bodies over 1 MiB that are being received together; more wait their turn to be read. Four bodies of the largest size, so that many uploads at once cannot fill the memory a model needs. Counts from the next start.";
    "access.max_connections", Kind::Whole(1, 65_536), Connections, access.max_connections,
        "Connections held at once; more wait before they are accepted.";

    "log.level", Kind::Word(&["error", "warn", "info", "debug", "trace"]), None, log.level,
        "The least important line that is kept. info is one line per request. No level shows a prompt, an answer or a key.";
    "log.record", Kind::Bool, None, log.record,
        "Whether outcomes, never texts, are also kept in a bounded file in the state directory.";
};

impl Member {
    /// Its value in `settings`, as it would be written. A credential is never shown.
    pub fn read(&self, settings: &Settings) -> Value {
        (self.read)(settings)
    }

    /// Puts `value` into `settings`.
    ///
    /// # Errors
    ///
    /// What was expected instead, in words; `settings` is then as it was.
    pub fn write(&self, settings: &mut Settings, value: &Value) -> Result<(), String> {
        if !self.kind.admits(value) {
            return Err(self.kind.expected());
        }
        (self.write)(settings, value).map_err(str::to_owned)
    }

    /// What a preset sets it to.
    pub fn default(&self, preset: Preset) -> Value {
        static DEFAULTS: LazyLock<[Settings; 2]> =
            LazyLock::new(|| [Settings::of(Preset::Balanced), Settings::of(Preset::Strict)]);
        let [balanced, strict] = &*DEFAULTS;
        self.read(match preset {
            Preset::Balanced => balanced,
            Preset::Strict => strict,
        })
    }

    /// The variable that sets it: `ONESLOT_UPSTREAM__BASE_URL` for `upstream.base_url`.
    pub fn variable(&self) -> String {
        format!(
            "{PREFIX}{}",
            self.path.replace('.', "__").to_ascii_uppercase()
        )
    }

    /// Its section, `upstream` of `upstream.base_url`, and its name there.
    pub fn place(&self) -> (Option<&'static str>, &'static str) {
        match self.path.split_once('.') {
            Some((section, name)) => (Some(section), name),
            None => (None, self.path),
        }
    }
}

/// With what the name of every variable begins.
pub const PREFIX: &str = "ONESLOT_";

/// The member at `path`.
pub fn find(path: &str) -> Option<&'static Member> {
    MEMBERS.iter().find(|member| member.path == path)
}

/// The member whose path is most like `path`, if any is like it.
pub fn nearest(path: &str) -> Option<&'static str> {
    let name = path.rsplit('.').next().unwrap_or(path);
    // The right name in the wrong section is the commonest slip.
    if let Some(member) = MEMBERS.iter().find(|member| member.place().1 == name) {
        return Some(member.path);
    }
    let (distance, nearest) = MEMBERS
        .iter()
        .map(|member| (distance(path, member.path), member.path))
        .min_by_key(|(distance, _)| *distance)?;
    (distance <= 2.max(path.len() / 4)).then_some(nearest)
}

impl Unit {
    /// The ending that a member's name has when it counts in this unit.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Millis => "_ms",
            Self::Seconds => "_s",
            Self::Mebibytes => "_mib",
            Self::None
            | Self::Bytes
            | Self::Percent
            | Self::Tokens
            | Self::Requests
            | Self::Readings
            | Self::Connections
            | Self::Origin => "",
        }
    }

    /// Its name, for people; empty where there is none.
    pub fn name(self) -> &'static str {
        match self {
            Self::None | Self::Origin => "",
            Self::Millis => "ms",
            Self::Seconds => "s",
            Self::Bytes => "bytes",
            Self::Mebibytes => "MiB",
            Self::Percent => "percent",
            Self::Tokens => "tokens",
            Self::Requests => "requests",
            Self::Readings => "readings",
            Self::Connections => "connections",
        }
    }

    /// Milliseconds in one.
    pub(super) fn millis(self) -> u64 {
        if self == Self::Seconds { 1000 } else { 1 }
    }

    /// Bytes in one.
    pub(super) fn bytes(self) -> u64 {
        if self == Self::Mebibytes { 1 << 20 } else { 1 }
    }
}

/// Edits (insert, delete, replace) between two names.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut corner = i;
        let mut left = i + 1;
        for (cell, b) in row.iter_mut().skip(1).zip(&to) {
            let best = (corner + usize::from(a != *b)).min(left + 1).min(*cell + 1);
            corner = std::mem::replace(cell, best);
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}
