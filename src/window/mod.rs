//! Fitting a chat into the window by a rule one can explain.
//!
//! What may go, goes oldest first and in whole pieces ([`Units`]); what must stay and does not
//! fit is refused, but only by a count that is certain. A [`Fitter`] asks for the counts it
//! needs, so that the caller may get them from the server's own tokenizer.
//!
//! Pure: no clock, no I/O. Not here: the size of the window and the server's counts
//! ([`crate::upstream`]), and what is reserved for the answer ([`crate::degrade`]).

mod count;
mod units;
mod cuts;
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

pub use count::{
    Counting, PER_MEDIUM, PER_MESSAGE, Ratio, estimate, message_cost, outside_cost, surely_fits,
};
pub use cuts::Trim;
pub use fitter::{ByteBound, Certainty, Fit, FitRules, Fitter, Step, fit, fit_by_estimate};
pub use lesson::{Lesson, Sent, cut_silently, relearn};
pub use strict::{TooLong, strict_trim};
pub use units::Units;
