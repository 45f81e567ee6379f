//! What no single member can be blamed for: settings that contradict each other.

use super::fault::Fault;
use super::{BaseUrl, Settings};

/// What no single member can be blamed for.
pub(super) fn contradictions(settings: &Settings) -> Vec<Fault> {
    let mut faults = Vec::new();
    if let BaseUrl::At(root) = &settings.upstream.base_url
        && root.points_at(&settings.listen)
    {
        faults.push(Fault::OwnAddress {
            base_url: root.to_string(),
        });
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
