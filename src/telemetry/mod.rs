//! Every request ends in exactly one recorded outcome: done, refused, failed or left.
//!
//! A [`Record`] holds numbers and names, never text: no prompt, no answer, no key. Names a
//! caller chose (app, model) are shortened and made printable. An [`PendingRecord`] record is filled in on
//! the way; dropping it is an ending too, so none can be forgotten.
//!
//! Not here: what the numbers decide. This stage only keeps, counts and shows.

mod async_writer;
mod latency;
pub mod live_stats;
pub mod log;
pub mod message;
pub mod metrics;
pub mod notices;
mod pending;
mod recorder;
mod rotating_file;
pub mod snapshot;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use self::latency::{Latency, Quantiles, Spread};
pub use self::metrics::Counts;
pub use self::recorder::Recorder;
use crate::refusal::Fault;
pub use crate::telemetry::pending::{Arrival, Ending, Lane, PendingRecord};

/// A short word of the program's own, such as a code; borrowed when written, owned when read.
pub type Word = Cow<'static, str>;

/// Characters kept of a name that a client chose.
const NAME_LIMIT: usize = 64;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Answered whole.
    Done,
    /// Refused before the model server did any work for it.
    Refused,
    /// Begun and not completed.
    Failed,
    /// The client disconnected first.
    #[default]
    Left,
}

/// What is known of one request. Times in milliseconds, sizes in bytes or tokens; unknown is
/// `None` and written as `null`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct Record {
    /// The request id, as in `x-oneslot-request-id`.
    pub id: String,
    /// The calling app.
    pub app: Option<String>,
    /// The model asked for.
    pub model: Option<String>,
    /// The route, as the allow-list spells it: never the caller's own spelling.
    pub path: Word,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// When it arrived, in Unix milliseconds.
    pub arrived: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// The refusal's code.
    pub code: Option<Word>,
    /// Whose fault a refusal or failure was: client, upstream, capacity or gateway.
    #[cfg_attr(
        feature = "bindings",
        ts(type = "\"client\" | \"upstream\" | \"capacity\" | \"gateway\" | null")
    )]
    pub fault: Option<Word>,
    /// Requests that waited when it arrived.
    pub queue_length: Option<u64>,
    /// From arrival to dispatch.
    pub wait_ms: Option<u64>,
    /// From arrival to the first byte of the answer.
    pub first_token_ms: Option<u64>,
    /// From arrival to the end.
    pub total_ms: u64,
    /// From dispatch to the end: the time the slot was held for it.
    pub infer_ms: Option<u64>,
    /// Tokens the prompt was allowed.
    pub budget: Option<u64>,
    /// Tokens of the prompt as it came.
    pub prompt_before: Option<u64>,
    /// Tokens of the prompt as it was sent.
    pub prompt_after: Option<u64>,
    /// Messages dropped.
    pub dropped: u64,
    /// The answer's token limit asked for.
    pub asked: Option<u64>,
    /// The limit granted.
    pub granted: Option<u64>,
    /// Why less was granted than asked for.
    #[cfg_attr(
        feature = "bindings",
        ts(type = "\"waiting\" | \"pressure\" | \"window\" | \"preset\" | null")
    )]
    pub grant_reason: Option<Word>,
    /// Prompt tokens as the server counted them.
    pub prompt_tokens: Option<u64>,
    /// Answer tokens as the server counted them.
    pub completion_tokens: Option<u64>,
    /// Why the model stopped.
    pub finish: Option<Word>,
    /// The degradation rung at dispatch, 0 to 3.
    pub rung: Option<u8>,
    /// Health failures in a row at the end.
    pub consecutive_failures: u64,
    /// The model server's status.
    pub upstream_status: Option<u16>,
    /// The type of the error it answered with.
    pub upstream_kind: Option<String>,
    /// The code of the error it answered with.
    pub upstream_code: Option<String>,
    /// The length of that error.
    pub upstream_length: Option<u64>,
}

// === impl Outcome ===

impl Outcome {
    /// The outcome's name in records, logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Left => "left",
        }
    }
}

/// The fault's name in records.
fn fault_name(fault: Fault) -> &'static str {
    match fault {
        Fault::Client => "client",
        Fault::Upstream => "upstream",
        Fault::Capacity => "capacity",
        Fault::Gateway => "gateway",
    }
}

/// A name that a client chose, safe to display: at most 64 characters, each printable.
///
/// Marks that turn the direction of text go too: they could make a log line read otherwise.
pub fn plain(name: &str) -> String {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    name.chars()
        .take(NAME_LIMIT)
        .map(|c| if hidden(c) { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
