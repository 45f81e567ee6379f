//! What goes on beside requests: probes, settling, memory readings, the upstream's process.
//!
//! Each task waits for the desk to want something; with nobody at the desk nothing here wakes
//! except the seldom idle probe. Not here: decisions, which are the desk's alone.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::desk::{Effect, Event, ProbeReport, SETTLE_CEILING};
use crate::fault;
use crate::health::State;
use crate::http::catch_panic::catch_panic;
#[cfg(target_os = "linux")]
use crate::pressure::{StallReader, stall};
use crate::queue::RequestId;
use crate::refusal::Outage;
use crate::upstream::{Access, Kind, Probe, process};

use super::link::Link;
use super::{Gateway, LOOP};

/// Settling where the server does not show whether it works.
const SETTLE: Duration = Duration::from_millis(500);
/// The same for LM Studio, which finishes reading the prompt first.
const SETTLE_LM_STUDIO: Duration = Duration::from_secs(5);
/// Between two looks at a busy signal while settling.
const SETTLE_LOOK: Duration = Duration::from_millis(50);
/// A graphics card's driver is kept for the next request so long.
const LINGER: Duration = Duration::from_secs(10);
/// Between two looks for a new process on the upstream's port during a cooldown.
const PROCESS_LOOK: Duration = Duration::from_secs(1);

/// Carries out what the desk wants, until the gateway is gone.
///
/// # Cancel safety
/// Dropping it drops the probes and settlings under way; the desk is then gone too.
pub(super) async fn carry_out(gateway: Arc<Gateway>, mut effects: mpsc::UnboundedReceiver<Effect>) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            effect = effects.recv() => match effect {
                None => return,
                Some(Effect::Probe) => {
                    tasks.spawn(probe(Arc::clone(&gateway)));
                }
                Some(Effect::Settle { id }) => {
                    tasks.spawn(settle(Arc::clone(&gateway), id));
                }
                Some(Effect::KeepPause) => {
                    let gateway = Arc::clone(&gateway);
                    tasks.spawn(async move { gateway.keep_pause().await });
                }
            },
            Some(_) = tasks.join_next() => {}
        }
    }
}

async fn probe(gateway: Arc<Gateway>) {
    gateway.read_memory();
    gateway.see_power();
    let before = gateway.link();
    let asked = async {
        fault::at(fault::Stage::Probe);
        match &before {
            None => search(&gateway).await,
            Some(link) => {
                let report = look(&gateway, link).await;
                gateway.is_current(link).then_some(report)
            }
        }
    };
    // A fault of our own must not leave the desk waiting for its report for ever.
    let report = catch_panic(asked)
        .await
        .unwrap_or(Some(ProbeReport::Failed(Outage::ProbeFailed)));
    // Another upstream was configured meanwhile: this report is about one that is gone, and the
    // desk has asked for a new probe already.
    let Some(report) = report else { return };
    gateway.owner.feed(Event::Probed(report));
    if matches!(report, ProbeReport::Alive { .. } | ProbeReport::Loading) {
        gateway.server_is_back();
    }
    // Also after a failure that left the process standing, so that it is not taken for a new one.
    if let Some(link) = gateway.link()
        && !matches!(
            report,
            ProbeReport::Failed(Outage::Refused | Outage::ProcessGone { .. })
        )
    {
        gateway.refresh_process(&link).await;
    }
}

/// Looks for a server on the usual ports and links to the first that proves what it is.
async fn search(gateway: &Arc<Gateway>) -> Option<ProbeReport> {
    Some(match gateway.find_upstream().await? {
        true => ProbeReport::Alive { wants_key: false },
        false => ProbeReport::Failed(Outage::NoneFound),
    })
}

async fn look(gateway: &Arc<Gateway>, link: &Link) -> ProbeReport {
    let limit = gateway.settings().health.timeout;
    match link.upstream.probe(limit).await {
        Probe::Alive { access, models } => {
            // After an outage another server may be there, or the same one with another model.
            if gateway.was_down() {
                link.forget_window();
            }
            if link.upstream.known_kind().is_none() || gateway.is_another_process(link).await {
                link.upstream.learn().await;
            }
            // It went all the way, so it met no circle: one may be mended in another gateway.
            if access == Access::WantsKey || models.is_some() {
                gateway.notice_over(LOOP);
            }
            if let Some(models) = models {
                gateway.reads.keep_models(models);
            }
            ProbeReport::Alive {
                wants_key: access == Access::WantsKey,
            }
        }
        Probe::Loading => ProbeReport::Loading,
        Probe::Failed(outage) => {
            link.forget_window();
            link.sender.forget_idle();
            ProbeReport::Failed(gateway.explain(outage).await)
        }
    }
}

/// Waits until the server has let go of an aborted request.
async fn settle(gateway: Arc<Gateway>, id: RequestId) {
    if let Some(link) = gateway.link() {
        let kind = link.upstream.known_kind();
        let since = Instant::now();
        loop {
            // Nothing is asked of a server that is given time to recover.
            let cooling = gateway.is_cooling();
            let busy = if cooling {
                None
            } else {
                link.upstream.busy(None).await
            };
            match busy {
                Some(false) => break,
                Some(true) => sleep(SETTLE_LOOK).await,
                None => {
                    let quiet = match kind {
                        Some(Kind::LmStudio) => SETTLE_LM_STUDIO,
                        Some(Kind::LlamaCpp | Kind::Ollama | Kind::Plain) | None => SETTLE,
                    };
                    sleep(quiet.saturating_sub(since.elapsed())).await;
                    break;
                }
            }
            if since.elapsed() >= SETTLE_CEILING {
                break;
            }
        }
        tracing::debug!(request = %id, settled_ms = since.elapsed().as_millis() as u64, "settled");
    }
    gateway.owner.feed(Event::Settled { id });
}

/// Reads memory every few seconds while somebody runs or waits; sleeps otherwise.
pub(super) async fn watch_memory(gateway: Arc<Gateway>) {
    let mut changes = gateway.owner.changes();
    loop {
        if gateway.is_idle() {
            if changes.changed().await.is_err() {
                return;
            }
            continue;
        }
        gateway.look_around().await;
        // However many come and go meanwhile, nothing is read more often.
        sleep(gateway.reading_interval()).await;
        if gateway.is_idle() {
            // The last look is at what is left when everybody is gone.
            gateway.look_around().await;
            let busy = async { while gateway.is_idle() && changes.changed().await.is_ok() {} };
            if tokio::time::timeout(LINGER, busy).await.is_err() {
                gateway.leave_cards();
            }
        }
    }
}

/// Hears from the kernel when programs begin to wait for memory, while somebody runs or waits;
/// without it the number is read with the others. With nobody there the kernel is asked nothing
/// and no handle is held.
#[cfg(target_os = "linux")]
pub(super) async fn hear_stalls(gateway: Arc<Gateway>) {
    let mut changes = gateway.owner.changes();
    loop {
        while gateway.is_idle() {
            if changes.changed().await.is_err() {
                return;
            }
        }
        let word = match crate::kernel::stalls(stall::TRIGGER) {
            Ok(word) => word,
            Err(error) => {
                tracing::debug!(%error, "the kernel does not tell of stalls; they are looked at");
                return;
            }
        };
        gateway.readings.stalls(StallReader::rely_on_word);
        let told = async {
            while word.heard().await.is_ok() {
                let at = gateway.owner.clock().at();
                gateway.readings.stalls(|stalls| stalls.heard(at));
                tracing::debug!("programs wait for memory, the kernel says");
                gateway.read_memory();
            }
        };
        let broken = tokio::select! {
            () = told => true,
            () = until_left(&gateway) => false,
        };
        gateway.readings.stalls(StallReader::look_again);
        if broken {
            return;
        }
    }
}

/// Resolves when nobody has run or waited for a while.
#[cfg(target_os = "linux")]
async fn until_left(gateway: &Gateway) {
    let mut changes = gateway.owner.changes();
    loop {
        while !gateway.is_idle() {
            if changes.changed().await.is_err() {
                return;
            }
        }
        let back = async { while gateway.is_idle() && changes.changed().await.is_ok() {} };
        if tokio::time::timeout(LINGER, back).await.is_err() {
            return;
        }
    }
}

/// Ends a cooldown early when a new process listens on the upstream's port.
pub(super) async fn watch_process(gateway: Arc<Gateway>) {
    let mut changes = gateway.owner.changes();
    loop {
        let Some(port) = gateway.port_to_watch() else {
            if changes.changed().await.is_err() {
                return;
            }
            continue;
        };
        sleep(PROCESS_LOOK).await;
        let found = tokio::task::spawn_blocking(move || process::of_port(port)).await;
        if let Ok(Some(process)) = found
            && Some(process.pid) != gateway.process_pid()
            && gateway.is_cooling()
        {
            gateway.note_process(Some(process));
            gateway.owner.feed(Event::CheckNow);
        }
    }
}

/// Whether the desk is in a state in which nothing may be asked of the upstream.
pub(super) fn is_cooling(state: State, now: Duration) -> bool {
    match state {
        State::Down { until, .. } => until > now,
        State::Unknown | State::Ready | State::Loading { .. } => false,
    }
}
