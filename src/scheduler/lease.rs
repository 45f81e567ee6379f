//! The guards by which a request holds its place in the queue, and then its slot.
//!
//! Both report their end when dropped, so that a client that leaves, an early return and a panic
//! free exactly what they held: the place in the queue, or the slot, which settles first if the
//! request was sent. Not here: which request is dispatched ([`super::Scheduler`]).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use crate::refusal::{Cut, Refusal};
use crate::scheduler::queue::RequestId;
use crate::telemetry::live_stats::LiveStats;

use super::{Arrival, Ending, Event, Grant, SchedulerHandle};

/// A place in the queue. Dropping it leaves the queue.
#[derive(Debug)]
pub struct QueuedRequest {
    scheduler: SchedulerHandle,
    id: RequestId,
    turn: oneshot::Receiver<Result<Grant, Refusal>>,
    stop: watch::Receiver<Option<Cut>>,
    held: bool,
}

/// The slot, for one request. Dropping it gives the slot back, which settles first if the request
/// was sent.
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

impl SchedulerHandle {
    /// Queues a request, or dispatches it at once.
    pub fn enqueue(&self, arrival: Arrival, stats: Arc<LiveStats>) -> QueuedRequest {
        let (turn, wait) = oneshot::channel();
        let (stop, stopped) = watch::channel(None);
        let app = stats.app.as_str().into();
        self.add_waiter(arrival.id, turn, stop, stats);
        let queued = QueuedRequest::new(self.clone(), arrival.id, wait, stopped);
        self.apply(Event::Arrived { arrival, app });
        queued
    }
}

impl QueuedRequest {
    fn new(
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

    /// Waits for the slot.
    ///
    /// # Errors
    /// The refusal that ended the wait.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue.
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
            // The scheduler never drops a sender without an answer.
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
    /// The conditions at its grant.
    pub fn grant(&self) -> Grant {
        self.grant
    }

    /// Notes that the request is sent now: from here on an abort settles.
    pub fn sent(&mut self) {
        self.state = LeaseState::Sent;
    }

    /// Notes that the upstream has nothing of the request after all.
    pub fn unsent(&mut self) {
        self.state = LeaseState::Unsent;
    }

    /// When it was granted, on the gateway's monotonic clock.
    pub fn since(&self) -> Duration {
        self.since
    }

    /// Reports bytes from the upstream.
    pub fn alive(&self) {
        self.scheduler.apply(Event::UpstreamAlive);
    }

    /// Resolves when the request must stop, with the reason for its client.
    ///
    /// # Cancel safety
    /// May be dropped and called again.
    pub async fn stopped(&mut self) -> Cut {
        match self.stop.wait_for(Option::is_some).await {
            Ok(cut) => cut.unwrap_or(Cut::Cancelled),
            // The waiter outlives the lease; without it the request cannot be stopped.
            Err(_) => std::future::pending().await,
        }
    }

    /// The stop signal, to be polled beside the lease.
    pub fn stop_signal(&self) -> watch::Receiver<Option<Cut>> {
        self.stop.clone()
    }

    /// Gives the slot back.
    pub fn finish(mut self, ending: Ending) {
        self.end(ending);
    }

    /// Keeps the slot, and waits until the upstream is ready.
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
