//! Other programs: where their scripts are, and signals to them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file of the tests, whichever package they are built into.
pub(crate) fn in_tests(path: &str) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let own = package.join("tests");
    let tests = if own.is_dir() {
        own
    } else {
        package.join("../tests")
    };
    tests.join(path)
}

/// Sends a signal by its short name.
pub(crate) fn signal(pid: u32, name: &str) {
    let _ = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .stderr(Stdio::null())
        .status();
}
