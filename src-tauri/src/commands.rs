//! The panel's commands, one per method of its door (`ui/src/host/host.ts`). Each parses, asks
//! one thing, and maps the error.

mod desk;
mod look;
mod own;
mod settings;

use tauri::Wry;
use tauri::ipc::Invoke;

pub use desk::PauseWish;
pub use look::{Found, Proof};
pub use own::{Gateway, Opens, Platform, Shell, TrayState};
pub use settings::{Changed, Kind, ListKind, Member, Origin, SettingsPage, Unit, Value};

/// Hands each command to its function. `build.rs` and the capability name the same ones.
pub fn handler() -> impl Fn(Invoke<Wry>) -> bool + Send + Sync + 'static {
    tauri::generate_handler![
        desk::watch,
        desk::unwatch,
        desk::pause,
        desk::resume,
        desk::check,
        desk::unload,
        desk::stop,
        desk::cancel,
        settings::settings,
        settings::change,
        settings::allow,
        settings::another_port,
        look::find,
        look::prove,
        own::shell,
        own::change_shell,
        own::open,
        own::copy,
    ]
}
