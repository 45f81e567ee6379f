//! Carries the desk's actions out: the only holder of the [`Desk`], and the guards by which
//! requests hold a place or a lease.
//!
//! Every call locks, applies one event and unlocks before acting on the answer; nothing is
//! awaited under the lock. Both guards report their end when dropped, so that a client that
//! leaves, an early return and a panic free exactly what they held.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::clock::Clock;
use crate::pause::Pause;
use crate::queue::RequestId;
use crate::record::meter::Meter;
use crate::refusal::{Cut, Refusal};

use super::{Action, Arrival, Desk, Ending, Event, Grant, Now, Rules};

/// Drives the desk. Cheap to clone; all clones share one desk.
#[derive(Debug, Clone)]
pub struct Owner {
    shared: Arc<Shared>,
}

/// What the gateway's background task does for the desk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Send one probe and report it.
    Probe,
    /// Watch the upstream let go of an aborted request and report it.
    Settle {
        /// The request that was aborted.
        id: RequestId,
    },
    /// Keep the pause where it survives a restart.
    KeepPause(Option<Pause>),
}

/// A place in the line. Dropping it leaves the line.
#[derive(Debug)]
pub struct Place {
    owner: Owner,
    id: RequestId,
    turn: oneshot::Receiver<Result<Grant, Refusal>>,
    stop: watch::Receiver<Option<Cut>>,
    held: bool,
}

/// The slot, for one request. Dropping it gives the slot back, settled first if something had
/// been sent.
#[derive(Debug)]
pub struct Lease {
    owner: Owner,
    id: RequestId,
    grant: Grant,
    stop: watch::Receiver<Option<Cut>>,
    since: Duration,
    state: LeaseState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeaseState {
    Unsent,
    Sent,
    Ended,
}

/// A request the desk knows, as the status shows it.
#[derive(Debug)]
pub struct Seat {
    turn: Option<oneshot::Sender<Result<Grant, Refusal>>>,
    stop: watch::Sender<Option<Cut>>,
    /// What is shown of it.
    pub meter: Arc<Meter>,
}

#[derive(Debug)]
struct Shared {
    table: Mutex<Table>,
    clock: Clock,
    effects: mpsc::UnboundedSender<Effect>,
    wake: Notify,
    changes: watch::Sender<u64>,
}

#[derive(Debug)]
struct Table {
    desk: Desk,
    seats: HashMap<RequestId, Seat>,
    armed: Option<Duration>,
}

impl Owner {
    /// An owner of a new desk, and the effects it wants carried out.
    pub fn new(
        rules: Rules,
        pause: Option<Pause>,
        clock: Clock,
    ) -> (Self, mpsc::UnboundedReceiver<Effect>) {
        let (effects, wanted) = mpsc::unbounded_channel();
        let table = Table {
            desk: Desk::new(rules, pause),
            seats: HashMap::new(),
            armed: None,
        };
        let shared = Shared {
            table: Mutex::new(table),
            clock,
            effects,
            wake: Notify::new(),
            changes: watch::Sender::new(0),
        };
        (
            Self {
                shared: Arc::new(shared),
            },
            wanted,
        )
    }

    /// The gateway's clock.
    pub fn clock(&self) -> Clock {
        self.shared.clock.clone()
    }

    /// A number that grows whenever something may look different.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Says that something outside the desk changed what the status shows.
    pub fn touch(&self) {
        self.shared.changes.send_modify(|seq| *seq += 1);
    }

    /// Feeds one event.
    pub fn feed(&self, event: Event) {
        self.apply(event);
    }

    /// Reads the desk and the seats, for the status.
    pub fn look<T>(&self, read: impl FnOnce(&Desk, &HashMap<RequestId, Seat>, Now) -> T) -> T {
        let table = self.lock();
        read(&table.desk, &table.seats, self.shared.clock.now())
    }

    /// Whether an arrival would be refused right now.
    pub fn would_refuse(&self) -> Option<Refusal> {
        self.look(|desk, _, now| desk.would_refuse(now))
    }

    /// Asks for a turn.
    pub fn arrive(&self, arrival: Arrival, meter: Arc<Meter>) -> Place {
        let (turn, wait) = oneshot::channel();
        let (stop, stopped) = watch::channel(None);
        self.lock().seats.insert(
            arrival.id,
            Seat {
                turn: Some(turn),
                stop,
                meter,
            },
        );
        let place = Place {
            owner: self.clone(),
            id: arrival.id,
            turn: wait,
            stop: stopped,
            held: true,
        };
        self.apply(Event::Arrived(arrival));
        place
    }

    /// Ticks whenever time alone changes something; ends never.
    ///
    /// # Cancel safety
    /// Dropping it stops the ticking and loses nothing.
    pub async fn run(&self) {
        loop {
            let next = {
                let mut table = self.lock();
                let next = table.desk.next_wake(self.shared.clock.now());
                table.armed = next;
                next
            };
            let woken = self.shared.wake.notified();
            match next {
                None => woken.await,
                Some(at) => {
                    tokio::select! {
                        () = woken => {}
                        () = tokio::time::sleep_until(self.shared.clock.instant(at)) => {
                            self.apply(Event::Tick);
                        }
                    }
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // A panic elsewhere must not take the gateway with it: the desk's own code cannot leave
        // it half changed, since it does not call out.
        self.shared
            .table
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, event: Event) {
        let now = self.shared.clock.now();
        // After a sleep every timer is late by as much.
        let late = matches!(event, Event::Woke);
        let mut table = self.lock();
        let actions = table.desk.apply(event, now);
        let next = table.desk.next_wake(now);
        let earlier = match (next, table.armed) {
            (Some(next), Some(armed)) => next < armed,
            (Some(_), None) => true,
            (None, _) => false,
        };
        for action in actions {
            self.act(&mut table, action);
        }
        drop(table);
        if earlier || late {
            self.shared.wake.notify_one();
        }
        self.touch();
    }

    /// Every arm only hands something over; none waits or calls back into the desk.
    fn act(&self, table: &mut Table, action: Action) {
        match action {
            Action::Grant { id, grant } => {
                if let Some(turn) = table.seats.get_mut(&id).and_then(|seat| seat.turn.take()) {
                    // A receiver that is gone reports itself by its guard.
                    let _ = turn.send(Ok(grant));
                }
            }
            Action::Refuse { id, refusal } => {
                if let Some(turn) = table.seats.remove(&id).and_then(|seat| seat.turn) {
                    let _ = turn.send(Err(refusal));
                }
            }
            Action::Stop { id, cut } => {
                if let Some(seat) = table.seats.get(&id) {
                    seat.stop.send_replace(Some(cut));
                }
            }
            Action::Probe => self.effect(Effect::Probe),
            Action::Settle { id } => self.effect(Effect::Settle { id }),
            Action::PauseChanged(pause) => self.effect(Effect::KeepPause(pause)),
        }
    }

    fn effect(&self, effect: Effect) {
        // Nobody carries effects out once the gateway is gone.
        let _ = self.shared.effects.send(effect);
    }

    fn unseat(&self, id: RequestId) {
        self.lock().seats.remove(&id);
    }
}

impl Place {
    /// Waits for the turn.
    ///
    /// # Errors
    /// The refusal, when there is none.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the line.
    pub async fn turn(mut self) -> Result<Lease, Refusal> {
        let verdict = (&mut self.turn).await;
        match verdict {
            Ok(Ok(grant)) => {
                self.held = false;
                Ok(Lease {
                    owner: self.owner.clone(),
                    id: self.id,
                    grant,
                    stop: self.stop.clone(),
                    since: self.owner.shared.clock.at(),
                    state: LeaseState::Unsent,
                })
            }
            Ok(Err(refusal)) => {
                self.held = false;
                Err(refusal)
            }
            // The desk never drops a sender unanswered; if it did, that is our fault.
            Err(_) => Err(Refusal::Internal),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.held {
            self.owner.unseat(self.id);
            self.owner.apply(Event::Left { id: self.id });
        }
    }
}

impl Lease {
    /// What was true when it was granted.
    pub fn grant(&self) -> Grant {
        self.grant
    }

    /// Notes that the request goes to the upstream now: from here on, giving up means settling.
    pub fn sent(&mut self) {
        self.state = LeaseState::Sent;
    }

    /// Notes that nothing of the request is with the upstream after all.
    pub fn unsent(&mut self) {
        self.state = LeaseState::Unsent;
    }

    /// Since when it is held, on the gateway's monotonic clock.
    pub fn since(&self) -> Duration {
        self.since
    }

    /// Says that bytes came from the upstream.
    pub fn alive(&self) {
        self.owner.apply(Event::Life);
    }

    /// Resolves when the request is to be cut, with what its client is told.
    ///
    /// # Cancel safety
    /// May be dropped and called again.
    pub async fn stopped(&mut self) -> Cut {
        match self.stop.wait_for(Option::is_some).await {
            Ok(cut) => cut.unwrap_or(Cut::Cancelled),
            // The seat outlives the lease; without one nobody can stop it.
            Err(_) => std::future::pending().await,
        }
    }

    /// A view of the stop signal that can be polled beside the lease.
    pub fn stop_signal(&self) -> watch::Receiver<Option<Cut>> {
        self.stop.clone()
    }

    /// Gives the slot back.
    pub fn finish(mut self, ending: Ending) {
        self.end(ending);
    }

    /// Keeps the slot, but waits for the upstream to be ready.
    ///
    /// # Errors
    /// The refusal that ended the wait.
    ///
    /// # Cancel safety
    /// Dropping the future gives the slot up.
    pub async fn wait_until_ready(mut self) -> Result<Self, Refusal> {
        let (turn, wait) = oneshot::channel();
        if let Some(seat) = self.owner.lock().seats.get_mut(&self.id) {
            seat.turn = Some(turn);
        }
        self.state = LeaseState::Ended;
        let place = Place {
            owner: self.owner.clone(),
            id: self.id,
            turn: wait,
            stop: self.stop.clone(),
            held: true,
        };
        self.owner.apply(Event::NotReady { id: self.id });
        place.turn().await
    }

    fn end(&mut self, ending: Ending) {
        if self.state == LeaseState::Ended {
            return;
        }
        self.state = LeaseState::Ended;
        let took = self.owner.shared.clock.at().saturating_sub(self.since);
        self.owner.unseat(self.id);
        self.owner.apply(Event::Finished {
            id: self.id,
            ending,
            took,
        });
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let ending = match self.state {
            LeaseState::Unsent => Ending::Unsent,
            LeaseState::Sent => Ending::Abandoned,
            LeaseState::Ended => return,
        };
        self.end(ending);
    }
}
