//! The queue: requests in order of arrival, limited in number and in bytes.
//!
//! Invariant: a ticket is in the queue at most once, and only the state machine in
//! [`crate::scheduler`] moves one. Not here: whether a request may join, and how long an answer
//! takes.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Names one request for its whole life: in headers, records, log and control calls.
///
/// The upper half is random for each run, so that ids of two runs do not collide in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// What the scheduler knows of a request that needs the slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The request.
    pub id: RequestId,
    /// The calling app.
    pub app: Arc<str>,
    /// Bytes its body holds in memory while it is queued.
    pub bytes: usize,
    /// Streams may wait longer: they can be kept alive.
    pub delivery: Delivery,
    /// Hash of the body, to recognise one that kills the server.
    pub body_hash: u64,
    /// When it arrived, on the gateway's monotonic clock.
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

/// The queued requests, first come first served.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: VecDeque<Ticket>,
    bytes: usize,
}

impl Queue {
    /// The number of queued requests.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no request is queued.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Bytes all queued bodies hold together.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a request at the end.
    pub fn push(&mut self, ticket: Ticket) {
        self.bytes += ticket.bytes;
        self.waiting.push_back(ticket);
    }

    /// Puts a request back to the front: it was taken for dispatch, and nothing was sent.
    pub fn push_front(&mut self, ticket: Ticket) {
        self.bytes += ticket.bytes;
        self.waiting.push_front(ticket);
    }

    /// The next request.
    pub fn front(&self) -> Option<&Ticket> {
        self.waiting.front()
    }

    /// Takes the next request out.
    pub fn pop_front(&mut self) -> Option<Ticket> {
        let ticket = self.waiting.pop_front()?;
        self.bytes -= ticket.bytes;
        Some(ticket)
    }

    /// Takes `id` out, wherever it is; `None` if it is not queued.
    pub fn remove(&mut self, id: RequestId) -> Option<Ticket> {
        let position = self.waiting.iter().position(|ticket| ticket.id == id)?;
        let ticket = self.waiting.remove(position)?;
        self.bytes -= ticket.bytes;
        Some(ticket)
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
