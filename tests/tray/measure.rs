//! Numbers of both programs, each beside what it must be; `cargo xtask measure-tray` runs them on
//! what is shipped. What another program's load changes (times) is told and not judged.

mod headless;
mod numbers;
mod table;
mod tray;

use std::path::PathBuf;
use std::time::Duration;

use super::support::program::BINARY;

/// Names the folder with the programs to measure.
const PROGRAMS: &str = "ONESLOT_MEASURED";
/// After so long without a request the server is asked seldom, and everything is at rest.
const RESTS: Duration = Duration::from_secs(310);
/// What is counted while at rest is counted so long: two of the seldom questions.
const COUNTED: Duration = Duration::from_secs(120);

/// A program to measure: as it is shipped where the folder is named.
pub(super) fn program(name: &str) -> PathBuf {
    match std::env::var_os(PROGRAMS) {
        Some(folder) => PathBuf::from(folder).join(name),
        None => PathBuf::from(BINARY).with_file_name(name),
    }
}

/// Pages of a program that was just written count as private until they are on the disk.
fn settle_disk() {
    let _ = std::process::Command::new("sync").status();
}
