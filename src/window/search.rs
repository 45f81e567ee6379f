//! Finding the smallest cut that fits with few counts.
//!
//! Estimates say where to look: between two counted cuts the tokens are taken to fall as the
//! estimates do. After a few such guesses halving takes over, so that odd text costs no more
//! than a handful of counts.

use super::cut_points::Cut;

/// Guesses by estimate before halving takes over.
const GUESSES: u32 = 3;
/// Counts a search may ask for; with the two before it, eight in all.
const MOST: u32 = 6;

/// A search between a cut that does not fit and one that does.
#[derive(Debug, Clone)]
pub(super) struct Search {
    /// The uncut chat, then every cut in rising order.
    points: Vec<Cut>,
    budget: u64,
    low: Bound,
    high: Bound,
    counts: u32,
}

/// A counted point.
#[derive(Debug, Clone, Copy)]
struct Bound {
    point: usize,
    tokens: u64,
}

/// What a search wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The count with this many units dropped.
    Count { units: usize },
    /// Nothing: this many units go, and the rest counts so much.
    Found { units: usize, tokens: u64 },
}

impl Search {
    /// A search over `cuts` (not empty, the last drops every unit), the uncut chat counting
    /// `whole` and the most cut one `must`. The latter is taken to fit.
    pub(super) fn new(cuts: Vec<Cut>, whole: u64, must: u64, budget: u64) -> Self {
        let mut points = vec![Cut {
            units: 0,
            removed: 0,
        }];
        points.extend(cuts);
        let last = points.len() - 1;
        Self {
            points,
            budget,
            low: Bound {
                point: 0,
                tokens: whole,
            },
            high: Bound {
                point: last,
                tokens: must,
            },
            counts: 0,
        }
    }

    /// What is wanted next; the same until [`counted`](Self::counted).
    pub(super) fn next(&self) -> Next {
        if self.high.point <= self.low.point + 1 || self.counts == MOST {
            return Next::Found {
                units: self.units(self.high.point),
                tokens: self.high.tokens,
            };
        }
        Next::Count {
            units: self.units(self.probe()),
        }
    }

    /// Takes the count that was asked for.
    pub(super) fn counted(&mut self, tokens: u64) {
        let bound = Bound {
            point: self.probe(),
            tokens,
        };
        if tokens <= self.budget {
            self.high = bound;
        } else {
            self.low = bound;
        }
        self.counts += 1;
    }

    fn probe(&self) -> usize {
        let (first, last) = (self.low.point + 1, self.high.point - 1);
        if self.counts >= GUESSES {
            return first.midpoint(last);
        }
        (first..=last)
            .find(|point| self.expected(*point) <= self.budget)
            .unwrap_or(last)
    }

    /// The count expected at a point between the bounds.
    fn expected(&self, point: usize) -> u64 {
        let (low, high) = (self.removed(self.low.point), self.removed(self.high.point));
        let span = u128::from(high.saturating_sub(low).max(1));
        let gone = u128::from(self.removed(point).saturating_sub(low));
        let fall = u128::from(self.low.tokens.saturating_sub(self.high.tokens));
        let fallen = u64::try_from(fall * gone / span).unwrap_or(u64::MAX);
        self.low.tokens.saturating_sub(fallen)
    }

    fn units(&self, point: usize) -> usize {
        self.points.get(point).map_or(0, |cut| cut.units)
    }

    fn removed(&self, point: usize) -> u64 {
        self.points.get(point).map_or(0, |cut| cut.removed)
    }
}
