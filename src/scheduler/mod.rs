//! The scheduler: single owner of queue, slots, health, pause and memory pressure.
//!
//! [`Scheduler`] is a pure state machine. It is fed [`Event`]s with the time at which they happened
//! and answers with [`Action`]s; it does no I/O and reads no clock, so that a seeded model test
//! can drive it through millions of interleavings. [`SchedulerHandle`] carries the actions out.
//!
//! Invariants: at most `slots` requests are in flight upstream; a queued request gets exactly one
//! `Grant` or `Refuse`; nothing is sent during a cooldown.

mod event;
mod transitions;
mod dispatch;
pub mod queue;
pub mod slots;
pub mod health;
pub mod pause;
mod crash_loop;
mod estimate;
mod handle;
mod lease;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::memory::Level;
use crate::refusal::{FullStatus, Refusal};
use crate::scheduler::health::{Backoff, Health};
use crate::scheduler::pause::Pause;
use crate::scheduler::queue::{Queue, RequestId};
use crate::scheduler::slots::Slots;

pub use event::{Action, Arrival, Ending, Event, Grant, Now, ProbeReport};
pub use handle::{Effect, SchedulerHandle, Waiter};
pub use lease::{Lease, QueuedRequest};

use crash_loop::Crashes;
use estimate::Estimate;

/// The scheduler's limits; a new set takes effect at the next event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Requests in flight upstream at once, at least 1.
    pub slots: usize,
    /// Requests that may be queued.
    pub max_waiting: usize,
    /// Bytes all queued bodies may hold together.
    pub max_bytes: usize,
    /// A stream's wait, from arrival to refusal.
    pub max_wait_stream: Duration,
    /// Any other request's wait.
    pub max_wait_whole: Duration,
    /// Status of the refusal of a full queue.
    pub full_status: FullStatus,
    /// Evidence of life older than this is renewed before a dispatch.
    pub fresh: Duration,
    /// Between two probes while requests arrived recently or a viewer is connected; else it is at
    /// least a minute.
    pub idle_interval: Duration,
    /// Cooldown after failures.
    pub backoff: Backoff,
    /// Probes in a row that time out before the upstream is down, at least 1.
    pub misses: u32,
    /// How long a load may take, from the moment it was seen (or the arrival, if later).
    pub loading: Duration,
    /// The longest time from an abort until the slot is free again, whatever the upstream's busy
    /// signal says.
    pub settle: Duration,
}

/// The state machine.
#[derive(Debug)]
pub struct Scheduler {
    rules: Rules,
    queue: Queue,
    slots: Slots,
    health: Health,
    pause: Option<Pause>,
    pressure: Level,
    pressure_cause: Option<String>,
    probe: Probe,
    next_probe: Option<Duration>,
    last_arrival: Option<Duration>,
    /// Whether a viewer is connected: a panel, or a followed event stream.
    watched: bool,
    closing: bool,
    crashes: Crashes,
    estimate: Estimate,
}

/// Whether a probe is in flight, and for which request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    None,
    InFlight { owner: Option<RequestId> },
}

/// Between two idle probes when no request arrived for [`ACTIVE_FOR`] and no viewer is connected.
const QUIET_INTERVAL: Duration = Duration::from_secs(60);
/// How long the upstream is probed at `idle_interval` after the last arrival.
const ACTIVE_FOR: Duration = Duration::from_secs(300);
/// Between two probes of a server that is loading.
const LOADING_INTERVAL: Duration = Duration::from_secs(1);
/// Retry-After of a request refused for memory.
const PRESSURE_RETRY: Duration = Duration::from_secs(10);
/// From the end of the machine's sleep to the first idle probe: a server that has just resumed is
/// slow.
const RESUME_GRACE: Duration = Duration::from_secs(2);

impl Scheduler {
    /// A scheduler with an empty queue, and an upstream of unknown health.
    pub fn new(rules: Rules, pause: Option<Pause>) -> Self {
        Self {
            rules,
            queue: Queue::default(),
            slots: Slots::default(),
            health: Health::default(),
            pause,
            pressure: Level::Normal,
            pressure_cause: None,
            probe: Probe::None,
            next_probe: Some(Duration::ZERO),
            last_arrival: None,
            watched: false,
            closing: false,
            crashes: Crashes::default(),
            estimate: Estimate::default(),
        }
    }

    /// Applies one event; returns the actions to carry out.
    pub fn apply(&mut self, event: Event, now: Now) -> Vec<Action> {
        let mut out = Vec::new();
        match event {
            Event::Arrived { arrival, app } => self.arrived(arrival, app, now, &mut out),
            Event::Rejected { app } => self.rejected(&app, now),
            Event::Left { id } => self.left(id),
            Event::NotReady { id } => self.not_ready(id, now),
            Event::UpstreamAlive => self.health.alive(now.at),
            Event::Finished { id, ending, took } => self.finished(id, ending, took, now, &mut out),
            Event::Settled { id } => {
                self.slots.release(id);
            }
            Event::Probed(report) => self.probed(report, now, &mut out),
            Event::Pressure { level, cause } => {
                self.pressure = level;
                self.pressure_cause = cause;
            }
            Event::ProcessGone(death) => self.process_gone(death, now),
            Event::SystemResumed => self.system_resumed(now),
            Event::Paused { pause, running } => self.paused(pause, running, &mut out),
            Event::Resumed => {
                if self.pause.take().is_some() {
                    out.push(Action::PauseChanged(None));
                }
            }
            Event::CheckNow => {
                self.health.end_cooldown(now.at);
                self.next_probe = Some(now.at);
            }
            Event::Cancelled { id } => self.cancelled(id, &mut out),
            Event::Rules(rules) => self.rules = *rules,
            Event::UpstreamChanged => {
                self.health.forget();
                self.slots.release_settling();
                self.crashes.clear_suspects();
                self.probe = Probe::None;
                self.next_probe = Some(now.at);
            }
            Event::ViewersChanged { watched } => self.watched(watched, now),
            Event::ShutDown => self.closing = true,
            Event::CancelAll(cut) => self.cancel_all(cut, &mut out),
            Event::Tick => {}
        }
        self.advance(now, &mut out);
        out
    }

    /// Whether a request of `app` would be refused right now, before its body is read. Its delivery
    /// is unknown then, so it gets the benefit of the longer wait.
    pub fn check_admission(&self, app: &str, now: Now) -> Option<Refusal> {
        let wait = self.rules.max_wait_stream.max(self.rules.max_wait_whole);
        self.refusal_for_arrival(app, 0, None, wait, now)
    }

    /// The queue.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The slots.
    pub fn slots(&self) -> &Slots {
        &self.slots
    }

    /// The upstream's health.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// The pause in force.
    pub fn pause(&self) -> Option<Pause> {
        self.pause
    }

    /// Memory pressure, and the reading that caused it.
    pub fn pressure(&self) -> (Level, Option<&str>) {
        (self.pressure, self.pressure_cause.as_deref())
    }

    /// The rules in force.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The cooldown that a failure would start now.
    pub fn next_cooldown(&self) -> Duration {
        self.health.next_cooldown(self.pressure, self.rules.backoff)
    }

    /// Whether the gateway is shutting down.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whether a probe is in flight.
    pub fn is_probing(&self) -> bool {
        self.probe != Probe::None
    }
}
