//! Reads memory while a request is queued or in flight, and reports a changed level to the
//! scheduler.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::context::Context;
use crate::memory::readings::{Freed, Held};
#[cfg(target_os = "linux")]
use crate::memory::{StallReader, psi};
use crate::scheduler::Event;

use super::process;

/// How long a graphics card's driver stays open for the next request.
const LINGER: Duration = Duration::from_secs(10);
/// A server answers an unload before the system has all memory back: looked at so often …
const FREED_LOOKS: u32 = 10;
/// … and so far apart.
const FREED_INTERVAL: Duration = Duration::from_millis(200);

/// Reads memory every few seconds while a request is queued or in flight.
pub(super) async fn watch(context: Arc<Context>) {
    let mut changes = context.scheduler.changes();
    loop {
        if context.is_idle() {
            if changes.changed().await.is_err() {
                return;
            }
            continue;
        }
        read_all(&context).await;
        // The pace is the same however many requests come and go.
        let interval = context.settings().limits.memory.interval;
        sleep(interval).await;
        if context.is_idle() {
            // The last reading shows what is left after the last request.
            read_all(&context).await;
            let busy = async { while context.is_idle() && changes.changed().await.is_ok() {} };
            if timeout(LINGER, busy).await.is_err() {
                context.memory.close_cards();
            }
        }
    }
}

/// Follows the kernel's notifications of memory stalls while a request is queued or in flight;
/// without them the stall counters are polled with the other readings.
#[cfg(target_os = "linux")]
pub(super) async fn watch_stalls(context: Arc<Context>) {
    let mut changes = context.scheduler.changes();
    loop {
        while context.is_idle() {
            if changes.changed().await.is_err() {
                return;
            }
        }
        let watch = match crate::fd_events::stalls(psi::TRIGGER) {
            Ok(watch) => watch,
            Err(error) => {
                tracing::debug!(%error, "no notifications of memory stalls; polling");
                return;
            }
        };
        context.memory.stalls(StallReader::rely_on_word);
        let stalls = async {
            while watch.ready().await.is_ok() {
                let at = context.scheduler.clock().at();
                context.memory.stalls(|stalls| stalls.heard(at));
                tracing::debug!("memory stall reported by the kernel");
                read(&context);
            }
        };
        let broken = tokio::select! {
            () = stalls => true,
            () = until_idle(&context) => false,
        };
        context.memory.stalls(StallReader::look_again);
        if broken {
            return;
        }
    }
}

/// Resolves when no request was queued or in flight for [`LINGER`].
#[cfg(target_os = "linux")]
async fn until_idle(context: &Context) {
    let mut changes = context.scheduler.changes();
    loop {
        while !context.is_idle() {
            if changes.changed().await.is_err() {
                return;
            }
        }
        let busy = async { while context.is_idle() && changes.changed().await.is_ok() {} };
        if timeout(LINGER, busy).await.is_err() {
            return;
        }
    }
}

/// Reads main memory and reports a changed level to the scheduler.
pub(crate) fn read(context: &Context) {
    let at = context.scheduler.clock().at();
    if let Some((level, cause)) = context.memory.read(at) {
        tracing::info!(
            level = level.name(),
            cause = cause.as_ref().map(tracing::field::display),
            "memory level changed"
        );
        let cause = cause.map(|cause| cause.to_string());
        context.scheduler.send(Event::Pressure { level, cause });
    }
}

/// Reads everything: the model server's processes, graphics cards, main memory.
async fn read_all(context: &Arc<Context>) {
    let reading = Arc::clone(context);
    // A graphics driver may block for long; nothing else waits for it.
    let _ = tokio::task::spawn_blocking(move || read_beside(&reading)).await;
    read(context);
}

fn read_beside(context: &Context) {
    process::update(context);
    let at = context.scheduler.clock().at();
    context.memory.read_cards(&context.process.family(), at);
}

/// The memory in use that an unload may free.
pub(crate) async fn held(context: &Arc<Context>) -> Held {
    let reading = Arc::clone(context);
    let look = move || {
        read_beside(&reading);
        reading.memory.held(reading.process.resident())
    };
    tokio::task::spawn_blocking(look).await.unwrap_or_default()
}

/// The memory that was given back since `before`, once it has stopped growing.
pub(crate) async fn freed_since(context: &Arc<Context>, before: Held) -> Freed {
    let mut freed = Freed::default();
    for _ in 0..FREED_LOOKS {
        sleep(FREED_INTERVAL).await;
        let now = held(context).await.freed_since(before);
        let grew = now.ram > freed.ram || now.vram > freed.vram;
        freed = now;
        let any = freed.ram.unwrap_or(0) > 0 || freed.vram.unwrap_or(0) > 0;
        if any && !grew {
            break;
        }
    }
    freed
}
