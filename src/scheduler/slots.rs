//! The slots: which request holds one, and in which of three states.
//!
//! Invariant: never more occupants than the limit that let them in. A limit lowered later takes
//! effect as leases return; no request is evicted. Not here: the lease itself, which lives in the
//! response body ([`crate::proxy::body`]) and reports its end to the scheduler.

use std::time::Duration;

use crate::scheduler::queue::{RequestId, Ticket};

/// One taken slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Occupant {
    /// Next to be dispatched, once a probe has shown that the upstream is ready.
    Checking {
        /// The request.
        ticket: Ticket,
    },
    /// Sent, or about to be: the only state in which a request is in flight upstream.
    Running {
        /// The request.
        ticket: Ticket,
        /// When it was granted.
        since: Duration,
    },
    /// Aborted: the upstream may still be working, so the slot is not free yet.
    Settling {
        /// The aborted request.
        ticket: Ticket,
        /// When it was aborted.
        since: Duration,
        /// The latest end of settling.
        until: Duration,
    },
}

/// All slots of the upstream.
#[derive(Debug, Default)]
pub struct Slots {
    held: Vec<Occupant>,
}

impl Occupant {
    /// The request that holds the slot.
    pub fn ticket(&self) -> &Ticket {
        match self {
            Self::Checking { ticket }
            | Self::Running { ticket, .. }
            | Self::Settling { ticket, .. } => ticket,
        }
    }

    /// The id of the request that holds the slot.
    pub fn id(&self) -> RequestId {
        self.ticket().id
    }
}

impl Slots {
    /// Whether one more slot may be taken under `limit`.
    pub fn has_room(&self, limit: usize) -> bool {
        self.held.len() < limit
    }

    /// Requests in flight upstream.
    pub fn running(&self) -> usize {
        self.held
            .iter()
            .filter(|one| matches!(one, Occupant::Running { .. }))
            .count()
    }

    /// Requests the upstream may be working on: in flight, or aborted and not settled.
    pub fn working(&self) -> usize {
        self.held
            .iter()
            .filter(|one| !matches!(one, Occupant::Checking { .. }))
            .count()
    }

    /// How long the oldest request in flight has been running; zero with none.
    pub fn oldest_running(&self, now: Duration) -> Duration {
        self.held
            .iter()
            .filter_map(|one| match one {
                Occupant::Running { since, .. } => Some(now.saturating_sub(*since)),
                Occupant::Checking { .. } | Occupant::Settling { .. } => None,
            })
            .max()
            .unwrap_or_default()
    }

    /// The request that waits for its probe, if there is one.
    pub fn checking(&self) -> Option<&Ticket> {
        self.held.iter().find_map(|one| match one {
            Occupant::Checking { ticket } => Some(ticket),
            Occupant::Running { .. } | Occupant::Settling { .. } => None,
        })
    }

    /// The occupant that holds a slot for `id`.
    pub fn get(&self, id: RequestId) -> Option<&Occupant> {
        self.held.iter().find(|one| one.id() == id)
    }

    /// Takes a slot for a request that waits for its probe.
    pub fn check(&mut self, ticket: Ticket) {
        self.held.push(Occupant::Checking { ticket });
    }

    /// Takes a slot for a request that is dispatched now.
    pub fn run(&mut self, ticket: Ticket, since: Duration) {
        self.held.push(Occupant::Running { ticket, since });
    }

    /// Keeps the slot of a request aborted at `since` until `until` at the latest.
    pub fn settle(&mut self, ticket: Ticket, since: Duration, until: Duration) {
        self.held.push(Occupant::Settling {
            ticket,
            since,
            until,
        });
    }

    /// Frees the slot of `id`; what it was, or `None` if it held none.
    pub fn release(&mut self, id: RequestId) -> Option<Occupant> {
        let position = self.held.iter().position(|one| one.id() == id)?;
        Some(self.held.swap_remove(position))
    }

    /// Frees the slots whose settling has taken its longest time.
    pub fn release_settled(&mut self, now: Duration) {
        self.held
            .retain(|one| !matches!(one, Occupant::Settling { until, .. } if *until <= now));
    }

    /// Frees all settling slots: the process that worked for them is gone.
    pub fn release_settling(&mut self) {
        self.held
            .retain(|one| !matches!(one, Occupant::Settling { .. }));
    }

    /// The occupants, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Occupant> {
        self.held.iter()
    }
}
