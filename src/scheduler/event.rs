//! What happens to the scheduler, and what the scheduler wants done.

use std::time::Duration;

use crate::memory::Level;
use crate::refusal::{Cut, Death, Outage, Refusal};
use crate::scheduler::pause::{Pause, Running};
use crate::scheduler::queue::{Delivery, RequestId};

use super::Rules;

/// When an event happened: both clocks, read once by whoever feeds the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Monotonic, since the gateway started.
    pub at: Duration,
    /// Wall time, Unix milliseconds: for pauses only.
    pub unix_ms: i64,
}

/// A request that wants the slot. Its whole body has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// The request.
    pub id: RequestId,
    /// Bytes its body holds.
    pub bytes: usize,
    /// How the answer is delivered.
    pub delivery: Delivery,
    /// A fingerprint of the body.
    pub body_hash: u64,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A request asks for its turn.
    Arrived(Arrival),
    /// A request was turned away at the door: somebody wants the upstream, so it is looked after.
    Rejected,
    /// A request that had not been sent yet is gone: its client left.
    Left {
        /// The request.
        id: RequestId,
    },
    /// The upstream answered a dispatched request with "still loading".
    NotReady {
        /// The request.
        id: RequestId,
    },
    /// Bytes came from the upstream.
    UpstreamAlive,
    /// A dispatched request ended, in whatever way.
    Finished {
        /// The request.
        id: RequestId,
        /// How.
        ending: Ending,
        /// From dispatch to the end.
        took: Duration,
    },
    /// The upstream has let go of an aborted request.
    Settled {
        /// The request that was aborted.
        id: RequestId,
    },
    /// The probe asked for came back.
    Probed(ProbeReport),
    /// Memory was read.
    Pressure {
        /// The level after hysteresis.
        level: Level,
        /// The reading and number behind it.
        cause: Option<String>,
    },
    /// The upstream's process ended.
    ProcessGone(Death),
    /// The machine slept and is awake again.
    SystemResumed,
    /// A person paused inference.
    Paused {
        /// Until when.
        pause: Pause,
        /// What becomes of running answers.
        running: Running,
    },
    /// A person resumed inference.
    Resumed,
    /// A person wants to know now, or a new process listens on the upstream's port.
    CheckNow,
    /// A person cancelled one request.
    Cancelled {
        /// The request.
        id: RequestId,
    },
    /// The configuration changed.
    Rules(Box<Rules>),
    /// Another upstream was configured (or found): its health starts anew.
    UpstreamChanged,
    /// A panel opened or the last one closed.
    ViewersChanged {
        /// Whether at least one viewer is connected.
        watched: bool,
    },
    /// No new work; what waits is refused.
    ShutDown,
    /// Everything in flight is cut.
    CancelAll(Cut),
    /// Time passed.
    Tick,
}

/// How a dispatched request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The whole answer came.
    Complete,
    /// The upstream answered with an error that is the request's own fault: a sign of life.
    Answered,
    /// Nothing was sent after all.
    Unsent,
    /// The connection was not made, or the upstream answered with an error of its own.
    Failed(Outage),
    /// The upstream went away while it worked on this request.
    Died(Outage),
    /// One of our clocks ran out; the upstream may still be working.
    TimedOut,
    /// The client left or a person stopped it; the upstream may still be working.
    Abandoned,
}

/// What a probe found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeReport {
    /// It answered.
    Alive {
        /// With 401 or 403: alive, but it wants a key.
        wants_key: bool,
    },
    /// It said that its model is loading.
    Loading,
    /// It failed.
    Failed(Outage),
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// It is this request's turn.
    Grant {
        /// The request.
        id: RequestId,
        /// What the plan needs to know.
        grant: Grant,
    },
    /// This request is refused.
    Refuse {
        /// The request.
        id: RequestId,
        /// Why.
        refusal: Refusal,
    },
    /// Send one probe.
    Probe,
    /// Cut a running request.
    Stop {
        /// The request.
        id: RequestId,
        /// What its client is told.
        cut: Cut,
    },
    /// Find out when the upstream has let go of an aborted request, and say so.
    Settle {
        /// The request that was aborted.
        id: RequestId,
    },
    /// The pause changed: keep it where it survives a restart.
    PauseChanged(Option<Pause>),
}

/// What was true at the moment of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Grant {
    /// How many wait behind it.
    pub waiting: usize,
    /// Memory pressure.
    pub pressure: Level,
    /// How long it waited.
    pub waited: Duration,
}
