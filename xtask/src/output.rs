//! What the commands print, all on standard output so that it stays in order with the output of
//! the programs that they start.

use std::error::Error as _;
use std::io::{self, Write};

use crate::error::Error;

/// Announces the next step.
pub(crate) fn step(title: &str) {
    line(&format!("\n== {title}"));
}

/// Prints one line. A closed output does not stop the work.
pub(crate) fn line(text: &str) {
    bytes(format!("{text}\n").as_bytes());
}

/// Passes on what a program printed, unchanged.
pub(crate) fn bytes(text: &[u8]) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text).and_then(|()| out.flush());
}

/// Prints an error and its causes.
pub(crate) fn error(error: &Error) {
    line(&format!("\nxtask: {error}"));
    let mut cause = error.source();
    while let Some(inner) = cause {
        line(&format!("  because: {inner}"));
        cause = inner.source();
    }
}
