//! The panel's window: created on demand, destroyed when it is closed.
//!
//! A web process that dies takes nothing with it: its window goes, and comes again once. Not
//! here: what it shows (`ui/`), and what it may ask for ([`crate::commands`]).

use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use oneslot::state::durable;
use tauri::{
    AppHandle, LogicalPosition, LogicalSize, Manager as _, WebviewUrl, WebviewWindow,
    WebviewWindowBuilder,
};

/// When the panel's web process crashed last; the toolkit keeps it.
#[derive(Debug, Default)]
pub struct Crashes(Mutex<Option<Timestamp>>);

impl Crashes {
    /// Notes a crash. Returns whether the panel may be opened again: one that crashes twice within
    /// 30 s stays closed until a person asks for it.
    fn note(&self) -> bool {
        let now = Timestamp::now();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = last.replace(now);
        before.is_none_or(|before| (now - before).as_secs().abs() > 30)
    }
}

/// The window's name; the capability is for this one alone.
pub const LABEL: &str = "panel";

const SIZE: (f64, f64) = (380.0, 560.0);
const LEAST: (f64, f64) = (320.0, 360.0);
/// Of a screen's room the window takes this much at most, where larger letters want more: the rest
/// is for its frame.
const SHARE: f64 = 0.9;

/// Shows the panel, as soon as the main thread can.
///
/// The window is made on the main thread: made elsewhere, its page could ask for something before
/// the program knows the window. Windows' web view cannot be made from the main loop's own
/// handlers, so there it is made elsewhere all the same, and the page asks again.
pub fn open(app: &AppHandle) {
    let here = app.clone();
    let show = move || {
        if let Err(error) = shown(&here) {
            tracing::error!(%error, "the panel cannot be shown");
        }
    };
    #[cfg(not(windows))]
    if let Err(error) = app.run_on_main_thread(show) {
        tracing::error!(%error, "the panel cannot be shown");
    }
    #[cfg(windows)]
    tauri::async_runtime::spawn(async move { show() });
}

fn shown(app: &AppHandle) -> tauri::Result<()> {
    if let Some(window) = app.get_webview_window(LABEL) {
        window.unminimize()?;
        window.show()?;
        return window.set_focus();
    }
    close_storage(app);
    let window = WebviewWindowBuilder::new(app, LABEL, WebviewUrl::App("index.html".into()))
        .title("OneSlot")
        .inner_size(SIZE.0, SIZE.1)
        .min_inner_size(LEAST.0, LEAST.1)
        .center()
        .build()?;
    crate::platform::on_crash(&window, died)?;
    crate::platform::let_go(&window)?;
    make_room(&window, crate::platform::letters(&window))?;
    window.set_focus()
}

/// Opens the window as much larger as the desktop's letters are, as far as the screen has room:
/// the page then holds as much as with usual ones. What the screen has room for is what its panels
/// and docks leave.
fn make_room(window: &WebviewWindow, letters: f64) -> tauri::Result<()> {
    let screen = match window.current_monitor()? {
        Some(screen) => Some(screen),
        None => window.primary_monitor()?,
    };
    let Some(screen) = screen else {
        return Ok(());
    };
    let (scale, room) = (screen.scale_factor(), screen.work_area());
    let (corner, most) = (
        room.position.to_logical::<f64>(scale),
        room.size.to_logical::<f64>(scale),
    );
    let most = (most.width, most.height);
    let size = within(letters, most);
    if size == SIZE {
        return Ok(());
    }
    let least = (LEAST.0.min(size.0), LEAST.1.min(size.1));
    window.set_min_size(Some(LogicalSize::new(least.0, least.1)))?;
    window.set_size(LogicalSize::new(size.0, size.1))?;
    // Not `center`: that goes by the size the window still has.
    let (left, top) = between(size, most);
    window.set_position(LogicalPosition::new(corner.x + left, corner.y + top))
}

/// The window's size for letters so large, in a room of this size.
fn within(letters: f64, room: (f64, f64)) -> (f64, f64) {
    let one = |size: f64, room: f64| (size * letters).min((room * SHARE).max(size)).min(room);
    (one(SIZE.0, room.0), one(SIZE.1, room.1))
}

/// Where a window of this size stands in the middle of a room.
fn between(size: (f64, f64), room: (f64, f64)) -> (f64, f64) {
    let one = |size: f64, room: f64| ((room - size) / 2.0).max(0.0);
    (one(size.0, room.0), one(size.1, room.1))
}

/// Keeps others out of what the web view stores: it makes its files by the session's own mask.
fn close_storage(app: &AppHandle) {
    let paths = app.path();
    let folders = [paths.app_local_data_dir(), paths.app_cache_dir()];
    for folder in folders.into_iter().flatten() {
        let closed = durable::private_dir(&folder).and_then(|()| durable::close_dir(&folder));
        if let Err(error) = closed {
            tracing::warn!(%error, folder = %folder.display(), "others may read what the panel stores");
        }
    }
}

/// The window's web process died.
fn died(window: &WebviewWindow) {
    let app = window.app_handle().clone();
    let may_reopen = app.state::<Crashes>().note();
    tracing::warn!(may_reopen, "the panel's web process died");
    if let Err(error) = window.destroy() {
        tracing::warn!(%error, "the dead panel's window stays");
        return;
    }
    if may_reopen {
        // The name is free once the window is gone, which takes a turn of the main loop.
        tauri::async_runtime::spawn(async move {
            while app.get_webview_window(LABEL).is_some() {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            open(&app);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_for_large_letters_is_whole_on_the_screen() {
        assert_eq!(within(1.0, (1280.0, 800.0)), SIZE);
        assert_eq!(within(2.0, (1280.0, 800.0)), (760.0, 720.0));
        assert_eq!(within(2.0, (1024.0, 600.0)), (760.0, 560.0));
        for room in [(1280.0, 800.0), (800.0, 480.0), (360.0, 300.0)] {
            for letters in [1.0, 1.5, 2.0] {
                let size = within(letters, room);
                let at = between(size, room);
                assert!(at.0 + size.0 <= room.0 && at.1 + size.1 <= room.1);
            }
        }
    }
}
