//! What each event does to the scheduler, before time and free room are looked at.
//!
//! One function an event. Refusing an arrival takes `&self`: who is refused changes nothing.

use std::time::Duration;

use crate::refusal::{Cut, Death, Outage, Part, Refusal};
use crate::scheduler::health::State;
use crate::scheduler::pause::{Pause, Running};
use crate::scheduler::queue::{Delivery, RequestId, Ticket};
use crate::scheduler::slots::Occupant;

use super::{
    Action, Arrival, Ending, LOADING_INTERVAL, Now, Probe, ProbeReport, SERVICE_TIMES,
    SETTLE_CEILING, Scheduler, WAKE_GRACE,
};

impl Scheduler {
    pub(super) fn arrived(&mut self, arrival: Arrival, now: Now, out: &mut Vec<Action>) {
        let Arrival {
            id,
            bytes,
            delivery,
            body_hash,
        } = arrival;
        self.last_arrival = Some(now.at);
        if let Some(refusal) = self.refusal_for_arrival(bytes, Some(body_hash), now) {
            out.push(Action::Refuse { id, refusal });
            return;
        }
        let wait = match delivery {
            Delivery::Stream => self.rules.max_wait_stream,
            Delivery::Whole => self.rules.max_wait_whole,
        };
        let deadline = now.at + wait;
        self.queue.join(Ticket {
            id,
            bytes,
            delivery,
            body_hash,
            arrived: now.at,
            deadline,
        });
    }

    /// Refused requests touch no counter: this takes `&self` so that the compiler says so.
    pub(super) fn refusal_for_arrival(
        &self,
        bytes: usize,
        body_hash: Option<u64>,
        now: Now,
    ) -> Option<Refusal> {
        if self.closing {
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
        if body_hash.is_some_and(|body_hash| self.crashes.is_repeated(body_hash, now.at)) {
            return Some(Refusal::RepeatedCrash);
        }
        let at_once = self.queue.is_empty() && self.slots.has_room(self.rules.slots);
        if !at_once && self.queue.len() >= self.rules.max_waiting {
            return Some(Refusal::Overloaded {
                waiting: self.queue.len(),
                retry_in: self.wait_estimate(),
                status: self.rules.full_status,
            });
        }
        if !self.queue.is_empty() && self.queue.bytes() + bytes > self.rules.max_bytes {
            return Some(Refusal::TooLarge {
                part: Part::QueuedBytes,
                limit: self.rules.max_bytes as u64,
            });
        }
        None
    }

    /// Queue length × usual service time, shared by the slots.
    pub(super) fn wait_estimate(&self) -> Duration {
        let ahead = u32::try_from(self.queue.len() + 1).unwrap_or(u32::MAX);
        let slots = u32::try_from(self.rules.slots.max(1)).unwrap_or(1);
        self.usual_service().saturating_mul(ahead) / slots
    }

    pub(super) fn left(&mut self, id: RequestId) {
        if self.queue.remove(id).is_some() {
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
    pub(super) fn not_ready(&mut self, id: RequestId, now: Now) {
        self.health.loading(now.at);
        self.next_probe = Some(now.at + LOADING_INTERVAL);
        if let Some(Occupant::Running { ticket, .. }) = self.slots.release(id) {
            if self.slots.checking().is_some() {
                self.queue.rejoin_first(ticket);
            } else {
                self.slots.check(ticket);
            }
        }
    }

    pub(super) fn finished(
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
                self.crashes.forget(ticket.body_hash);
                if self.service_times.len() == SERVICE_TIMES {
                    self.service_times.remove(0);
                }
                self.service_times.push(took);
            }
            Ending::Answered => self.health.alive(now.at),
            Ending::Unsent => {}
            Ending::Failed(outage) => self.fail(outage, now),
            Ending::Died(outage) => {
                self.crashes.note(ticket.body_hash, now.at);
                self.fail(outage, now);
            }
            Ending::TimedOut => {
                self.fail(Outage::Silent, now);
                self.settle(id, now, out);
            }
            Ending::Abandoned => self.settle(id, now, out),
        }
    }

    pub(super) fn settle(&mut self, id: RequestId, now: Now, out: &mut Vec<Action>) {
        self.slots.settle(id, now.at + SETTLE_CEILING);
        out.push(Action::Settle { id });
    }

    pub(super) fn fail(&mut self, outage: Outage, now: Now) {
        self.health
            .failed(outage, now.at, self.pressure, self.rules.backoff);
        self.return_checking_to_line();
    }

    pub(super) fn probed(&mut self, report: ProbeReport, now: Now, out: &mut Vec<Action>) {
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
    pub(super) fn process_gone(&mut self, death: Death, now: Now) {
        if !self.health.explained(Outage::ProcessGone { death }) {
            self.next_probe = Some(now.at);
        }
    }

    /// However many timers ran out meanwhile, the first idle probe gives the machine a moment.
    pub(super) fn system_resumed(&mut self, now: Now) {
        let earliest = now.at + WAKE_GRACE;
        if let Some(due) = self.next_probe {
            self.next_probe = Some(due.max(earliest));
        }
    }

    /// Who begins to look waits no longer for news than somebody who has been looking.
    pub(super) fn watched(&mut self, watched: bool, now: Now) {
        self.watched = watched;
        if watched {
            let soon = now.at + self.rules.idle_interval;
            self.next_probe = self.next_probe.map(|due| due.min(soon));
        }
    }

    pub(super) fn paused(&mut self, pause: Pause, running: Running, out: &mut Vec<Action>) {
        self.pause = Some(pause);
        self.return_checking_to_line();
        out.push(Action::PauseChanged(Some(pause)));
        if running == Running::Stop {
            self.cancel_all(Cut::Cancelled, out);
        }
    }

    pub(super) fn return_checking_to_line(&mut self) {
        let Some(id) = self.slots.checking().map(|ticket| ticket.id) else {
            return;
        };
        if let Some(Occupant::Checking { ticket }) = self.slots.release(id) {
            self.queue.rejoin_first(ticket);
        }
        if self.probe == (Probe::InFlight { owner: Some(id) }) {
            self.probe = Probe::InFlight { owner: None };
        }
    }

    pub(super) fn cancelled(&mut self, id: RequestId, out: &mut Vec<Action>) {
        let waiting = self.queue.remove(id).is_some();
        let checking = self.slots.checking().is_some_and(|ticket| ticket.id == id);
        if waiting || checking {
            self.left(id);
            let refusal = Refusal::Interrupted { how: Cut::Unbegun };
            out.push(Action::Refuse { id, refusal });
        } else if self.slots.iter().any(|one| one.id() == id) {
            out.push(Action::Stop {
                id,
                cut: Cut::Cancelled,
            });
        }
    }

    pub(super) fn cancel_all(&mut self, cut: Cut, out: &mut Vec<Action>) {
        for one in self.slots.iter() {
            if let Occupant::Running { ticket, .. } = one {
                out.push(Action::Stop { id: ticket.id, cut });
            }
        }
    }
}
