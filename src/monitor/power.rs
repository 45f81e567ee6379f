//! Sleep of the machine: closes kept connections after it, and prevents it while a request is in
//! flight if the configuration says so.
//!
//! On Linux the kernel reports a step of the wall clock, which waking up is; elsewhere the clocks
//! are compared at the next event.

#[cfg(target_os = "linux")]
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

#[cfg(target_os = "linux")]
use crate::fd_events::{self, FdWatch};
#[cfg(target_os = "linux")]
use crate::power::awake::Awake;
use crate::scheduler::Event;

use crate::context::Context;

/// A longer sleep than this is one; less is the fineness of clocks.
const SLEEP: Duration = Duration::from_secs(2);

/// A request shorter than this does not keep the machine awake.
#[cfg(target_os = "linux")]
const WORTH_WAKING: Duration = Duration::from_secs(1);

/// Watches for sleep of the machine.
pub(super) async fn watch_sleep(context: Arc<Context>) {
    let mut changes = context.scheduler.changes();
    let steps = Steps::ask();
    let clock = context.scheduler.clock();
    let mut known = clock.slept();
    loop {
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = steps.heard() => {}
        }
        clock.compare();
        let slept = clock.slept().saturating_sub(known);
        if slept >= SLEEP {
            known += slept;
            tracing::info!(slept_s = slept.as_secs(), "machine resumed from sleep");
            drop_connections(&context);
            context.scheduler.send(Event::SystemResumed);
        }
    }
}

/// Kept connections may be dead at the other end without a notification.
fn drop_connections(context: &Context) {
    if let Some(handle) = context.link() {
        handle.sender.forget_idle();
        handle.upstream.forget_idle();
    }
}

/// What tells that the wall clock was set, which waking up does too.
struct Steps {
    #[cfg(target_os = "linux")]
    told: Option<FdWatch<OwnedFd>>,
}

impl Steps {
    #[cfg(target_os = "linux")]
    fn ask() -> Self {
        let told = fd_events::clock_steps()
            .inspect_err(|error| tracing::debug!(%error, "sleep is seen at the next event"))
            .ok();
        Self { told }
    }

    #[cfg(not(target_os = "linux"))]
    fn ask() -> Self {
        Self {}
    }

    /// Resolves at the next; never where nobody tells.
    async fn heard(&self) {
        #[cfg(target_os = "linux")]
        if let Some(told) = &self.told
            && told.heard().await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }
}

/// Keeps the machine awake while a request is in flight, if the configuration says so.
#[cfg(target_os = "linux")]
pub(super) async fn keep_awake(context: Arc<Context>) {
    let mut changes = context.scheduler.changes();
    let mut kept = None;
    let mut trouble = Trouble::default();
    loop {
        let wanted = context.settings().power.keep_awake && is_answering(&context);
        if !wanted {
            if let Some(awake) = kept.take().flatten() {
                trouble.tell(blocking(move || Awake::let_go(awake)).await);
            }
        } else if kept.is_none() {
            tokio::time::sleep(WORTH_WAKING).await;
            if is_answering(&context) {
                // Where it is not granted it is not asked again for this request.
                kept = Some(trouble.tell(blocking(Awake::keep).await));
            }
            continue;
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Whether a request is in flight upstream.
#[cfg(target_os = "linux")]
fn is_answering(context: &Context) -> bool {
    context
        .scheduler
        .read(|scheduler, _, _| scheduler.slots().running() > 0)
}

/// Starting a program and waiting for its end block.
#[cfg(target_os = "linux")]
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|ended| Err(io::Error::other(ended)))
}

/// Why the machine cannot be kept awake: said aloud once, for whoever asked for it, and not again
/// with every request.
#[cfg(target_os = "linux")]
#[derive(Default)]
struct Trouble {
    was_told: bool,
}

#[cfg(target_os = "linux")]
impl Trouble {
    fn tell<T>(&mut self, done: io::Result<T>) -> Option<T> {
        let error = match done {
            Ok(done) => return Some(done),
            Err(error) => error,
        };
        if std::mem::replace(&mut self.was_told, true) {
            tracing::debug!(%error, "the machine cannot be kept awake");
        } else {
            tracing::warn!(%error, "power.keep_awake: the machine cannot be kept awake");
        }
        None
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "the task lives as long as its test, which fails by panicking"
)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::config::Settings;
    use crate::memory::Level;
    use crate::refusal::Refusal;
    use crate::scheduler::pause::Pause;
    use crate::scheduler::queue::{Delivery, RequestId};
    use crate::scheduler::{Arrival, ProbeReport, SchedulerHandle};
    use crate::telemetry::live_stats::LiveStats;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_step_of_the_clock_is_heard_once() {
        use std::io::Write as _;
        let (told, mut tells) = std::os::unix::net::UnixStream::pair().unwrap();
        let steps = Steps {
            told: fd_events::told(told.into()).ok(),
        };
        let soon = Duration::from_millis(50);
        assert!(tokio::time::timeout(soon, steps.heard()).await.is_err());
        tells.write_all(b"!").unwrap();
        assert!(
            tokio::time::timeout(SLEEP * 10, steps.heard())
                .await
                .is_ok()
        );
        assert!(tokio::time::timeout(soon, steps.heard()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn after_an_hour_of_sleep_waits_have_ended_and_one_probe_is_sent() {
        let clock = Clock::start();
        let rules = crate::server::rules(&Settings::default());
        let pause = Some(Pause { until_ms: None });
        let (scheduler, mut effects) = SchedulerHandle::new(rules, pause, clock.clone());
        let ticking = scheduler.clone();
        let ticks = tokio::spawn(async move { ticking.run().await });
        scheduler.send(Event::Resumed);
        scheduler.send(Event::Pressure {
            level: Level::Critical,
            cause: None,
        });
        let id = RequestId(1);
        let arrival = Arrival {
            id,
            bytes: 1,
            delivery: Delivery::Whole,
            body_hash: 1,
        };
        let stats = LiveStats::new(id, "test".to_owned(), None, false, clock.at());
        let place = scheduler.enqueue(arrival, Arc::new(stats));
        tokio::time::sleep(Duration::from_secs(1)).await;
        while effects.try_recv().is_ok() {}
        scheduler.send(Event::Probed(ProbeReport::Alive { wants_key: false }));

        clock.sleep_seen(Duration::from_secs(3600));
        scheduler.send(Event::SystemResumed);
        let turn = tokio::time::timeout(Duration::from_millis(10), place.acquire());
        let refusal = turn.await.map(|turn| turn.err());
        assert!(
            matches!(refusal, Ok(Some(Refusal::MemoryPressure { .. }))),
            "240 s ended while it slept: {refusal:?}"
        );
        tokio::time::sleep(Duration::from_millis(1900)).await;
        assert!(effects.try_recv().is_err(), "a moment's grace");
        tokio::time::sleep(Duration::from_secs(5)).await;
        let probes = std::iter::from_fn(|| effects.try_recv().ok()).count();
        assert_eq!(probes, 1, "360 intervals were missed, one probe is sent");
        ticks.abort();
    }
}
