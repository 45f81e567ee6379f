//! The tray's face: icon, tooltip and menu as a pure function of what is known.
//!
//! It reads no clock and knows no toolkit. The first row and the tooltip are the same words. Not
//! here: how a row is drawn ([`crate::tray`]) and what it does ([`crate::menu_actions`]).

mod menu;
mod status_text;

use jiff::tz::TimeZone;
use oneslot::telemetry::snapshot::{self, Snapshot};

use crate::i18n::{Language, Words};

pub use menu::{Action, Dialect, Kind, Row, Span};
pub use status_text::{DAEMON_GONE, is_daemon_gone, is_port_taken};

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

/// What the tray shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Face {
    /// The shape of the icon.
    pub icon: snapshot::Face,
    /// The state in words; also the first row.
    pub tooltip: String,
    /// The menu, at most twelve rows.
    pub rows: Vec<Row>,
}

/// The face for what is seen.
pub fn face(seen: &Seen<'_>) -> Face {
    let tooltip = status_text::status(seen);
    Face {
        icon: seen.snapshot.state,
        rows: menu::rows(seen, &tooltip),
        tooltip,
    }
}

/// The file name part of a shape's icon.
pub fn shape(face: snapshot::Face) -> &'static str {
    match face {
        snapshot::Face::Starting => "starting",
        snapshot::Face::Ready => "ready",
        snapshot::Face::Busy => "busy",
        snapshot::Face::Waiting => "waiting",
        snapshot::Face::Degraded => "degraded",
        snapshot::Face::Loading => "loading",
        snapshot::Face::Cooling => "cooling",
        snapshot::Face::Down => "down",
        snapshot::Face::Paused => "paused",
        snapshot::Face::NoServer => "no_server",
        snapshot::Face::NotServing => "not_serving",
    }
}

impl Seen<'_> {
    fn say(&self, key: &str, places: &[(&str, &str)]) -> String {
        self.words.say(self.language, key, places)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
