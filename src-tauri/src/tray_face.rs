//! The tray's face: icon, tooltip and menu as a pure function of what is known.
//!
//! It reads no clock and knows no toolkit. The first row and the tooltip are the same words. Not
//! here: how a row is drawn ([`crate::tray`]) and what it does ([`crate::menu_actions`]).

mod menu;
mod seen;
mod status_text;

use oneslot::telemetry::snapshot;

pub use menu::{Action, Dialect, Kind, Row, Span};
pub use seen::{Login, Seen, Whose};
pub use status_text::{DAEMON_GONE, is_daemon_gone, is_port_taken};

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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
