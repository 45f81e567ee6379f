//! How short memory is, as one word.
//!
//! Not here: how a level is judged from readings.

/// How short memory is; a later level is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    /// Enough is free.
    #[default]
    Normal,
    /// It is getting tight: answers become shorter.
    Elevated,
    /// It is tight: answers become short.
    High,
    /// Nothing new is started.
    Critical,
}
