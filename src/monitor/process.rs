//! Follows the model server's process: notices its end, explains broken connections by it, and
//! ends a cooldown early when a new process listens on the port.
//!
//! The end is noticed by the kernel's notification where there is one, else by the next probe. It
//! is reported once: in the log, the status, a notice, and in every refusal until another process
//! takes its place.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::context::Context;
use crate::memory::Level;
use crate::refusal::{Death, HowEnded, MemoryThen, Outage};
use crate::scheduler::Event;
use crate::telemetry::message::Fact;
use crate::upstream::handle::UpstreamHandle;
use crate::upstream::process::{self, Process};

/// The notice of a death.
const NOTICE: &str = "model_server_died";
/// A connection breaks a moment before its process disappears from the process table.
const DYING: Duration = Duration::from_millis(150);
/// Between two looks during [`DYING`].
const DYING_INTERVAL: Duration = Duration::from_millis(10);
/// Between two looks for a new process on the upstream's port during a cooldown.
const PORT_INTERVAL: Duration = Duration::from_secs(1);

/// Waits for the end of whatever process is known.
///
/// # Cancel safety
/// Dropping it loses nothing; the next probe notices the end.
pub(super) async fn watch_end(context: Arc<Context>) {
    let mut current = context.process.subscribe();
    loop {
        let known = current.borrow_and_update().clone();
        let Some(process) = known else {
            if current.changed().await.is_err() {
                return;
            }
            continue;
        };
        tokio::select! {
            changed = current.changed() => if changed.is_err() { return },
            () = process::ended(&process) => {
                if has_ended(process).await {
                    record_exit(&context);
                } else {
                    // The notification was about a thread; the next probe sees the rest.
                    sleep(DYING).await;
                }
            }
        }
    }
}

/// Ends a cooldown early when a new process listens on the upstream's port.
pub(super) async fn watch_port(context: Arc<Context>) {
    let mut changes = context.scheduler.changes();
    loop {
        let Some(port) = port_to_watch(&context) else {
            if changes.changed().await.is_err() {
                return;
            }
            continue;
        };
        sleep(PORT_INTERVAL).await;
        let found = tokio::task::spawn_blocking(move || process::of_port(port)).await;
        if let Ok(Some(process)) = found
            && Some(process.pid) != context.process.pid()
            && context.is_cooling()
        {
            replace(&context, Some(process));
            context.scheduler.send(Event::CheckNow);
        }
    }
}

/// The port to watch: only during a cooldown of a server on this machine.
fn port_to_watch(context: &Context) -> Option<u16> {
    let handle = context.link()?;
    let root = handle.upstream.root();
    (context.is_cooling() && root.is_loopback()).then(|| root.port())
}

/// Learns who the upstream's process is. Searches all sockets only if the known process is gone.
pub(super) async fn refresh(context: &Context, handle: &UpstreamHandle) {
    let now = match context.process.process() {
        Some(process) => {
            let look = move || process::again(&process);
            let now = tokio::task::spawn_blocking(look).await.ok().flatten();
            if now.is_none() {
                record_exit(context);
            }
            now
        }
        None => None,
    };
    let now = match now {
        Some(process) => Some(process),
        None => handle.upstream.process().await,
    };
    replace(context, now);
}

/// Whether, after an outage, another process listens than before it.
pub(super) async fn is_another(context: &Context, handle: &UpstreamHandle) -> bool {
    let id = |process: Process| (process.pid, process.birth);
    let before = context.process.process().map(id);
    refresh(context, handle).await;
    before != context.process.process().map(id)
}

/// Takes `process` for the upstream's.
pub(crate) fn replace(context: &Context, process: Option<Process>) {
    let pid = process.as_ref().map(|process| process.pid);
    if context.process.replace(process) {
        context.memory.follow(pid);
        context.memory.model_loaded();
        context.scheduler.touch();
    }
}

/// Reads the known process again: its memory, its children. Blocks for a fraction of a
/// millisecond.
pub(super) fn update(context: &Context) {
    let Some(known) = context.process.process() else {
        return;
    };
    // The end of a process is handled where it is waited for.
    if let Some(now) = process::again(&known) {
        context.memory.follow(Some(now.pid));
        context.process.update(now);
    }
}

/// Explains a refused or broken connection by the death of its process, where it died.
pub(crate) async fn explain(context: &Context, outage: Outage) -> Outage {
    match outage {
        Outage::Refused | Outage::Reset => match death(context, outage).await {
            Some(death) => Outage::ProcessGone { death },
            None => outage,
        },
        Outage::NoneFound
        | Outage::ConnectTimeout
        | Outage::ProbeTimeout
        | Outage::ProbeFailed
        | Outage::WrongBaseUrl
        | Outage::Redirected
        | Outage::UntrustedCertificate
        | Outage::WrongCertificateName
        | Outage::NotHttps
        | Outage::WantsHttps
        | Outage::Garbled
        | Outage::Loop
        | Outage::ProcessGone { .. }
        | Outage::Silent
        | Outage::ServerError => outage,
    }
}

/// The death of the known process; waits a moment for one whose connection just broke.
async fn death(context: &Context, outage: Outage) -> Option<Death> {
    let deadline = Instant::now() + DYING;
    loop {
        if let Some(death) = context.process.death() {
            return Some(death);
        }
        let known = context.process.process()?;
        if has_ended(known).await {
            return record_exit(context);
        }
        if outage != Outage::Reset || Instant::now() >= deadline {
            return None;
        }
        sleep(DYING_INTERVAL).await;
    }
}

async fn has_ended(process: Process) -> bool {
    let look = move || process::again(&process).is_none();
    tokio::task::spawn_blocking(look).await.unwrap_or(false)
}

/// Records the end of the known process, once, and reports it.
fn record_exit(context: &Context) -> Option<Death> {
    let (level, available) = context.memory.last();
    let Some((process, kills)) = context.process.take_ended() else {
        return context.process.death();
    };
    let how = process::how(&process, &kills);
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
    context.process.record_death(&process, death, now_ms);
    tracing::warn!(
        pid = process.pid,
        name = process.name,
        how = how.word(),
        memory_level = level.name(),
        resident = death.resident,
        available = death.available,
        lived_s = lived.map(|lived| lived.as_secs()),
        "model server's process ended"
    );
    context.notices.add(Fact::ModelServerDied);
    context.memory.follow(None);
    context.scheduler.send(Event::ProcessGone(death));
    Some(death)
}

/// Withdraws what was said of the process's end: the server answers.
pub(super) fn server_is_back(context: &Context) {
    context.process.forget_death();
    context.notices.remove(NOTICE);
}
