//! The latest readings of memory, and the level they come to.
//!
//! Main memory is read wherever it is needed: that costs some ten microseconds. Graphics cards
//! and the model's processes are read off the runtime and only while somebody runs or waits. Not
//! here: the process's life ([`super::process`]) and what a level does (the desk, the plan).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;

use crate::config;
use crate::desk::Event;
use crate::pressure::vram::{Card, MemoryKind, VramReader};
use crate::pressure::{
    Judge, Level, RamReader, Sample, Shortage, Stall, StallReader, Threshold, Thresholds, Verdict,
};
use crate::record::snapshot;

use super::{Gateway, lock};

/// Readings closer together than this do not count as two that agree.
const APART: Duration = Duration::from_millis(200);

/// A server answers an unload before the system has all of it back: looked at so often …
const FREEING_LOOKS: u32 = 10;
/// … and so far apart.
const FREEING_LOOK: Duration = Duration::from_millis(200);

/// What was read last.
pub(super) struct Readings {
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
    /// Taken out while it reads: a driver may take its time.
    reader: Option<VramReader>,
    seen: Vec<Card>,
    shortage: Option<Shortage>,
    read_ms: u64,
    /// A model was loaded while the reader was out.
    model: Model,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Model {
    Known,
    JustLoaded,
}

/// What can be freed, in bytes: to tell what an unload gave back.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Held {
    /// RAM that is available.
    pub(super) available: Option<u64>,
    /// Free memory of all graphics cards that tell.
    pub(super) vram_free: Option<u64>,
    /// What the model server's processes hold.
    pub(super) resident: Option<u64>,
}

/// What an unload gave back, in bytes, by readings before and after it; `null` where nobody
/// tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
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
    pub(super) fn new(pressure: &config::Pressure) -> Self {
        let memory = Memory {
            reader: RamReader::new(),
            stalls: StallReader::default(),
            judge: Judge::new(thresholds(pressure)),
            stall: None,
            last: None,
        };
        let cards = Cards {
            reader: Some(VramReader::new()),
            seen: Vec::new(),
            shortage: None,
            read_ms: 0,
            model: Model::Known,
        };
        Self {
            memory: Mutex::new(memory),
            cards: Mutex::new(cards),
        }
    }

    /// Judges by other thresholds from now on.
    pub(super) fn rejudge(&self, pressure: &config::Pressure) {
        let mut memory = lock(&self.memory);
        memory.judge = Judge::new(thresholds(pressure));
        memory.last = None;
    }

    /// Reads the limits around the model's process as well.
    pub(super) fn follow(&self, pid: Option<u32>) {
        lock(&self.memory).reader.follow(pid);
    }

    /// A model was loaded: what others take of a graphics card is counted from now on.
    pub(super) fn model_loaded(&self) {
        lock(&self.cards).model = Model::JustLoaded;
    }

    /// The kernel tells of stalls from now on, or no longer.
    pub(super) fn stalls(&self, change: impl FnOnce(&mut StallReader)) {
        change(&mut lock(&self.memory).stalls);
    }

    /// Level and available RAM as last judged: before whatever has just happened.
    pub(super) fn last(&self) -> (Level, Option<u64>) {
        let memory = lock(&self.memory);
        memory
            .last
            .as_ref()
            .map_or((Level::Normal, None), |(_, last)| {
                (last.level, last.ram.map(|ram| ram.available))
            })
    }
}

impl Gateway {
    /// Reads memory and tells the desk if its level changed.
    pub(crate) fn read_memory(&self) {
        let at = self.owner.clock().at();
        let vram = lock(&self.readings.cards).shortage.clone();
        let mut memory = lock(&self.readings.memory);
        if memory
            .last
            .as_ref()
            .is_some_and(|(before, _)| at.saturating_sub(*before) < APART)
        {
            return;
        }
        let ram = memory.reader.read();
        memory.stall = memory.stalls.read(at);
        let stall = memory.stall;
        let verdict = memory.judge.judge(Sample { ram, stall, vram }, at);
        let changed = memory
            .last
            .as_ref()
            .is_none_or(|(_, last)| last.level != verdict.level);
        let (level, cause) = (verdict.level, verdict.cause.clone());
        memory.last = Some((at, verdict));
        drop(memory);
        if changed {
            tracing::info!(
                level = level.name(),
                cause = cause.as_deref(),
                "memory pressure"
            );
            self.owner.feed(Event::Pressure { level, cause });
        }
    }

    /// Reads everything: the model's processes, graphics cards, memory.
    pub(super) async fn look_around(self: &Arc<Self>) {
        let gateway = Arc::clone(self);
        let look = move || {
            gateway.see_family();
            gateway.read_cards();
        };
        // A driver may block for long; nothing else waits for it.
        let _ = tokio::task::spawn_blocking(look).await;
        self.read_memory();
    }

    fn read_cards(&self) {
        let mut cards = lock(&self.readings.cards);
        let Some(mut reader) = cards.reader.take() else {
            return;
        };
        if cards.model == Model::JustLoaded {
            cards.model = Model::Known;
            reader.model_loaded();
        }
        drop(cards);
        let seen = reader.read(&self.family(), self.owner.clock().at());
        let shortage = reader.judge(&seen);
        let mut cards = lock(&self.readings.cards);
        // What a card that fell asleep had before is still what is known of it.
        if !seen.is_empty() {
            cards.read_ms = u64::try_from(crate::clock::unix_ms()).unwrap_or(0);
            cards.seen = seen;
        }
        cards.shortage = shortage;
        cards.reader = Some(reader);
    }

    /// A model was loaded: what others take of a graphics card is counted from now on.
    pub(crate) fn model_loaded(&self) {
        self.readings.model_loaded();
    }

    /// Lets go of the graphics cards' driver, so that they may sleep.
    pub(crate) fn leave_cards(&self) {
        let mut cards = lock(&self.readings.cards);
        cards.shortage = None;
        if let Some(reader) = &mut cards.reader {
            reader.rest();
        }
    }

    /// What can be freed, as read now.
    pub(crate) async fn held(self: &Arc<Self>) -> Held {
        let gateway = Arc::clone(self);
        let look = move || {
            gateway.see_family();
            gateway.read_cards();
            let cards = lock(&gateway.readings.cards);
            let known = cards.seen.iter().filter_map(|card| card.memory);
            let vram_free = known
                .filter(|memory| memory.kind == MemoryKind::Own)
                .map(|memory| memory.free)
                .reduce(u64::saturating_add);
            drop(cards);
            let ram = lock(&gateway.readings.memory).reader.read();
            Held {
                available: ram.first().map(|ram| ram.available),
                vram_free,
                resident: gateway.resident(),
            }
        };
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }

    /// What was given back since `before`, once it has stopped growing.
    pub(crate) async fn freed_since(self: &Arc<Self>, before: Held) -> Freed {
        let mut freed = Freed::default();
        for _ in 0..FREEING_LOOKS {
            tokio::time::sleep(FREEING_LOOK).await;
            let now = self.held().await.freed_since(before);
            let grew = now.ram > freed.ram || now.vram > freed.vram;
            freed = now;
            let any = freed.ram.unwrap_or(0) > 0 || freed.vram.unwrap_or(0) > 0;
            if any && !grew {
                break;
            }
        }
        freed
    }

    pub(crate) fn shown_pressure(&self) -> snapshot::Pressure {
        let vram = self.shown_cards();
        let memory = lock(&self.readings.memory);
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
            cause: last.cause.clone(),
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
        let cards = lock(&self.readings.cards);
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
}

fn thresholds(pressure: &config::Pressure) -> Thresholds {
    let at = |percent, bytes| Threshold { percent, bytes };
    Thresholds {
        elevated: at(pressure.ram_elevated_percent, pressure.ram_elevated),
        high: at(pressure.ram_high_percent, pressure.ram_high),
        critical: at(pressure.ram_critical_percent, pressure.ram_critical),
        stalled: u32::from(pressure.stall_percent) * 100,
        vram_elevated: pressure.vram_elevated,
        vram_high: pressure.vram_high,
        vram_fall: pressure.vram_fall,
        rise_readings: pressure.rise_readings,
        fall_quiet: pressure.fall_quiet,
        critical_holds: pressure.critical_holds,
    }
}
