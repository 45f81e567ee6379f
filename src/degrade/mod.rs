//! The plan for a request: as asked, shorter, or not now.
//!
//! Its rung is the worse of queue and memory. From the rung follow a ceiling, the room reserved for
//! the answer and the granted limit, in one fixed order, so that equal requests get equal numbers.
//! The plan never raises what was asked.
//!
//! Pure: no clock, no readings of its own. Not here: the memory level ([`crate::memory`]) and which
//! messages are dropped ([`crate::window`]).

mod limits;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use crate::memory::Level;

pub use limits::{
    Grant, NoneAsked, Overflow, Reason, Terms, ceiling, floor, granted, limit, reserve,
};

/// Tokens kept free beside prompt and answer: chat templates add some that no count shows.
pub const MARGIN: u64 = 32;

/// How far answers are shortened; a later rung is shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Rung {
    /// Rung 0: as asked.
    #[default]
    Full,
    /// Rung 1: a request is queued, or memory is elevated.
    Shorter,
    /// Rung 2: memory is high.
    Short,
    /// Rung 3: memory is critical; nothing is dispatched.
    NotNow,
}

/// What put the plan on its rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A request is queued.
    Waiting,
    /// Memory is short.
    Pressure,
}

/// Whether the queue counts towards a request's rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueExempt {
    /// It counts.
    #[default]
    No,
    /// It does not: a truncated tool call, truncated JSON or an answer that ends before it began is
    /// worse than a wait.
    Yes,
}

/// Whether the ladder of rungs is used at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ladder {
    /// It is.
    #[default]
    On,
    /// It is switched off: every request is on rung 0.
    Off,
}

/// Whether a model was seen to think before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reasoning {
    /// Never seen.
    #[default]
    Unseen,
    /// Seen in an earlier answer.
    Seen,
}

/// A rung and what caused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Plan {
    /// The rung.
    pub rung: Rung,
    /// Why it is not rung 0.
    pub cause: Option<Cause>,
}

// --- Rung ---

impl Rung {
    /// Its number, 0…3.
    pub fn number(self) -> u8 {
        match self {
            Self::Full => 0,
            Self::Shorter => 1,
            Self::Short => 2,
            Self::NotNow => 3,
        }
    }
}

// --- Plan ---

/// The plan for a request: the worse of queue and memory. `waiting` is the number of requests
/// queued behind it at its dispatch. If both lead to the same rung, the queue is named.
pub fn plan(waiting: usize, pressure: Level, exempt: QueueExempt, ladder: Ladder) -> Plan {
    if ladder == Ladder::Off {
        return Plan::default();
    }
    let by_queue = match exempt {
        QueueExempt::No if waiting > 0 => Rung::Shorter,
        QueueExempt::No | QueueExempt::Yes => Rung::Full,
    };
    let by_memory = match pressure {
        Level::Normal => Rung::Full,
        Level::Elevated => Rung::Shorter,
        Level::High => Rung::Short,
        Level::Critical => Rung::NotNow,
    };
    let rung = by_queue.max(by_memory);
    let cause = if rung == Rung::Full {
        None
    } else if by_queue == rung {
        Some(Cause::Waiting)
    } else {
        Some(Cause::Pressure)
    };
    Plan { rung, cause }
}

/// The rung alone, as [`plan`] finds it.
pub fn rung(waiting: usize, pressure: Level, exempt: QueueExempt, ladder: Ladder) -> Rung {
    plan(waiting, pressure, exempt, ladder).rung
}

/// Whether the queue counts for this chat: not with tools, a JSON schema or a model that thinks.
pub fn exempt(chat: &crate::request::Chat, reasoning: Reasoning) -> QueueExempt {
    if chat.has_tools() || chat.wants_schema() || reasoning == Reasoning::Seen {
        QueueExempt::Yes
    } else {
        QueueExempt::No
    }
}
