//! A request that has not ended yet: the only way to make a record, of which it makes exactly one.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use tokio::time::Instant;

use super::{NAME_LIMIT, Outcome, Record, Recorder, fault_name, plain};
use crate::fault_injection;
use crate::refusal::{Refusal, Severity};

/// Whether a request is about inference or is read beside the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// It wants the slot: it is kept, shown and logged however it ends.
    Inference,
    /// A read beside the slot, such as a list of models: counted, and kept only when it did not
    /// end well, so that a polling app does not push everything else out of the panel.
    Passthrough,
}

/// What is known of a request when it arrives.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// The request id.
    pub id: String,
    /// The calling app, if it has a name.
    pub app: Option<String>,
    /// The route as the allow-list spells it; a fixed word when there is no such route.
    pub path: &'static str,
    /// Whether it wants the slot.
    pub lane: Lane,
    /// Unix milliseconds.
    pub arrived_ms: u64,
}

/// How a request ends.
#[derive(Debug, Clone, Copy)]
pub enum Ending<'a> {
    /// Answered whole.
    Done,
    /// Refused before the model server did any work for it.
    Refused(&'a Refusal),
    /// Begun and not completed.
    Failed(&'a Refusal),
    /// The client disconnected first.
    Left,
}

/// A record in the making: its fields are filled in on the way, through `DerefMut`.
///
/// Dropped without [`PendingRecord::end`] it ends as [`Outcome::Left`]: hyper drops the body of an answer
/// when its reader is gone.
pub struct PendingRecord {
    record: Record,
    lane: Lane,
    began: Instant,
    recorder: Recorder,
    severity: Option<Severity>,
}

// === impl PendingRecord ===

impl PendingRecord {
    /// Begins the record of a request that has just arrived.
    pub fn new(recorder: &Recorder, arrival: Arrival) -> Self {
        Self {
            record: Record {
                id: arrival.id,
                app: arrival.app,
                path: Cow::Borrowed(arrival.path),
                arrived: arrival.arrived_ms,
                ..Record::default()
            },
            lane: arrival.lane,
            began: Instant::now(),
            recorder: recorder.clone(),
            severity: None,
        }
    }

    /// Time since the request arrived.
    pub fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// Ends the request. Code, fault and what the upstream answered are taken from the refusal.
    pub fn end(mut self, ending: Ending<'_>) {
        fault_injection::at(fault_injection::Stage::Record);
        let (outcome, refusal) = match ending {
            Ending::Done => (Outcome::Done, None),
            Ending::Refused(refusal) => (Outcome::Refused, Some(refusal)),
            Ending::Failed(refusal) => (Outcome::Failed, Some(refusal)),
            Ending::Left => (Outcome::Left, None),
        };
        self.record.outcome = outcome;
        if let Some(refusal) = refusal {
            self.blame(refusal);
        }
        // The drop that follows hands the record over.
    }

    fn blame(&mut self, refusal: &Refusal) {
        let record = &mut self.record;
        record.code = Some(Cow::Borrowed(refusal.code()));
        record.fault = Some(Cow::Borrowed(fault_name(refusal.fault())));
        if let Refusal::Upstream(error) = refusal {
            let word =
                |text: &Option<String>| text.as_deref().and_then(identifier).map(str::to_owned);
            record.upstream_status = Some(error.status.as_u16());
            record.upstream_kind = word(&error.kind);
            record.upstream_code = word(&error.code);
            record.upstream_length = Some(error.length as u64);
        }
        self.severity = Some(refusal.severity());
    }
}

/// `text` if it is an identifier of at most 64 characters: anything else that a server puts into
/// `type` or `code` could quote what a person wrote. A number is a status, not a code.
fn identifier(text: &str) -> Option<&str> {
    let is_word = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    (is_word && !is_number && text.len() <= NAME_LIMIT).then_some(text)
}

impl Deref for PendingRecord {
    type Target = Record;

    fn deref(&self) -> &Record {
        &self.record
    }
}

impl DerefMut for PendingRecord {
    fn deref_mut(&mut self) -> &mut Record {
        &mut self.record
    }
}

impl Drop for PendingRecord {
    fn drop(&mut self) {
        let mut record = std::mem::take(&mut self.record);
        record.total_ms = crate::clock::ms(self.began.elapsed());
        record.app = record.app.as_deref().map(plain);
        record.model = record.model.as_deref().map(plain);
        let severity = self.severity.unwrap_or(Severity::Info);
        self.recorder.keep(record, self.lane, severity);
    }
}
