//! `cargo xtask measure-tray`: the tray's numbers, on the program as it is shipped.

use crate::call;
use crate::checkout::Checkout;
use crate::fault::Fault;
use crate::{panel, parts, say};

/// Builds what is shipped, and prints its memory, its size and what it does when idle.
///
/// # Errors
/// A part that is missing, or numbers far from what they should be.
pub(crate) fn measure(checkout: &Checkout) -> Result<(), Fault> {
    parts::desktop()?;
    panel::build(checkout)?;
    say::step("The tray's numbers");
    let mut command = checkout.cargo();
    command
        .args(["test", "--release", "--locked", "--package", "oneslot-tray"])
        .args(["--features", "oneslot-tray/shipped", "--test", "tray"])
        .args(["--", "--ignored", "--nocapture", "measure::"]);
    call::run(&mut command)
}
