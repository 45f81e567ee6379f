//! The panel opened from the menu and closed by its window, as a person does.
//!
//! The program's log has to be at `debug`: it says there when a page looks.

use std::time::{Duration, Instant};

use super::desktop::Desktop;
use super::host::Icon;
use super::program::Program;
use super::{eventually, windows};

/// From the press of a row to the moment in which the page asks for the state.
pub(crate) fn open(tray: &Program, icon: &Icon) -> Duration {
    let looks = |said: &str| said.matches("a panel subscribed").count();
    let before = looks(&tray.said());
    let began = Instant::now();
    icon.press("Open OneSlot…");
    eventually("the panel is drawn", || {
        (looks(&tray.said()) > before).then_some(())
    });
    began.elapsed()
}

/// Asks its window to close, and waits until nothing runs for it any more.
pub(crate) fn close(desktop: &Desktop, tray: &Program) {
    windows::close(desktop, "OneSlot");
    eventually("the panel is gone", || {
        (tray.web_processes() == 0).then_some(())
    });
}
