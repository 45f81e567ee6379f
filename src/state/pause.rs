//! The deadline of a pause, kept so that it survives restart, sleep and clock changes.
//!
//! Only the file is here; what a pause does is the desk's business.

use std::fs;
use std::io;

use super::{StateDir, StateError, durable, regular};
use crate::scheduler::pause::Pause;

impl StateDir {
    /// The pause that was kept, also one whose deadline has passed.
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

    /// Keeps `pause`, or forgets the one that was kept.
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
