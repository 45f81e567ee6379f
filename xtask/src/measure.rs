//! `cargo xtask pressure` and `cargo xtask readings`: numbers that are looked at, not passed.
//!
//! Both run a program of `tests/live/` against the gateway, built as it is shipped. Linux alone.

use std::process::Command;

use crate::call;
use crate::checkout::Checkout;
use crate::fault::Fault;
use crate::parts;
use crate::run;
use crate::say;

/// What memory pressure does to clients, with OneSlot and without; takes some minutes, and the
/// right to make a group of processes with a limit.
///
/// # Errors
/// A part that is missing, or a run that failed.
pub(crate) fn pressure(checkout: &Checkout, args: &[String]) -> Result<(), Fault> {
    let oneslotd = run::build(checkout, run::Face::Headless, run::Profile::Shipped)?;
    let (python, model) = parts::model_server(checkout)?;
    say::step("The same pressure without OneSlot, then with it");
    let mut command = Command::new(python);
    command
        .arg(checkout.file("tests/live/pressure.py"))
        .arg("--oneslotd")
        .arg(oneslotd)
        .arg("--model")
        .arg(model)
        .args(args);
    call::run(&mut command)
}

/// What reading memory costs the gateway, idle and busy.
///
/// # Errors
/// A part that is missing, or a run that failed.
pub(crate) fn readings(checkout: &Checkout, args: &[String]) -> Result<(), Fault> {
    let oneslotd = run::build(checkout, run::Face::Headless, run::Profile::Shipped)?;
    let (python, _) = parts::model_server(checkout)?;
    say::step("What readings cost");
    let mut command = Command::new(python);
    command
        .arg(checkout.file("tests/live/readings.py"))
        .arg("--oneslotd")
        .arg(oneslotd)
        .args(args);
    call::run(&mut command)
}
