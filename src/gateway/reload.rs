//! Live reload: a changed file takes effect without losing anybody's place.
//!
//! An invalid file changes nothing and is said where a person looks. What was dispatched keeps
//! the upstream it was sent to; a smaller line throws nobody out; a new address is open before an
//! old one is let go.

use std::sync::{Arc, PoisonError};

use crate::config::{BaseUrl, Fault, Loaded, Settings, Watch};
use crate::desk::Event;

use super::{Gateway, LOOP, rules};

/// Follows the configuration file for as long as the gateway lives.
pub(super) async fn watch(gateway: Arc<Gateway>) {
    let file = gateway.loaded().sources.file.clone();
    let (mut watch, error) = Watch::start(&file);
    if let Some(error) = error {
        tracing::warn!(%error, "changes of the configuration need SIGHUP or a restart");
    }
    // What changed between the load at start and this moment was not seen.
    reload(&gateway).await;
    loop {
        watch.changed().await;
        reload(&gateway).await;
    }
}

async fn reload(gateway: &Arc<Gateway>) {
    let before = gateway.loaded();
    let Some(mut after) = read_anew(gateway, &before).await else {
        return;
    };
    if after.settings.listen == before.settings.listen {
        // Perhaps a change that failed was taken back.
        gateway.notice_over("listen");
    }
    if after.settings == before.settings {
        return;
    }
    if !take_addresses(gateway, &before.settings, &mut after.settings).await {
        return;
    }
    put_in_force(gateway, &before.settings, after);
    gateway.see_power();
    tracing::info!("the configuration was reloaded");
}

/// The configuration as it is now; `None`, and it is said why, if it cannot be used.
async fn read_anew(gateway: &Gateway, before: &Arc<Loaded>) -> Option<Loaded> {
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
            gateway.notice_over("configuration_invalid");
            gateway.notice_over("configuration_locked");
            Some(after)
        }
        Err(error) => {
            invalid(gateway, &error);
            None
        }
    }
}

fn invalid(gateway: &Gateway, error: &impl std::fmt::Display) {
    tracing::warn!(%error, "the configuration is invalid; nothing was changed");
    gateway.notice(
        "configuration_invalid",
        &format!("The configuration is invalid, so nothing was changed. {error}"),
    );
}

/// Serves on the addresses that are wanted. What of them or of the upstream cannot be had stays
/// as it was; whether anything is left to be put in force.
async fn take_addresses(gateway: &Arc<Gateway>, before: &Settings, after: &mut Settings) -> bool {
    if after.listen == before.listen && leads_home(gateway, after).await {
        invalid(gateway, &own_address(after));
        return false;
    }
    if after.listen != before.listen && !relisten(gateway, after).await {
        // What is not served on is not in force; the next change tries again.
        after.listen.clone_from(&before.listen);
    }
    // Only now is it known which addresses they are, for port 0 picks one.
    if leads_home(gateway, after).await {
        let error = own_address(after);
        tracing::warn!(%error, "the upstream was not changed");
        gateway.notice(
            "own_address",
            &format!("The upstream was not changed. {error}"),
        );
        after.upstream = before.upstream.clone();
    } else {
        gateway.notice_over("own_address");
    }
    true
}

/// Tells everybody who goes by the settings.
fn put_in_force(gateway: &Gateway, before: &Settings, after: Loaded) {
    let settings = Arc::new(after.settings.clone());
    *gateway
        .loaded
        .write()
        .unwrap_or_else(PoisonError::into_inner) = Arc::new(after);
    *gateway
        .settings
        .write()
        .unwrap_or_else(PoisonError::into_inner) = Arc::clone(&settings);
    gateway
        .owner
        .feed(Event::Rules(Box::new(rules(&settings, gateway.pace()))));
    if settings.log.level != before.log.level
        && let Some(log) = &gateway.log
        && let Err(error) = log.relevel(settings.log.level.name())
    {
        tracing::warn!(%error, "log.level was not changed");
    }
    if settings.pressure != before.pressure {
        gateway.readings.rejudge(&settings.pressure);
        // What is known of memory is not forgotten with the rules for it.
        gateway.read_memory();
    }
    let (now, was) = (&settings.upstream, &before.upstream);
    let moved = (&now.base_url, &now.api_key) != (&was.base_url, &was.api_key)
        || settings.timeouts.connect != before.timeouts.connect;
    if moved {
        match gateway.relink(&settings) {
            Ok(()) => {
                gateway.notice_over(LOOP);
                gateway.note_process(None);
                gateway.owner.feed(Event::UpstreamChanged);
            }
            Err(error) => tracing::error!(%error, "cannot link to the configured upstream"),
        }
    }
}

/// Whether the configured upstream is one of the addresses served on.
async fn leads_home(gateway: &Gateway, settings: &Settings) -> bool {
    match &settings.upstream.base_url {
        BaseUrl::At(root) => root.leads_to(&gateway.addresses()).await,
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
async fn relisten(gateway: &Arc<Gateway>, settings: &Settings) -> bool {
    match gateway.listeners.change(gateway, &settings.listen).await {
        Ok(()) => {
            gateway.notice_over("listen");
            if let Err(error) = gateway.publish() {
                tracing::warn!(%error, "the command line may not find the new address");
            }
            true
        }
        Err(error) => {
            tracing::warn!(%error, "the addresses served on were not changed");
            gateway.notice(
                "listen",
                &format!("The addresses served on were not changed: {error}"),
            );
            false
        }
    }
}
