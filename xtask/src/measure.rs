//! Measurements that a person reads: memory pressure, the cost of reading memory, the tray.

use std::process::Command;

use crate::checkout::{self, Checkout};
use crate::error::Error;
use crate::{deps, output, package, panel, process};

/// What memory pressure does to clients, with OneSlot and without. Needs the right to make a
/// control group.
///
/// # Errors
/// What cannot be installed, or a run that failed.
pub(crate) fn pressure(checkout: &Checkout, args: &[String]) -> Result<(), Error> {
    let mut script = script(checkout, "pressure.py")?;
    output::step("The same pressure without OneSlot, then with it");
    script.arg("--model").arg(deps::model(checkout)).args(args);
    process::run(&mut script)
}

/// What reading memory costs the gateway, idle and busy.
///
/// # Errors
/// What cannot be installed, or a run that failed.
pub(crate) fn readings(checkout: &Checkout, args: &[String]) -> Result<(), Error> {
    let mut script = script(checkout, "readings.py")?;
    output::step("The cost of reading memory");
    process::run(script.args(args))
}

/// Size, memory and idle activity of both release programs, each beside its limit; with
/// `open_minutes`, only the memory growth of a panel that is open for so long during requests.
///
/// # Errors
/// What cannot be installed, or a limit that does not hold.
pub(crate) fn tray(checkout: &Checkout, open_minutes: Option<u64>) -> Result<(), Error> {
    deps::install(checkout, &[&deps::TRAY, &deps::PANEL, &deps::TRAY_TESTS])?;
    panel::build(checkout)?;
    let release = package::build(checkout)?;
    output::step("Measuring");
    let mut command = checkout.cargo();
    command
        .args(["test", "--locked", "--package", "oneslot-tray"])
        .args(["--test", "tray", "--", "--ignored", "--nocapture"])
        .env("ONESLOT_MEASURED", release);
    match open_minutes {
        None => command.arg("measure::"),
        Some(minutes) => command
            .arg("measure_open::")
            .env("ONESLOT_OPEN_MIN", minutes.to_string()),
    };
    process::run(&mut command)
}

/// A script of `tests/live/` that measures the release gateway.
fn script(checkout: &Checkout, name: &str) -> Result<Command, Error> {
    deps::install(checkout, &[&deps::MODEL])?;
    output::step("Release build");
    package::build_gateway(checkout)?;
    let mut command = Command::new(deps::python(checkout));
    command
        .arg(checkout.file("tests/live").join(name))
        .arg("--oneslotd")
        .arg(checkout::built("release")?.join("oneslotd"));
    Ok(command)
}
