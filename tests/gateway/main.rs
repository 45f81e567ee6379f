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
mod strict_preset;
mod browser;
mod config;
mod connect;
mod privacy;
mod disconnects;
mod faults;
mod framing;
mod health;
#[cfg(unix)]
mod hygiene;
#[cfg(target_os = "linux")]
mod limits;
mod hostile_upstream;
mod queue;
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
mod state_dir;
mod refusals;
#[cfg(target_os = "linux")]
mod sleep;
mod lease;
mod soak;
mod stream;
mod window;
