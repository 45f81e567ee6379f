//! Probes the upstream and waits for it to settle after an abort, as the scheduler asks.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::context::Context;
use crate::fault_injection;
use crate::http::catch_panic::catch_panic;
use crate::refusal::Outage;
use crate::scheduler::queue::RequestId;
use crate::scheduler::{Event, ProbeReport, SETTLE_CEILING};
use crate::telemetry::message::Fact;
use crate::upstream::current::Search;
use crate::upstream::handle::UpstreamHandle;
use crate::upstream::{Access, Kind, Probe};

use super::{memory, process};

/// Settling time where the server does not show whether it works.
const SETTLE: Duration = Duration::from_millis(500);
/// The same for LM Studio, which finishes reading the prompt first.
const SETTLE_LM_STUDIO: Duration = Duration::from_secs(5);
/// Between two looks at a busy signal while settling.
const SETTLE_INTERVAL: Duration = Duration::from_millis(50);
/// The notice of a base URL that leads back to this context.
pub(crate) const LOOP: &str = "loop";

/// Sends one probe, or searches for a server, and reports the result to the scheduler.
pub(super) async fn probe(context: Arc<Context>) {
    memory::read(&context);
    let before = context.link();
    let asked = async {
        fault_injection::at(fault_injection::Stage::Probe);
        match &before {
            None => search(&context).await,
            Some(handle) => {
                let report = look(&context, handle).await;
                context.upstream.is_current(handle).then_some(report)
            }
        }
    };
    // A panic must not leave the scheduler waiting for its report for ever.
    let report = catch_panic(asked)
        .await
        .unwrap_or(Some(ProbeReport::Failed(Outage::ProbeFailed)));
    // None: another upstream was configured meanwhile, and the scheduler has asked for another
    // probe already.
    let Some(report) = report else { return };
    context.scheduler.send(Event::Probed(report));
    if matches!(report, ProbeReport::Alive { .. } | ProbeReport::Loading) {
        process::server_is_back(&context);
    }
    // Also after a failure that left the process running, so that it is not taken for a new one.
    if let Some(handle) = context.link()
        && !matches!(
            report,
            ProbeReport::Failed(Outage::Refused | Outage::ProcessGone { .. })
        )
    {
        process::refresh(&context, &handle).await;
    }
}

/// Searches the usual ports and uses the first server that proves what it is.
async fn search(context: &Context) -> Option<ProbeReport> {
    let settings = context.settings();
    match context.upstream.find(&settings, &context.addresses()).await {
        Search::Superseded => None,
        Search::NoneFound => Some(ProbeReport::Failed(Outage::NoneFound)),
        Search::Linked(roots) => {
            context.reads.forget();
            if roots.len() > 1 {
                let list = roots.join(", ");
                context.notices.add(Fact::SeveralServers { list });
            }
            if let Some(handle) = context.link() {
                read_window(context, &handle).await;
            }
            Some(ProbeReport::Alive { wants_key: false })
        }
    }
}

async fn look(context: &Context, handle: &UpstreamHandle) -> ProbeReport {
    let limit = context.settings().limits.probe;
    match handle.upstream.probe(limit).await {
        Probe::Alive { access, models } => {
            let was_down = context
                .scheduler
                .read(|scheduler, _, _| scheduler.health().is_down());
            // After an outage another server may be there, or the same one with another model.
            if was_down {
                handle.forget_window();
            }
            if handle.upstream.known_kind().is_none()
                || was_down && process::is_another(context, handle).await
            {
                handle.upstream.learn().await;
            }
            // The probe reached a server, so the base URL does not lead back here.
            if access == Access::WantsKey || models.is_some() {
                context.notices.remove(LOOP);
            }
            if let Some(models) = models {
                context.reads.keep_models(models);
            }
            read_window(context, handle).await;
            ProbeReport::Alive {
                wants_key: access == Access::WantsKey,
            }
        }
        Probe::Loading => ProbeReport::Loading,
        Probe::Failed(outage) => {
            handle.forget_window();
            handle.sender.forget_idle();
            ProbeReport::Failed(process::explain(context, outage).await)
        }
    }
}

/// Reads the window where none is known, so that the status shows it before the first chat.
/// Neither wakes nor loads a model.
async fn read_window(context: &Context, handle: &UpstreamHandle) {
    if handle.last_window().is_none() {
        let settings = context.settings();
        handle.window(settings.upstream.model.as_deref()).await;
        context.scheduler.touch();
    }
}

/// Waits until the server has stopped working on an aborted request, and reports it.
pub(super) async fn settle(context: Arc<Context>, id: RequestId) {
    if let Some(handle) = context.link() {
        let kind = handle.upstream.known_kind();
        let since = Instant::now();
        loop {
            // Nothing is sent during a cooldown.
            let cooling = context.is_cooling();
            let busy = if cooling {
                None
            } else {
                handle.upstream.busy(None).await
            };
            match busy {
                Some(false) => break,
                Some(true) => sleep(SETTLE_INTERVAL).await,
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
    context.scheduler.send(Event::Settled { id });
}
