//! Probes the upstream and waits for it to settle after an abort, as the scheduler asks.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::context::Context;
use crate::fault_injection;
use crate::http::catch_panic::catch_panic;
use crate::refusal::Outage;
use crate::scheduler::queue::RequestId;
use crate::scheduler::slots::Occupant;
use crate::scheduler::{Event, ProbeReport};
use crate::telemetry::message::Fact;
use crate::upstream::current::Search;
use crate::upstream::handle::UpstreamHandle;
use crate::upstream::{Access, BusySlots, Kind, Probe, WindowReading};

use super::{memory, process};

/// Settling time where the server does not show whether it works.
const SETTLE: Duration = Duration::from_millis(500);
/// The same for LM Studio, which finishes reading the prompt first.
const SETTLE_LM_STUDIO: Duration = Duration::from_secs(5);
/// Between two looks at a busy signal while settling.
const SETTLE_INTERVAL: Duration = Duration::from_millis(50);
/// Settling longer than this is reported.
const SETTLE_REPORT: Duration = Duration::from_secs(1);
/// The notice of a base URL that leads back to this gateway.
pub(crate) const LOOP: &str = "loop";

/// Sends one probe, or searches for a server, and reports the result to the scheduler.
pub(super) async fn probe(context: Arc<Context>, limit: Duration) {
    memory::read(&context);
    let before = context.link();
    let asked = async {
        fault_injection::at(fault_injection::Stage::Probe);
        match &before {
            None => search(&context).await,
            Some(handle) => {
                let report = look(&context, handle, limit).await;
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

async fn look(context: &Context, handle: &UpstreamHandle, limit: Duration) -> ProbeReport {
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

/// Reads the window where none is known, or no model was loaded, so that the status shows it before
/// the first chat. Neither wakes nor loads a model.
async fn read_window(context: &Context, handle: &UpstreamHandle) {
    if matches!(handle.last_window(), None | Some(WindowReading::NotLoaded)) {
        let settings = context.settings();
        handle.window(settings.upstream.model.as_deref()).await;
        context.scheduler.touch();
    }
}

/// Waits until the server has stopped working on an aborted request, and reports it.
///
/// The scheduler frees the slot by itself once the longest settling time is over.
pub(super) async fn settle(context: Arc<Context>, id: RequestId) {
    let since = Instant::now();
    let mut reported = false;
    let mut free_looks = 0;
    while let Some(app) = settling_app(&context, id) {
        match next_look(&context, since).await {
            Look::Working => free_looks = 0,
            Look::Free => free_looks += 1,
            Look::NoSignal => break,
        }
        // With several slots a request just dispatched may not have reached its slot yet.
        if free_looks == 2 || free_looks == 1 && context.settings().upstream.slots <= 1 {
            break;
        }
        if !reported && since.elapsed() >= SETTLE_REPORT {
            reported = true;
            let since_ms = crate::clock::ms(since.elapsed());
            tracing::info!(request = %id, %app, since_ms, "the server is still working on a cancelled request");
        }
        sleep(SETTLE_INTERVAL).await;
    }
    tracing::debug!(request = %id, settled_ms = crate::clock::ms(since.elapsed()), "settled");
    context.scheduler.send(Event::Settled { id });
}

/// One look at a server that may still work on an aborted request.
enum Look {
    /// It works on as many requests as before the abort, or cannot tell during a cooldown.
    Working,
    /// At least one request that was aborted is not worked on any more.
    Free,
    /// It has no busy signal; the usual time has passed.
    NoSignal,
}

async fn next_look(context: &Context, since: Instant) -> Look {
    let Some(handle) = context.link() else {
        return Look::NoSignal;
    };
    if handle.upstream.shows_activity() {
        // Nothing is sent during a cooldown.
        if context.is_cooling() {
            return Look::Working;
        }
        match handle.upstream.busy_slots(None).await {
            BusySlots::Count(busy) => {
                let working = context
                    .scheduler
                    .read(|scheduler, _, _| scheduler.slots().working());
                return if busy < working {
                    Look::Free
                } else {
                    Look::Working
                };
            }
            BusySlots::NoAnswer => return Look::Working,
            BusySlots::NotShown => {}
        }
    }
    let quiet = match handle.upstream.known_kind() {
        Some(Kind::LmStudio) => SETTLE_LM_STUDIO,
        Some(Kind::LlamaCpp | Kind::Ollama | Kind::Plain) | None => SETTLE,
    };
    sleep(quiet.saturating_sub(since.elapsed())).await;
    Look::NoSignal
}

/// The app of the aborted request; `None` once its slot is free.
fn settling_app(context: &Context, id: RequestId) -> Option<Arc<str>> {
    context
        .scheduler
        .read(|scheduler, _, _| match scheduler.slots().get(id) {
            Some(Occupant::Settling { ticket, .. }) => Some(Arc::clone(&ticket.app)),
            Some(Occupant::Checking { .. } | Occupant::Running { .. }) | None => None,
        })
}
