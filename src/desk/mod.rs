//! The desk: the one owner of line, slots, health, pause and pressure.
//!
//! [`Desk`] is a pure state machine. It is fed [`Event`]s with the time at which they happened
//! and answers with [`Action`]s; it does no I/O and reads no clock, so that a seeded model test
//! can drive it through millions of interleavings. [`Owner`] carries the actions out.
//!
//! Invariants: at most `slots` requests are in flight upstream; a request is answered by exactly
//! one `Grant` or `Refuse` while it waits; nothing is sent during a cooldown.

mod advance;
mod crash;
mod event;
mod owner;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::health::{Backoff, Health, State};
use crate::pause::{Pause, Running};
use crate::pressure::Level;
use crate::queue::{Delivery, Line, RequestId, Ticket};
use crate::refusal::{Cut, Death, FullStatus, Outage, Part, Refusal};
use crate::slot::{Occupant, Slots};

pub use event::{Action, Arrival, Ending, Event, Grant, Now, ProbeReport};
pub use owner::{Effect, Lease, Owner, Place, Seat};

use crash::Crashes;

/// The limits the desk goes by; a new set takes effect at the next event.
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
pub struct Desk {
    rules: Rules,
    line: Line,
    slots: Slots,
    health: Health,
    pause: Option<Pause>,
    pressure: Level,
    pressure_cause: Option<String>,
    probe: Probe,
    next_probe: Option<Duration>,
    last_arrival: Option<Duration>,
    watched: Watched,
    closing: Closing,
    crashes: Crashes,
    service_times: Vec<Duration>,
}

/// Whether a probe is under way, and whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    None,
    InFlight { owner: Option<RequestId> },
}

/// Whether somebody looks at a panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// A panel (or an event stream) is open.
    Yes,
    /// Nobody looks.
    No,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    No,
    Yes,
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

impl Desk {
    /// A desk with nobody at it, and an upstream of which nothing is known.
    pub fn new(rules: Rules, pause: Option<Pause>) -> Self {
        Self {
            rules,
            line: Line::default(),
            slots: Slots::default(),
            health: Health::default(),
            pause,
            pressure: Level::Normal,
            pressure_cause: None,
            probe: Probe::None,
            next_probe: Some(Duration::ZERO),
            last_arrival: None,
            watched: Watched::No,
            closing: Closing::No,
            crashes: Crashes::default(),
            service_times: Vec::with_capacity(SERVICE_TIMES),
        }
    }

    /// Takes one event and says what is to be done about it.
    pub fn apply(&mut self, event: Event, now: Now) -> Vec<Action> {
        let mut out = Vec::new();
        match event {
            Event::Arrived(arrival) => self.arrived(arrival, now, &mut out),
            Event::Left { id } => self.left(id),
            Event::NotReady { id } => self.not_ready(id, now),
            Event::Life => self.health.alive(now.at),
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
            Event::Woke => self.woke(now),
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
            Event::Watched(watched) => self.watched = watched,
            Event::ShutDown => self.shut_down(&mut out),
            Event::StopAll(cut) => self.stop_all(cut, &mut out),
            Event::Tick => {}
        }
        self.advance(now, &mut out);
        out
    }

    /// Whether an arrival would be refused right now, without joining: for a look before the
    /// body is read.
    pub fn would_refuse(&self, now: Now) -> Option<Refusal> {
        self.refusal_for_arrival(0, None, now)
    }

    /// The line.
    pub fn line(&self) -> &Line {
        &self.line
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

    fn arrived(&mut self, arrival: Arrival, now: Now, out: &mut Vec<Action>) {
        let Arrival {
            id,
            bytes,
            delivery,
            print,
        } = arrival;
        if let Some(refusal) = self.refusal_for_arrival(bytes, Some(print), now) {
            out.push(Action::Refuse { id, refusal });
            return;
        }
        self.last_arrival = Some(now.at);
        let wait = match delivery {
            Delivery::Stream => self.rules.max_wait_stream,
            Delivery::Whole => self.rules.max_wait_whole,
        };
        let deadline = now.at + wait;
        self.line.join(Ticket {
            id,
            bytes,
            delivery,
            print,
            arrived: now.at,
            deadline,
        });
    }

    /// Refused requests touch nothing: this takes `&self` so that the compiler says so.
    fn refusal_for_arrival(&self, bytes: usize, print: Option<u64>, now: Now) -> Option<Refusal> {
        if self.closing == Closing::Yes {
            return Some(Refusal::ShuttingDown);
        }
        if let Some(pause) = self.pause.filter(|pause| !pause.is_over(now.unix_ms)) {
            return Some(Refusal::Paused {
                left: pause.left(now.unix_ms),
            });
        }
        if let State::Down { outage, until } = self.health.state()
            && until > now.at
        {
            return Some(Refusal::Unavailable {
                outage,
                retry_in: until - now.at,
            });
        }
        if print.is_some_and(|print| self.crashes.is_repeated(print, now.at)) {
            return Some(Refusal::RepeatedCrash);
        }
        let at_once = self.line.is_empty() && self.slots.has_room(self.rules.slots);
        if !at_once && self.line.len() >= self.rules.max_waiting {
            return Some(Refusal::Overloaded {
                waiting: self.line.len(),
                retry_in: self.wait_estimate(),
                status: self.rules.full_status,
            });
        }
        if !self.line.is_empty() && self.line.bytes() + bytes > self.rules.max_bytes {
            return Some(Refusal::TooLarge {
                part: Part::QueuedBytes,
                limit: self.rules.max_bytes as u64,
            });
        }
        None
    }

    /// Line length × usual service time, shared by the slots.
    fn wait_estimate(&self) -> Duration {
        let ahead = u32::try_from(self.line.len() + 1).unwrap_or(u32::MAX);
        let slots = u32::try_from(self.rules.slots.max(1)).unwrap_or(1);
        self.usual_service().saturating_mul(ahead) / slots
    }

    fn left(&mut self, id: RequestId) {
        if self.line.remove(id).is_some() {
            return;
        }
        // Granted in the same instant, but nothing was sent: the slot is free at once. A settling
        // slot is not the request's to give up.
        if self
            .slots
            .iter()
            .any(|one| one.id() == id && !matches!(one, Occupant::Settling { .. }))
        {
            self.slots.release(id);
        }
        if self.probe == (Probe::InFlight { owner: Some(id) }) {
            self.probe = Probe::InFlight { owner: None };
        }
    }

    /// The upstream answered the request with "loading": it was not a failure and nothing was
    /// generated, so the request keeps its slot and is granted again when the load is over.
    fn not_ready(&mut self, id: RequestId, now: Now) {
        self.health.loading(now.at);
        self.next_probe = Some(now.at + LOADING_INTERVAL);
        if let Some(Occupant::Running { ticket, .. }) = self.slots.release(id) {
            if self.slots.checking().is_some() {
                self.line.rejoin_first(ticket);
            } else {
                self.slots.check(ticket);
            }
        }
    }

    fn finished(
        &mut self,
        id: RequestId,
        ending: Ending,
        took: Duration,
        now: Now,
        out: &mut Vec<Action>,
    ) {
        let Some(Occupant::Running { ticket, .. }) = self.slots.release(id) else {
            return;
        };
        self.next_probe = Some(now.at + self.probe_interval(now));
        match ending {
            Ending::Complete => {
                self.health.alive(now.at);
                self.crashes.forget(ticket.print);
                if self.service_times.len() == SERVICE_TIMES {
                    self.service_times.remove(0);
                }
                self.service_times.push(took);
            }
            Ending::Answered => self.health.alive(now.at),
            Ending::Unsent => {}
            Ending::Failed(outage) => self.fail(outage, now),
            Ending::Died(outage) => {
                self.crashes.note(ticket.print, now.at);
                self.fail(outage, now);
            }
            Ending::TimedOut => {
                self.fail(Outage::Silent, now);
                self.settle(id, now, out);
            }
            Ending::Abandoned => self.settle(id, now, out),
        }
    }

    fn settle(&mut self, id: RequestId, now: Now, out: &mut Vec<Action>) {
        self.slots.settle(id, now.at + SETTLE_CEILING);
        out.push(Action::Settle { id });
    }

    fn fail(&mut self, outage: Outage, now: Now) {
        self.health
            .failed(outage, now.at, self.pressure, self.rules.backoff);
        self.return_checking_to_line();
    }

    fn probed(&mut self, report: ProbeReport, now: Now, out: &mut Vec<Action>) {
        let Probe::InFlight { owner } = self.probe else {
            return;
        };
        self.probe = Probe::None;
        if self.health.cooldown_left(now.at) > Duration::ZERO {
            // It was sent before the failure that began this cooldown, and proves nothing now.
            return;
        }
        match report {
            ProbeReport::Alive { wants_key } => {
                self.health.alive(now.at);
                self.health.asked_for_key(wants_key);
                self.next_probe = Some(now.at + self.probe_interval(now));
                self.grant_proved(now, out);
            }
            ProbeReport::Loading => {
                self.health.loading(now.at);
                self.next_probe = Some(now.at + LOADING_INTERVAL);
            }
            ProbeReport::Failed(outage) => {
                self.health
                    .failed(outage, now.at, self.pressure, self.rules.backoff);
                let retry_in = self.health.cooldown_left(now.at);
                if let Some(id) = owner
                    && matches!(self.slots.release(id), Some(Occupant::Checking { .. }))
                {
                    let refusal = Refusal::Unavailable { outage, retry_in };
                    out.push(Action::Refuse { id, refusal });
                }
                self.return_checking_to_line();
            }
        }
    }

    /// The end of the process explains the failure that is known, or is looked into at once.
    fn process_gone(&mut self, death: Death, now: Now) {
        if !self.health.explained(Outage::ProcessGone { death }) {
            self.next_probe = Some(now.at);
        }
    }

    /// However many timers ran out meanwhile, the first idle probe gives the machine a moment.
    fn woke(&mut self, now: Now) {
        let earliest = now.at + WAKE_GRACE;
        if let Some(due) = self.next_probe {
            self.next_probe = Some(due.max(earliest));
        }
    }

    fn paused(&mut self, pause: Pause, running: Running, out: &mut Vec<Action>) {
        self.pause = Some(pause);
        self.return_checking_to_line();
        out.push(Action::PauseChanged(Some(pause)));
        if running == Running::Stop {
            self.stop_all(Cut::Cancelled, out);
        }
    }

    fn return_checking_to_line(&mut self) {
        let Some(id) = self.slots.checking().map(|ticket| ticket.id) else {
            return;
        };
        if let Some(Occupant::Checking { ticket }) = self.slots.release(id) {
            self.line.rejoin_first(ticket);
        }
        if self.probe == (Probe::InFlight { owner: Some(id) }) {
            self.probe = Probe::InFlight { owner: None };
        }
    }

    fn cancelled(&mut self, id: RequestId, out: &mut Vec<Action>) {
        let waiting = self.line.remove(id).is_some();
        let checking = self.slots.checking().is_some_and(|ticket| ticket.id == id);
        if waiting || checking {
            self.left(id);
            let refusal = Refusal::Interrupted {
                how: Cut::Cancelled,
            };
            out.push(Action::Refuse { id, refusal });
        } else if self.slots.iter().any(|one| one.id() == id) {
            out.push(Action::Stop {
                id,
                cut: Cut::Cancelled,
            });
        }
    }

    fn stop_all(&mut self, cut: Cut, out: &mut Vec<Action>) {
        for one in self.slots.iter() {
            if let Occupant::Running { ticket, .. } = one {
                out.push(Action::Stop { id: ticket.id, cut });
            }
        }
    }

    fn shut_down(&mut self, out: &mut Vec<Action>) {
        self.closing = Closing::Yes;
        self.return_checking_to_line();
        while let Some(ticket) = self.line.take_head() {
            out.push(Action::Refuse {
                id: ticket.id,
                refusal: Refusal::ShuttingDown,
            });
        }
    }
}
