//! A Python of our own in the cache, with the model server and the clients at pinned versions.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::stamp;
use crate::call;
use crate::checkout::{self, Checkout};
use crate::fault::Fault;

/// The interpreter in its own environment, made anew when the list of packages or the system's
/// Python has changed.
///
/// # Errors
/// [`Fault::Failed`] when Python or pip says no.
pub(super) fn bring(checkout: &Checkout) -> Result<PathBuf, Fault> {
    let list = checkout.file("tests/live/requirements.txt");
    let version = call::ask(Command::new("python3").arg("--version"))?;
    let made_from = format!("{version}{}", checkout::read(&list)?);
    let home = checkout.cached("venv");
    let python = interpreter(&home);
    let works = python
        .to_str()
        .is_some_and(|python| call::answers(python, &["-c", ""]));
    if works && stamp::matches(&home, &made_from) {
        return Ok(python);
    }
    stamp::remove(&home)?;
    call::run(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
    call::run(
        pip(&python)
            .args(["install", "--quiet", "--requirement"])
            .arg(&list),
    )?;
    stamp::set(&home, &made_from)?;
    Ok(python)
}

/// pip, as the environment has it, without questions or hints.
pub(super) fn pip(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "--no-input", "--disable-pip-version-check"]);
    command
}

fn interpreter(home: &Path) -> PathBuf {
    if cfg!(windows) {
        home.join("Scripts").join("python.exe")
    } else {
        home.join("bin").join("python")
    }
}
