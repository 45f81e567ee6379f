//! The points at which a chat may be trimmed.
//!
//! Dropping the oldest messages changes the start of the prompt and invalidates the server's
//! prompt cache. Steady cut points lie on a grid that does not move while a chat grows: its step
//! is half the input budget, measured along the estimates of the droppable units from the oldest
//! on. A chat is trimmed at the first grid point that suffices and stays trimmed there for several
//! turns.

use super::tokens::message_cost;
use super::turns::Units;
use crate::config::{Counting, Trim};
use crate::request::Chat;

/// A point at which a chat may be trimmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    /// How many of the oldest units are dropped.
    pub(super) units: usize,
    /// The estimate of what is dropped, unscaled.
    pub(super) removed: u64,
}

/// The cut points in rising order; the last one drops every unit. `budget` is the input budget at
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
