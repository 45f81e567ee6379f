//! When the desktop has a place for icons: at once, later, again after a restart, or never.
//!
//! Without one the panel opens instead and says how to get one. Only Linux desktops come without;
//! there the place is a D-Bus name that comes and goes.

use tauri::{AppHandle, Manager as _};

use crate::tray::{self, Tray};

/// Makes the icon as soon as there is a place for it. `hidden`: no window was requested, so one
/// is shown only if no place comes while a desktop takes to start.
pub fn watch(app: &AppHandle, hidden: bool) {
    #[cfg(target_os = "linux")]
    linux::watch(app, hidden);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = hidden;
        try_make(app);
    }
}

/// Makes the icon on the main thread.
fn try_make(app: &AppHandle) {
    let here = app.clone();
    let sent = app.run_on_main_thread(move || {
        let tray = here.state::<Tray>();
        tray.note_place(true);
        tray::make(&here);
        tray.redraw();
    });
    if let Err(error) = sent {
        tracing::warn!(%error, "no icon is made");
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::thread;
    use std::time::Duration;

    use tauri::{AppHandle, Manager as _};
    use zbus::MatchRule;
    use zbus::blocking::{Connection, MessageIterator, fdo::DBusProxy};
    use zbus::message::Type;

    use super::try_make;
    use crate::panel;
    use crate::tray::Tray;

    const WATCHER: &str = "org.kde.StatusNotifierWatcher";
    /// A person who starts a program looks for it at once; a desktop that starts takes its time.
    const LOOKED_FOR: Duration = Duration::from_millis(1_500);
    const DESKTOP_STARTS: Duration = Duration::from_secs(20);
    /// A host may say that it is there a moment after its watcher is.
    const SETTLES: Duration = Duration::from_millis(200);

    pub(super) fn watch(app: &AppHandle, hidden: bool) {
        let patience = if hidden { DESKTOP_STARTS } else { LOOKED_FOR };
        let waits = app.clone();
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        let follows = app.clone();
        let following = named("oneslot-hosts").spawn(move || {
            if let Err(error) = follow(&follows) {
                tracing::warn!(%error, "cannot hear of places for icons");
            }
        });
        let falling_back = named("oneslot-fallback").spawn(move || {
            thread::sleep(patience);
            if !waits.state::<Tray>().is_shown() {
                panel::open(&waits);
            }
        });
        for started in [following, falling_back] {
            if let Err(error) = started {
                tracing::warn!(%error, "places for icons are not watched");
            }
        }
    }

    /// Follows the bus for as long as it and the program live.
    fn follow(app: &AppHandle) -> zbus::Result<()> {
        let bus = Connection::session()?;
        let names = DBusProxy::new(&bus)?;
        // Subscribed before the first look, so that nothing falls between the two.
        let heard = MessageIterator::from(&bus);
        for rule in rules()? {
            names.add_match_rule(rule)?;
        }
        look(app, &names)?;
        for message in heard {
            let message = message?;
            let header = message.header();
            match header.member().map(|member| member.as_str()) {
                Some("NameOwnerChanged") | Some("StatusNotifierHostRegistered") => {
                    thread::sleep(SETTLES);
                    look(app, &names)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn look(app: &AppHandle, names: &DBusProxy<'_>) -> zbus::Result<()> {
        let has_place = names.name_has_owner(WATCHER.try_into()?)?;
        if has_place {
            try_make(app);
        } else {
            app.state::<Tray>().note_place(false);
        }
        Ok(())
    }

    fn rules() -> zbus::Result<[MatchRule<'static>; 2]> {
        let owner = MatchRule::builder()
            .msg_type(Type::Signal)
            .sender("org.freedesktop.DBus")?
            .member("NameOwnerChanged")?
            .arg(0, WATCHER)?
            .build();
        let host = MatchRule::builder()
            .msg_type(Type::Signal)
            .interface(WATCHER)?
            .member("StatusNotifierHostRegistered")?
            .build();
        Ok([owner, host])
    }
}
