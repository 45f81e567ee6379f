//! The life of the model server's process, as the gateway knows it.
//!
//! Its end is noticed by the kernel's word where there is one, else by the next probe; told once,
//! in the log, the status, a notice and every refusal until another process takes its place.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use crate::desk::Event;
use crate::pressure::{Forecast, Level, TokenCost};
use crate::record::snapshot;
use crate::refusal::{Death, HowEnded, MemoryThen, Outage};
use crate::upstream::process::{self, Found, Kills, Process};

use super::link::Link;
use super::{Gateway, lock};

/// The notice that tells of an end.
const NOTICE: &str = "model_server_died";

/// A connection breaks a moment before its process is gone for everybody to see.
const DYING: Duration = Duration::from_millis(150);
/// Between two looks meanwhile.
const DYING_LOOK: Duration = Duration::from_millis(10);

/// What is known of the process.
pub(super) struct Watched {
    life: Mutex<Life>,
    /// Who is watched; changes with every other process.
    who: watch::Sender<Option<Process>>,
}

#[derive(Default)]
struct Life {
    process: Option<Process>,
    /// Counted while it lived.
    kills: Kills,
    /// Its end, until another takes its place.
    death: Option<Death>,
    /// What a token costs it.
    cost: TokenCost,
    /// The last end, for the status.
    shown: Option<snapshot::Death>,
}

impl Watched {
    pub(super) fn new() -> Self {
        Self {
            life: Mutex::default(),
            who: watch::Sender::new(None),
        }
    }
}

impl Gateway {
    /// Learns who the upstream's process is; a look through all sockets only when it must be.
    pub(super) async fn refresh_process(&self, link: &Link) {
        let known = lock(&self.watched.life).process.clone();
        let now = match known {
            Some(process) => {
                let look = move || process::again(&process);
                let now = tokio::task::spawn_blocking(look).await.ok().flatten();
                if now.is_none() {
                    self.bury();
                }
                now
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
        let id = |process: &Process| (process.pid, process.birth);
        let before = lock(&self.watched.life).process.as_ref().map(id);
        self.refresh_process(link).await;
        before != lock(&self.watched.life).process.as_ref().map(id)
    }

    /// Takes another process, or none, for the upstream's.
    pub(super) fn note_process(&self, process: Option<Process>) {
        let pid = process.as_ref().map(|process| process.pid);
        let mut life = lock(&self.watched.life);
        let same = match (&life.process, &process) {
            (Some(before), Some(now)) => (before.pid, before.birth) == (now.pid, now.birth),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if let Some(process) = &process {
            life.kills = Kills::around(process.pid);
            life.death = None;
        }
        life.process.clone_from(&process);
        if !same {
            life.cost.forget();
        }
        drop(life);
        if !same {
            self.readings.follow(pid);
            self.readings.model_loaded();
            self.watched.who.send_replace(process);
            self.owner.touch();
        }
    }

    /// Looks at the known process again: its memory, its children. Blocks for a fraction of a
    /// millisecond.
    pub(super) fn see_family(&self) {
        let Some(known) = lock(&self.watched.life).process.clone() else {
            return;
        };
        // One that is gone is dealt with by whoever waits for that.
        let Some(now) = process::again(&known) else {
            return;
        };
        let kills = Kills::around(now.pid);
        self.readings.follow(Some(now.pid));
        let mut life = lock(&self.watched.life);
        if life.process.as_ref().is_some_and(|it| it.pid == now.pid) {
            if let Some(own) = now.own {
                life.cost.see(own);
            }
            life.process = Some(now);
            life.kills = kills;
        }
    }

    /// Notes tokens that the model read or wrote.
    pub(crate) fn note_tokens(&self, tokens: u64) {
        lock(&self.watched.life).cost.used(tokens);
    }

    /// Whether so many more tokens fit into the RAM that is left.
    pub(crate) fn forecast(&self, tokens: u64) -> Option<Forecast> {
        let (_, left) = self.readings.last();
        let forecast = lock(&self.watched.life).cost.forecast(tokens, left);
        if let Some(Forecast { needed, left, .. }) = forecast {
            tracing::info!(
                tokens,
                needed,
                left,
                "a chat may not fit beside what is left"
            );
        }
        forecast
    }

    /// The ids of the model server's processes.
    pub(super) fn family(&self) -> Vec<u32> {
        let life = lock(&self.watched.life);
        life.process
            .as_ref()
            .map(Process::family)
            .unwrap_or_default()
    }

    /// Bytes the model server's processes held when last seen.
    pub(crate) fn resident(&self) -> Option<u64> {
        lock(&self.watched.life).process.as_ref()?.resident
    }

    pub(super) fn process_pid(&self) -> Option<u32> {
        let life = lock(&self.watched.life);
        life.process.as_ref().map(|process| process.pid)
    }

    /// A refused or broken connection of a process that was there says more than "refused".
    pub(crate) async fn explain(&self, outage: Outage) -> Outage {
        match outage {
            Outage::Refused | Outage::Reset => match self.death(outage).await {
                Some(death) => Outage::ProcessGone { death },
                None => outage,
            },
            Outage::NoneFound
            | Outage::ConnectTimeout
            | Outage::ProbeTimeout
            | Outage::ProbeFailed
            | Outage::WrongBaseUrl
            | Outage::Garbled
            | Outage::Loop
            | Outage::ProcessGone { .. }
            | Outage::Silent
            | Outage::ServerError => outage,
        }
    }

    /// The end of the known process, waiting a moment for one whose connection just broke.
    async fn death(&self, outage: Outage) -> Option<Death> {
        let deadline = tokio::time::Instant::now() + DYING;
        loop {
            let known = {
                let life = lock(&self.watched.life);
                if life.death.is_some() {
                    return life.death;
                }
                life.process.clone()?
            };
            let look = move || process::again(&known).is_none();
            if tokio::task::spawn_blocking(look).await.unwrap_or(false) {
                return self.bury();
            }
            if outage != Outage::Reset || tokio::time::Instant::now() >= deadline {
                return None;
            }
            tokio::time::sleep(DYING_LOOK).await;
        }
    }

    /// Notes the end of the known process, once, and tells of it.
    fn bury(&self) -> Option<Death> {
        let (level, available) = self.readings.last();
        let mut life = lock(&self.watched.life);
        let Some(process) = life.process.take() else {
            return life.death;
        };
        let how = process::how(&process, &life.kills);
        let by_memory = matches!(how, HowEnded::OutOfMemory | HowEnded::LikelyOutOfMemory);
        let now_ms = u64::try_from(crate::clock::unix_ms()).unwrap_or(0);
        let lived = process
            .started
            .map(|at| Duration::from_millis(now_ms.saturating_sub(at.saturating_mul(1000))));
        let death = Death {
            how,
            memory: if by_memory || level >= Level::High {
                MemoryThen::Short
            } else {
                MemoryThen::NotShort
            },
            resident: process.resident,
            available,
            lived,
        };
        life.death = Some(death);
        life.shown = Some(shown(&process, death, now_ms));
        drop(life);
        tracing::warn!(
            pid = process.pid,
            name = process.name,
            how = how.word(),
            memory_level = level.name(),
            resident = death.resident,
            available = death.available,
            lived_s = lived.map(|lived| lived.as_secs()),
            "the model server's process is gone"
        );
        self.notice(NOTICE, &format!("{death}. Start the model server again"));
        self.readings.follow(None);
        self.watched.who.send_replace(None);
        self.owner.feed(Event::ProcessGone(death));
        Some(death)
    }

    /// The server answers: whatever was said of its end is over.
    pub(super) fn server_is_back(&self) {
        lock(&self.watched.life).death = None;
        self.notice_over(NOTICE);
    }

    /// The port to watch for a new process: only during a cooldown of a server on this machine.
    pub(super) fn port_to_watch(&self) -> Option<u16> {
        let link = self.link()?;
        (self.is_cooling() && link.upstream.root().is_loopback())
            .then(|| link.upstream.root().port())
    }

    pub(crate) fn shown_process(&self) -> Option<snapshot::Process> {
        let life = lock(&self.watched.life);
        let process = life.process.as_ref()?;
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

    pub(crate) fn shown_death(&self) -> Option<snapshot::Death> {
        lock(&self.watched.life).shown.clone()
    }
}

/// Waits for the end of whatever process is known, for as long as the gateway lives.
pub(super) async fn watch_life(gateway: Arc<Gateway>) {
    let mut who = gateway.watched.who.subscribe();
    loop {
        let known = who.borrow_and_update().clone();
        let Some(process) = known else {
            if who.changed().await.is_err() {
                return;
            }
            continue;
        };
        tokio::select! {
            changed = who.changed() => if changed.is_err() { return },
            () = process::ended(&process) => {
                let look = move || process::again(&process).is_none();
                if tokio::task::spawn_blocking(look).await.unwrap_or(false) {
                    gateway.bury();
                } else {
                    // The kernel spoke of a thread; the next probe sees the rest.
                    tokio::time::sleep(DYING).await;
                }
            }
        }
    }
}

fn shown(process: &Process, death: Death, now_ms: u64) -> snapshot::Death {
    snapshot::Death {
        pid: process.pid,
        name: process.name.clone(),
        how: death.how.word().to_owned(),
        status: match death.how {
            HowEnded::Exited(number) | HowEnded::Killed(number) => Some(number),
            HowEnded::OutOfMemory | HowEnded::LikelyOutOfMemory | HowEnded::Unknown => None,
        },
        memory_short: death.memory == MemoryThen::Short,
        resident: death.resident,
        available: death.available,
        lived_ms: death.lived.map(crate::exchange::ms),
        at_ms: now_ms,
        text: death.to_string(),
    }
}
