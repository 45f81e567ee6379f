//! Black-box tests of the real gateway: the binary on one side, a scripted upstream, raw sockets
//! and real clients on the other. Test names are promises.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, says why, and waits by the real clock"
)]

mod support;

// The harness itself.
mod harness;

// The contract.
mod access;
mod article;
mod browser;
mod config;
mod connect;
mod content;
mod disconnects;
mod faults;
mod framing;
mod health;
#[cfg(unix)]
mod hygiene;
#[cfg(target_os = "linux")]
mod limits;
mod lies;
mod line;
mod live;
#[cfg(target_os = "linux")]
mod load;
mod memory;
#[cfg(target_os = "linux")]
mod memory_live;
mod origins;
mod panics;
mod pause;
#[cfg(unix)]
mod places;
mod refusals;
#[cfg(target_os = "linux")]
mod sleep;
mod slot;
mod soak;
mod stream;
mod window;
