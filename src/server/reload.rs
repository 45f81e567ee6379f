//! Live reload of the settings file.
//!
//! An invalid file changes nothing and leaves a notice. Dispatched requests keep the upstream they
//! were sent to, a smaller queue removes no queued request, and a new address is open before an
//! old one is closed.

use std::sync::Arc;

use crate::config::{BaseUrl, Fault, Loaded, Settings, Watch};
use crate::scheduler::Event;

use crate::context::Context;
use crate::http::listeners::Listeners;
use crate::monitor;
use crate::monitor::probe::LOOP;
use crate::telemetry::message::Fact;

use super::{report_settings, rules};

/// Follows the settings file.
pub(super) async fn watch(context: Arc<Context>, listeners: Arc<Listeners>) {
    let file = context.loaded().sources.file.clone();
    let (mut watch, error) = Watch::start(&file);
    if let Some(error) = error {
        tracing::warn!(%error, "changes of the configuration need SIGHUP or a restart");
    }
    // Changes between the load at start and this moment have not been seen.
    reload(&context, &listeners).await;
    loop {
        watch.changed().await;
        reload(&context, &listeners).await;
    }
}

async fn reload(context: &Arc<Context>, listeners: &Listeners) {
    let before = context.loaded();
    let Some(mut after) = read_settings(context, &before).await else {
        return;
    };
    if after.settings.listen == before.settings.listen {
        // A change that failed may have been reverted.
        context.notices.remove("listen");
    }
    if after.notices != before.notices {
        for notice in &after.notices {
            tracing::warn!(%notice, "settings file");
        }
        report_settings(context, &after);
    }
    if after.settings == before.settings {
        context.set_loaded(after);
        return;
    }
    if !apply_addresses(context, listeners, &before.settings, &mut after.settings).await {
        return;
    }
    apply(context, &before.settings, after);
    tracing::info!("the configuration was reloaded");
}

/// The settings as they are now; `None`, with a notice, if they cannot be used.
async fn read_settings(context: &Context, before: &Arc<Loaded>) -> Option<Loaded> {
    // Off the runtime's threads: a disk may be slow.
    let read = {
        let before = Arc::clone(before);
        tokio::task::spawn_blocking(move || before.reload()).await
    };
    let Ok(read) = read else {
        tracing::error!("the configuration could not be read; nothing was changed");
        return None;
    };
    match read {
        Ok(after) => {
            context.notices.remove("configuration_invalid");
            context.notices.remove("configuration_locked");
            Some(after)
        }
        Err(error) => {
            invalid(context, &error);
            None
        }
    }
}

fn invalid(context: &Context, error: &impl std::fmt::Display) {
    tracing::warn!(%error, "the configuration is invalid; nothing was changed");
    let faults = error.to_string();
    context.notices.add(Fact::ConfigurationInvalid { faults });
}

/// Opens and closes listeners as configured. An address or upstream that cannot be used stays as it
/// was. Returns whether anything is left to apply.
async fn apply_addresses(
    context: &Arc<Context>,
    listeners: &Listeners,
    before: &Settings,
    after: &mut Settings,
) -> bool {
    if after.listen == before.listen && is_own_address(context, after).await {
        let base_url = base_url(after);
        invalid(context, &Fault::OwnAddress { base_url });
        return false;
    }
    if after.listen != before.listen && !relisten(context, listeners, after).await {
        // The next change of the file tries again.
        after.listen.clone_from(&before.listen);
    }
    // Checked after binding, since port 0 picks a port.
    if is_own_address(context, after).await {
        let base_url = base_url(after);
        tracing::warn!(
            base_url,
            "upstream not changed: it is the gateway's own address"
        );
        context.notices.add(Fact::OwnAddress { base_url });
        after.upstream = before.upstream.clone();
    } else {
        context.notices.remove("own_address");
    }
    true
}

/// Applies the settings to every part that depends on them.
fn apply(context: &Context, before: &Settings, after: Loaded) {
    let settings = context.set_loaded(after);
    context
        .scheduler
        .send(Event::Rules(Box::new(rules(&settings))));
    if settings.log.level != before.log.level
        && let Some(log) = &context.log
        && let Err(error) = log.relevel(settings.log.level.name())
    {
        tracing::warn!(%error, "log.level was not changed");
    }
    if settings.pressure != before.pressure {
        context.memory.rejudge(&settings);
        // Judge the last readings by the new thresholds at once.
        monitor::memory::read(context);
    }
    let (now, was) = (&settings.upstream, &before.upstream);
    let moved = (&now.base_url, &now.api_key) != (&was.base_url, &was.api_key);
    if moved {
        match context.upstream.relink(&settings) {
            Ok(()) => {
                context.notices.remove(LOOP);
                context.reads.forget();
                monitor::process::replace(context, None);
                context.scheduler.send(Event::UpstreamChanged);
            }
            Err(error) => tracing::error!(%error, "cannot link to the configured upstream"),
        }
    }
}

/// Whether the configured upstream is one of the gateway's own addresses.
async fn is_own_address(context: &Context, settings: &Settings) -> bool {
    match &settings.upstream.base_url {
        BaseUrl::At(root) => root.leads_to(&context.addresses()).await,
        BaseUrl::Auto => false,
    }
}

fn base_url(settings: &Settings) -> String {
    match &settings.upstream.base_url {
        BaseUrl::At(root) => root.to_string(),
        BaseUrl::Auto => String::new(),
    }
}

/// Changes the listeners; returns whether the configured addresses are open now.
async fn relisten(context: &Arc<Context>, listeners: &Listeners, settings: &Settings) -> bool {
    match listeners.change(context, &settings.listen).await {
        Ok(()) => {
            context.notices.remove("listen");
            if let Err(error) = context.publish() {
                tracing::warn!(%error, "cannot publish the new address; the command line may not find it");
            }
            true
        }
        Err(error) => {
            tracing::warn!(%error, "listen addresses not changed");
            let error = error.to_string();
            context.notices.add(Fact::ListenFailed { error });
            false
        }
    }
}
