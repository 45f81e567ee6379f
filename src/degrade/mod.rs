//! The plan: as asked, shorter, or not now.
//!
//! A rung is the worse of what the line and the memory say. From the rung come a ceiling, the
//! room reserved for the answer and the limit that is granted, in one fixed order, so that
//! everyone who asks gets the same number. The plan never raises what was asked.
//!
//! Pure: no clock, no readings of its own. Not here: how a level is judged
//! ([`crate::memory`]) and which messages go ([`crate::window`]).

mod limits;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use serde::{Deserialize, Serialize};

use crate::memory::Level;

pub use limits::{
    Grant, NoneAsked, Overflow, Reason, Terms, ceiling, floor, granted, limit, reserve,
};

/// Tokens kept free beside prompt and answer, when the configuration names no other number:
/// what chat templates add that no count shows.
pub const MARGIN: u64 = 32;

/// How the gateway behaves, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// Answers as long as asked while nobody waits.
    #[default]
    Balanced,
    /// The article's numbers: 256 tokens, 128 while anyone waits.
    Strict,
}

/// How far answers are cut down; a later rung is shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Rung {
    /// Rung 0: as asked.
    #[default]
    Full,
    /// Rung 1: someone waits, or memory is elevated.
    Shorter,
    /// Rung 2: memory is high.
    Short,
    /// Rung 3: memory is critical; nothing is dispatched.
    NotNow,
}

/// What put the plan on its rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Someone waits in line.
    Waiting,
    /// Memory is short.
    Pressure,
    /// This chat would need more memory than is left, by what earlier ones took.
    Forecast,
}

/// Whether the line counts towards a request's rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueExempt {
    /// It counts.
    #[default]
    No,
    /// It does not: a cut tool call, cut JSON or an answer cut before it began is worse than
    /// a wait.
    Yes,
}

/// Whether the ladder of rungs is used at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ladder {
    /// It is.
    #[default]
    On,
    /// A person switched it off: every request stands on rung 0, whatever line and memory say.
    Off,
}

/// Whether a model has been seen to think before it answers.
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

/// The plan for a request: the worse of line and memory. `waiting` counts the others who wait
/// at its dispatch. Where both ask for the same rung, the line is named.
pub fn plan(waiting: usize, pressure: Level, exempt: QueueExempt, ladder: Ladder) -> Plan {
    if ladder == Ladder::Off {
        return Plan::default();
    }
    let by_line = match exempt {
        QueueExempt::No if waiting > 0 => Rung::Shorter,
        QueueExempt::No | QueueExempt::Yes => Rung::Full,
    };
    let by_memory = match pressure {
        Level::Normal => Rung::Full,
        Level::Elevated => Rung::Shorter,
        Level::High => Rung::Short,
        Level::Critical => Rung::NotNow,
    };
    let rung = by_line.max(by_memory);
    let cause = if rung == Rung::Full {
        None
    } else if by_line == rung {
        Some(Cause::Waiting)
    } else {
        Some(Cause::Pressure)
    };
    Plan { rung, cause }
}

impl Plan {
    /// The same, or the level's rung if that is a lower one: a forecast shortens, no more.
    pub fn lowered_to(self, level: Level) -> Self {
        let rung = match level {
            Level::Normal => Rung::Full,
            Level::Elevated => Rung::Shorter,
            Level::High | Level::Critical => Rung::Short,
        };
        if rung <= self.rung {
            return self;
        }
        let cause = Some(Cause::Forecast);
        Self { rung, cause }
    }
}

/// The rung alone, as [`plan`] finds it.
pub fn rung(waiting: usize, pressure: Level, exempt: QueueExempt, ladder: Ladder) -> Rung {
    plan(waiting, pressure, exempt, ladder).rung
}

/// Whether the line counts for this chat: not with tools, not with a JSON schema, not for a
/// model that reasons.
pub fn exempt(chat: &crate::request::Chat, reasoning: Reasoning) -> QueueExempt {
    if chat.has_tools() || chat.wants_schema() || reasoning == Reasoning::Seen {
        QueueExempt::Yes
    } else {
        QueueExempt::No
    }
}
