//! The settings, and where each came from.
//!
//! [`Settings`] is what the other modules read; [`Sources`] is where it comes from; [`MEMBERS`] is
//! the list of everything that can be set.

mod backup;
mod edit;
mod error;
mod explain;
mod file;
mod key;
mod limits;
mod load;
mod presets;
mod schema;
mod settings;
mod values;
mod watch;

pub use edit::{Basis, EditError};
pub use error::{Fault, Location, Notice};
pub use explain::{explain, in_use, markdown};
pub use key::Key;
pub use limits::{Limits, MemoryLimits};
pub use load::{Flag, LoadError, Loaded, Origin, Sources};
pub use schema::{Kind, MEMBERS, Member, find};
pub use settings::{
    Access, Counting, Degrade, Health, Level, Log, Power, Pressure, Queue, Relay, Sensitivity,
    Settings, Timeouts, Trim, Upstream, Window,
};
pub use values::{BaseUrl, Context, Preset, Secret};
pub use watch::{Watch, WatchError};

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
