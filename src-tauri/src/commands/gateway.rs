//! Watching the gateway, and the wishes that its menu has too.

use std::sync::Arc;

use oneslot::scheduler::pause::Running;
use serde::Deserialize;
use tauri::State;
use tauri::ipc::Channel;

use crate::app::App;
use crate::gateway_link::Fault;
use crate::menu_actions;
use crate::subscriptions::Update;
use crate::tray_face::Span;

/// A wish to pause.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(deny_unknown_fields)]
pub struct PauseWish {
    /// How long; the host reckons the end.
    #[cfg_attr(test, ts(type = "\"15m\" | \"1h\" | \"tomorrow\" | \"open\""))]
    span: WishedSpan,
    /// Stop the running answer as well.
    stop: bool,
    /// Unload the model as well.
    unload: bool,
}

#[derive(Debug, Clone, Copy, Deserialize)]
enum WishedSpan {
    #[serde(rename = "15m")]
    Quarter,
    #[serde(rename = "1h")]
    Hour,
    #[serde(rename = "tomorrow")]
    Tomorrow,
    #[serde(rename = "open")]
    Open,
}

#[tauri::command]
pub(super) fn watch(app: State<'_, App>, channel: Channel<Update>) -> u64 {
    app.watches.begin(&app.serving, channel)
}

#[tauri::command]
pub(super) fn unwatch(app: State<'_, App>, watch: u64) {
    app.watches.end(watch);
}

#[tauri::command]
pub(super) async fn pause(app: State<'_, App>, wish: PauseWish) -> Result<(), Fault> {
    let serving = Arc::clone(&app.serving);
    let until = menu_actions::until(wish.span.into(), &jiff::ZonedDateTime::now());
    let running = if wish.stop {
        Running::Stop
    } else {
        Running::Finish
    };
    serving.pause(until, running).await?;
    if wish.unload {
        serving.unload_now().await?;
    }
    Ok(())
}

#[tauri::command]
pub(super) async fn resume(app: State<'_, App>) -> Result<(), Fault> {
    app.serving.resume().await
}

#[tauri::command]
pub(super) async fn check(app: State<'_, App>) -> Result<(), Fault> {
    app.serving.check().await
}

#[tauri::command]
pub(super) async fn unload(app: State<'_, App>) -> Result<Vec<String>, Fault> {
    app.serving.unload().await
}

#[tauri::command]
pub(super) async fn stop(app: State<'_, App>) -> Result<(), Fault> {
    app.serving.stop_answers().await
}

#[tauri::command]
pub(super) async fn cancel(app: State<'_, App>, id: String) -> Result<(), Fault> {
    app.serving.cancel(&id).await
}

impl From<WishedSpan> for Span {
    fn from(span: WishedSpan) -> Self {
        match span {
            WishedSpan::Quarter => Self::Quarter,
            WishedSpan::Hour => Self::Hour,
            WishedSpan::Tomorrow => Self::Tomorrow,
            WishedSpan::Open => Self::Open,
        }
    }
}
