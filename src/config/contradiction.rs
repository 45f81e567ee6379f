//! What no single member can be blamed for: settings that contradict each other.

use std::net::{IpAddr, SocketAddr};

use super::fault::Fault;
use super::{BaseUrl, Settings};

/// What no single member can be blamed for.
pub(super) fn contradictions(settings: &Settings) -> Vec<Fault> {
    let mut faults = Vec::new();
    if let BaseUrl::At(root) = &settings.upstream.base_url {
        let is_own = |address: &SocketAddr| {
            address.port() == root.port() && names(root.is_localhost(), root.ip(), address.ip())
        };
        if settings.listen.iter().any(is_own) {
            faults.push(Fault::OwnAddress {
                base_url: root.to_string(),
            });
        }
    }
    let access = &settings.access;
    let is_guarded = access.require_key && !access.keys.is_empty();
    let open = settings
        .listen
        .iter()
        .find(|address| !address.ip().to_canonical().is_loopback());
    if let Some(address) = open.filter(|_| !is_guarded) {
        faults.push(Fault::OpenWithoutKey { address: *address });
    }
    faults
}

/// Whether a base URL's host reaches a listening address.
fn names(is_localhost: bool, host: Option<IpAddr>, listening: IpAddr) -> bool {
    let listening = listening.to_canonical();
    let loopback = listening.is_loopback() || listening.is_unspecified();
    match host.map(|host| host.to_canonical()) {
        None => is_localhost && loopback,
        Some(host) if host.is_unspecified() => loopback && host.is_ipv4() == listening.is_ipv4(),
        Some(host) => {
            host == listening
                || (listening.is_unspecified() && host.is_ipv4() == listening.is_ipv4())
        }
    }
}
