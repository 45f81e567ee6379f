//! The guards by which a request holds its place in the line and then its slot.
//!
//! Both report their end when dropped, so that a client that leaves, an early return and a panic
//! free exactly what they held: a place is left; a slot is given back, settled first if something
//! had been sent. Not here: who gets a turn ([`super::Desk`]).

use std::time::Duration;

use tokio::sync::{oneshot, watch};

use crate::queue::RequestId;
use crate::refusal::{Cut, Refusal};

use super::{Ending, Event, Grant, Owner};

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

impl Place {
    pub(super) fn new(
        owner: Owner,
        id: RequestId,
        turn: oneshot::Receiver<Result<Grant, Refusal>>,
        stop: watch::Receiver<Option<Cut>>,
    ) -> Self {
        Self {
            owner,
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
                    since: self.owner.clock().at(),
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
        self.owner.seat_again(self.id, turn);
        self.state = LeaseState::Ended;
        let place = Place::new(self.owner.clone(), self.id, wait, self.stop.clone());
        self.owner.apply(Event::NotReady { id: self.id });
        place.turn().await
    }

    fn end(&mut self, ending: Ending) {
        if self.state == LeaseState::Ended {
            return;
        }
        self.state = LeaseState::Ended;
        let took = self.owner.clock().at().saturating_sub(self.since);
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
