//! What a person may decide, and where each decision came from.

mod base_url;
mod settings;

pub use base_url::{BaseUrl, Root};
pub use settings::{
    Access, Context, Counting, Degrade, Format, Health, Key, Level, Log, Preset, Pressure, Queue,
    Relay, Secret, Settings, Timeouts, Trim, Upstream, Window,
};
