//! The commands that change what the running OneSlot does.

use http::{Method, StatusCode};
use jiff::ZonedDateTime;
use oneslot::memory::Size;
use serde_json::{Value, json};

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
    let answer = client::send(
        &place.running()?,
        Method::POST,
        "/oneslot/pause",
        Some(&body),
    )?;
    out::say(&match until {
        Some(until) => format!("paused until {}", until.words(&now)),
        None => "paused until you resume (`oneslotd resume`)".to_owned(),
    });
    let unloaded = &answer["unloaded"];
    if let Some(error) = unloaded["error"].as_str() {
        // Some of it may have been done all the same; what is known is in the error.
        return Err(Failure::not_done(format!("unload: {error}")));
    }
    if unloaded.is_object() {
        out::say(&gone(&unloaded["models"], &unloaded["freed"]));
    }
    Ok(())
}

/// What was unloaded and what that gave back.
fn gone(models: &Value, freed: &Value) -> String {
    let names: Vec<&str> = models.as_array().map_or_else(Vec::new, |models| {
        models.iter().filter_map(Value::as_str).collect()
    });
    if names.is_empty() {
        return "nothing was loaded".to_owned();
    }
    let part = |name: &str, word: &str| {
        let bytes = freed[name].as_u64().filter(|bytes| *bytes > 0)?;
        Some(format!("{} of {word}", Size(bytes)))
    };
    let parts: Vec<String> = [part("ram", "RAM"), part("vram", "VRAM")]
        .into_iter()
        .flatten()
        .collect();
    let names = names.join(", ");
    if parts.is_empty() {
        format!("unloaded {names}; no reading shows how much that freed")
    } else {
        format!("unloaded {names}, which freed {}", parts.join(" and "))
    }
}

/// `resume`.
pub(crate) fn resume(place: &Place) -> Result<(), Failure> {
    let answer = client::send(&place.running()?, Method::POST, "/oneslot/resume", None)?;
    out::say(match answer["resumed"].as_bool() {
        Some(false) => "not paused",
        Some(true) | None => "resumed",
    });
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
    let answer = client::send(&place.running()?, Method::POST, "/oneslot/unload", None)?;
    out::say(&gone(&answer["unloaded"], &answer["freed"]));
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
