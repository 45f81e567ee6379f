//! `cargo xtask measure-tray`: the tray's numbers, on the program as it is shipped.

use crate::call;
use crate::checkout::Checkout;
use crate::fault::Fault;
use crate::{panel, parts, say};

/// Which numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// Size, memory over opens and closes, what it does when idle.
    All,
    /// What the panel grows by while it is open before answers that run.
    OpenFor { minutes: u64 },
}

/// Builds what is shipped, and prints its memory, its size and what it does when idle; or only
/// what an open panel grows by.
///
/// # Errors
/// A part that is missing, or numbers far from what they should be.
pub(crate) fn measure(checkout: &Checkout, numbers: Numbers) -> Result<(), Fault> {
    parts::desktop()?;
    panel::build(checkout)?;
    let mut command = checkout.cargo();
    command
        .args(["test", "--release", "--locked", "--package", "oneslot-tray"])
        .args(["--features", "oneslot-tray/shipped", "--test", "tray"])
        .args(["--", "--ignored", "--nocapture"]);
    match numbers {
        Numbers::All => {
            say::step("The tray's numbers");
            command.arg("measure::");
        }
        Numbers::OpenFor { minutes } => {
            say::step(&format!("The panel, open for {minutes} min"));
            command
                .arg("measure_open::")
                .env("ONESLOT_OPEN_MIN", minutes.to_string());
        }
    }
    call::run(&mut command)
}
