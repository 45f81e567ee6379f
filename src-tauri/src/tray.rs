//! The icon and its menu, drawn from a [`Face`]. Only what differs from what is drawn is touched.
//!
//! A desktop without a place for icons is a normal state: what would be drawn is kept until there
//! is one. Everything here that draws runs on the main thread. Not here: what is drawn
//! ([`crate::tray_face`]), and when a place for icons comes ([`crate::tray_host`]).

mod icons;
mod ids;
mod menu;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tauri::tray::{MouseButton, MouseButtonState, TrayIcon, TrayIconBuilder, TrayIconEvent};
use tauri::{AppHandle, Manager as _, Wry};
use tokio::sync::Notify;

use crate::panel;
use crate::tray_face::{Action, Face};

use menu::Drawn;

/// The icon, where there is a place for one; the toolkit keeps it.
#[derive(Default)]
pub struct Tray {
    /// The latest face that is not drawn yet: faces that come faster than they can be drawn
    /// replace each other.
    wanted: Mutex<Option<Face>>,
    inner: Mutex<Inner>,
    has_place: AtomicBool,
    redraw: Notify,
}

#[derive(Default)]
struct Inner {
    face: Option<Face>,
    icon: Option<TrayIcon<Wry>>,
    menu: Option<Drawn>,
}

impl Tray {
    /// Whether the icon can be seen.
    pub fn is_shown(&self) -> bool {
        self.has_place() && lock(&self.inner).icon.is_some()
    }

    /// Asks for a drawing although the gateway changed nothing.
    pub fn redraw(&self) {
        self.redraw.notify_one();
    }

    /// Resolves when a drawing was asked for.
    pub async fn redraw_asked(&self) {
        self.redraw.notified().await;
    }

    fn has_place(&self) -> bool {
        self.has_place.load(Ordering::Relaxed)
    }

    /// Notes whether the desktop has a place for icons.
    pub fn note_place(&self, has_place: bool) {
        self.has_place.store(has_place, Ordering::Relaxed);
    }
}

/// Draws a face as soon as the main thread can.
pub fn draw(app: &AppHandle, face: Face) {
    let is_pending = lock(&app.state::<Tray>().wanted).replace(face).is_some();
    if is_pending {
        return;
    }
    let here = app.clone();
    let sent = app.run_on_main_thread(move || {
        let tray = here.state::<Tray>();
        let Some(face) = lock(&tray.wanted).take() else {
            return;
        };
        let mut inner = lock(&tray.inner);
        // The place may have come before there was a face to put there.
        let drawn = if inner.icon.is_none() && tray.has_place() {
            inner.face = Some(face.clone());
            inner.make(&here, &face)
        } else {
            inner.show(&here, face)
        };
        if let Err(error) = drawn {
            tracing::warn!(%error, "the icon could not be drawn");
        }
    });
    if sent.is_err() {
        // The program is ending; there is nothing left to draw on.
        lock(&app.state::<Tray>().wanted).take();
    }
}

/// Makes the icon if there is none yet and a face is known; call it on the main thread.
pub fn make(app: &AppHandle) {
    let tray = app.state::<Tray>();
    let mut inner = lock(&tray.inner);
    if inner.icon.is_some() {
        return;
    }
    if let Some(face) = inner.face.clone()
        && let Err(error) = inner.make(app, &face)
    {
        tracing::info!(%error, "no place for an icon yet");
    }
}

/// What the row of that name asks for.
pub fn action(id: &str) -> Option<Action> {
    ids::action(id)
}

/// The icon was clicked: that shows the panel and changes nothing.
pub fn clicked(app: &AppHandle, event: TrayIconEvent) {
    if let TrayIconEvent::Click {
        button: MouseButton::Left,
        button_state: MouseButtonState::Up,
        ..
    } = event
    {
        panel::open(app);
    }
}

impl Inner {
    fn show(&mut self, app: &AppHandle, face: Face) -> tauri::Result<()> {
        let before = self.face.replace(face.clone());
        let (Some(icon), Some(menu)) = (&self.icon, &mut self.menu) else {
            return Ok(());
        };
        let before = before.as_ref();
        if before.map(|face| face.icon) != Some(face.icon) {
            icons::put(icon, face.icon)?;
        }
        if before.map(|face| &face.tooltip) != Some(&face.tooltip) {
            icon.set_tooltip(Some(&face.tooltip))?;
        }
        if !menu.change(&face.rows)? {
            let new = Drawn::new(app, &face.rows)?;
            icon.set_menu(Some(new.menu().clone()))?;
            *menu = new;
        }
        Ok(())
    }

    fn make(&mut self, app: &AppHandle, face: &Face) -> tauri::Result<()> {
        let menu = Drawn::new(app, &face.rows)?;
        let builder = TrayIconBuilder::with_id("oneslot")
            .icon(icons::image(face.icon)?)
            .icon_as_template(true)
            .tooltip(&face.tooltip)
            .menu(menu.menu())
            .show_menu_on_left_click(cfg!(target_os = "macos"));
        // A title stands beside the icon on macOS; elsewhere it names the program.
        #[cfg(target_os = "linux")]
        let builder = builder.title("OneSlot");
        self.icon = Some(builder.build(app)?);
        self.menu = Some(menu);
        Ok(())
    }
}

impl std::fmt::Debug for Tray {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tray(…)")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
