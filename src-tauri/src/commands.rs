//! The panel's commands, one per method of its host interface (`ui/src/host/host.ts`). Each parses, asks
//! one thing, and maps the error.

mod desktop;
mod discovery;
mod gateway;
mod settings;

use tauri::Wry;
use tauri::ipc::Invoke;

pub use desktop::{Gateway, Opens, Platform, Shell, TrayState};
pub use discovery::{Found, Proof};
pub use gateway::PauseWish;
pub use settings::{Changed, Kind, ListKind, Member, Origin, SettingsPage, Unit, Value};

/// Hands each command to its function. `build.rs` and the capability name the same ones.
pub fn handler() -> impl Fn(Invoke<Wry>) -> bool + Send + Sync + 'static {
    tauri::generate_handler![
        gateway::watch,
        gateway::unwatch,
        gateway::pause,
        gateway::resume,
        gateway::check,
        gateway::unload,
        gateway::stop,
        gateway::cancel,
        settings::settings,
        settings::change,
        settings::allow,
        settings::another_port,
        discovery::find,
        discovery::prove,
        desktop::shell,
        desktop::change_shell,
        desktop::open,
        desktop::copy,
    ]
}
