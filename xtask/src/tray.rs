//! `cargo xtask measure-tray`: the numbers of both programs, as they are shipped.

use crate::call;
use crate::checkout::Checkout;
use crate::fault::Fault;
use crate::{package, panel, parts, say};

/// Which numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// Sizes, memory over opens and closes, what they do when idle, how soon they are there.
    All,
    /// What the panel grows by while it is open before answers that run.
    OpenFor { minutes: u64 },
}

/// Builds what is shipped, and prints its size, its memory, what it does when idle and how soon it
/// is there, each beside what it must be; or only what an open panel grows by. Takes some ten
/// minutes beside the builds: at rest means five minutes after the last request.
///
/// # Errors
/// A part that is missing, or a number that holds still and is more than it must be.
pub(crate) fn measure(checkout: &Checkout, numbers: Numbers) -> Result<(), Fault> {
    parts::desktop()?;
    panel::build(checkout)?;
    let shipped = package::build(checkout)?;
    let mut command = checkout.cargo();
    command
        .args(["test", "--locked", "--package", "oneslot-tray"])
        .args(["--test", "tray", "--", "--ignored", "--nocapture"])
        .env("ONESLOT_MEASURED", shipped);
    match numbers {
        Numbers::All => {
            say::step("The numbers");
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
