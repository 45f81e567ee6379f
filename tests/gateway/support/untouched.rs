//! What "refused means untouched" means: nothing reached the upstream and nothing moved.

use std::time::Duration;

use super::gateway::{Gateway, Setup};
use super::upstream::Upstream;
use super::within;

/// A gateway that asks its upstream nothing by itself once it is ready.
pub(crate) fn quiet(upstream: &Upstream) -> Setup {
    Setup::before(upstream).config("health.idle_interval_s = 3600")
}

/// Waits until the gateway knows its upstream and has nothing more to ask.
pub(crate) fn settled(gateway: &Gateway, upstream: &Upstream) {
    gateway.until_status("the upstream is known", |status| {
        status["health"]["state"] == "ready"
    });
    within(Duration::from_secs(20), "the first probes are over", || {
        let before = (upstream.connections(), upstream.requests());
        std::thread::sleep(Duration::from_millis(300));
        (before == (upstream.connections(), upstream.requests())).then_some(())
    });
}

/// Does something that must leave the upstream alone and take no place in the queue.
pub(crate) fn untouched<T>(
    gateway: &Gateway,
    upstream: &Upstream,
    what: &str,
    work: impl FnOnce() -> T,
) -> T {
    let seen = (upstream.connections(), upstream.requests());
    let done = work();
    let status = gateway.status();
    assert_eq!(status["queue"]["running"], 0, "no slot was taken: {what}");
    assert_eq!(status["queue"]["waiting"], 0, "no place was taken: {what}");
    assert_eq!(
        (upstream.connections(), upstream.requests()),
        seen,
        "connections to and requests at the upstream: {what}"
    );
    done
}
