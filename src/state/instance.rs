//! The running gateway, for commands and the tray.
//!
//! Identity is proven by the lock and the token, never by an answer on a port.

use std::fs::{OpenOptions, TryLockError};
use std::io;

use super::lock::read_names;
use super::{ControlToken, HeldBy, StateDir, StateError, regular};

/// A gateway that holds its state directory.
#[derive(Debug)]
pub struct Running {
    /// Who it is; `addresses` is empty while it starts.
    pub names: HeldBy,
    /// The token that controls it.
    pub token: ControlToken,
}

/// Finds the gateway that holds `dir`; `None` if none does.
///
/// # Errors
///
/// [`StateError::Read`] if the directory is there but not readable, [`StateError::Damaged`] if a
/// gateway holds it and its lock file cannot be read.
pub fn read_running(dir: &StateDir) -> Result<Option<Running>, StateError> {
    if !is_held(dir)? {
        return Ok(None);
    }
    let names = read_names(dir)?.ok_or_else(|| StateError::Damaged {
        path: dir.lock_file(),
    })?;
    let path = names.token_file.clone();
    let text = regular::read(&path, regular::KEPT).map_err(|source| StateError::Read {
        path: path.clone(),
        source,
    })?;
    let text = String::from_utf8(text).map_err(|_| StateError::Damaged { path })?;
    Ok(Some(Running {
        names,
        token: ControlToken::read(&text),
    }))
}

fn is_held(dir: &StateDir) -> Result<bool, StateError> {
    let path = dir.guard_file();
    let guard = match regular::open(&path, OpenOptions::new().read(true)) {
        Ok(guard) => guard,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(StateError::Read { path, source }),
    };
    // A shared lock is enough to learn that none holds the exclusive one, and two commands that
    // check at the same moment do not take each other for a gateway.
    match guard.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(source)) => Err(StateError::Read { path, source }),
    }
}
