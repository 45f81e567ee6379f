//! The commands that change what the running OneSlot does.

use jiff::ZonedDateTime;
use oneslot::control_client::{ControlClient, ControlError, PauseRequest, PauseUnload, Unloaded};
use oneslot::memory::Size;
use oneslot::telemetry::message::Message;
use serde::Deserialize as _;
use serde_json::Value;

use crate::args::{Paths, Pause};
use crate::{Failure, duration, output};

/// Runs `work` on a runtime of its own.
///
/// # Errors
/// There is no runtime.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    Ok(runtime.map_err(|error| Failure::of(&error))?.block_on(work))
}

/// Runs one exchange with the running OneSlot.
///
/// # Errors
/// There is no runtime, or the gateway was not reached, or refused.
pub(crate) fn ask<T>(work: impl Future<Output = Result<T, ControlError>>) -> Result<T, Failure> {
    block_on(work)?.map_err(|error| Failure::of(&error))
}

/// `pause`.
pub(crate) fn pause(paths: &Paths, pause: &Pause) -> Result<(), Failure> {
    let now = ZonedDateTime::now();
    let until = match &pause.until {
        Some(text) => Some(duration::parse(text, &now).map_err(Failure::misused)?),
        None => None,
    };
    let request = PauseRequest {
        until_ms: until.as_ref().map(duration::Until::unix_ms),
        stop: pause.stop,
        unload: pause.unload,
    };
    let unloaded = ask(paths.running()?.pause(request))?;
    output::say(&match until {
        Some(until) => format!("paused until {}", until.words(&now)),
        None => "paused until you resume (`oneslotd resume`)".to_owned(),
    });
    match unloaded {
        None => Ok(()),
        Some(PauseUnload::Done(unloaded)) => {
            output::say(&report(&unloaded));
            Ok(())
        }
        // Some models may be unloaded all the same; what is known is in the error.
        Some(PauseUnload::Failed { error }) => Err(Failure::not_done(format!("unload: {error}"))),
    }
}

/// What was unloaded and what that freed.
fn report(unloaded: &Unloaded) -> String {
    if unloaded.models.is_empty() {
        return "nothing was loaded".to_owned();
    }
    let part = |bytes: Option<u64>, word: &str| {
        let bytes = bytes.filter(|bytes| *bytes > 0)?;
        Some(format!("{} of {word}", Size(bytes)))
    };
    let freed = &unloaded.freed;
    let parts = [part(freed.ram, "RAM"), part(freed.vram, "VRAM")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let names = unloaded.models.join(", ");
    if parts.is_empty() {
        format!("unloaded {names}; no reading shows how much that freed")
    } else {
        format!("unloaded {names}, which freed {}", parts.join(" and "))
    }
}

/// `resume`.
pub(crate) fn resume(paths: &Paths) -> Result<(), Failure> {
    let was_paused = ask(paths.running()?.resume())?;
    output::say(if was_paused { "resumed" } else { "not paused" });
    Ok(())
}

/// `cancel ID`.
pub(crate) fn cancel(paths: &Paths, id: &str) -> Result<(), Failure> {
    if !ControlClient::is_request_id(id) {
        return Err(Failure::misused(format!(
            "{id:?} is no id; `oneslotd status` shows them"
        )));
    }
    let client = paths.running()?;
    match block_on(client.cancel(id))? {
        Ok(()) => output::say(&format!("cancelled {id}")),
        Err(error) if error.is_not_found() => {
            return Err(Failure::not_done(format!(
                "no request {id} waits or runs; `oneslotd status` shows those that do"
            )));
        }
        Err(error) => return Err(Failure::of(&error)),
    }
    Ok(())
}

/// `unload`.
pub(crate) fn unload(paths: &Paths) -> Result<(), Failure> {
    output::say(&report(&ask(paths.running()?.unload())?));
    Ok(())
}

/// `check`. It fails if the model server is down, so that a script can wait for it.
pub(crate) fn check(paths: &Paths) -> Result<(), Failure> {
    let snapshot: Value = ask(paths.running()?.check())?;
    let state = snapshot.pointer("/health/state").and_then(Value::as_str);
    let state = state.unwrap_or("unknown");
    if state != "down" {
        output::say(&format!("the model server is {state}"));
        return Ok(());
    }
    let error = snapshot.pointer("/health/last_error");
    let error = error.and_then(|error| Message::deserialize(error).ok());
    let cause = error.map_or_else(String::new, |error| format!(": {error}"));
    Err(Failure::not_done(format!(
        "the model server is down{cause}; `oneslotd doctor` says what to do"
    )))
}
