//! Carries the scheduler's actions out: the only holder of the [`Scheduler`].
//!
//! Every call locks, applies one event, hands its actions on and unlocks; nothing is awaited under
//! the lock. Not here: the guards that requests hold ([`crate::scheduler::lease`]).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::clock::Clock;
use crate::refusal::{Cut, Refusal};
use crate::scheduler::pause::Pause;
use crate::scheduler::queue::RequestId;
use crate::telemetry::live_stats::LiveStats;

use super::{Action, Arrival, Event, Grant, Now, QueuedRequest, Rules, Scheduler};

/// Drives the scheduler. Cheap to clone; all clones share one scheduler.
#[derive(Debug, Clone)]
pub struct SchedulerHandle {
    shared: Arc<Shared>,
}

/// What the gateway's background task does for the scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Send one probe and report it.
    Probe,
    /// Watch the upstream let go of an aborted request and report it.
    Settle {
        /// The request that was aborted.
        id: RequestId,
    },
    /// Keep the pause in force where it survives a restart.
    KeepPause,
}

/// Where a request is told its turn.
pub(super) type Turn = oneshot::Sender<Result<Grant, Refusal>>;

/// A request the scheduler knows, as the status shows it.
#[derive(Debug)]
pub struct Waiter {
    turn: Option<Turn>,
    stop: watch::Sender<Option<Cut>>,
    /// What is shown of it.
    pub stats: Arc<LiveStats>,
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
    scheduler: Scheduler,
    waiters: HashMap<RequestId, Waiter>,
    armed: Option<Duration>,
}

impl SchedulerHandle {
    /// An owner of a new scheduler, and the effects it wants carried out.
    pub fn new(
        rules: Rules,
        pause: Option<Pause>,
        clock: Clock,
    ) -> (Self, mpsc::UnboundedReceiver<Effect>) {
        let (effects, wanted) = mpsc::unbounded_channel();
        let table = Table {
            scheduler: Scheduler::new(rules, pause),
            waiters: HashMap::new(),
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

    /// Says that something outside the scheduler changed what the status shows.
    pub fn touch(&self) {
        self.shared.changes.send_modify(|seq| *seq += 1);
    }

    /// Feeds one event.
    pub fn send(&self, event: Event) {
        self.apply(event);
    }

    /// Reads the scheduler and the waiters, for the status.
    pub fn read<T>(
        &self,
        read: impl FnOnce(&Scheduler, &HashMap<RequestId, Waiter>, Now) -> T,
    ) -> T {
        let table = self.lock();
        read(&table.scheduler, &table.waiters, self.shared.clock.now())
    }

    /// Whether an arrival would be refused right now.
    pub fn check_admission(&self) -> Option<Refusal> {
        self.read(|scheduler, _, now| scheduler.check_admission(now))
    }

    /// Asks for a turn.
    pub fn enqueue(&self, arrival: Arrival, stats: Arc<LiveStats>) -> QueuedRequest {
        let (turn, wait) = oneshot::channel();
        let (stop, stopped) = watch::channel(None);
        self.lock().waiters.insert(
            arrival.id,
            Waiter {
                turn: Some(turn),
                stop,
                stats,
            },
        );
        let queued = QueuedRequest::new(self.clone(), arrival.id, wait, stopped);
        self.apply(Event::Arrived(arrival));
        queued
    }

    /// Ticks whenever time alone changes something; ends never.
    ///
    /// # Cancel safety
    /// Dropping it stops the ticking and loses nothing.
    pub async fn run(&self) {
        loop {
            let next = {
                let mut table = self.lock();
                let next = table.scheduler.next_wake(self.shared.clock.now());
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
        // A panic elsewhere must not take the gateway with it: the scheduler's own code cannot leave
        // it half changed, since it does not call out.
        self.shared
            .table
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn apply(&self, event: Event) {
        let now = self.shared.clock.now();
        // After a sleep every timer is late by as much.
        let late = matches!(event, Event::SystemResumed);
        let mut table = self.lock();
        let actions = table.scheduler.apply(event, now);
        let next = table.scheduler.next_wake(now);
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

    /// Every arm only hands something over; none waits or calls back into the scheduler.
    fn act(&self, table: &mut Table, action: Action) {
        match action {
            Action::Grant { id, grant } => {
                if let Some(turn) = table
                    .waiters
                    .get_mut(&id)
                    .and_then(|waiter| waiter.turn.take())
                {
                    // A receiver that is gone reports itself by its guard.
                    let _ = turn.send(Ok(grant));
                }
            }
            Action::Refuse { id, refusal } => {
                if let Some(turn) = table.waiters.remove(&id).and_then(|waiter| waiter.turn) {
                    let _ = turn.send(Err(refusal));
                }
            }
            Action::Stop { id, cut } => {
                if let Some(waiter) = table.waiters.get(&id) {
                    waiter.stop.send_replace(Some(cut));
                }
            }
            Action::Probe => self.effect(Effect::Probe),
            Action::Settle { id } => self.effect(Effect::Settle { id }),
            Action::PauseChanged(_) => self.effect(Effect::KeepPause),
        }
    }

    fn effect(&self, effect: Effect) {
        // Nobody carries effects out once the gateway is gone.
        let _ = self.shared.effects.send(effect);
    }

    /// Another wait of a request that is seated already.
    pub(super) fn wait_again(&self, id: RequestId, turn: Turn) {
        if let Some(waiter) = self.lock().waiters.get_mut(&id) {
            waiter.turn = Some(turn);
        }
    }

    pub(super) fn remove_waiter(&self, id: RequestId) {
        self.lock().waiters.remove(&id);
    }
}
