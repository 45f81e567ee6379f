//! The commands that change what the running OneSlot does.

use http::{Method, StatusCode};
use jiff::ZonedDateTime;
use serde_json::json;

use crate::args::{Pause, Place};
use crate::{Failure, client, out, until};

/// `pause`.
pub(crate) fn pause(place: &Place, pause: &Pause) -> Result<(), Failure> {
    let now = ZonedDateTime::now();
    let until = match &pause.until {
        Some(text) => Some(until::parse(text, &now).map_err(Failure::misused)?),
        None => None,
    };
    let body = json!({
        "until_ms": until.as_ref().map(until::Until::unix_ms),
        "stop": pause.stop,
        "unload": pause.unload,
    });
    client::send(
        &place.running()?,
        Method::POST,
        "/oneslot/pause",
        Some(&body),
    )?;
    out::say(&match until {
        Some(until) => format!("paused until {}", until.words(&now)),
        None => "paused until you resume (`oneslotd resume`)".to_owned(),
    });
    Ok(())
}

/// `resume`.
pub(crate) fn resume(place: &Place) -> Result<(), Failure> {
    client::send(&place.running()?, Method::POST, "/oneslot/resume", None)?;
    out::say("resumed");
    Ok(())
}

/// `cancel ID`.
pub(crate) fn cancel(place: &Place, id: &str) -> Result<(), Failure> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if id.is_empty() || !id.bytes().all(is_plain) {
        return Err(Failure::misused(format!(
            "{id:?} is no id; `oneslotd status` shows them"
        )));
    }
    let path = format!("/oneslot/requests/{id}");
    let (status, bytes) = client::exchange(&place.running()?, Method::DELETE, &path, None)?;
    if status == StatusCode::NOT_FOUND {
        return Err(Failure::not_done(format!(
            "no request {id} waits or runs; `oneslotd status` shows those that do"
        )));
    }
    client::answer(status, &bytes)?;
    out::say(&format!("cancelled {id}"));
    Ok(())
}

/// `unload`.
pub(crate) fn unload(place: &Place) -> Result<(), Failure> {
    client::send(&place.running()?, Method::POST, "/oneslot/unload", None)?;
    out::say("unloaded");
    Ok(())
}

/// `check`.
pub(crate) fn check(place: &Place) -> Result<(), Failure> {
    let answer = client::send(&place.running()?, Method::POST, "/oneslot/check", None)?;
    let state = answer
        .pointer("/health/state")
        .or_else(|| answer.get("state"));
    match state.and_then(serde_json::Value::as_str) {
        Some(state) => out::say(&format!("the model server is {state}")),
        None => out::say("looking"),
    }
    Ok(())
}
