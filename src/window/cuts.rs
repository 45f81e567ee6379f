//! Where a chat may be cut.
//!
//! Cutting at the front changes the prompt's start and throws away the server's prompt cache.
//! Steady cuts lie on a grid that does not move while a chat grows: its step is half the input
//! budget, measured along the estimates of the droppable units from the oldest on. A chat is cut
//! at the first grid point that is enough and stays cut there for several turns.

use serde::{Deserialize, Serialize};

use super::count::{Counting, message_cost};
use super::units::Units;
use crate::request::Chat;

/// How a chat is cut when it does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trim {
    /// In coarse steps, so that the cut stays put for several turns.
    #[default]
    Steady,
    /// As little as possible, at every turn anew.
    Minimal,
    /// Not at all.
    Off,
}

/// A place where a chat may be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    /// How many of the oldest units go.
    pub(super) units: usize,
    /// The estimate of what goes, unscaled.
    pub(super) removed: u64,
}

/// The cuts in rising order; the last one drops every unit. `budget` is the input budget at
/// rest: it must not change from turn to turn.
pub(super) fn cuts(chat: &Chat, units: &Units, trim: Trim, budget: u64) -> Vec<Cut> {
    let mut removed = 0;
    let all = units.iter().enumerate().map(|(number, unit)| {
        removed += unit_cost(chat, unit);
        Cut {
            units: number + 1,
            removed,
        }
    });
    match trim {
        Trim::Minimal => all.collect(),
        Trim::Off => Vec::new(),
        Trim::Steady => on_grid(all.collect(), (budget / 2).max(1)),
    }
}

fn unit_cost(chat: &Chat, unit: &[usize]) -> u64 {
    let messages = unit.iter().filter_map(|index| chat.messages().get(*index));
    messages
        .map(|message| message_cost(message, Counting::Bytes))
        .sum()
}

/// Keeps the first cut at or behind each grid point; behind the last grid point, where no
/// coarse cut is left, every cut.
fn on_grid(all: Vec<Cut>, step: u64) -> Vec<Cut> {
    let points = all.last().map_or(0, |last| last.removed / step);
    let mut reached = 0;
    let mut kept = Vec::new();
    for cut in all {
        let point = cut.removed / step;
        if point > reached || reached == points {
            kept.push(cut);
        }
        reached = point;
    }
    kept
}
