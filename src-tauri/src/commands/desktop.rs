//! What the tray itself knows, keeps and does on the desktop.

use std::path::Path;
use std::sync::Arc;

use oneslot::telemetry::message::Fact;
use serde::{Deserialize, Serialize};
use tauri::{AppHandle, Manager as _, State};

use crate::gateway_link::{Fault, GatewayLink, Reason};
use crate::i18n::{Language, LanguageWish};
use crate::preferences::{NotifySwitches, Preferences, ShellWish};
use crate::tray::Tray;
use crate::tray_face::Whose;
use crate::{autostart, menu_actions, open_path};

/// How to get a place for icons on GNOME, which has none of its own.
const TRAY_HELP: &str = "https://extensions.gnome.org/extension/615/appindicator-support/";
/// No text to copy is longer: a set-up snippet.
const LONGEST_COPY: usize = 64 << 10;

/// What the tray knows and keeps, beside the gateway.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Shell {
    platform: Platform,
    gateway: Gateway,
    tray: TrayState,
    language: Language,
    language_wish: LanguageWish,
    start_at_login: bool,
    notify: NotifySwitches,
    seen_apps: Vec<String>,
}

/// The system.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    /// Linux and its kin.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

/// Whose gateway is shown.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum Gateway {
    /// It runs in this program.
    Own,
    /// This is the face of a running `oneslotd`.
    Daemon,
}

/// Whether the icon can be seen.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum TrayState {
    /// It can.
    Shown,
    /// The desktop has no place for icons.
    None,
}

/// Things that are opened outside of the panel.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Opens {
    /// The folder with the logs.
    Logs,
    /// The settings file.
    Config,
    /// How to get a place for icons.
    TrayHelp,
}

#[tauri::command]
pub(super) fn shell(app: AppHandle) -> Shell {
    read(&app)
}

#[tauri::command]
pub(super) async fn change_shell(app: AppHandle, wish: ShellWish) -> Result<Shell, Fault> {
    if let Some(starts) = wish.start_at_login {
        autostart::set(&app, starts)?;
    }
    let preferences = app.state::<Arc<Preferences>>();
    let changed = preferences.change(&wish);
    changed.map_err(|error| Fault::failed(&error))?;
    app.state::<Tray>().redraw();
    Ok(read(&app))
}

#[tauri::command]
pub(super) async fn open(link: State<'_, Arc<GatewayLink>>, what: Opens) -> Result<(), Fault> {
    match what {
        Opens::Logs => menu_actions::open_logs(&link).await,
        Opens::Config => {
            let file = link.sources().file.clone();
            // Before the first change there is no file, only the place for it.
            let there = if file.exists() {
                Some(file)
            } else {
                file.parent().map(Path::to_owned)
            };
            match there {
                Some(there) => open_path::path(there).await,
                None => Ok(()),
            }
        }
        Opens::TrayHelp => open_path::page(TRAY_HELP).await,
    }
}

#[tauri::command]
pub(super) async fn copy(app: AppHandle, text: String) -> Result<(), Fault> {
    if text.len() > LONGEST_COPY {
        return Err(Fault {
            code: Reason::Refused,
            message: Fact::CopyTooLong.message(),
        });
    }
    menu_actions::copy(&app, &text)
}

fn read(app: &AppHandle) -> Shell {
    let preferences = app.state::<Arc<Preferences>>();
    let kept = preferences.kept();
    let whose = app.state::<Arc<GatewayLink>>().shown().borrow().whose;
    Shell {
        platform: if cfg!(target_os = "macos") {
            Platform::MacOs
        } else if cfg!(windows) {
            Platform::Windows
        } else {
            Platform::Linux
        },
        gateway: match whose {
            Some(Whose::Daemon) => Gateway::Daemon,
            Some(Whose::Own) | None => Gateway::Own,
        },
        tray: if app.state::<Tray>().is_shown() {
            TrayState::Shown
        } else {
            TrayState::None
        },
        language: preferences.language(),
        language_wish: kept.language,
        start_at_login: autostart::starts(app),
        notify: kept.notify,
        seen_apps: kept.seen_apps.into_iter().collect(),
    }
}
