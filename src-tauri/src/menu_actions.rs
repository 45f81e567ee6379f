//! What a row of the menu does. Each asks one thing of the gateway, the desktop or the panel.

use std::sync::Arc;

use jiff::{ToSpan as _, ZonedDateTime};
use oneslot::control_client::PauseRequest;
use tauri::{AppHandle, Manager as _};

use crate::clipboard::Clipboard;
use crate::gateway_link::{Fault, GatewayLink};
use crate::i18n::Words;
use crate::notifications::Notification;
use crate::preferences::Preferences;
use crate::tray::{self, Tray};
use crate::tray_face::{Action, Dialect, Span};
use crate::{autostart, open_path, panel};

/// The hour at which "tomorrow" begins.
const MORNING: i8 = 8;

/// A row was pressed.
pub fn pressed(app: &AppHandle, id: &str) {
    if let Some(action) = tray::action(id) {
        carry_out(app, action);
    }
}

/// Does what a row asks for. Returns at once; what takes time runs in the background.
fn carry_out(app: &AppHandle, action: Action) {
    let link = Arc::clone(&app.state::<Arc<GatewayLink>>());
    match action {
        Action::Status | Action::Memory | Action::PauseFor | Action::CopyFor | Action::Line(_) => {}
        Action::Open => panel::open(app),
        Action::Pause(span) => spawn(app, "menu.pause", async move {
            let until_ms = pause_end(span, &ZonedDateTime::now());
            let pause = PauseRequest {
                until_ms,
                ..PauseRequest::default()
            };
            link.pause(pause).await
        }),
        Action::Resume => spawn(app, "menu.resume", async move { link.resume().await }),
        Action::Check => spawn(app, "menu.check", async move { link.check().await }),
        Action::Stop => spawn(app, "menu.stop", async move { link.stop_answers().await }),
        Action::Unload => spawn(app, "menu.unload", async move {
            link.unload().await.map(|_| ())
        }),
        Action::Copy(dialect) => report(app, "menu.copy", copy(app, &base_url(&link, dialect))),
        Action::Login => {
            let starts = autostart::starts(app);
            report(app, "menu.login", autostart::set(app, !starts));
            app.state::<Tray>().redraw();
        }
        Action::Logs => spawn(app, "menu.logs", async move { open_logs(&link).await }),
        Action::Quit => link.ask_to_end(),
    }
}

/// The end of a pause that begins `now`, in Unix milliseconds; `None` for one without an end.
pub fn pause_end(span: Span, now: &ZonedDateTime) -> Option<i64> {
    let end = match span {
        Span::Open => return None,
        Span::Quarter => now.checked_add(15.minutes()),
        Span::Hour => now.checked_add(1.hour()),
        Span::Tomorrow => now.tomorrow().and_then(|day| {
            let morning = day.date().at(MORNING, 0, 0, 0);
            morning.to_zoned_datetime(now.time_zone().clone())
        }),
    };
    // With a clock beyond all calendars: until resumed is the safe reading.
    Some(end.ok()?.timestamp().as_millisecond())
}

/// The base URL for clients of a kind: the first address on loopback.
fn base_url(link: &GatewayLink, dialect: Dialect) -> String {
    let shown = link.shown();
    let shown = shown.borrow();
    let listen = &shown.snapshot.listen;
    let own = listen.iter().find(|address| address.starts_with("127."));
    let address = own
        .or(listen.first())
        .map_or("127.0.0.1:11411", String::as_str);
    format!("http://{address}{}", dialect.suffix())
}

/// Puts text on the clipboard.
///
/// # Errors
/// The desktop did not take it.
pub fn copy(app: &AppHandle, text: &str) -> Result<(), Fault> {
    let put = app.state::<Clipboard>().put(text);
    put.map_err(|error| Fault::failed(&error))
}

/// Opens the folder that the logs are in.
///
/// # Errors
/// It does not exist, or the desktop has no program for it.
pub async fn open_logs(link: &GatewayLink) -> Result<(), Fault> {
    open_path::path(link.state_path().to_owned()).await
}

fn spawn(
    app: &AppHandle,
    row: &'static str,
    work: impl Future<Output = Result<(), Fault>> + Send + 'static,
) {
    let app = app.clone();
    tauri::async_runtime::spawn(async move { report(&app, row, work.await) });
}

/// A closed menu cannot show a failure, so a notification does. `row` is the key of its words.
fn report(app: &AppHandle, row: &str, done: Result<(), Fault>) {
    if let Err(fault) = done {
        tracing::warn!(row, fault = %fault.message, "menu action failed");
        let language = app.state::<Arc<Preferences>>().language();
        let words = app.state::<Words>();
        Notification::of_failure(row, &fault.message, &words, language).send(app);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn tomorrow_is_eight_in_the_morning_also_over_a_clock_change() {
        let now: ZonedDateTime = "2026-03-28T22:10:00[Europe/Berlin]".parse().unwrap();
        let eight: ZonedDateTime = "2026-03-29T08:00:00[Europe/Berlin]".parse().unwrap();
        let end = pause_end(Span::Tomorrow, &now).unwrap();
        assert_eq!(end, eight.timestamp().as_millisecond());
        let after = pause_end(Span::Hour, &now).unwrap() - now.timestamp().as_millisecond();
        assert_eq!(after, 3_600_000);
        assert_eq!(pause_end(Span::Open, &now), None, "a person ends it");
    }
}
