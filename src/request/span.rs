//! Places in a body, kinds of values, and why a body cannot be read.

use std::ops::Range;

use thiserror::Error;

/// Containers that may be open at once.
pub(super) const MAX_DEPTH: u32 = 128;

/// Where a value stands in the body, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
}

/// What a value is, told by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    String,
    Number,
    True,
    False,
    Null,
    /// No value begins with this byte; reading it fails.
    Nothing,
}

/// Why a body is not JSON this program reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum ScanError {
    #[error("the body is not valid UTF-8 at byte {at}")]
    Encoding { at: usize },
    #[error("the body is not valid JSON at byte {at}")]
    Syntax { at: usize },
    #[error("the body is nested deeper than {MAX_DEPTH} levels at byte {at}")]
    Depth { at: usize },
}

// --- Span ---

impl Span {
    /// The same place as an index range.
    pub(super) fn range(self) -> Range<usize> {
        self.start..self.end
    }

    /// A string without its quotes.
    pub(super) fn inner(self) -> Range<usize> {
        self.start + 1..self.end - 1
    }
}
