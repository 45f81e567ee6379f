//! Notifications of the desktop. One that cannot be shown is logged: the icon says the same.

use tauri::AppHandle;

use crate::app::Told;

/// Shows a notification, without waiting for the desktop.
pub fn tell(app: &AppHandle, told: &Told) {
    tracing::info!(title = %told.title, "telling of an incident");
    let (app, told) = (app.clone(), told.clone());
    let telling = std::thread::Builder::new()
        .name("oneslot-notify".to_owned())
        .spawn(move || {
            if let Err(error) = show(&app, &told) {
                tracing::warn!(error, "the desktop shows no notification");
            }
        });
    if let Err(error) = telling {
        tracing::warn!(%error, "the desktop is not asked for a notification");
    }
}

/// By the desktop's own interface: the usual crate would bring a second bus library along.
#[cfg(target_os = "linux")]
fn show(_app: &AppHandle, told: &Told) -> Result<(), String> {
    use std::collections::HashMap;

    use zbus::blocking::Connection;
    use zbus::zvariant::Value;

    let bus = Connection::session().map_err(|error| error.to_string())?;
    let hints: HashMap<&str, Value<'_>> = HashMap::from([("desktop-entry", "oneslot".into())]);
    let actions: [&str; 0] = [];
    let told = (
        "OneSlot",
        0_u32,
        "oneslot",
        told.title.as_str(),
        told.text.as_str(),
        actions,
        hints,
        -1_i32,
    );
    let name = "org.freedesktop.Notifications";
    bus.call_method(
        Some(name),
        "/org/freedesktop/Notifications",
        Some(name),
        "Notify",
        &told,
    )
    .map(|_| ())
    .map_err(|error| error.to_string())
}

#[cfg(not(target_os = "linux"))]
fn show(app: &AppHandle, told: &Told) -> Result<(), String> {
    use tauri_plugin_notification::NotificationExt as _;

    let notification = app.notification().builder();
    let shown = notification.title(&told.title).body(&told.text).show();
    shown.map_err(|error| error.to_string())
}
