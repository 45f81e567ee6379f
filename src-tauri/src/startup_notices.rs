//! What keeps the gateway from serving before anybody logs: settings that cannot be used also say
//! nothing of how to log. It is told all the same, once, in the log and on standard error.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use oneslot::config::Settings;
use oneslot::telemetry::log::{self, Log};

/// What was told, and the log it was told in.
#[derive(Default)]
pub struct Unlogged(Mutex<Told>);

#[derive(Default)]
struct Told {
    text: String,
    log: Option<Log>,
}

impl Unlogged {
    /// Tells of it, unless it was the last that was told. Where a log was begun by somebody else it
    /// is theirs to tell.
    pub fn tell(&self, text: &str, directory: &Path) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.text == text {
            return;
        }
        if told.log.is_none() {
            if tracing::dispatcher::has_been_set() {
                return;
            }
            told.log = log::init(Settings::default().log.level.name(), directory).ok();
        }
        text.clone_into(&mut told.text);
        if told.log.is_some() {
            tracing::error!(%text, "not serving");
        } else {
            #[expect(clippy::print_stderr, reason = "there is no log to say it in")]
            {
                eprintln!("oneslot: not serving: {text}");
            }
        }
    }
}

impl std::fmt::Debug for Unlogged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unlogged(…)")
    }
}
