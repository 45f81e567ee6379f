//! The latest readings of memory, and the level that follows from them.
//!
//! A reading of main memory takes some ten microseconds, one of graphics cards may block. Not
//! here: when they are read ([`crate::monitor::memory`]) and what a level does (the scheduler,
//! the plan).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::{Sensitivity, Settings};
use crate::memory::vram::{Card, MemoryKind, VramReader};
use crate::memory::{
    Judge, Level, RamReader, Sample, Shortage, Stall, StallReader, Threshold, Thresholds, Verdict,
};
use crate::telemetry::message::Fact;
use crate::telemetry::snapshot;

/// Readings closer together than this do not count as two that agree.
const APART: Duration = Duration::from_millis(200);

/// What was read last.
pub(crate) struct Readings {
    memory: Mutex<Memory>,
    cards: Mutex<Cards>,
}

struct Memory {
    reader: RamReader,
    stalls: StallReader,
    judge: Judge,
    stall: Option<Stall>,
    last: Option<(Duration, Verdict)>,
}

struct Cards {
    /// Whether graphics memory is read at all.
    enabled: bool,
    /// Taken out while it reads: a driver may take its time.
    reader: Option<VramReader>,
    seen: Vec<Card>,
    shortage: Option<Shortage>,
    read_ms: u64,
    /// A model was loaded since the last reading.
    model_loaded: bool,
}

/// What can be freed, in bytes: to tell what an unload gave back.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Held {
    /// RAM that is available.
    pub(crate) available: Option<u64>,
    /// Free memory of all graphics cards that tell.
    pub(crate) vram_free: Option<u64>,
    /// What the model server's processes hold.
    pub(crate) resident: Option<u64>,
}

/// What an unload gave back, in bytes, by readings before and after it; `null` where no
/// reading exists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Freed {
    /// What the model server's processes hold less; else how much more RAM is available.
    pub ram: Option<u64>,
    /// How much more is free on the graphics cards.
    pub vram: Option<u64>,
}

impl Held {
    /// What was given back since `before`; less than nothing is nothing.
    pub(crate) fn freed_since(self, before: Self) -> Freed {
        let less = |before: Option<u64>, now: Option<u64>| Some(before?.saturating_sub(now?));
        Freed {
            ram: less(before.resident, self.resident).or(less(self.available, before.available)),
            vram: less(self.vram_free, before.vram_free),
        }
    }
}

impl Readings {
    pub(crate) fn new(settings: &Settings) -> Self {
        let memory = Memory {
            reader: RamReader::new(),
            stalls: StallReader::default(),
            judge: Judge::new(thresholds(settings)),
            stall: None,
            last: None,
        };
        let cards = Cards {
            enabled: settings.pressure.gpu,
            reader: Some(VramReader::new()),
            seen: Vec::new(),
            shortage: None,
            read_ms: 0,
            model_loaded: false,
        };
        Self {
            memory: Mutex::new(memory),
            cards: Mutex::new(cards),
        }
    }

    /// Judges by other thresholds from now on.
    pub(crate) fn rejudge(&self, settings: &Settings) {
        let mut memory = self.memory();
        memory.judge = Judge::new(thresholds(settings));
        memory.last = None;
        drop(memory);
        let mut cards = self.cards();
        cards.enabled = settings.pressure.gpu;
        if !cards.enabled {
            cards.seen.clear();
            drop(cards);
            self.close_cards();
        }
    }

    /// Reads the limits around the model's process as well.
    pub(crate) fn follow(&self, pid: Option<u32>) {
        self.memory().reader.follow(pid);
    }

    /// A model was loaded: what others take of a graphics card is counted from now on.
    pub(crate) fn model_loaded(&self) {
        self.cards().model_loaded = true;
    }

    /// The kernel tells of stalls from now on, or no longer.
    pub(crate) fn stalls(&self, change: impl FnOnce(&mut StallReader)) {
        change(&mut self.memory().stalls);
    }

    /// Level and available RAM as last judged: before whatever has just happened.
    pub(crate) fn last(&self) -> (Level, Option<u64>) {
        let memory = self.memory();
        memory
            .last
            .as_ref()
            .map_or((Level::Normal, None), |(_, last)| {
                (last.level, last.ram.map(|ram| ram.available))
            })
    }
}

impl Readings {
    /// Reads main memory. Gives the level and its cause if the level changed.
    pub(crate) fn read(&self, at: Duration) -> Option<(Level, Option<Fact>)> {
        let vram = self.cards().shortage.clone();
        let mut memory = self.memory();
        if memory
            .last
            .as_ref()
            .is_some_and(|(before, _)| at.saturating_sub(*before) < APART)
        {
            return None;
        }
        let ram = memory.reader.read();
        memory.stall = memory.stalls.read(at);
        let stall = memory.stall;
        let verdict = memory.judge.judge(Sample { ram, stall, vram }, at);
        let changed = memory
            .last
            .as_ref()
            .is_none_or(|(_, last)| last.level != verdict.level);
        let result = changed.then(|| (verdict.level, verdict.cause.clone()));
        memory.last = Some((at, verdict));
        result
    }

    /// Reads the graphics cards; `family` are the model server's processes. May block.
    pub(crate) fn read_cards(&self, family: &[u32], at: Duration) {
        let mut cards = self.cards();
        if !cards.enabled {
            return;
        }
        let Some(mut reader) = cards.reader.take() else {
            return;
        };
        if std::mem::take(&mut cards.model_loaded) {
            reader.model_loaded();
        }
        drop(cards);
        let seen = reader.read(family, at);
        let shortage = reader.judge(&seen);
        let mut cards = self.cards();
        if !cards.enabled {
            // It was switched off meanwhile.
            reader.rest();
            cards.reader = Some(reader);
            return;
        }
        // The last reading of a card that fell asleep is still what is known of it.
        if !seen.is_empty() {
            cards.read_ms = u64::try_from(crate::clock::unix_ms()).unwrap_or(0);
            cards.seen = seen;
        }
        cards.shortage = shortage;
        cards.reader = Some(reader);
    }

    /// Closes the graphics cards' driver, so that they may sleep.
    pub(crate) fn close_cards(&self) {
        let mut cards = self.cards();
        cards.shortage = None;
        if let Some(reader) = &mut cards.reader {
            reader.rest();
        }
    }

    /// What an unload could free; `resident` is what the model server's processes hold.
    pub(crate) fn held(&self, resident: Option<u64>) -> Held {
        let cards = self.cards();
        let known = cards.seen.iter().filter_map(|card| card.memory);
        let vram_free = known
            .filter(|memory| memory.kind == MemoryKind::Own)
            .map(|memory| memory.free)
            .reduce(u64::saturating_add);
        drop(cards);
        let ram = self.memory().reader.read();
        Held {
            available: ram.first().map(|ram| ram.available),
            vram_free,
            resident,
        }
    }

    /// The readings, for the status.
    pub(crate) fn shown(&self) -> snapshot::Pressure {
        let vram = self.shown_cards();
        let memory = self.memory();
        let Some((_, last)) = &memory.last else {
            return snapshot::Pressure {
                vram,
                ..snapshot::Pressure::default()
            };
        };
        let swap = memory.reader.swap();
        snapshot::Pressure {
            level: match last.level {
                Level::Normal => snapshot::Level::Normal,
                Level::Elevated => snapshot::Level::Elevated,
                Level::High => snapshot::Level::High,
                Level::Critical => snapshot::Level::Critical,
            },
            cause: last.cause.clone().map(Fact::message),
            ram: snapshot::Ram {
                total: last.ram.map(|ram| ram.total),
                available: last.ram.map(|ram| ram.available),
            },
            swap: snapshot::Swap {
                total: swap.map(|swap| swap.total),
                used: swap.map(|swap| swap.used),
            },
            stalled: memory.stall.map(|stall| f64::from(stall.0) / 100.0),
            vram,
        }
    }

    fn shown_cards(&self) -> Vec<snapshot::Vram> {
        let cards = self.cards();
        let shown = cards.seen.iter().map(|card| snapshot::Vram {
            name: card.name.clone(),
            total: card.memory.map(|memory| memory.total),
            free: card.memory.map(|memory| memory.free),
            model: card.own,
            shared: card
                .memory
                .is_some_and(|memory| memory.kind == MemoryKind::Shared),
            read_ms: cards.read_ms,
        });
        shown.collect()
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cards(&self) -> MutexGuard<'_, Cards> {
        self.cards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn thresholds(settings: &Settings) -> Thresholds {
    const MIB: u64 = 1 << 20;
    let limits = &settings.limits.memory;
    // Amounts, and the share of stalls, in halves of what the constants say.
    let (halves, stall_halves) = match settings.pressure.sensitivity {
        Sensitivity::Off => (0, 20),
        Sensitivity::Low => (1, 4),
        Sensitivity::Normal => (2, 2),
        Sensitivity::High => (4, 1),
    };
    let mib = |mib: u64| mib.saturating_mul(MIB).saturating_mul(halves) / 2;
    let ([elevated, high, critical], percent) = (limits.ram_mib, limits.ram_percent);
    let at = |percent: u8, bytes| Threshold {
        percent: u8::try_from(u64::from(percent) * halves / 2).unwrap_or(u8::MAX),
        bytes: mib(bytes),
    };
    let [vram_elevated, vram_high] = limits.vram_mib;
    Thresholds {
        elevated: at(percent[0], elevated),
        high: at(percent[1], high),
        critical: at(percent[2], critical),
        stalled: u32::from(limits.stall_percent) * 100 * stall_halves / 2,
        vram_elevated: mib(vram_elevated),
        vram_high: mib(vram_high),
        vram_fall: limits.vram_fall_mib.saturating_mul(MIB),
        rise_readings: limits.rise_readings,
        fall_quiet: limits.fall_quiet,
        critical_holds: limits.critical_holds,
    }
}
