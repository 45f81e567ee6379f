//! Expired waits, the next dispatch and due probes.
//!
//! Runs after every event, so that no transition has to know what else it made possible.

use std::time::Duration;

use crate::memory::Level;
use crate::refusal::{Outage, Refusal};
use crate::scheduler::health::State;
use crate::scheduler::queue::Ticket;
use crate::scheduler::slots::Occupant;

use super::{
    ACTIVE_FOR, Action, Grant, LOADING_INTERVAL, Now, PRESSURE_RETRY, Probe, QUIET_INTERVAL,
    Scheduler,
};

impl Scheduler {
    pub(super) fn advance(&mut self, now: Now, out: &mut Vec<Action>) {
        self.slots.release_settled(now.at);
        if self.pause.is_some_and(|pause| pause.is_over(now.unix_ms)) {
            self.pause = None;
            out.push(Action::PauseChanged(None));
        }
        self.expire(now, out);
        self.dispatch(now, out);
        self.refuse_queued(out);
        self.prove(now, out);
        self.probe_when_due(now, out);
    }

    /// The next moment at which time alone changes something, on the monotonic clock.
    pub fn next_wake(&self, now: Now) -> Option<Duration> {
        let waits = self.queue.iter().map(|ticket| self.wait_ends(ticket));
        let checking = self.slots.checking().map(|ticket| self.wait_ends(ticket));
        let settling = self.slots.iter().filter_map(|one| match one {
            Occupant::Settling { until, .. } => Some(*until),
            Occupant::Checking { .. } | Occupant::Running { .. } => None,
        });
        let pause = self
            .pause
            .and_then(|pause| pause.left(now.unix_ms))
            .map(|left| now.at + left);
        let probe = self.next_probe_at(now);
        waits
            .chain(checking)
            .chain(settling)
            .chain(pause)
            .chain(probe)
            .min()
    }

    fn wait_ends(&self, ticket: &Ticket) -> Duration {
        match self.health.state() {
            State::Loading { since } => ticket
                .deadline
                .min(since.max(ticket.arrived) + self.rules.loading),
            State::Unknown | State::Ready | State::Down { .. } => ticket.deadline,
        }
    }

    fn expire(&mut self, now: Now, out: &mut Vec<Action>) {
        let ended: Vec<Ticket> = self
            .queue
            .iter()
            .chain(self.slots.checking())
            .filter(|ticket| self.wait_ends(ticket) <= now.at)
            .cloned()
            .collect();
        for ticket in ended {
            let refusal = self.end_of_wait(&ticket, now);
            self.left(ticket.id);
            out.push(Action::Refuse {
                id: ticket.id,
                refusal,
            });
        }
    }

    /// Names what the request waited for when its wait ended.
    fn end_of_wait(&self, ticket: &Ticket, now: Now) -> Refusal {
        let waited = now.at.saturating_sub(ticket.arrived);
        if let Some(pause) = self.pause {
            let wait = ticket.deadline.saturating_sub(ticket.arrived);
            return Refusal::Paused {
                left: pause.left(now.unix_ms),
                ends_in_time: pause.ends_within(wait, now.unix_ms),
            };
        }
        match self.health.state() {
            State::Down { outage, .. } => Refusal::Unavailable {
                outage,
                retry_in: self.health.cooldown_left(now.at),
            },
            State::Loading { .. } => Refusal::Loading { waited },
            State::Unknown | State::Ready => {
                if self.pressure == Level::Critical {
                    let cause = self
                        .pressure_cause
                        .clone()
                        .unwrap_or_else(|| "memory".to_owned());
                    return Refusal::MemoryPressure {
                        cause,
                        retry_in: PRESSURE_RETRY,
                    };
                }
                Refusal::QueueTimeout {
                    waited,
                    retry_in: self.wait_estimate(now),
                }
            }
        }
    }

    fn dispatch(&mut self, now: Now, out: &mut Vec<Action>) {
        if self.is_held() {
            self.requeue_checking();
            return;
        }
        while self.slots.has_room(self.rules.slots) && self.slots.checking().is_none() {
            let Some(ticket) = self.take_dispatchable(now) else {
                break;
            };
            if self.health.is_fresh(now.at, self.rules.fresh) {
                self.grant(ticket, now, out);
            } else {
                self.check(ticket, now, out);
            }
        }
    }

    /// Whether dispatch is held: by a pause, critical memory or shutdown.
    fn is_held(&self) -> bool {
        self.pause.is_some() || self.pressure == Level::Critical || self.closing
    }

    /// The first queued request, unless the upstream's state forbids sending for it.
    fn take_dispatchable(&mut self, now: Now) -> Option<Ticket> {
        let first = self.queue.front()?;
        if let State::Down { until, .. } = self.health.state() {
            // A request that waited through a cooldown does not risk a refusal by its own probe:
            // the probe at the cooldown's end has no owner, and its success takes the first one.
            if until > now.at || first.arrived < until {
                return None;
            }
        }
        self.queue.pop_front()
    }

    fn check(&mut self, ticket: Ticket, now: Now, out: &mut Vec<Action>) {
        let id = ticket.id;
        self.slots.check(ticket);
        match self.probe {
            // A probe in flight has no owner yet: it becomes this request's.
            Probe::InFlight { .. } => self.probe = Probe::InFlight { owner: Some(id) },
            Probe::None => {
                if !matches!(self.health.state(), State::Loading { .. }) {
                    self.send_probe(now, out);
                }
            }
        }
    }

    /// At shutdown the queue is emptied, also of a request that was put back to wait for a load.
    fn refuse_queued(&mut self, out: &mut Vec<Action>) {
        while self.closing
            && let Some(ticket) = self.queue.pop_front()
        {
            out.push(Action::Refuse {
                id: ticket.id,
                refusal: Refusal::ShuttingDown,
            });
        }
    }

    /// Sends another probe for a request that waits for one, whatever took the first (another
    /// upstream, an answer on another slot).
    fn prove(&mut self, now: Now, out: &mut Vec<Action>) {
        let waits = self.slots.checking().is_some() && self.probe == Probe::None;
        if !waits || matches!(self.health.state(), State::Loading { .. }) {
            return;
        }
        if self.health.is_fresh(now.at, self.rules.fresh) {
            self.grant_proved(now, out);
        } else if self.health.cooldown_left(now.at).is_zero() {
            self.send_probe(now, out);
        }
    }

    pub(super) fn grant_proved(&mut self, now: Now, out: &mut Vec<Action>) {
        if self.is_held() {
            return;
        }
        if let Some(id) = self.slots.checking().map(|ticket| ticket.id) {
            if let Some(Occupant::Checking { ticket }) = self.slots.release(id) {
                self.grant(ticket, now, out);
            }
        } else if self.slots.has_room(self.rules.slots)
            && let Some(ticket) = self.queue.pop_front()
        {
            self.grant(ticket, now, out);
        }
    }

    fn grant(&mut self, ticket: Ticket, now: Now, out: &mut Vec<Action>) {
        let grant = Grant {
            waiting: self.queue.len(),
            pressure: self.pressure,
            waited: now.at.saturating_sub(ticket.arrived),
        };
        out.push(Action::Grant {
            id: ticket.id,
            grant,
        });
        self.slots.run(ticket, now.at);
    }

    fn probe_when_due(&mut self, now: Now, out: &mut Vec<Action>) {
        if self.next_probe_at(now).is_some_and(|due| due <= now.at) {
            self.send_probe(now, out);
        }
    }

    pub(super) fn send_probe(&mut self, now: Now, out: &mut Vec<Action>) {
        let owner = self.slots.checking().map(|ticket| ticket.id);
        self.probe = Probe::InFlight { owner };
        self.next_probe = Some(now.at + self.probe_interval(now));
        let limit = self.health.probe_limit(self.rules.misses);
        out.push(Action::Probe { limit });
    }

    fn next_probe_at(&self, now: Now) -> Option<Duration> {
        if self.probe != Probe::None || self.closing {
            return None;
        }
        match self.health.state() {
            State::Down { until, outage } => {
                let wanted = !self.queue.is_empty() || self.is_active(now);
                // With no request and no viewer a dead server is probed as seldom as an idle one.
                // `auto` searches every ten seconds anyway.
                let due = if wanted || outage == Outage::NoneFound {
                    until
                } else {
                    until.max(self.next_probe.unwrap_or(until))
                };
                Some(due)
            }
            State::Loading { .. } => self.next_probe,
            // While a request is in flight its bytes are evidence enough.
            State::Unknown | State::Ready => self.next_probe.filter(|_| self.slots.running() == 0),
        }
    }

    pub(super) fn probe_interval(&self, now: Now) -> Duration {
        if let State::Loading { .. } = self.health.state() {
            return LOADING_INTERVAL;
        }
        if self.is_active(now) {
            self.rules.idle_interval
        } else {
            self.rules.idle_interval.max(QUIET_INTERVAL)
        }
    }

    fn is_active(&self, now: Now) -> bool {
        self.watched
            || self
                .last_arrival
                .is_some_and(|at| now.at.saturating_sub(at) < ACTIVE_FOR)
    }
}
