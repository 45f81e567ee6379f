//! pressure.

/// How short memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    /// Nothing to do.
    #[default]
    Normal,
    /// Answers get shorter.
    Elevated,
    /// Answers get much shorter.
    High,
    /// Nothing is dispatched.
    Critical,
}
