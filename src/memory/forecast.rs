//! Whether one more chat plausibly fits beside what is left: what a token costs is learned from
//! how much the model's processes grew over answers.
//!
//! Pure. A server that sets all its memory aside at the load does not grow, costs nothing here,
//! and is never held short by a guess. Only ever used to shorten an answer, never to refuse one.

use std::collections::VecDeque;

use super::Level;

/// Growth over fewer tokens than this is noise.
const ENOUGH: u64 = 64;
/// So many of the last observations count …
const KEPT: usize = 9;
/// … and nothing is said before there are this many.
const NEEDED: usize = 3;

/// What a token of prompt or answer costs in bytes of the model's own memory.
#[derive(Debug, Default)]
pub struct TokenCost {
    observed: VecDeque<u64>,
    /// Bytes held when last learned from.
    held: Option<u64>,
    tokens: u64,
}

/// A chat that may not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forecast {
    /// The level whose rung the chat is put on.
    pub level: Level,
    /// Bytes it would need.
    pub needed: u64,
    /// Bytes that are left.
    pub left: u64,
}

impl TokenCost {
    /// Notes tokens that were read or written.
    pub fn used(&mut self, tokens: u64) {
        self.tokens = self.tokens.saturating_add(tokens);
    }

    /// Learns from what the model's processes hold now.
    pub fn see(&mut self, held: u64) {
        let Some(before) = self.held else {
            self.held = Some(held);
            self.tokens = 0;
            return;
        };
        if self.tokens < ENOUGH {
            return;
        }
        self.observed
            .push_back(held.saturating_sub(before) / self.tokens);
        if self.observed.len() > KEPT {
            self.observed.pop_front();
        }
        self.held = Some(held);
        self.tokens = 0;
    }

    /// Another model, or another process: nothing learned holds.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Bytes a token costs: the median of what was observed; 0 while nothing is known.
    pub fn bytes(&self) -> u64 {
        if self.observed.len() < NEEDED {
            return 0;
        }
        let mut sorted: Vec<u64> = self.observed.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or(0)
    }

    /// Whether a chat of so many tokens, prompt and answer together, fits into what is left:
    /// none if it does by half, or if nobody knows.
    pub fn forecast(&self, tokens: u64, left: Option<u64>) -> Option<Forecast> {
        let left = left?;
        let needed = self.bytes().saturating_mul(tokens);
        let level = if needed > left {
            Level::High
        } else if needed > left / 2 {
            Level::Elevated
        } else {
            return None;
        };
        Some(Forecast {
            level,
            needed,
            left,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const GIB: u64 = 1 << 30;

    /// A server that grew by so much for each of the tokens, over and over.
    fn grown(per_token: u64) -> TokenCost {
        let mut cost = TokenCost::default();
        for round in 0..5 {
            cost.see(GIB + round * 1000 * per_token);
            cost.used(1000);
        }
        cost
    }

    #[test]
    fn a_chat_that_will_not_fit_beside_what_is_left_is_shortened() {
        let cost = grown(128 * KIB);
        assert_eq!(cost.bytes(), 128 * KIB);
        let level = |tokens, left| cost.forecast(tokens, left).map(|it| it.level);
        assert_eq!(level(8192, Some(4 * GIB)), None, "1 GiB of 4");
        assert_eq!(level(8192, Some(3 * GIB / 2)), Some(Level::Elevated));
        assert_eq!(level(8192, Some(GIB / 2)), Some(Level::High));
        assert_eq!(level(8192, None), None, "nobody knows what is left");
        assert_eq!(
            level(u64::MAX, Some(u64::MAX)),
            Some(Level::Elevated),
            "the largest numbers"
        );
    }

    #[test]
    fn a_server_that_sets_its_memory_aside_at_the_load_is_never_held_short() {
        let cost = grown(0);
        assert_eq!(cost.forecast(1_000_000, Some(1)), None);
        let mut shrinking = TokenCost::default();
        for held in [9, 8, 7, 6, 5, 4] {
            shrinking.see(held * GIB);
            shrinking.used(1000);
        }
        assert_eq!(shrinking.bytes(), 0);
    }

    #[test]
    fn one_odd_growth_and_a_few_tokens_teach_nothing() {
        let mut cost = grown(10);
        cost.see(500 * GIB);
        assert_eq!(cost.bytes(), 10, "a median");
        let mut few = TokenCost::default();
        for round in 0..50 {
            few.see(GIB * round);
            few.used(1);
        }
        assert_eq!(few.bytes(), 0, "fifty tokens are noise");
        let mut moved = grown(10);
        moved.forget();
        assert_eq!(moved.bytes(), 0, "another model");
    }
}
