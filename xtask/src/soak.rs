//! `cargo xtask soak`: the random traffic of the suite, for as long as a person wants.
//!
//! What it does and holds true is in `tests/gateway/soak.rs`; the suite runs some seconds of it.

use crate::call;
use crate::checkout::Checkout;
use crate::fault::Fault;
use crate::say;

/// How long, in minutes, when nobody says.
pub(crate) const MINUTES: u64 = 20;

/// Runs it for so many minutes.
///
/// # Errors
/// [`Fault::Failed`] when a promise broke; the seed is in what was printed.
pub(crate) fn soak(checkout: &Checkout, minutes: u64) -> Result<(), Fault> {
    say::step(&format!("Soak, {minutes} min"));
    let mut command = checkout.cargo();
    command
        .args(["test", "--package", "oneslot", "--test", "gateway"])
        .args(["--locked", "--", "soak::", "--nocapture"])
        .env("ONESLOT_SOAK_S", (minutes.saturating_mul(60)).to_string());
    call::run(&mut command)
}
