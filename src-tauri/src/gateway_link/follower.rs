//! Follows the events of the gateway that holds the state directory's lock: the own one and a
//! daemon's in the same way.

use std::sync::Arc;
use std::time::Duration;

use oneslot::control_client::{ControlClient, ControlError, Viewing};
use oneslot::state::HeldBy;
use oneslot::telemetry::snapshot::Snapshot;
use tokio::time::sleep;

use super::fault::chain;
use super::output;
use super::shared::{Shared, Shown};
use crate::tray_face::Whose;

/// As the lock file names this program.
pub(super) const PROGRAM: &str = "oneslot";
/// Until the events of the own gateway are followed again.
const RETRY: Duration = Duration::from_secs(1);
/// A daemon that went may come back: it was updated, or restarted by a supervisor.
const DAEMON_RETURNS: Duration = Duration::from_secs(10);
/// Between two looks for a daemon that is gone, or does not serve yet.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

/// Follows the own gateway; never ends by itself.
pub(super) async fn own(shared: &Shared) {
    loop {
        let reason = events(shared).await;
        tracing::warn!(reason, "the events of the own gateway ended; trying again");
        shared.show_silent(reason);
        sleep(RETRY).await;
    }
}

/// Follows a daemon until it has been gone for longer than a restart takes. A program like this
/// one that ends does not come back.
pub(super) async fn daemon(shared: &Shared) {
    let mut gone_for = Duration::ZERO;
    let mut limit = DAEMON_RETURNS;
    while gone_for < limit {
        // The lock may be free for an instant, or its holder not serve yet.
        let found = ControlClient::find(&shared.plan.state);
        if let Ok(client) = found
            && !client.gateway().addresses.is_empty()
        {
            gone_for = Duration::ZERO;
            let gateway = client.gateway();
            limit = if gateway.program == PROGRAM {
                BETWEEN_LOOKS
            } else {
                DAEMON_RETURNS
            };
            let text = shown_line(gateway);
            if shared.reported.is_new(&text) {
                output::line(&text);
            }
            let reason = events(shared).await;
            shared.show_gone(reason);
        }
        sleep(BETWEEN_LOOKS).await;
        gone_for += BETWEEN_LOOKS;
    }
}

fn shown_line(gateway: &HeldBy) -> String {
    let addresses = gateway.addresses.join(", ");
    format!("showing the running {} at {addresses}", gateway.program)
}

/// Shows the gateway's events while they come; gives the reason for their end.
async fn events(shared: &Shared) -> String {
    let mut viewers = shared.viewers.subscribe();
    loop {
        let is_watched = *viewers.borrow_and_update() > 0;
        let viewing = if is_watched {
            Viewing::Watched
        } else {
            Viewing::Unwatched
        };
        tokio::select! {
            ended = stream(shared, viewing) => return match ended {
                Ok(program) => format!("{program} has stopped"),
                Err(error) => chain(&error),
            },
            // Followed again, so that the gateway knows whether a person looks.
            _ = viewers.wait_for(|viewers| (*viewers > 0) != is_watched) => {}
        }
    }
}

/// Shows the events of one connection; gives the program's name when it stops.
async fn stream(shared: &Shared, viewing: Viewing) -> Result<String, ControlError> {
    // Found again each time: its addresses may have changed.
    let client = ControlClient::find(&shared.plan.state)?;
    let mut events = client.events(viewing).await?;
    let HeldBy { program, pid, .. } = client.gateway();
    let whose = if *pid == std::process::id() {
        Whose::Own
    } else {
        Whose::Daemon
    };
    while let Some(snapshot) = events.next::<Snapshot>().await? {
        shared.shown.send_replace(Shown {
            run: format!("{program}-{pid}"),
            whose: Some(whose),
            snapshot: Arc::new(snapshot),
            silent: None,
        });
    }
    Ok(program.clone())
}
