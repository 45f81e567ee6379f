//! Fits a chat into the window by a rule that can be explained.
//!
//! Messages are dropped oldest first and in whole units ([`Units`]). If the part that must stay
//! does not fit, the chat is refused, but only by a count that is certain. A [`Fitter`] asks for
//! the counts it needs, so that the caller can get them from the server's own tokenizer.
//!
//! Pure: no clock, no I/O. Not here: the size of the window and the server's counts
//! ([`crate::upstream`]), and what is reserved for the answer ([`crate::degrade`]).

mod tokens;
mod turns;
mod cut_points;
mod strict;
mod search;
mod fitter;
mod lesson;

#[cfg(test)]
#[expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
mod tests;

pub use crate::config::{Counting, Trim};
pub use fitter::{ByteBound, Certainty, Fit, FitRules, Fitter, Step, fit, fit_by_estimate};
pub use lesson::{Lesson, Sent, cut_silently, relearn};
pub use strict::{TooLong, strict_trim};
pub use tokens::{
    PER_MEDIUM, PER_MESSAGE, Ratio, estimate, message_cost, outside_cost, surely_fits,
};
pub use turns::Units;
