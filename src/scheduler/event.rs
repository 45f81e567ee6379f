//! Events fed to the scheduler, and the actions it answers with.

use std::sync::Arc;
use std::time::Duration;

use crate::memory::Level;
use crate::refusal::{Cut, Death, Outage, Refusal};
use crate::scheduler::pause::{Pause, Running};
use crate::scheduler::queue::{Delivery, RequestId};

use super::Rules;

/// The time of an event on both clocks, read once by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Monotonic, since the gateway started.
    pub at: Duration,
    /// Wall time, Unix milliseconds: for pauses only.
    pub unix_ms: i64,
}

/// A request that needs the slot. Its whole body has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// The request.
    pub id: RequestId,
    /// Bytes its body holds.
    pub bytes: usize,
    /// How the answer is delivered.
    pub delivery: Delivery,
    /// Hash of the body.
    pub body_hash: u64,
}

/// One input of the state machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A request needs the slot.
    Arrived {
        /// The request.
        arrival: Arrival,
        /// The calling app.
        app: Arc<str>,
    },
    /// A request was refused before its body was read.
    Rejected {
        /// The calling app.
        app: Arc<str>,
    },
    /// The client of a request that had not been sent yet left.
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
    /// A dispatched request ended.
    Finished {
        /// The request.
        id: RequestId,
        /// How.
        ending: Ending,
        /// From dispatch to the end.
        took: Duration,
    },
    /// The upstream has stopped working on an aborted request.
    Settled {
        /// The aborted request.
        id: RequestId,
    },
    /// The probe that was asked for has ended.
    Probed(ProbeReport),
    /// Memory was read.
    Pressure {
        /// The level after hysteresis.
        level: Level,
        /// The reading and the number behind it.
        cause: Option<String>,
    },
    /// The upstream's process ended.
    ProcessGone(Death),
    /// The machine slept and has resumed.
    SystemResumed,
    /// Inference was paused.
    Paused {
        /// Until when.
        pause: Pause,
        /// What happens to running answers.
        running: Running,
    },
    /// Inference was resumed.
    Resumed,
    /// A person asked for a check, or a new process listens on the upstream's port.
    CheckNow,
    /// A person cancelled one request.
    Cancelled {
        /// The request.
        id: RequestId,
    },
    /// The configuration changed.
    Rules(Box<Rules>),
    /// Another upstream was configured or found: its health starts as unknown.
    UpstreamChanged,
    /// The first viewer connected or the last one left.
    ViewersChanged {
        /// Whether at least one viewer is connected.
        watched: bool,
    },
    /// Shutdown began: queued requests are refused, arrivals as well.
    ShutDown,
    /// Every answer in flight is stopped.
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
    /// Nothing was sent.
    Unsent,
    /// The connection was not made, or the upstream answered with an error of its own.
    Failed(Outage),
    /// The connection broke while the upstream worked on this request.
    Died(Outage),
    /// A timeout of the gateway expired; the upstream may still be working.
    TimedOut,
    /// The client left or a person stopped it; the upstream may still be working.
    Abandoned,
}

/// The result of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeReport {
    /// It answered.
    Alive {
        /// It answered 401 or 403: alive, but it requires a key.
        wants_key: bool,
    },
    /// It answered that its model is loading.
    Loading,
    /// It failed, or timed out.
    Failed(Outage),
}

/// One output of the state machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Dispatch this request.
    Grant {
        /// The request.
        id: RequestId,
        /// What the plan needs to know.
        grant: Grant,
    },
    /// Refuse this request.
    Refuse {
        /// The request.
        id: RequestId,
        /// Why.
        refusal: Refusal,
    },
    /// Send one probe.
    Probe {
        /// From its start to the end of the answer.
        limit: Duration,
    },
    /// Stop a running request.
    Stop {
        /// The request.
        id: RequestId,
        /// What its client is sent.
        cut: Cut,
    },
    /// Report when the upstream has stopped working on an aborted request.
    Settle {
        /// The aborted request.
        id: RequestId,
    },
    /// The pause changed: write it where it survives a restart.
    PauseChanged(Option<Pause>),
}

/// The conditions at the moment of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Grant {
    /// How many requests are queued behind it.
    pub waiting: usize,
    /// Memory pressure.
    pub pressure: Level,
    /// How long it waited.
    pub waited: Duration,
}
