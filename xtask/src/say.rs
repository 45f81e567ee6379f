//! What the commands print: headings, lines and faults, on standard output so that they stay in
//! order with the output of the programs that they start.

use std::error::Error;
use std::io::{self, Write};

use crate::fault::Fault;

/// Announces the next step.
pub(crate) fn step(title: &str) {
    line(&format!("\n== {title}"));
}

/// Prints one line. A closed output is no reason to stop the work.
pub(crate) fn line(text: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Passes on what a program printed, unchanged.
pub(crate) fn bytes(text: &[u8]) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text).and_then(|()| out.flush());
}

/// Prints a fault and the chain of its causes.
pub(crate) fn fault(fault: &Fault) {
    line(&format!("\nxtask: {fault}"));
    let mut cause = fault.source();
    while let Some(inner) = cause {
        line(&format!("  because: {inner}"));
        cause = inner.source();
    }
}
