//! Why a command stopped. Each text says what to do next where something can be done.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// A command's one way to fail.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The words after `cargo xtask` make no sense.
    #[error("{0}\nRun `cargo xtask help` for the commands")]
    Words(String),
    /// A program could not be started at all.
    #[error("could not start `{program}`; is it installed and on the PATH?")]
    Start {
        program: String,
        #[source]
        source: io::Error,
    },
    /// A program ran and said no.
    #[error("`{shown}` failed ({status})")]
    Failed { shown: String, status: ExitStatus },
    /// A program answered something that cannot be read.
    #[error("could not read what `{shown}` printed: {reason}")]
    Answer { shown: String, reason: String },
    /// Something that only the person at the machine can bring.
    #[error("missing: {what}\n  {remedy}")]
    Missing { what: String, remedy: String },
    /// A file or folder could not be read.
    #[error("could not read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file or folder could not be written.
    #[error("could not write {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file of ours has wrong content.
    #[error("{}: {reason}", path.display())]
    Content { path: PathBuf, reason: String },
    /// One or more findings of a check, a line each.
    #[error("{check}:\n  {}", findings.join("\n  "))]
    Findings {
        check: &'static str,
        findings: Vec<String>,
    },
}
