//! The scheduler: the one owner of line, slots, health, pause and pressure.
//!
//! [`Scheduler`] is a pure state machine. It is fed [`Event`]s with the time at which they happened
//! and answers with [`Action`]s; it does no I/O and reads no clock, so that a seeded model test
//! can drive it through millions of interleavings. [`SchedulerHandle`] carries the actions out.
//!
//! Invariants: at most `slots` requests are in flight upstream; a request is answered by exactly
//! one `Grant` or `Refuse` while it waits; nothing is sent during a cooldown.

mod event;
mod transitions;
mod dispatch;
pub mod queue;
pub mod slots;
pub mod health;
pub mod pause;
mod crash_loop;
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

/// The limits the scheduler goes by; a new set takes effect at the next event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Requests in flight upstream at once, at least 1.
    pub slots: usize,
    /// Requests that may wait.
    pub max_waiting: usize,
    /// Bytes all waiting bodies may hold together.
    pub max_bytes: usize,
    /// A stream's wait, from arrival to refusal.
    pub max_wait_stream: Duration,
    /// Any other request's wait.
    pub max_wait_whole: Duration,
    /// Status of a full line.
    pub full_status: FullStatus,
    /// Evidence of life older than this is renewed before a dispatch.
    pub fresh: Duration,
    /// Between two probes while something was asked lately; idle it is at least a minute.
    pub idle_interval: Duration,
    /// Cooldown after failures.
    pub backoff: Backoff,
    /// How long a load may take, from the moment it was seen (or the arrival, if later).
    pub loading: Duration,
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
    service_times: Vec<Duration>,
}

/// Whether a probe is under way, and whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    None,
    InFlight { owner: Option<RequestId> },
}

/// Idle probes are this far apart when nothing was asked for [`ACTIVE_FOR`].
const QUIET_INTERVAL: Duration = Duration::from_secs(60);
/// "Something was asked lately".
const ACTIVE_FOR: Duration = Duration::from_secs(300);
/// Between two gentle probes of a server that is loading.
const LOADING_INTERVAL: Duration = Duration::from_secs(1);
/// Service time assumed before any answer was seen.
const USUAL_SERVICE: Duration = Duration::from_secs(10);
/// How many service times the usual one is the median of.
const SERVICE_TIMES: usize = 15;
/// After this long memory is worth asking about again.
const PRESSURE_RETRY: Duration = Duration::from_secs(10);
/// From waking up to the first idle probe: a server that has just been thawed is slow.
const WAKE_GRACE: Duration = Duration::from_secs(2);
/// No abort settles longer, whatever the upstream's busy signal says.
pub const SETTLE_CEILING: Duration = Duration::from_secs(10);

impl Scheduler {
    /// A scheduler with nobody at it, and an upstream of which nothing is known.
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
            service_times: Vec::with_capacity(SERVICE_TIMES),
        }
    }

    /// Takes one event and says what is to be done about it.
    pub fn apply(&mut self, event: Event, now: Now) -> Vec<Action> {
        let mut out = Vec::new();
        match event {
            Event::Arrived(arrival) => self.arrived(arrival, now, &mut out),
            Event::Rejected => self.last_arrival = Some(now.at),
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

    /// Whether an arrival would be refused right now, without joining: for a look before the
    /// body is read.
    pub fn check_admission(&self, now: Now) -> Option<Refusal> {
        self.refusal_for_arrival(0, None, now)
    }

    /// The line.
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

    /// Memory pressure and the reading that caused it.
    pub fn pressure(&self) -> (Level, Option<&str>) {
        (self.pressure, self.pressure_cause.as_deref())
    }

    /// The rules in force.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The cooldown that a failure now would start.
    pub fn next_cooldown(&self) -> Duration {
        self.health.next_cooldown(self.pressure, self.rules.backoff)
    }

    /// Whether no new work is taken.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whether a probe is under way.
    pub fn is_probing(&self) -> bool {
        self.probe != Probe::None
    }

    /// The median of the last service times; ten seconds before any was seen.
    pub fn usual_service(&self) -> Duration {
        let mut sorted = self.service_times.clone();
        sorted.sort_unstable();
        sorted
            .get(sorted.len() / 2)
            .copied()
            .unwrap_or(USUAL_SERVICE)
    }
}
