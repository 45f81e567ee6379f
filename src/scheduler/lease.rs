//! The guards by which a request holds its queued in the line and then its slot.
//!
//! Both report their end when dropped, so that a client that leaves, an early return and a panic
//! free exactly what they held: a queued is left; a slot is given back, settled first if something
//! had been sent. Not here: who gets a turn ([`super::Scheduler`]).

use std::time::Duration;

use tokio::sync::{oneshot, watch};

use crate::refusal::{Cut, Refusal};
use crate::scheduler::queue::RequestId;

use super::{Ending, Event, Grant, SchedulerHandle};

/// A queued in the line. Dropping it leaves the line.
#[derive(Debug)]
pub struct QueuedRequest {
    scheduler: SchedulerHandle,
    id: RequestId,
    turn: oneshot::Receiver<Result<Grant, Refusal>>,
    stop: watch::Receiver<Option<Cut>>,
    held: bool,
}

/// The slot, for one request. Dropping it gives the slot back, settled first if something had
/// been sent.
#[derive(Debug)]
pub struct Lease {
    scheduler: SchedulerHandle,
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

impl QueuedRequest {
    pub(super) fn new(
        scheduler: SchedulerHandle,
        id: RequestId,
        turn: oneshot::Receiver<Result<Grant, Refusal>>,
        stop: watch::Receiver<Option<Cut>>,
    ) -> Self {
        Self {
            scheduler,
            id,
            turn,
            stop,
            held: true,
        }
    }

    /// Waits for the turn.
    ///
    /// # Errors
    /// The refusal, when there is none.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the line.
    pub async fn acquire(mut self) -> Result<Lease, Refusal> {
        let verdict = (&mut self.turn).await;
        match verdict {
            Ok(Ok(grant)) => {
                self.held = false;
                Ok(Lease {
                    scheduler: self.scheduler.clone(),
                    id: self.id,
                    grant,
                    stop: self.stop.clone(),
                    since: self.scheduler.clock().at(),
                    state: LeaseState::Unsent,
                })
            }
            Ok(Err(refusal)) => {
                self.held = false;
                Err(refusal)
            }
            // The scheduler never drops a sender unanswered; if it did, that is our fault.
            Err(_) => Err(Refusal::Internal),
        }
    }
}

impl Drop for QueuedRequest {
    fn drop(&mut self) {
        if self.held {
            self.scheduler.remove_waiter(self.id);
            self.scheduler.apply(Event::Left { id: self.id });
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
        self.scheduler.apply(Event::UpstreamAlive);
    }

    /// Resolves when the request is to be cut, with what its client is told.
    ///
    /// # Cancel safety
    /// May be dropped and called again.
    pub async fn stopped(&mut self) -> Cut {
        match self.stop.wait_for(Option::is_some).await {
            Ok(cut) => cut.unwrap_or(Cut::Cancelled),
            // The waiter outlives the lease; without one nobody can stop it.
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
        self.scheduler.wait_again(self.id, turn);
        self.state = LeaseState::Ended;
        let queued = QueuedRequest::new(self.scheduler.clone(), self.id, wait, self.stop.clone());
        self.scheduler.apply(Event::NotReady { id: self.id });
        queued.acquire().await
    }

    fn end(&mut self, ending: Ending) {
        if self.state == LeaseState::Ended {
            return;
        }
        self.state = LeaseState::Ended;
        let took = self.scheduler.clock().at().saturating_sub(self.since);
        self.scheduler.remove_waiter(self.id);
        self.scheduler.apply(Event::Finished {
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
