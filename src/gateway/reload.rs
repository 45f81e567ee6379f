//! Live reload: a changed file takes effect without losing anybody's place.
//!
//! An invalid file changes nothing and is said where a person looks. What was dispatched keeps
//! the upstream it was sent to; a smaller line throws nobody out. Addresses are opened and closed
//! only at start: a changed `listen` is said to need a restart.

use std::sync::{Arc, PoisonError};

use crate::config::Watch;
use crate::desk::Event;

use super::{Gateway, rules};

/// Follows the configuration file for as long as the gateway lives.
pub(super) async fn watch(gateway: Arc<Gateway>) {
    let file = gateway.loaded().sources.file.clone();
    let (mut watch, error) = Watch::start(&file);
    if let Some(error) = error {
        tracing::warn!(%error, "changes of the configuration need SIGHUP or a restart");
    }
    loop {
        watch.changed().await;
        reload(&gateway);
    }
}

fn reload(gateway: &Gateway) {
    let before = gateway.loaded();
    let after = match before.reload() {
        Ok(after) => after,
        Err(error) => {
            tracing::warn!(%error, "the configuration is invalid; nothing was changed");
            gateway.notice(
                "configuration_invalid",
                &format!("The configuration is invalid, so nothing was changed. {error}"),
            );
            return;
        }
    };
    gateway.notice_over("configuration_invalid");
    if after.settings == before.settings {
        return;
    }
    if after.settings.listen != before.settings.listen {
        gateway.notice(
            "restart_needed",
            "A changed listen takes effect when OneSlot is started again",
        );
    }
    let settings = Arc::new(after.settings.clone());
    let moved = settings.upstream != before.settings.upstream
        || settings.timeouts.connect != before.settings.timeouts.connect;
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
    if settings.pressure != before.settings.pressure {
        gateway.readings.rejudge(&settings.pressure);
    }
    if moved {
        match gateway.relink(&settings) {
            Ok(()) => {
                gateway.note_process(None);
                gateway.owner.feed(Event::UpstreamChanged);
            }
            Err(error) => tracing::error!(%error, "cannot link to the configured upstream"),
        }
    }
    gateway.see_power();
    tracing::info!("the configuration was reloaded");
}
