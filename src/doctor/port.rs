//! The gateway's own addresses: who really listens there.
//!
//! An app that says `localhost` may reach either family, so a stranger on one of them is a fault
//! even while the gateway serves on the other.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::{Chart, Patient};
use crate::upstream::process;

pub(super) async fn look(patient: &Patient<'_>, chart: &mut Chart<'_>) {
    let own = patient.running.map(|running| running.names.pid);
    for address in addresses(patient) {
        match holder(address).await {
            Some(holder) if is_process(&holder, own) => {
                chart.good(format!("OneSlot listens on {address}"));
            }
            Some(holder) => chart.fix(
                format!("{holder} listens on {address}, where OneSlot should"),
                "stop it, or choose another address with `listen` in the settings",
            ),
            None => {}
        }
    }
}

/// Where the running gateway serves, and where the settings want it.
fn addresses(patient: &Patient<'_>) -> BTreeSet<SocketAddr> {
    let served = patient
        .running
        .into_iter()
        .flat_map(|running| &running.names.addresses);
    served
        .filter_map(|url| url.strip_prefix("http://")?.parse().ok())
        .chain(patient.loaded.settings.listen.iter().copied())
        .collect()
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
