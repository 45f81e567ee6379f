//! The handle: the only holder of the [`Scheduler`], and the sender of its actions.
//!
//! Each call locks, applies one event, passes its actions on and unlocks; nothing is awaited under
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

use super::{Action, Event, Grant, Now, Rules, Scheduler};

/// Drives the scheduler. Cheap to clone; all clones share one.
#[derive(Debug, Clone)]
pub struct SchedulerHandle {
    shared: Arc<Shared>,
}

/// Work for the gateway's background task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Send one probe and report its result.
    Probe {
        /// From its start to the end of the answer.
        limit: Duration,
    },
    /// Report when the upstream has stopped working on an aborted request.
    Settle {
        /// The aborted request.
        id: RequestId,
    },
    /// Write the pause in force where it survives a restart.
    KeepPause,
}

/// Carries the grant or the refusal to the request.
pub(super) type Turn = oneshot::Sender<Result<Grant, Refusal>>;

/// A queued or running request, as the status shows it.
#[derive(Debug)]
pub struct Waiter {
    turn: Option<Turn>,
    stop: watch::Sender<Option<Cut>>,
    /// Its live numbers.
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
    /// A handle to a new scheduler, and the effects to carry out.
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

    /// A number that grows with every change of what the status shows.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Reports a change of the status outside the scheduler.
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

    /// The refusal that a request of `app` would get right now, before its body is read.
    pub fn check_admission(&self, app: &str) -> Option<Refusal> {
        let refusal = self.read(|scheduler, _, now| scheduler.check_admission(app, now))?;
        self.apply(Event::Rejected { app: app.into() });
        Some(refusal)
    }

    /// Sends a tick whenever time alone changes something. Never returns.
    ///
    /// # Cancel safety
    /// Dropping it stops the ticks and loses nothing.
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
        // A panic elsewhere must not end the gateway: the scheduler's own code cannot leave it half
        // changed, since it calls nothing outside.
        self.shared
            .table
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn apply(&self, event: Event) {
        let now = self.shared.clock.now();
        // After sleep of the machine every timer is late.
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

    /// Each arm only sends; none waits or calls back into the scheduler.
    fn act(&self, table: &mut Table, action: Action) {
        match action {
            Action::Grant { id, grant } => {
                if let Some(turn) = table
                    .waiters
                    .get_mut(&id)
                    .and_then(|waiter| waiter.turn.take())
                {
                    // A request that is gone reports itself by its guard.
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
            Action::Probe { limit } => self.effect(Effect::Probe { limit }),
            Action::Settle { id } => self.effect(Effect::Settle { id }),
            Action::PauseChanged(_) => self.effect(Effect::KeepPause),
        }
    }

    fn effect(&self, effect: Effect) {
        // The receiver ends with the gateway.
        let _ = self.shared.effects.send(effect);
    }

    /// Adds the waiter of a request that is about to be queued.
    pub(super) fn add_waiter(
        &self,
        id: RequestId,
        turn: Turn,
        stop: watch::Sender<Option<Cut>>,
        stats: Arc<LiveStats>,
    ) {
        let turn = Some(turn);
        self.lock().waiters.insert(id, Waiter { turn, stop, stats });
    }

    /// Lets a request that has a waiter already wait for another grant.
    pub(super) fn wait_again(&self, id: RequestId, turn: Turn) {
        if let Some(waiter) = self.lock().waiters.get_mut(&id) {
            waiter.turn = Some(turn);
        }
    }

    pub(super) fn remove_waiter(&self, id: RequestId) {
        self.lock().waiters.remove(&id);
    }
}
