//! What one sample alone means: RAM, raised by stalls, or the model's graphics card.
//!
//! Pure. Swap in use is not pressure; waiting for it is, and that the kernel counts as a stall.
//! Not here: how many samples must agree, and for how long a level stays ([`crate::memory::level`]).

use std::cmp::Reverse;
use std::fmt;

use crate::telemetry::message::Fact;

use super::{Level, Reading, Size, Thresholds};

/// Memory as it was read at one moment. What is not known is left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sample {
    /// RAM: of the machine, and of each group of processes with a limit of its own.
    pub ram: Vec<Reading>,
    /// How much of the last ten seconds every process that wanted to run waited for memory.
    pub stall: Option<Stall>,
    /// The graphics card that counts.
    pub vram: Option<Shortage>,
}

/// Part of a time, in hundredths of a percent: 0…10,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stall(pub u32);

/// A graphics card, and what has become of it since the model was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    /// The card's name.
    pub card: String,
    /// All its memory, in bytes.
    pub total: u64,
    /// What is free, in bytes.
    pub free: u64,
    /// Bytes that went to others since the model was loaded.
    pub fallen: u64,
}

/// A sample, judged by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) level: Level,
    pub(super) cause: Cause,
    /// The worst reading of RAM, if one is known.
    pub(super) ram: Option<Reading>,
}

/// The reading that made a level, with its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cause {
    Ram(Reading),
    RamAndStall(Reading, Stall),
    Stall(Stall),
    Vram(Shortage),
}

impl Look {
    /// The part of RAM that is available, in millionths; all of it where nothing is known.
    pub(super) fn share(&self) -> u32 {
        self.ram.as_ref().map_or(u32::MAX, Reading::share)
    }
}

impl Thresholds {
    /// Judges one sample; `None` if nothing in it is known.
    pub(super) fn look(&self, sample: Sample) -> Option<Look> {
        let ram = self.worst(sample.ram);
        // More than all of a time is no part of it.
        let stall = sample.stall.filter(|stall| stall.0 <= 10_000);
        let by_ram = self.by_ram(ram, stall);
        let by_card = sample
            .vram
            .map(|card| (self.by_card(&card), Cause::Vram(card)));
        let (level, cause) = match (by_ram, by_card) {
            (Some(ram), Some(card)) if card.0 > ram.0 => card,
            (Some(ram), _) => ram,
            (None, card) => card?,
        };
        Some(Look { level, cause, ram })
    }

    fn by_ram(&self, ram: Option<Reading>, stall: Option<Stall>) -> Option<(Level, Cause)> {
        let level = ram.as_ref().map_or(Level::Normal, |ram| self.level(ram));
        let counts = |stall: &Stall| stall.0 > self.stalled;
        match (ram, stall) {
            (Some(ram), Some(stall)) if counts(&stall) => {
                Some((level.raised(), Cause::RamAndStall(ram, stall)))
            }
            (Some(ram), _) => Some((level, Cause::Ram(ram))),
            (None, Some(stall)) if counts(&stall) => Some((level.raised(), Cause::Stall(stall))),
            // That nothing stalls does not say how much there is.
            (None, _) => None,
        }
    }

    fn by_card(&self, card: &Shortage) -> Level {
        if card.total == 0 || card.free > card.total || card.fallen < self.vram_fall {
            Level::Normal
        } else if card.free < self.vram_high {
            Level::High
        } else if card.free < self.vram_elevated {
            Level::Elevated
        } else {
            Level::Normal
        }
    }

    /// The reading with the worst level; among those, the one with the smallest part available.
    /// While nothing is short, it is the one with the fewest bytes: a group may be nearly all
    /// free and still have less to give than the machine.
    fn worst(&self, readings: Vec<Reading>) -> Option<Reading> {
        readings
            .into_iter()
            .filter(Reading::is_plausible)
            .min_by_key(|reading| match self.level(reading) {
                Level::Normal => (Reverse(Level::Normal), reading.available),
                level => (Reverse(level), u64::from(reading.share())),
            })
    }
}

impl Level {
    /// One level higher; critical stays.
    pub fn raised(self) -> Self {
        match self {
            Self::Normal => Self::Elevated,
            Self::Elevated => Self::High,
            Self::High | Self::Critical => Self::Critical,
        }
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02} %", self.0 / 100, self.0 % 100)
    }
}

impl Cause {
    /// The reading with its numbers, as a message.
    pub(super) fn fact(&self) -> Fact {
        match self {
            Self::Ram(ram) => Fact::RamLow {
                available: Size(ram.available).to_string(),
                total: Size(ram.total).to_string(),
                percent: ram.percent(),
            },
            Self::RamAndStall(ram, stall) => Fact::RamLowAndStalled {
                available: Size(ram.available).to_string(),
                total: Size(ram.total).to_string(),
                percent: ram.percent(),
                stalled: stall.to_string(),
            },
            Self::Stall(stall) => Fact::MemoryStalled {
                stalled: stall.to_string(),
            },
            Self::Vram(card) => Fact::VramLow {
                free: Size(card.free).to_string(),
                total: Size(card.total).to_string(),
                card: card.card.clone(),
                taken: Size(card.fallen).to_string(),
            },
        }
    }
}
