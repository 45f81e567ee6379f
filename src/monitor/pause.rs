//! Pauses and resumes inference so that a restart keeps it.

use std::sync::Arc;

use crate::context::{Context, lock};
use crate::scheduler::Event;
use crate::scheduler::pause::{Pause, Running};
use crate::state::StateError;
use crate::telemetry::message::Fact;

/// The notices of a pause, or of its end, that a restart would undo.
const NOTICES: [&str; 2] = ["pause_unkept", "resume_unkept"];

/// Pauses inference. When it returns, the pause survives a restart, or a notice says why not.
pub async fn pause(context: &Arc<Context>, pause: Pause, running: Running) {
    context.scheduler.send(Event::Paused { pause, running });
    write(context).await;
}

/// Resumes inference. When it returns, a restart does not pause it again, or a notice says why.
/// Returns whether it was paused.
pub async fn resume(context: &Arc<Context>) -> bool {
    let was_paused = context.scheduler.read(|scheduler, _, _| scheduler.pause());
    context.scheduler.send(Event::Resumed);
    write(context).await;
    was_paused.is_some()
}

/// Writes the pause in force, off the runtime's threads.
pub(super) async fn write(context: &Arc<Context>) {
    let context = Arc::clone(context);
    let write = move || {
        let _one_at_a_time = lock(&context.writing_pause);
        let pause = context.scheduler.read(|scheduler, _, _| scheduler.pause());
        let unsaved = context.state.keep_pause(pause).err();
        let fact = unsaved.and_then(|error| report(pause, &error));
        // A notice that still holds stays, since another request may be reading it.
        let holds = fact.clone().map(|fact| fact.message().code);
        for code in NOTICES {
            if holds.as_deref() != Some(code) {
                context.notices.remove(code);
            }
        }
        if let Some(fact) = fact {
            context.notices.add(fact);
        }
    };
    let _ = tokio::task::spawn_blocking(write).await;
}

/// Logs that the change was not saved, and returns what a person has to know.
fn report(pause: Option<Pause>, error: &StateError) -> Option<Fact> {
    let StateError::Write { path, source } = error else {
        tracing::warn!(%error, "a change of the pause will not survive a restart");
        return None;
    };
    let (file, source) = (path.display().to_string(), source.to_string());
    let fact = if pause.is_some() {
        tracing::warn!(%error, cause = source, "the pause will not survive a restart");
        Fact::PauseNotSaved {
            file,
            error: source,
        }
    } else {
        tracing::warn!(%error, cause = source, "the end of the pause will not survive a restart");
        Fact::ResumeNotSaved {
            file,
            error: source,
        }
    };
    Some(fact)
}
