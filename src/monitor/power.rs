//! Sleep of the machine: closes kept connections after it, and prevents it while a request is in
//! flight if the configuration says so.
//!
//! On Linux the kernel reports a step of the wall clock, which waking up is; elsewhere the clocks
//! are compared at the next event.

#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::sync::{Arc, Once, mpsc};
use std::time::Duration;

#[cfg(target_os = "linux")]
use crate::fd_events::{self, FdWatch};
use crate::scheduler::Event;

use crate::context::Context;

/// A gap between the clocks shorter than this is their resolution, not a sleep.
const SLEEP: Duration = Duration::from_secs(2);

/// A request shorter than this does not keep the machine awake.
const WORTH_WAKING: Duration = Duration::from_secs(1);

/// Watches for sleep of the machine.
pub(super) async fn watch_sleep(context: Arc<Context>) {
    let mut changes = context.scheduler.changes();
    let steps = Steps::new();
    let clock = context.scheduler.clock();
    let mut known = clock.slept();
    loop {
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = steps.next() => {}
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

/// The kernel's notifications of steps of the wall clock; the end of a sleep is one.
struct Steps {
    #[cfg(target_os = "linux")]
    watch: Option<FdWatch<OwnedFd>>,
}

impl Steps {
    #[cfg(target_os = "linux")]
    fn new() -> Self {
        let watch = fd_events::clock_steps()
            .inspect_err(|error| tracing::debug!(%error, "no clock notifications; sleep is noticed at the next event"))
            .ok();
        Self { watch }
    }

    #[cfg(not(target_os = "linux"))]
    fn new() -> Self {
        Self {}
    }

    /// Resolves at the next step; never where there are no notifications.
    async fn next(&self) {
        #[cfg(target_os = "linux")]
        if let Some(watch) = &self.watch
            && watch.ready().await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }
}

/// Keeps the machine awake while a request is in flight, if the configuration says so.
pub(super) async fn keep_awake(context: Arc<Context>) {
    let mut changes = context.scheduler.changes();
    let mut awake = None;
    loop {
        let is_enabled = context.settings().power.keep_awake;
        if !is_enabled || !is_answering(&context) {
            awake = None;
        } else if awake.is_none() {
            tokio::time::sleep(WORTH_WAKING).await;
            if is_answering(&context) {
                awake = Some(hold_awake());
            }
            continue;
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Whether a request is in flight upstream.
fn is_answering(context: &Context) -> bool {
    context
        .scheduler
        .read(|scheduler, _, _| scheduler.slots().running() > 0)
}

/// Keeps the machine awake until the sender is dropped. On a thread of its own: asking the system
/// blocks, and Windows ties the request to the thread.
fn hold_awake() -> mpsc::Sender<()> {
    static REPORTED: Once = Once::new();
    let (release, released) = mpsc::channel();
    tokio::task::spawn_blocking(move || {
        let held = keepawake::Builder::default()
            .idle(true)
            .sleep(true)
            .app_name("OneSlot")
            .reason("A local model answers")
            .create();
        match held {
            // Resolves with an error once the sender is dropped.
            Ok(_awake) => drop(released.recv()),
            // Once: it would fail with every request.
            Err(error) => REPORTED.call_once(|| {
                tracing::warn!(%error, "power.keep_awake: the machine cannot be kept awake");
            }),
        }
    });
    release
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
    async fn a_step_of_the_clock_is_reported_once() {
        use std::io::Write as _;
        let (watched, mut kernel) = std::os::unix::net::UnixStream::pair().unwrap();
        let steps = Steps {
            watch: fd_events::readable(watched.into()).ok(),
        };
        let soon = Duration::from_millis(50);
        assert!(tokio::time::timeout(soon, steps.next()).await.is_err());
        kernel.write_all(b"!").unwrap();
        assert!(tokio::time::timeout(SLEEP * 10, steps.next()).await.is_ok());
        assert!(tokio::time::timeout(soon, steps.next()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn after_an_hour_of_sleep_waits_ended_and_one_probe_is_sent() {
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
