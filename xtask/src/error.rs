//! Why a command stopped, with what to do next where something can be done.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// The one error of all commands.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A program could not be started.
    #[error("could not start `{program}`; is it installed and on the PATH?")]
    Start {
        program: String,
        #[source]
        source: io::Error,
    },
    /// A program ended with a failure.
    #[error("`{shown}` failed ({status})")]
    Failed { shown: String, status: ExitStatus },
    /// A program printed something unexpected.
    #[error("could not read what `{shown}` printed: {reason}")]
    Output { shown: String, reason: String },
    /// Something that only the user can install.
    #[error("missing: {what}\n  {remedy}")]
    Missing { what: String, remedy: String },
    /// The tray's dependencies are missing, the gateway's may not be.
    #[error(
        "cannot build the tray here; `cargo xtask run --headless` serves without it and needs \
         neither Node nor web libraries"
    )]
    Tray {
        #[source]
        source: Box<Error>,
    },
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
    /// A file has unexpected content.
    #[error("{}: {reason}", path.display())]
    Content { path: PathBuf, reason: String },
}

impl Error {
    /// For `map_err` on an operation that reads `path`.
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        |source| Self::Read { path, source }
    }

    /// For `map_err` on an operation that writes `path`.
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        |source| Self::Write { path, source }
    }
}
