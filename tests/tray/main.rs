//! Black-box tests of the real tray: the program under Xvfb, on a session bus of its own, with a
//! stand-in for the desktop's tray that reads the icon and presses its rows, WebKitWebDriver for
//! the panel, and a scripted upstream behind. Test names are promises.
//!
//! Linux only: elsewhere there is no desktop that a test could make for itself.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, says why, and waits by the real clock"
)]

mod support;

mod toolkit_crash;
mod gateway_link;
mod growth;
mod tray_host;
mod hygiene;
mod live;
mod autostart;
mod measure;
mod measure_open;
mod menu;
mod notifications;
mod panel;
mod start;
mod states;
