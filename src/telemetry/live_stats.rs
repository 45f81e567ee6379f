//! Live numbers of a request, for the status.
//!
//! Written by the request's task, read by the status. They are atomics, so that neither waits for
//! the other; only the plan is behind a lock.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::snapshot::ItemPlan;
use crate::scheduler::queue::RequestId;

/// One request's live numbers.
#[derive(Debug)]
pub struct LiveStats {
    /// The request.
    pub id: RequestId,
    /// The calling app.
    pub app: String,
    /// The model it asked for.
    pub model: Option<String>,
    /// Whether it streams.
    pub stream: bool,
    /// When it arrived, on the gateway's monotonic clock.
    pub arrived: Duration,
    phase: AtomicU8,
    chunks: AtomicU64,
    first_byte_ms: AtomicU64,
    last_byte_ms: AtomicU64,
    /// Written once or twice in a request's life, and held only to copy a few numbers.
    plan: Mutex<Option<ItemPlan>>,
}

/// What a request is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Queued.
    Waiting,
    /// Next, while the upstream's health is checked.
    Checking,
    /// The upstream loads the model for it.
    Loading,
    /// Sent; no byte of the answer yet.
    Prompt,
    /// The answer is arriving.
    Answering,
}

impl LiveStats {
    /// A request that has just arrived.
    pub fn new(
        id: RequestId,
        app: String,
        model: Option<String>,
        stream: bool,
        arrived: Duration,
    ) -> Self {
        Self {
            id,
            app,
            model,
            stream,
            arrived,
            phase: AtomicU8::new(Phase::Waiting as u8),
            chunks: AtomicU64::new(0),
            first_byte_ms: AtomicU64::new(0),
            last_byte_ms: AtomicU64::new(0),
            plan: Mutex::new(None),
        }
    }

    /// Its phase.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            1 => Phase::Checking,
            2 => Phase::Loading,
            3 => Phase::Prompt,
            4 => Phase::Answering,
            _ => Phase::Waiting,
        }
    }

    /// Sets its phase.
    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Sets its plan.
    pub fn planned(&self, plan: ItemPlan) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = Some(plan);
    }

    /// Its plan, once there is one.
    pub fn plan(&self) -> Option<ItemPlan> {
        self.plan
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Notes that `chunks` pieces of the answer have come, the last at `at`.
    pub fn answered(&self, chunks: u64, at: Duration) {
        self.enter(Phase::Answering);
        self.chunks.store(chunks, Ordering::Relaxed);
        let ms = crate::clock::ms(at);
        let _ = self
            .first_byte_ms
            .compare_exchange(0, ms, Ordering::Relaxed, Ordering::Relaxed);
        self.last_byte_ms.store(ms, Ordering::Relaxed);
    }

    /// Pieces of the answer so far; about one a token.
    pub fn chunks(&self) -> u64 {
        self.chunks.load(Ordering::Relaxed)
    }

    /// Pieces per second since the first, once there are enough to tell.
    pub fn rate(&self) -> Option<f64> {
        let first = self.first_byte_ms.load(Ordering::Relaxed);
        let last = self.last_byte_ms.load(Ordering::Relaxed);
        let chunks = self.chunks();
        (chunks > 1 && last > first).then(|| {
            let rate = (chunks - 1) as f64 * 1000.0 / (last - first) as f64;
            (rate * 10.0).round() / 10.0
        })
    }

    /// When the last byte arrived, if one did.
    pub fn last_byte(&self) -> Option<Duration> {
        (self.phase() == Phase::Answering)
            .then(|| Duration::from_millis(self.last_byte_ms.load(Ordering::Relaxed)))
    }
}

impl Phase {
    /// Its name in the status.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Checking => "checking",
            Self::Loading => "loading",
            Self::Prompt => "prompt",
            Self::Answering => "answering",
        }
    }
}
