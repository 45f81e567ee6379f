//! What the tests stand on: a scripted upstream, a raw client, the real binary, real clients.
//!
//! Nothing here uses an HTTP library: both ends are bytes on a socket, so that what a library
//! would repair, hide or buffer can be seen. Tests wait for conditions, not for time.

pub(crate) mod browser;
pub(crate) mod canary;
pub(crate) mod chat;
pub(crate) mod client;
pub(crate) mod untouched;
pub(crate) mod flavour;
pub(crate) mod gateway;
pub(crate) mod group;
pub(crate) mod held;
pub(crate) mod live;
pub(crate) mod machine;
pub(crate) mod process;
pub(crate) mod refused;
pub(crate) mod script;
pub(crate) mod tcp_proxy;
pub(crate) mod upstream;
pub(crate) mod wire;

use std::time::{Duration, Instant};

/// How long any condition may take on a busy two-core machine before a test fails.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// Asks again and again until there is an answer; fails with `why` when `LIMIT` has passed.
pub(crate) fn eventually<T>(why: &str, ask: impl FnMut() -> Option<T>) -> T {
    within(LIMIT, why, ask)
}

/// The same with a limit of its own.
pub(crate) fn within<T>(limit: Duration, why: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "not within {limit:?}: {why}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
