//! Memory of graphics cards: who tells, which card counts, and what others took of it.
//!
//! NVIDIA's cards are asked through the driver's own library, AMD's through files of the kernel;
//! no other card tells, and is left out rather than guessed at. A card that sleeps is never
//! asked, since asking would wake it. A card that shares the machine's memory is judged by that.

pub mod amd;
pub mod nvidia;
pub mod power;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::time::Duration;

use super::Shortage;

pub use amd::AmdCards;
pub use nvidia::NvidiaCards;

/// One graphics card at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// Its place: stays the same while the program runs.
    pub place: String,
    /// Its name, as the driver has it.
    pub name: String,
    /// Its memory; `None` where the driver does not tell.
    pub memory: Option<Memory>,
    /// Bytes the model's processes hold on it; `None` where the driver does not tell.
    pub own: Option<u64>,
    /// Whether the model's processes are on it at all.
    pub model: OnCard,
}

/// A card's memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// All there is.
    pub total: u64,
    /// What is free.
    pub free: u64,
    /// Whose it is.
    pub kind: MemoryKind,
}

/// Whose memory a card uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    /// Its own.
    Own,
    /// The machine's: RAM says how short it is.
    Shared,
}

/// Whether the model is on a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnCard {
    /// One of its processes is.
    Yes,
    /// None is, or the driver does not tell.
    NotSeen,
}

/// Reads all cards that tell.
pub struct VramReader {
    nvidia: NvidiaCards,
    amd: AmdCards,
    before: Vec<Before>,
    model: Model,
}

/// What a card was when the model had been loaded.
#[derive(Debug)]
struct Before {
    place: String,
    free: u64,
    own: Option<u64>,
}

/// Whether what was read so far was read with the model that is loaded now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Model {
    Seen,
    JustLoaded,
}

impl Card {
    /// Its memory, if the numbers can be true and are its own.
    fn own_memory(&self) -> Option<Memory> {
        self.memory
            .filter(|memory| memory.kind == MemoryKind::Own && memory.is_plausible())
    }
}

impl Memory {
    /// Whether the numbers can be true.
    pub fn is_plausible(&self) -> bool {
        self.total > 0 && self.free <= self.total
    }

    /// The part that is free, in millionths.
    fn share(&self) -> u64 {
        let share = u128::from(self.free) * 1_000_000 / u128::from(self.total.max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

impl VramReader {
    /// A reader of this machine's cards; reads nothing yet.
    pub fn new() -> Self {
        Self::with(NvidiaCards::new(), AmdCards::default())
    }

    fn with(nvidia: NvidiaCards, amd: AmdCards) -> Self {
        Self {
            nvidia,
            amd,
            before: Vec::new(),
            model: Model::JustLoaded,
        }
    }

    /// A model was loaded: what is read next is what others are measured against.
    pub fn model_loaded(&mut self) {
        self.model = Model::JustLoaded;
    }

    /// All cards at `now`; `model` names the processes that serve the model. Blocks for some
    /// milliseconds the first time.
    pub fn read(&mut self, model: &[u32], now: Duration) -> Vec<Card> {
        let mut cards = self.nvidia.read(model, now);
        cards.extend(self.amd.read(model));
        cards
    }

    /// Lets go of the driver: an open handle alone keeps a card from sleeping.
    pub fn rest(&mut self) {
        self.nvidia.rest();
    }

    /// What has become of the card that counts since the model was loaded.
    pub fn judge(&mut self, cards: &[Card]) -> Option<Shortage> {
        if self.model == Model::JustLoaded && !cards.is_empty() {
            self.before.clear();
            self.model = Model::Seen;
        }
        for card in cards {
            let known = self.before.iter().any(|before| before.place == card.place);
            if let Some(memory) = card.own_memory().filter(|_| !known) {
                self.before.push(Before {
                    place: card.place.clone(),
                    free: memory.free,
                    own: card.own,
                });
            }
        }
        let card = counting(cards)?;
        let memory = card.own_memory()?;
        let before = self.before.iter().find(|it| it.place == card.place)?;
        // What the model itself took is not lost: it is loaded, or its answers grow.
        let grown = match (before.own, card.own) {
            (Some(before), Some(now)) => now.saturating_sub(before),
            (Some(_) | None, None) | (None, Some(_)) => 0,
        };
        Some(Shortage {
            card: card.name.clone(),
            total: memory.total,
            free: memory.free,
            fallen: before
                .free
                .saturating_sub(memory.free)
                .saturating_sub(grown),
        })
    }
}

impl Default for VramReader {
    fn default() -> Self {
        Self::new()
    }
}

/// The card that counts: the one the model is on, else the fullest.
fn counting(cards: &[Card]) -> Option<&Card> {
    let known = |card: &&Card| card.own_memory().is_some();
    let share = |card: &&Card| card.own_memory().map_or(u64::MAX, |memory| memory.share());
    let on = cards
        .iter()
        .filter(known)
        .filter(|card| card.model == OnCard::Yes);
    // On several cards the fullest of them is where the model will fail.
    on.min_by_key(share)
        .or_else(|| cards.iter().filter(known).min_by_key(share))
}
