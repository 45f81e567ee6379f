//! What a row of the menu does. Each asks one thing of the gateway, the desktop or the panel.

use std::sync::Arc;

use jiff::{ToSpan as _, ZonedDateTime};
use oneslot::scheduler::pause::Running;
use tauri::AppHandle;

use crate::app::App;
use crate::gateway_link::{Fault, Serving};
use crate::tray_face::{Action, Dialect, Span};
use crate::{autostart, notifications, open_path, panel};

/// The hour at which "tomorrow" begins.
const MORNING: i8 = 8;

/// Does what a row asks for. Returns at once; what takes time goes on beside.
pub fn carry_out(app: &AppHandle, wish: Action) {
    let own = App::of(app);
    let serving = Arc::clone(&own.serving);
    match wish {
        Action::Status | Action::Memory | Action::PauseFor | Action::CopyFor | Action::Line(_) => {}
        Action::Open => panel::open(app),
        Action::Pause(span) => beside(app, "menu.pause", async move {
            serving
                .pause(until(span, &ZonedDateTime::now()), Running::Finish)
                .await
        }),
        Action::Resume => beside(app, "menu.resume", async move { serving.resume().await }),
        Action::Check => beside(app, "menu.check", async move { serving.check().await }),
        Action::Stop => beside(
            app,
            "menu.stop",
            async move { serving.stop_answers().await },
        ),
        Action::Unload => beside(app, "menu.unload", async move {
            serving.unload().await.map(|_| ())
        }),
        Action::Copy(dialect) => told(app, "menu.copy", copy(app, &base_url(&serving, dialect))),
        Action::Login => {
            let starts = autostart::starts(app);
            told(app, "menu.login", autostart::set(app, !starts));
            own.redraw();
        }
        Action::Logs => beside(app, "menu.logs", async move { open_logs(&serving).await }),
        Action::Quit => serving.ask_to_end(),
    }
}

/// The end of a pause that begins `now`, in Unix milliseconds; `None` for one without an end.
pub fn until(span: Span, now: &ZonedDateTime) -> Option<i64> {
    let end = match span {
        Span::Open => return None,
        Span::Quarter => now.checked_add(15.minutes()),
        Span::Hour => now.checked_add(1.hour()),
        Span::Tomorrow => now.tomorrow().and_then(|day| {
            let morning = day.date().at(MORNING, 0, 0, 0);
            morning.to_zoned_datetime(now.time_zone().clone())
        }),
    };
    // A clock beyond all calendars has no end to give: until resumed is the safe reading.
    Some(end.ok()?.timestamp().as_millisecond())
}

/// The base URL for clients of a kind: the first address on loopback.
pub fn base_url(serving: &Serving, dialect: Dialect) -> String {
    let shown = serving.shown();
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
    let put = App::of(app).clipboard.put(text);
    put.map_err(|error| Fault::failed(&error))
}

/// Opens the folder that the logs are in.
///
/// # Errors
/// It is gone, or the desktop has no program for it.
pub async fn open_logs(serving: &Serving) -> Result<(), Fault> {
    open_path::path(serving.log_dir()).await
}

fn beside(
    app: &AppHandle,
    what: &'static str,
    work: impl Future<Output = Result<(), Fault>> + Send + 'static,
) {
    let app = app.clone();
    tauri::async_runtime::spawn(async move { told(&app, what, work.await) });
}

/// A menu that is closed can show no failure: who pressed a row in vain is told by the desktop.
/// `what` is the key of its words.
fn told(app: &AppHandle, what: &str, done: Result<(), Fault>) {
    if let Err(fault) = done {
        tracing::warn!(what, fault = %fault.message, "a row of the menu was not carried out");
        notifications::tell(app, &App::of(app).refusal(what, &fault));
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
        let end = until(Span::Tomorrow, &now).unwrap();
        assert_eq!(end, eight.timestamp().as_millisecond());
        let after = until(Span::Hour, &now).unwrap() - now.timestamp().as_millisecond();
        assert_eq!(after, 3_600_000);
        assert_eq!(until(Span::Open, &now), None, "a person ends it");
    }
}
