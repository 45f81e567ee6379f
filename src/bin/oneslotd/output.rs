//! The one place that prints: answers to standard output, everything else to standard error.

use std::io::{self, Write as _};

/// Prints one answer.
///
/// # Errors
///
/// The reader closed the pipe: a command that keeps printing stops then.
pub(crate) fn line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", text.trim_end())?;
    out.flush()
}

/// Prints one answer of a command that ends after it, whether or not it is read.
pub(crate) fn say(text: &str) {
    let _ = line(text);
}

/// Tells the person something that is not the answer.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", text.trim_end());
}

/// Tells the person why something was not done.
pub(crate) fn complain(text: &str) {
    tell(&format!("oneslotd: {text}"));
}
