//! Reports what keeps the gateway from serving before there is a log: settings that cannot be used
//! do not say how to log either. It is reported once, in the log and on standard error.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use oneslot::config::Settings;
use oneslot::telemetry::log::{self, Log};

/// What was reported last, and the log it was written to.
#[derive(Default)]
pub struct Unlogged(Mutex<Told>);

#[derive(Default)]
struct Told {
    text: String,
    log: Option<Log>,
}

impl Unlogged {
    /// Reports it, unless it was reported last. Where another part has opened the log, that part
    /// reports it.
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
