//! What the tests stand on: a desktop of their own, the real program, and the gateway tests' own
//! scripted upstream and raw client.

pub(crate) mod desktop;
pub(crate) mod driver;
pub(crate) mod host;
pub(crate) mod network;
pub(crate) mod notices;
pub(crate) mod opening;
pub(crate) mod program;
pub(crate) mod signals;
pub(crate) mod windows;

#[path = "../gateway/support/canary.rs"]
pub(crate) mod canary;
#[path = "../gateway/support/chat.rs"]
pub(crate) mod chat;
#[path = "../gateway/support/client.rs"]
#[expect(dead_code, reason = "the gateway's tests use the rest")]
pub(crate) mod client;
#[path = "../gateway/support/flavour.rs"]
#[expect(dead_code, reason = "the gateway's tests use the rest")]
pub(crate) mod flavour;
#[path = "../gateway/support/group.rs"]
#[expect(dead_code, reason = "the gateway's tests use the rest")]
pub(crate) mod group;
#[path = "../gateway/support/live.rs"]
#[expect(dead_code, reason = "the gateway's tests use the rest")]
pub(crate) mod live;
#[path = "../gateway/support/process.rs"]
pub(crate) mod process;
#[path = "../gateway/support/refused.rs"]
#[expect(dead_code, reason = "the gateway's tests use the rest")]
pub(crate) mod refused;
#[path = "../gateway/support/script.rs"]
#[expect(dead_code, reason = "the gateway's tests use the rest")]
pub(crate) mod script;
#[path = "../gateway/support/tcp_proxy.rs"]
#[expect(dead_code, reason = "the gateway's tests use the rest")]
pub(crate) mod tcp_proxy;
#[path = "../gateway/support/upstream.rs"]
#[expect(dead_code, reason = "the gateway's tests use the rest")]
pub(crate) mod upstream;
#[path = "../gateway/support/wire.rs"]
pub(crate) mod wire;

use std::time::{Duration, Instant};

/// How long any condition may take on a busy two-core machine before a test fails.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// For `ONESLOT_LIMITS`: memory is read often and counts as elevated, unless
/// `pressure.sensitivity` is off.
pub(crate) const ALWAYS_SHORT: &str = r#"{"cooldown_max_ms": 4000, "memory": {"interval_ms": 250,
    "rise_readings": 1, "fall_quiet_ms": 1000, "ram_percent": [100, 0, 0],
    "ram_mib": [1000000, 0, 0]}}"#;

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
        std::thread::sleep(Duration::from_millis(20));
    }
}
