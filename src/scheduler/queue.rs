//! The line: who waits, in order of arrival, within a bound of heads and of bytes.
//!
//! Invariant: a ticket is in the line once or not at all, and nothing but the state machine in
//! [`crate::scheduler`] moves one. Not here: who may join (the scheduler decides) and how long an answer
//! takes.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// Names one request for the whole of its life: in headers, records, log and control calls.
///
/// The upper half is drawn once a run, so that ids of two runs do not collide in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// What the scheduler must know of a request that wants the slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The request.
    pub id: RequestId,
    /// Bytes its body holds in memory while it waits.
    pub bytes: usize,
    /// Streams may wait longer: they can be kept alive.
    pub delivery: Delivery,
    /// A fingerprint of the body, to recognise one that kills the server.
    pub body_hash: u64,
    /// When it joined, on the gateway's monotonic clock.
    pub arrived: Duration,
    /// When its wait ends, on the same clock.
    pub deadline: Duration,
}

/// How the answer is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Piece by piece.
    Stream,
    /// In one piece at the end.
    Whole,
}

/// The requests that wait, first come first.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: VecDeque<Ticket>,
    bytes: usize,
}

impl Queue {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Bytes all waiting bodies hold together.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Joins at the end.
    pub fn join(&mut self, ticket: Ticket) {
        self.bytes += ticket.bytes;
        self.waiting.push_back(ticket);
    }

    /// Goes back to the front: it had been taken for dispatch, and nothing was sent.
    pub fn rejoin_first(&mut self, ticket: Ticket) {
        self.bytes += ticket.bytes;
        self.waiting.push_front(ticket);
    }

    /// Who is next.
    pub fn head(&self) -> Option<&Ticket> {
        self.waiting.front()
    }

    /// Takes the next one out.
    pub fn take_head(&mut self) -> Option<Ticket> {
        let ticket = self.waiting.pop_front()?;
        self.bytes -= ticket.bytes;
        Some(ticket)
    }

    /// Takes `id` out, wherever it stands; `None` if it is not in the line.
    pub fn remove(&mut self, id: RequestId) -> Option<Ticket> {
        let place = self.waiting.iter().position(|ticket| ticket.id == id)?;
        let ticket = self.waiting.remove(place)?;
        self.bytes -= ticket.bytes;
        Some(ticket)
    }

    /// Takes out one whose deadline has come, oldest first.
    pub fn take_expired(&mut self, now: Duration) -> Option<Ticket> {
        let id = self
            .waiting
            .iter()
            .find(|ticket| ticket.deadline <= now)?
            .id;
        self.remove(id)
    }

    /// The tickets in order.
    pub fn iter(&self) -> impl Iterator<Item = &Ticket> {
        self.waiting.iter()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "req-{:016x}", self.0)
    }
}

impl std::str::FromStr for RequestId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u64::from_str_radix(text.strip_prefix("req-").unwrap_or(text), 16).map(Self)
    }
}
