//! The file with the deadline of a pause, which survives restart, sleep and clock changes.
//!
//! Not here: what a pause does ([`crate::scheduler`]).

use std::fs;
use std::io;

use super::{StateDir, StateError, durable, regular};
use crate::scheduler::pause::Pause;

impl StateDir {
    /// The pause in the file, also one whose deadline has passed.
    ///
    /// # Errors
    ///
    /// [`StateError::Read`] or [`StateError::Damaged`].
    pub fn pause(&self) -> Result<Option<Pause>, StateError> {
        let path = self.pause_file();
        match regular::read(&path, regular::KEPT) {
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(pause) => Ok(Some(pause)),
                Err(_) => Err(StateError::Damaged { path }),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StateError::Read { path, source }),
        }
    }

    /// Writes `pause`, or removes the file.
    ///
    /// # Errors
    ///
    /// [`StateError::Write`].
    pub fn keep_pause(&self, pause: Option<Pause>) -> Result<(), StateError> {
        let path = self.pause_file();
        let kept = match pause {
            Some(pause) => serde_json::to_vec(&pause)
                .map_err(io::Error::from)
                .and_then(|text| durable::write(&path, &text)),
            None => match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                Ok(()) | Err(_) => Ok(()),
            },
        };
        kept.map_err(|source| StateError::Write { path, source })
    }
}
