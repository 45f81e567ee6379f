//! What is known of the model server's process: who it is, and how the last one ended.
//!
//! State only. Not here: when it is looked at and what follows ([`crate::monitor::process`]).

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::refusal::{Death, HowEnded};
use crate::telemetry::snapshot;

use super::{Found, Kills, Process};

/// The process behind the upstream's port.
#[derive(Debug)]
pub struct ProcessTracker {
    known: Mutex<Known>,
    /// Changes with every other process.
    current: watch::Sender<Option<Process>>,
}

#[derive(Debug, Default)]
struct Known {
    process: Option<Process>,
    /// Kills by the kernel in its control groups, counted while it lived.
    kills: Kills,
    /// Its death, until another process takes its place.
    death: Option<Death>,
    /// The last death, for the status.
    shown: Option<snapshot::Death>,
}

impl ProcessTracker {
    /// No process known.
    pub fn new() -> Self {
        Self {
            known: Mutex::default(),
            current: watch::Sender::new(None),
        }
    }

    /// The process, as seen last.
    pub fn process(&self) -> Option<Process> {
        self.lock().process.clone()
    }

    /// Its id.
    pub fn pid(&self) -> Option<u32> {
        self.lock().process.as_ref().map(|process| process.pid)
    }

    /// Its id and those of its children.
    pub fn family(&self) -> Vec<u32> {
        let known = self.lock();
        known
            .process
            .as_ref()
            .map(Process::family)
            .unwrap_or_default()
    }

    /// Bytes of RAM that it and its children held when seen last.
    pub fn resident(&self) -> Option<u64> {
        self.lock().process.as_ref()?.resident
    }

    /// Its death, until another process takes its place.
    pub fn death(&self) -> Option<Death> {
        self.lock().death
    }

    /// Notifies of every other process.
    pub fn subscribe(&self) -> watch::Receiver<Option<Process>> {
        self.current.subscribe()
    }

    /// Replaces the process; whether it is another one than before.
    pub fn replace(&self, process: Option<Process>) -> bool {
        let mut known = self.lock();
        let same = match (&known.process, &process) {
            (Some(before), Some(now)) => (before.pid, before.birth) == (now.pid, now.birth),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if let Some(process) = &process {
            known.kills = Kills::around(process.pid);
            known.death = None;
        }
        known.process.clone_from(&process);
        drop(known);
        if !same {
            self.current.send_replace(process);
        }
        !same
    }

    /// Takes in another look at the same process.
    pub fn update(&self, seen: Process) {
        let kills = Kills::around(seen.pid);
        let mut known = self.lock();
        if known.process.as_ref().is_some_and(|it| it.pid == seen.pid) {
            known.process = Some(seen);
            known.kills = kills;
        }
    }

    /// Takes the process out because it ended, with the kills counted while it lived.
    pub fn take_ended(&self) -> Option<(Process, Kills)> {
        let mut known = self.lock();
        let process = known.process.take()?;
        let kills = std::mem::take(&mut known.kills);
        drop(known);
        self.current.send_replace(None);
        Some((process, kills))
    }

    /// Keeps a death until another process takes its place, and for the status.
    pub fn record_death(&self, process: &Process, death: Death, now_ms: u64) {
        let mut known = self.lock();
        known.death = Some(death);
        known.shown = Some(shown_death(process, death, now_ms));
    }

    /// Forgets the death: the server answers.
    pub fn forget_death(&self) {
        self.lock().death = None;
    }

    /// The last death, for the status.
    pub fn last_death(&self) -> Option<snapshot::Death> {
        self.lock().shown.clone()
    }

    /// The process, for the status.
    pub fn shown(&self) -> Option<snapshot::Process> {
        let known = self.lock();
        let process = known.process.as_ref()?;
        let children = process.children.iter().map(|child| snapshot::Child {
            pid: child.pid,
            name: child.name.clone(),
            resident: child.resident,
        });
        Some(snapshot::Process {
            pid: process.pid,
            name: process.name.clone(),
            resident: process.resident,
            executable: process
                .executable
                .as_ref()
                .map(|path| path.display().to_string()),
            started_ms: process.started.map(|at| at.saturating_mul(1000)),
            children: children.collect(),
            guessed_of_user: match process.found {
                Found::Surely => None,
                Found::ByHint { user } => Some(user),
            },
        })
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for ProcessTracker {
    fn default() -> Self {
        Self::new()
    }
}

fn shown_death(process: &Process, death: Death, now_ms: u64) -> snapshot::Death {
    snapshot::Death {
        pid: process.pid,
        name: process.name.clone(),
        how: death.how.word().to_owned(),
        status: match death.how {
            HowEnded::Exited(number) | HowEnded::Killed(number) => Some(number),
            HowEnded::OutOfMemory | HowEnded::LikelyOutOfMemory | HowEnded::Unknown => None,
        },
        memory_short: death.memory == crate::refusal::MemoryThen::Short,
        resident: death.resident,
        available: death.available,
        lived_ms: death.lived.map(crate::clock::ms),
        at_ms: now_ms,
    }
}
