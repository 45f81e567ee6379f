//! The state directory: files that outlive a request, a crash or the program.
//!
//! Here are its path, its lock, the control token and the deadline of a pause. Settings live in
//! [`config`](crate::config); records and logs are written by their own stages, into this
//! directory.

pub mod durable;
mod lock;
mod pause;
mod permissions;
pub mod regular;
mod instance;

use std::io;
use std::path::{Path, PathBuf};

pub use instance::{Running, read_running};
pub use lock::{ControlToken, HeldBy, Lock, LockError};

/// The state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir {
    path: PathBuf,
    /// Its mode before it was closed to others.
    was_open: Option<u32>,
}

/// Why the state directory or a file in it cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// No home directory is known, so there is no default path.
    #[error("no home directory is known; name a state directory with --state DIR")]
    NoHome,
    /// The directory could not be made, or is not one.
    #[error("cannot use {} as the state directory", path.display())]
    Open {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file in it could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file in it could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file in it has other content than was written.
    #[error("{} is damaged", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

impl StateDir {
    /// The default path on this system: `$XDG_STATE_HOME/oneslot`, `~/Library/Application
    /// Support/OneSlot` or `%LOCALAPPDATA%\OneSlot`. Nothing is created or read.
    ///
    /// # Errors
    ///
    /// [`StateError::NoHome`].
    pub fn usual() -> Result<PathBuf, StateError> {
        let dirs = directories::ProjectDirs::from("", "", "OneSlot").ok_or(StateError::NoHome)?;
        Ok(dirs
            .state_dir()
            .unwrap_or_else(|| dirs.data_local_dir())
            .to_owned())
    }

    /// Opens `path`, and creates it for this user alone if it does not exist.
    ///
    /// An existing directory is closed to other users if it is ours: empty, or with our lock in
    /// it. Any other keeps its mode, since other programs may need it; but one that belongs to
    /// another user, or that every user can write to, is refused.
    ///
    /// # Errors
    ///
    /// [`StateError::Open`].
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, StateError> {
        let mut dir = Self::look(path);
        let made = permissions::prepare(&dir.path, &dir.guard_file());
        dir.was_open = made.map_err(|source| StateError::Open {
            path: dir.path.clone(),
            source,
        })?;
        Ok(dir)
    }

    /// Names `path` without creating anything: for commands that only read.
    pub fn look(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            was_open: None,
        }
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its earlier mode, if it was open to other users and was closed at opening.
    pub fn was_open(&self) -> Option<u32> {
        self.was_open
    }

    /// The last valid configuration.
    pub fn good_config(&self) -> PathBuf {
        self.path.join("config.toml.good")
    }

    /// Where the control token of the running gateway is.
    pub fn token_file(&self) -> PathBuf {
        self.path.join("control.token")
    }

    fn lock_file(&self) -> PathBuf {
        self.path.join("gateway.lock")
    }

    /// The file whose advisory lock proves that a gateway is running. Another file names the
    /// gateway, because on Windows a locked file cannot be read.
    fn guard_file(&self) -> PathBuf {
        self.path.join("gateway.guard")
    }

    fn pause_file(&self) -> PathBuf {
        self.path.join("pause.json")
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
