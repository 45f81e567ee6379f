//! Notifications of the desktop. One that cannot be shown is logged: the icon says the same.

mod incidents;

use oneslot::telemetry::message::Message;
use oneslot::telemetry::snapshot::Snapshot;
use tauri::AppHandle;

use crate::i18n::{Language, Words};
use crate::tray_face;

pub use incidents::{Incident, Incidents};

#[cfg(target_os = "linux")]
const NAME: &str = "org.freedesktop.Notifications";
#[cfg(target_os = "linux")]
const PATH: &str = "/org/freedesktop/Notifications";

/// The words of a notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// What happened.
    pub title: String,
    /// What it means.
    pub text: String,
}

impl Notification {
    /// The words for an incident.
    pub fn of_incident(
        incident: Incident,
        snapshot: &Snapshot,
        words: &Words,
        language: Language,
    ) -> Self {
        let server = snapshot.upstream.kind.clone();
        let server = server.unwrap_or_else(|| words.say(language, "some.server", &[]));
        let cause = snapshot.pressure.cause.as_ref();
        let cause = cause.map(|cause| words.message(language, cause));
        let cause = cause.unwrap_or_default();
        let values = [("server", server.as_str()), ("cause", cause.as_str())];
        let text = match incident {
            Incident::NotServing if !tray_face::is_port_taken(snapshot) => "failed",
            Incident::Down | Incident::Memory | Incident::NoServer | Incident::NotServing => "text",
        };
        let say = |part| {
            let key = format!("notify.{}.{part}", incident.key());
            words.say(language, &key, &values)
        };
        Self {
            title: say("title"),
            text: say(text),
        }
    }

    /// The words for a row of the menu that was pressed in vain: the row's, by its key, and why.
    pub fn of_failure(key: &str, reason: &Message, words: &Words, language: Language) -> Self {
        Self {
            title: words.say(language, key, &[]),
            text: words.message(language, reason),
        }
    }

    /// Shows it, without waiting for the desktop.
    pub fn send(self, app: &AppHandle) {
        tracing::info!(title = %self.title, "notification");
        let app = app.clone();
        let sending = std::thread::Builder::new()
            .name("oneslot-notify".to_owned())
            .spawn(move || {
                if let Err(error) = show(&app, &self) {
                    tracing::warn!(error, "notification not shown");
                }
            });
        if let Err(error) = sending {
            tracing::warn!(%error, "notification not sent");
        }
    }
}

/// By the desktop's own interface: the usual crate would bring a second bus library along.
#[cfg(target_os = "linux")]
fn show(_app: &AppHandle, notification: &Notification) -> Result<(), String> {
    use std::collections::HashMap;

    use zbus::blocking::Connection;
    use zbus::zvariant::Value;

    let failed = |error: zbus::Error| error.to_string();
    let bus = Connection::session().map_err(failed)?;
    let reply = bus.call_method(Some(NAME), PATH, Some(NAME), "GetCapabilities", &());
    let can: Vec<String> = reply
        .map_err(failed)?
        .body()
        .deserialize()
        .map_err(failed)?;
    // Where markup is understood, plain words must not be read as such.
    let text = if can.iter().any(|one| one == "body-markup") {
        escaped(&notification.text)
    } else {
        notification.text.clone()
    };
    let hints: HashMap<&str, Value<'_>> = HashMap::from([("desktop-entry", "oneslot".into())]);
    // A list: an array without members has another signature, which no desktop takes.
    let actions: Vec<&str> = Vec::new();
    let arguments = (
        "OneSlot",
        0_u32,
        "oneslot",
        notification.title.as_str(),
        text.as_str(),
        actions,
        hints,
        -1_i32,
    );
    bus.call_method(Some(NAME), PATH, Some(NAME), "Notify", &arguments)
        .map(|_| ())
        .map_err(failed)
}

#[cfg(target_os = "linux")]
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(not(target_os = "linux"))]
fn show(app: &AppHandle, notification: &Notification) -> Result<(), String> {
    use tauri_plugin_notification::NotificationExt as _;

    let builder = app.notification().builder();
    let builder = builder.title(&notification.title).body(&notification.text);
    let shown = builder.show();
    shown.map_err(|error| error.to_string())
}
