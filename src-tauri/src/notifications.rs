//! Notifications of the desktop. One that cannot be shown is logged: the icon says the same.

use tauri::AppHandle;

use crate::app::Told;

#[cfg(target_os = "linux")]
const NAME: &str = "org.freedesktop.Notifications";
#[cfg(target_os = "linux")]
const PATH: &str = "/org/freedesktop/Notifications";

/// Shows a notification, without waiting for the desktop.
pub fn tell(app: &AppHandle, told: &Told) {
    tracing::info!(title = %told.title, "telling a person");
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

    let said = |error: zbus::Error| error.to_string();
    let bus = Connection::session().map_err(said)?;
    let reply = bus.call_method(Some(NAME), PATH, Some(NAME), "GetCapabilities", &());
    let can: Vec<String> = reply.map_err(said)?.body().deserialize().map_err(said)?;
    // Where markup is understood, plain words must not be read as such.
    let text = if can.iter().any(|one| one == "body-markup") {
        escaped(&told.text)
    } else {
        told.text.clone()
    };
    let hints: HashMap<&str, Value<'_>> = HashMap::from([("desktop-entry", "oneslot".into())]);
    // A list: an array without members has another signature, which no desktop takes.
    let actions: Vec<&str> = Vec::new();
    let told = (
        "OneSlot",
        0_u32,
        "oneslot",
        told.title.as_str(),
        text.as_str(),
        actions,
        hints,
        -1_i32,
    );
    bus.call_method(Some(NAME), PATH, Some(NAME), "Notify", &told)
        .map(|_| ())
        .map_err(said)
}

#[cfg(target_os = "linux")]
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(not(target_os = "linux"))]
fn show(app: &AppHandle, told: &Told) -> Result<(), String> {
    use tauri_plugin_notification::NotificationExt as _;

    let notification = app.notification().builder();
    let shown = notification.title(&told.title).body(&told.text).show();
    shown.map_err(|error| error.to_string())
}
