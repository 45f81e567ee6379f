//! Live reload: a changed file takes effect without losing anybody's place.
//!
//! An invalid file changes nothing and is said where a person looks. What was dispatched keeps
//! the upstream it was sent to; a smaller line throws nobody out; a new address is open before an
//! old one is let go.

use std::sync::Arc;

use crate::config::{BaseUrl, Fault, Loaded, Settings, Watch};
use crate::scheduler::Event;

use crate::context::Context;
use crate::monitor;
use crate::monitor::probe::LOOP;

use super::rules;

/// Follows the configuration file for as long as the context lives.
pub(super) async fn watch(context: Arc<Context>) {
    let file = context.loaded().sources.file.clone();
    let (mut watch, error) = Watch::start(&file);
    if let Some(error) = error {
        tracing::warn!(%error, "changes of the configuration need SIGHUP or a restart");
    }
    // What changed between the load at start and this moment was not seen.
    reload(&context).await;
    loop {
        watch.changed().await;
        reload(&context).await;
    }
}

async fn reload(context: &Arc<Context>) {
    let before = context.loaded();
    let Some(mut after) = read_anew(context, &before).await else {
        return;
    };
    if after.settings.listen == before.settings.listen {
        // Perhaps a change that failed was taken back.
        context.notices.remove("listen");
    }
    if after.settings == before.settings {
        return;
    }
    if !take_addresses(context, &before.settings, &mut after.settings).await {
        return;
    }
    put_in_force(context, &before.settings, after);
    tracing::info!("the configuration was reloaded");
}

/// The configuration as it is now; `None`, and it is said why, if it cannot be used.
async fn read_anew(context: &Context, before: &Arc<Loaded>) -> Option<Loaded> {
    // Beside the requests: a disk, or who keeps it, takes its time.
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
    context.notices.add(
        "configuration_invalid",
        &format!("The configuration is invalid, so nothing was changed. {error}"),
    );
}

/// Serves on the addresses that are wanted. What of them or of the upstream cannot be had stays
/// as it was; whether anything is left to be put in force.
async fn take_addresses(context: &Arc<Context>, before: &Settings, after: &mut Settings) -> bool {
    if after.listen == before.listen && leads_home(context, after).await {
        invalid(context, &own_address(after));
        return false;
    }
    if after.listen != before.listen && !relisten(context, after).await {
        // What is not served on is not in force; the next change tries again.
        after.listen.clone_from(&before.listen);
    }
    // Only now is it known which addresses they are, for port 0 picks one.
    if leads_home(context, after).await {
        let error = own_address(after);
        tracing::warn!(%error, "the upstream was not changed");
        context.notices.add(
            "own_address",
            &format!("The upstream was not changed. {error}"),
        );
        after.upstream = before.upstream.clone();
    } else {
        context.notices.remove("own_address");
    }
    true
}

/// Tells everybody who goes by the settings.
fn put_in_force(context: &Context, before: &Settings, after: Loaded) {
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
        // What is known of memory is not forgotten with the rules for it.
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

/// Whether the configured upstream is one of the addresses served on.
async fn leads_home(context: &Context, settings: &Settings) -> bool {
    match &settings.upstream.base_url {
        BaseUrl::At(root) => root.leads_to(&context.addresses()).await,
        BaseUrl::Auto => false,
    }
}

fn own_address(settings: &Settings) -> Fault {
    let base_url = match &settings.upstream.base_url {
        BaseUrl::At(root) => root.to_string(),
        BaseUrl::Auto => String::new(),
    };
    Fault::OwnAddress { base_url }
}

/// Whether the wanted addresses are served on now.
async fn relisten(context: &Arc<Context>, settings: &Settings) -> bool {
    match context.doors.change(context, &settings.listen).await {
        Ok(()) => {
            context.notices.remove("listen");
            if let Err(error) = context.publish() {
                tracing::warn!(%error, "the command line may not find the new address");
            }
            true
        }
        Err(error) => {
            tracing::warn!(%error, "the addresses served on were not changed");
            context.notices.add(
                "listen",
                &format!("The addresses served on were not changed: {error}"),
            );
            false
        }
    }
}
