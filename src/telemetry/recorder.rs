//! Keeps what ended: the last records, quantiles, counters, the journal and one log line each.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::Level;

use super::latency::{Latency, Samples};
use super::metrics::Counts;
use super::{Lane, Outcome, Record};
use crate::refusal::Severity;
use crate::telemetry::async_writer::Lines;

/// Records kept in memory.
const KEPT: usize = 200;
/// The journal's file in the state directory.
const JOURNAL: &str = "records.jsonl";
/// Bytes of the journal, and of the old one beside it: some 6,000 requests each.
const JOURNAL_LIMIT: u64 = 4 << 20;

/// Where outcomes go. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Recorder(Arc<Shared>);

struct Shared {
    kept: Mutex<Kept>,
    journal: Option<Lines>,
}

#[derive(Default)]
struct Kept {
    recent: VecDeque<Arc<Record>>,
    samples: Samples,
    counts: Counts,
}

// === impl Recorder ===

impl Recorder {
    /// A recorder that writes no file.
    pub fn in_memory() -> Self {
        Self::with(None)
    }

    /// A recorder that also writes `records.jsonl` in `directory`. If that cannot be, one warning
    /// says so and records stay in memory.
    pub fn in_directory(directory: &Path) -> Self {
        let path = directory.join(JOURNAL);
        match Lines::to_file(path, JOURNAL_LIMIT, "oneslot-journal") {
            Ok(lines) => Self::with(Some(lines)),
            Err(error) => {
                tracing::warn!(directory = %directory.display(), %error, "records stay in memory only");
                Self::with(None)
            }
        }
    }

    /// The latest records, newest first.
    pub fn recent(&self, at_most: usize) -> Vec<Arc<Record>> {
        let kept = self.kept();
        kept.recent.iter().rev().take(at_most).cloned().collect()
    }

    /// Quantiles as of `now_ms` (Unix milliseconds).
    pub fn latency(&self, now_ms: u64) -> Latency {
        self.kept().samples.latency(now_ms)
    }

    /// The median time a whole answer held the slot lately; 10 s while none has been seen.
    pub fn usual_service_time(&self) -> Duration {
        self.kept().samples.usual_service_time()
    }

    /// All counters since the start.
    pub fn counts(&self) -> Counts {
        self.kept().counts.clone()
    }

    /// Waits until the journal is written, two seconds at most; for the end of the program.
    pub fn flush(&self) {
        if let Some(journal) = &self.0.journal {
            journal.flush();
        }
    }

    /// Takes a record that has ended. Never waits for a disk.
    pub(super) fn keep(&self, record: Record, lane: Lane, severity: Severity) {
        let noteworthy = lane == Lane::Inference || record.outcome != Outcome::Done;
        write_log_line(&record, noteworthy, severity);
        let record = Arc::new(record);
        {
            let mut kept = self.kept();
            kept.counts.add(&record);
            if lane == Lane::Inference {
                kept.samples.add(&record);
            }
            if noteworthy {
                if kept.recent.len() == KEPT {
                    kept.recent.pop_front();
                }
                kept.recent.push_back(Arc::clone(&record));
            }
        }
        if noteworthy
            && let Some(journal) = &self.0.journal
            && let Ok(mut line) = serde_json::to_vec(&*record)
        {
            line.push(b'\n');
            journal.send(line);
        }
    }

    fn with(journal: Option<Lines>) -> Self {
        Self(Arc::new(Shared {
            kept: Mutex::default(),
            journal,
        }))
    }

    /// A thread that panicked here left counters that are off by one at worst.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The one log line of a request; reads that went well are for those who look closely.
fn write_log_line(record: &Record, noteworthy: bool, severity: Severity) {
    // A macro because `tracing` wants its level when the program is compiled.
    macro_rules! line {
        ($level:expr) => {
            tracing::event!(
                target: "oneslot::request",
                $level,
                id = record.id,
                app = record.app,
                model = record.model,
                path = &*record.path,
                stream = record.stream,
                outcome = record.outcome.as_str(),
                code = record.code.as_deref(),
                queue_length = record.queue_length,
                wait_ms = record.wait_ms,
                first_token_ms = record.first_token_ms,
                infer_ms = record.infer_ms,
                total_ms = record.total_ms,
                budget = record.budget,
                prompt_before = record.prompt_before,
                prompt_after = record.prompt_after,
                dropped = record.dropped,
                asked = record.asked,
                granted = record.granted,
                grant_reason = record.grant_reason.as_deref(),
                prompt_tokens = record.prompt_tokens,
                completion_tokens = record.completion_tokens,
                finish = record.finish.as_deref(),
                rung = record.rung,
                consecutive_failures = record.consecutive_failures,
                upstream_status = record.upstream_status,
                upstream_kind = record.upstream_kind,
                upstream_code = record.upstream_code,
                upstream_length = record.upstream_length,
                "request ended"
            )
        };
    }
    match severity {
        Severity::Info if noteworthy => line!(Level::INFO),
        Severity::Info => line!(Level::DEBUG),
        Severity::Warn => line!(Level::WARN),
        Severity::Error => line!(Level::ERROR),
    }
}
