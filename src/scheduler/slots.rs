//! The slots: who holds one, and in which of three states.
//!
//! Invariant: never more occupants than the limit let in. A limit lowered later takes effect as
//! leases return; nobody is thrown out. Not here: the lease itself, which lives in the response
//! body ([`crate::proxy::body`]) and reports its end to the scheduler.

use std::time::Duration;

use crate::scheduler::queue::{RequestId, Ticket};

/// One taken slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Occupant {
    /// Next to be dispatched, once the upstream has proved to be ready.
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
        /// The request that was aborted.
        id: RequestId,
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
    /// The request that holds (or held) the slot.
    pub fn id(&self) -> RequestId {
        match self {
            Self::Checking { ticket } | Self::Running { ticket, .. } => ticket.id,
            Self::Settling { id, .. } => *id,
        }
    }
}

impl Slots {
    /// Whether one more may be taken under `limit`.
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

    /// The request that waits for proof of life, if there is one.
    pub fn checking(&self) -> Option<&Ticket> {
        self.held.iter().find_map(|one| match one {
            Occupant::Checking { ticket } => Some(ticket),
            Occupant::Running { .. } | Occupant::Settling { .. } => None,
        })
    }

    /// Takes a slot for a request that is not proved yet.
    pub fn check(&mut self, ticket: Ticket) {
        self.held.push(Occupant::Checking { ticket });
    }

    /// Takes a slot for a request that is dispatched now.
    pub fn run(&mut self, ticket: Ticket, since: Duration) {
        self.held.push(Occupant::Running { ticket, since });
    }

    /// Keeps the slot of an aborted request taken until `until`.
    pub fn settle(&mut self, id: RequestId, until: Duration) {
        self.held.push(Occupant::Settling { id, until });
    }

    /// Gives up the slot of `id`; what it was, or `None` if it held none.
    pub fn release(&mut self, id: RequestId) -> Option<Occupant> {
        let place = self.held.iter().position(|one| one.id() == id)?;
        Some(self.held.swap_remove(place))
    }

    /// Gives up one slot whose settling time is over.
    pub fn take_settled(&mut self, now: Duration) -> Option<RequestId> {
        let id = self.held.iter().find_map(|one| match one {
            Occupant::Settling { id, until } if *until <= now => Some(*id),
            Occupant::Settling { .. } | Occupant::Checking { .. } | Occupant::Running { .. } => {
                None
            }
        })?;
        self.release(id);
        Some(id)
    }

    /// The occupants, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Occupant> {
        self.held.iter()
    }
}
