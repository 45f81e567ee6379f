//! The gateway's own addresses: who really listens there.
//!
//! An app that says `localhost` may reach either family, so a stranger on one of them is a fault
//! even while the gateway serves on the other.

use std::net::SocketAddr;

use super::{Chart, Patient};
use crate::upstream::process;

pub(super) async fn look(patient: &Patient<'_>, chart: &mut Chart<'_>) {
    let own = patient.running.map(|running| running.names.pid);
    for address in patient.loaded.settings.listen.iter().copied() {
        let holder = holder(address).await;
        match (holder, own) {
            (Some(holder), own) if !is_process(&holder, own) => chart.fix(
                format!("{holder} listens on {address}, where OneSlot should"),
                "stop it, or choose another address with `listen` in the settings",
            ),
            (Some(_), _) => chart.good(format!("OneSlot listens on {address}")),
            (None, Some(_)) if address.port() != 0 => {
                chart.note(format!("nobody is seen to listen on {address}"));
            }
            (None, _) => {}
        }
    }
}

/// Who listens at `address`, by the system's own account.
async fn holder(address: SocketAddr) -> Option<String> {
    tokio::task::spawn_blocking(move || process::who_holds(address))
        .await
        .ok()
        .flatten()
}

fn is_process(holder: &str, pid: Option<u32>) -> bool {
    pid.is_some_and(|pid| holder.ends_with(&format!("(pid {pid})")))
}
