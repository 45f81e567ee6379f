//! What a face is made of.

use jiff::tz::TimeZone;
use oneslot::telemetry::snapshot::Snapshot;

use crate::i18n::{Language, Words};

/// Everything that a face is made of.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// What the gateway shows of itself.
    pub snapshot: &'a Snapshot,
    /// Whose gateway it is.
    pub gateway: Whose,
    /// What happens at login.
    pub login: Login,
    /// The words.
    pub words: &'a Words,
    /// The language to say them in.
    pub language: Language,
    /// Where the person's clock stands.
    pub zone: &'a TimeZone,
}

/// Whose gateway is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// This program's own.
    Own,
    /// A running `oneslotd`'s; quitting leaves it running.
    Daemon,
}

/// What happens at login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    /// Nothing.
    Stays,
    /// This program is started, hidden.
    Starts,
}

impl Seen<'_> {
    /// The words for `key`, in the person's language.
    pub(super) fn say(&self, key: &str, places: &[(&str, &str)]) -> String {
        self.words.say(self.language, key, places)
    }
}
