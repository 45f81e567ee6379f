//! One gateway per state directory: the lock that says so, and the token that controls it.
//!
//! The operating system's advisory lock, which ends with its process, proves the holder; a file left
//! by a crash proves nothing and is replaced.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{StateDir, StateError, durable, regular};

/// The right to serve with a state directory, held until it is dropped.
#[derive(Debug)]
pub struct Lock {
    dir: StateDir,
    token: ControlToken,
    named: HeldBy,
    // Dropped last: the lock file is removed first, so that it is never read without a lock.
    _guard: File,
}

/// The program that holds a state directory, as its lock file names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldBy {
    /// The program's name, `oneslotd` or `oneslot`.
    pub program: String,
    /// Its version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Base URLs it serves on; empty until it does.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// Where its control token is.
    pub token_file: PathBuf,
}

/// The secret of one run that allows to control it: 256 bits, in hexadecimal.
#[derive(Clone)]
pub struct ControlToken(String);

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another gateway holds it; its name is unknown while it starts.
    #[error("{} is held by {}", dir.display(), by.as_ref().map_or_else(|| "another OneSlot that is starting".to_owned(), ToString::to_string))]
    Held {
        /// The state directory.
        dir: PathBuf,
        /// The holder.
        by: Option<Box<HeldBy>>,
    },
    /// No random bytes for the control token.
    #[error("the system gave no random bytes for the control token")]
    Random(#[source] getrandom::Error),
    /// A file in the state directory failed.
    #[error(transparent)]
    State(#[from] StateError),
}

/// A command that checks the lock holds it for an instant, so a held lock is tried again.
const TRIES: u32 = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

impl Lock {
    /// Takes the lock for `program`, creates this run's control token and writes both to files.
    ///
    /// # Errors
    ///
    /// [`LockError::Held`] if another gateway runs with this directory; otherwise what failed.
    pub fn acquire(dir: &StateDir, program: &str) -> Result<Self, LockError> {
        let Some(guard) = take(dir)? else {
            let by = read_names(dir)?.map(Box::new);
            return Err(LockError::Held {
                dir: dir.path().to_owned(),
                by,
            });
        };
        let token = ControlToken::fresh().map_err(LockError::Random)?;
        let path = dir.token_file();
        // Both are valid for this run only: the start does not wait for the disk.
        durable::write_for_this_run(&path, token.0.as_bytes()).map_err(|source| {
            StateError::Write {
                path: path.clone(),
                source,
            }
        })?;
        let named = HeldBy {
            program: program.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            addresses: Vec::new(),
            token_file: path,
        };
        let lock = Self {
            dir: dir.clone(),
            token,
            named,
            _guard: guard,
        };
        lock.write_names()?;
        Ok(lock)
    }

    /// Writes the base URLs served on, in place of earlier ones.
    ///
    /// # Errors
    ///
    /// [`StateError::Write`].
    pub fn publish(&mut self, addresses: Vec<String>) -> Result<(), StateError> {
        self.named.addresses = addresses;
        self.write_names()
    }

    /// The token that controls this run.
    pub fn token(&self) -> &ControlToken {
        &self.token
    }

    /// The state directory it locks.
    pub fn dir(&self) -> &StateDir {
        &self.dir
    }

    fn write_names(&self) -> Result<(), StateError> {
        let path = self.dir.lock_file();
        serde_json::to_vec_pretty(&self.named)
            .map_err(std::io::Error::from)
            .and_then(|text| durable::write_for_this_run(&path, &text))
            .map_err(|source| StateError::Write { path, source })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A file that cannot be removed is harmless: without the lock it proves nothing.
        let _ = fs::remove_file(self.dir.lock_file());
        let _ = fs::remove_file(self.dir.token_file());
    }
}

impl ControlToken {
    fn fresh() -> Result<Self, getrandom::Error> {
        let mut bytes = [0_u8; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(
            bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        ))
    }

    pub(super) fn read(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// Whether `given` is this token; takes the same time wherever the two differ.
    pub fn matches(&self, given: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), given.as_bytes());
        own.len() == given.len() && own.iter().zip(given).fold(0, |all, (a, b)| all | (a ^ b)) == 0
    }

    /// Its hash, to recognise it where it must not be forwarded.
    pub fn sha256(&self) -> [u8; 32] {
        Sha256::digest(&self.0).into()
    }

    /// The token itself: only for the header that carries it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ControlToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ControlToken(…)")
    }
}

impl fmt::Display for HeldBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            program,
            version,
            pid,
            addresses,
            token_file: _,
        } = self;
        write!(f, "{program} {version} (process {pid})")?;
        match addresses.first() {
            Some(address) => write!(f, ", which serves {address}"),
            None => f.write_str(", which does not serve yet"),
        }
    }
}

/// Takes the advisory lock; `None` if it is held.
fn take(dir: &StateDir) -> Result<Option<File>, StateError> {
    let path = dir.guard_file();
    let guard = durable::open_lock(&path).map_err(|source| StateError::Write {
        path: path.clone(),
        source,
    })?;
    for attempt in 0..TRIES {
        match guard.try_lock() {
            Ok(()) => return Ok(Some(guard)),
            Err(TryLockError::WouldBlock) if attempt + 1 < TRIES => thread::sleep(BETWEEN_TRIES),
            Err(TryLockError::WouldBlock) => break,
            Err(TryLockError::Error(source)) => return Err(StateError::Write { path, source }),
        }
    }
    Ok(None)
}

/// Reads the lock file, whether or not the lock is held.
pub(super) fn read_names(dir: &StateDir) -> Result<Option<HeldBy>, StateError> {
    let path = dir.lock_file();
    match regular::read(&path, regular::KEPT) {
        Ok(text) => Ok(serde_json::from_slice(&text).ok()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StateError::Read { path, source }),
    }
}
