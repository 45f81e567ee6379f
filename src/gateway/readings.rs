//! The latest readings: memory and its level, the upstream's process.

use std::sync::Mutex;

use crate::config;
use crate::desk::Event;
use crate::pressure::{Judge, Level, RamReader, Threshold, Thresholds, Verdict};
use crate::record::snapshot;
use crate::upstream::process::{self, Process};

use super::link::Link;
use super::{Gateway, lock};

/// What was read last.
pub(super) struct Readings {
    memory: Mutex<Memory>,
    process: Mutex<Option<Process>>,
}

struct Memory {
    reader: RamReader,
    judge: Judge,
    last: Option<Verdict>,
}

impl Readings {
    pub(super) fn new(pressure: &config::Pressure) -> Self {
        let memory = Memory {
            reader: RamReader::new(),
            judge: Judge::new(thresholds(pressure)),
            last: None,
        };
        Self {
            memory: Mutex::new(memory),
            process: Mutex::new(None),
        }
    }

    /// Judges by other thresholds from now on.
    pub(super) fn rejudge(&self, pressure: &config::Pressure) {
        lock(&self.memory).judge = Judge::new(thresholds(pressure));
    }
}

impl Gateway {
    /// Reads memory (some ten microseconds) and tells the desk if its level changed.
    pub(super) fn read_memory(&self) {
        let at = self.owner.clock().at();
        let mut memory = lock(&self.readings.memory);
        let Memory {
            reader,
            judge,
            last,
        } = &mut *memory;
        let verdict = judge.read(reader.read(), at);
        let changed = last.as_ref().is_none_or(|last| last.level != verdict.level);
        let (level, cause) = (verdict.level, verdict.cause.clone());
        *last = Some(verdict);
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

    pub(super) fn pressure_level(&self) -> Level {
        lock(&self.readings.memory)
            .last
            .as_ref()
            .map_or(Level::Normal, |last| last.level)
    }

    pub(super) fn shown_pressure(&self) -> snapshot::Pressure {
        let memory = lock(&self.readings.memory);
        let Some(last) = &memory.last else {
            return snapshot::Pressure::default();
        };
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
            vram: Vec::new(),
        }
    }

    /// Learns who the upstream's process is; a look through all sockets only when it must be.
    pub(super) async fn refresh_process(&self, link: &Link) {
        let known = lock(&self.readings.process).clone();
        let now = match known {
            Some(process) => {
                let look = move || process::again(&process);
                tokio::task::spawn_blocking(look).await.ok().flatten()
            }
            None => None,
        };
        let now = match now {
            Some(process) => Some(process),
            None => link.upstream.process().await,
        };
        self.note_process(now);
    }

    /// Whether, after an outage, another process listens than before it.
    pub(super) async fn is_another_process(&self, link: &Link) -> bool {
        if !self.was_down() {
            return false;
        }
        let before = self.process_pid();
        self.refresh_process(link).await;
        before != self.process_pid()
    }

    pub(super) fn note_process(&self, process: Option<Process>) {
        *lock(&self.readings.process) = process;
    }

    pub(super) fn process_pid(&self) -> Option<u32> {
        lock(&self.readings.process)
            .as_ref()
            .map(|process| process.pid)
    }

    /// Whether a process that was known is gone.
    pub(super) async fn process_vanished(&self) -> bool {
        let Some(known) = lock(&self.readings.process).clone() else {
            return false;
        };
        let look = move || process::again(&known).is_none();
        tokio::task::spawn_blocking(look).await.unwrap_or(false)
    }

    /// The port to watch for a new process: only during a cooldown of a server on this machine.
    pub(super) fn port_to_watch(&self) -> Option<u16> {
        let link = self.link()?;
        (self.is_cooling() && link.upstream.root().is_loopback())
            .then(|| link.upstream.root().port())
    }

    pub(super) fn shown_process(&self) -> Option<snapshot::Process> {
        lock(&self.readings.process)
            .as_ref()
            .map(|process| snapshot::Process {
                pid: process.pid,
                name: process.name.clone(),
                resident: process.resident,
            })
    }
}

fn thresholds(pressure: &config::Pressure) -> Thresholds {
    let at = |percent, bytes| Threshold { percent, bytes };
    Thresholds {
        elevated: at(pressure.ram_elevated_percent, pressure.ram_elevated),
        high: at(pressure.ram_high_percent, pressure.ram_high),
        critical: at(pressure.ram_critical_percent, pressure.ram_critical),
        rise_readings: pressure.rise_readings,
        fall_quiet: pressure.fall_quiet,
        critical_holds: pressure.critical_holds,
    }
}
