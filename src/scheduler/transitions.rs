//! State transitions, one function per event; deadlines and free slots are handled afterwards in
//! `dispatch`.

use std::sync::Arc;
use std::time::Duration;

use crate::refusal::{Cut, Death, Outage, Part, Refusal};
use crate::scheduler::crash_loop::Body;
use crate::scheduler::health::{State, is_miss};
use crate::scheduler::pause::{Pause, Running};
use crate::scheduler::queue::{Delivery, RequestId, Ticket};
use crate::scheduler::slots::Occupant;

use super::{
    Action, Arrival, Ending, LOADING_INTERVAL, Now, Probe, ProbeReport, RESUME_GRACE, Scheduler,
};

impl Scheduler {
    pub(super) fn arrived(
        &mut self,
        arrival: Arrival,
        app: Arc<str>,
        now: Now,
        out: &mut Vec<Action>,
    ) {
        let Arrival {
            id,
            bytes,
            delivery,
            body_hash,
        } = arrival;
        self.last_arrival = Some(now.at);
        let wait = match delivery {
            Delivery::Stream => self.rules.max_wait_stream,
            Delivery::Whole => self.rules.max_wait_whole,
        };
        if let Some(refusal) = self.refusal_for_arrival(&app, bytes, Some(body_hash), wait, now) {
            if matches!(refusal, Refusal::Overloaded { .. }) {
                self.estimate.refused(&app);
            }
            out.push(Action::Refuse { id, refusal });
            return;
        }
        self.estimate.admitted(&app);
        self.queue.push(Ticket {
            id,
            app,
            bytes,
            delivery,
            body_hash,
            arrived: now.at,
            deadline: now.at + wait,
        });
    }

    /// A request was refused before its body was read.
    pub(super) fn rejected(&mut self, app: &Arc<str>, now: Now) {
        self.last_arrival = Some(now.at);
        if self.is_full() {
            self.estimate.refused(app);
        }
    }

    /// Takes `&self`, so that a refusal cannot change anything but what its caller counts.
    pub(super) fn refusal_for_arrival(
        &self,
        app: &str,
        bytes: usize,
        body_hash: Option<u64>,
        wait: Duration,
        now: Now,
    ) -> Option<Refusal> {
        if self.closing {
            return Some(Refusal::ShuttingDown);
        }
        let pause = self.pause.filter(|pause| !pause.is_over(now.unix_ms));
        if let Some(pause) = pause {
            let ends_in_time = pause.ends_within(wait, now.unix_ms);
            if !ends_in_time || self.is_full() {
                return Some(Refusal::Paused {
                    left: pause.left(now.unix_ms),
                    ends_in_time,
                });
            }
        }
        if let State::Down { outage, until } = self.health.state()
            && until > now.at
        {
            return Some(Refusal::Unavailable {
                outage,
                retry_in: until - now.at,
            });
        }
        if let Some(left) = body_hash.and_then(|hash| self.crashes.refused_for(app, hash, now.at)) {
            return Some(Refusal::RepeatedCrash { left });
        }
        if self.is_full() {
            return Some(Refusal::Overloaded {
                waiting: self.queue.len(),
                retry_in: self.wait_estimate(now) * self.estimate.repeats(app),
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

    /// Whether an arrival finds neither a free slot nor a place in the queue.
    fn is_full(&self) -> bool {
        let at_once =
            self.queue.is_empty() && self.pause.is_none() && self.slots.has_room(self.rules.slots);
        !at_once && self.queue.len() >= self.rules.max_waiting
    }

    /// Until a place in the queue is free.
    pub(super) fn wait_estimate(&self, now: Now) -> Duration {
        let running_for = self.slots.oldest_running(now.at);
        self.estimate
            .wait(self.queue.len(), self.rules.slots, running_for)
    }

    pub(super) fn left(&mut self, id: RequestId) {
        if self.queue.remove(id).is_some() {
            return;
        }
        // Granted at the same moment, but nothing was sent: the slot is free at once. A settling
        // slot stays taken.
        if !matches!(self.slots.get(id), Some(Occupant::Settling { .. })) {
            self.slots.release(id);
        }
        if self.probe == (Probe::InFlight { owner: Some(id) }) {
            self.probe = Probe::InFlight { owner: None };
        }
    }

    /// The upstream answered the request with "loading": no failure, and nothing was generated, so
    /// the request keeps its slot and is granted again after the load.
    pub(super) fn not_ready(&mut self, id: RequestId, now: Now) {
        self.health.loading(now.at);
        self.next_probe = Some(now.at + LOADING_INTERVAL);
        if let Some(Occupant::Running { ticket, .. }) = self.slots.release(id) {
            if self.slots.checking().is_some() {
                self.queue.push_front(ticket);
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
        let body = Body {
            app: Arc::clone(&ticket.app),
            hash: ticket.body_hash,
        };
        match ending {
            Ending::Complete => {
                self.health.alive(now.at);
                self.crashes.forget(&body);
                self.crashes.server_answered();
                self.estimate.completed(took);
            }
            Ending::Answered => {
                self.health.alive(now.at);
                self.crashes.server_answered();
            }
            Ending::Unsent => {}
            Ending::Failed(outage) => self.fail(outage, now),
            Ending::Died(outage) => {
                self.crashes.suspect(body);
                self.fail(outage, now);
            }
            Ending::TimedOut => {
                self.fail(Outage::Silent, now);
                self.settle(ticket, now, out);
            }
            Ending::Abandoned => self.settle(ticket, now, out),
        }
    }

    fn settle(&mut self, ticket: Ticket, now: Now, out: &mut Vec<Action>) {
        let id = ticket.id;
        self.slots
            .settle(ticket, now.at, now.at + self.rules.settle);
        out.push(Action::Settle { id });
    }

    /// any state => down. A process that is gone works on nothing any more, and died of what was
    /// in flight.
    fn fail(&mut self, outage: Outage, now: Now) {
        if matches!(outage, Outage::Refused | Outage::ProcessGone { .. }) {
            self.slots.release_settling();
            self.crashes.died(now.at);
        }
        self.health
            .failed(outage, now.at, self.pressure, self.rules.backoff);
        self.requeue_checking();
    }

    pub(super) fn probed(&mut self, report: ProbeReport, now: Now, out: &mut Vec<Action>) {
        let Probe::InFlight { owner } = self.probe else {
            return;
        };
        self.probe = Probe::None;
        if self.health.cooldown_left(now.at) > Duration::ZERO {
            // It was sent before the failure that began this cooldown.
            return;
        }
        match report {
            ProbeReport::Alive { wants_key } => {
                self.crashes.server_answered();
                self.health.alive(now.at);
                self.health.set_wants_key(wants_key);
                self.next_probe = Some(now.at + self.probe_interval(now));
                self.grant_proved(now, out);
            }
            ProbeReport::Loading => {
                self.health.loading(now.at);
                self.next_probe = Some(now.at + LOADING_INTERVAL);
            }
            ProbeReport::Failed(outage) => {
                if is_miss(outage) && !self.health.missed(outage, self.rules.misses) {
                    self.send_probe(now, out);
                } else {
                    self.probe_failed(owner, outage, now, out);
                }
            }
        }
    }

    /// The request whose own probe failed is refused; those behind it stay queued.
    fn probe_failed(
        &mut self,
        owner: Option<RequestId>,
        outage: Outage,
        now: Now,
        out: &mut Vec<Action>,
    ) {
        let refused =
            owner.filter(|id| matches!(self.slots.get(*id), Some(Occupant::Checking { .. })));
        if let Some(id) = refused {
            self.slots.release(id);
        }
        self.fail(outage, now);
        if let Some(id) = refused {
            let retry_in = self.health.cooldown_left(now.at);
            let refusal = Refusal::Unavailable { outage, retry_in };
            out.push(Action::Refuse { id, refusal });
        }
    }

    /// The end of the process explains a failure already known, or is probed at once.
    pub(super) fn process_gone(&mut self, death: Death, now: Now) {
        self.slots.release_settling();
        self.crashes.died(now.at);
        if !self.health.explained(Outage::ProcessGone { death }) {
            self.next_probe = Some(now.at);
        }
    }

    /// However many timers expired during the sleep, the first idle probe waits a moment.
    pub(super) fn system_resumed(&mut self, now: Now) {
        let earliest = now.at + RESUME_GRACE;
        if let Some(due) = self.next_probe {
            self.next_probe = Some(due.max(earliest));
        }
    }

    /// A viewer connected: probe within `idle_interval`, so that it does not see stale health.
    pub(super) fn watched(&mut self, watched: bool, now: Now) {
        self.watched = watched;
        if watched {
            let soon = now.at + self.rules.idle_interval;
            self.next_probe = self.next_probe.map(|due| due.min(soon));
        }
    }

    pub(super) fn paused(&mut self, pause: Pause, running: Running, out: &mut Vec<Action>) {
        self.pause = Some(pause);
        self.requeue_checking();
        out.push(Action::PauseChanged(Some(pause)));
        if running == Running::Stop {
            self.cancel_all(Cut::Cancelled, out);
        }
    }

    /// Puts the request that waits for its probe back to the front of the queue.
    pub(super) fn requeue_checking(&mut self) {
        let Some(id) = self.slots.checking().map(|ticket| ticket.id) else {
            return;
        };
        if let Some(Occupant::Checking { ticket }) = self.slots.release(id) {
            self.queue.push_front(ticket);
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
        } else if matches!(self.slots.get(id), Some(Occupant::Running { .. })) {
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
