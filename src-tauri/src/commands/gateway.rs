//! Following the gateway, and the actions that its menu has too.

use std::sync::Arc;

use oneslot::control_client::PauseRequest;
use serde::Deserialize;
use tauri::State;
use tauri::ipc::Channel;

use crate::gateway_link::{Fault, GatewayLink};
use crate::menu_actions;
use crate::subscriptions::{Subscriptions, Update};
use crate::tray_face::Span;

/// A pause that a person asks for.
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

type Link<'a> = State<'a, Arc<GatewayLink>>;

#[tauri::command]
pub(super) fn watch(
    link: Link<'_>,
    subscriptions: State<'_, Subscriptions>,
    channel: Channel<Update>,
) -> u64 {
    subscriptions.begin(&link, channel)
}

#[tauri::command]
pub(super) fn unwatch(subscriptions: State<'_, Subscriptions>, watch: u64) {
    subscriptions.end(watch);
}

#[tauri::command]
pub(super) async fn pause(link: Link<'_>, wish: PauseWish) -> Result<(), Fault> {
    let now = jiff::ZonedDateTime::now();
    let pause = PauseRequest {
        until_ms: menu_actions::pause_end(wish.span.into(), &now),
        stop: wish.stop,
        unload: wish.unload,
    };
    link.pause(pause).await
}

#[tauri::command]
pub(super) async fn resume(link: Link<'_>) -> Result<(), Fault> {
    link.resume().await
}

#[tauri::command]
pub(super) async fn check(link: Link<'_>) -> Result<(), Fault> {
    link.check().await
}

#[tauri::command]
pub(super) async fn unload(link: Link<'_>) -> Result<Vec<String>, Fault> {
    link.unload().await
}

#[tauri::command]
pub(super) async fn stop(link: Link<'_>) -> Result<(), Fault> {
    link.stop_answers().await
}

#[tauri::command]
pub(super) async fn cancel(link: Link<'_>, id: String) -> Result<(), Fault> {
    link.cancel(&id).await
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
