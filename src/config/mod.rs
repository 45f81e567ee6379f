//! What a person may decide, and where each decision came from.
//!
//! [`Settings`] is what the stages read; [`Sources`] is where it comes from; [`MEMBERS`] is the
//! one table of everything that can be set.

mod base_url;
mod settings;
mod presets;
mod value;
mod field;
pub mod members;
mod fault;
mod file;
mod keep;
mod spoken;
mod contradiction;
mod load;
mod key;
mod edit;
mod watch;
mod way;
mod explain;

pub use base_url::BaseUrl;
pub use edit::{Basis, EditError};
pub use explain::{explain, in_use};
pub use fault::{Fault, Notice, Place};
pub use load::{Flag, LoadError, Loaded, Origin, Sources};
pub use members::{MEMBERS, Member, Unit};
pub use settings::{
    Access, Context, Counting, Degrade, Health, Key, Level, Log, Power, Preset, Pressure, Queue,
    Relay, Secret, Settings, Timeouts, Trim, Upstream, Window,
};
pub use value::{Kind, Value};
pub use watch::{Watch, WatchError};

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
