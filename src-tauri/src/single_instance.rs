//! One tray for each state directory. A second one asks the first to show its panel, and ends.
//!
//! Who is first is proven by an advisory lock, which ends with its process; the wish goes over a
//! socket beside it, so that neither needs a session bus. On systems without such sockets a
//! second one only ends: there the plugin for single instances carries the wish.

use std::fs::{File, TryLockError};
use std::io;
use std::path::PathBuf;

use oneslot::state::{StateDir, durable};

/// Being the one tray; given up when dropped.
#[derive(Debug)]
pub struct Only {
    _guard: File,
    dir: PathBuf,
}

/// What became of the start.
#[derive(Debug)]
pub enum Start {
    /// This is the one.
    First(Only),
    /// Another one runs, and was asked to show its panel.
    Second(Answer),
}

/// What the one that runs makes of the wish to see its panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It shows it.
    Shown,
    /// It restarts first, and forgets the request.
    Later,
}

/// Why it cannot be known whether this is the one.
#[derive(Debug, thiserror::Error)]
pub enum SingleError {
    /// The lock failed.
    #[error("cannot lock {}", path.display())]
    Lock {
        /// The lock's file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another one runs and does not hear.
    #[error("OneSlot runs already, and does not answer")]
    Ask(#[source] io::Error),
}

/// Becomes the one tray, or asks the one that is to show its panel.
///
/// # Errors
/// [`SingleError`].
pub fn start(state: &StateDir) -> Result<Start, SingleError> {
    let path = state.path().join("tray.guard");
    let failed = |source| SingleError::Lock {
        path: path.clone(),
        source,
    };
    let guard = durable::private()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(failed)?;
    match guard.try_lock() {
        Ok(()) => Ok(Start::First(Only {
            _guard: guard,
            dir: state.path().to_owned(),
        })),
        Err(TryLockError::WouldBlock) => {
            let answer = door::ask(state.path()).map_err(SingleError::Ask)?;
            Ok(Start::Second(answer))
        }
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

impl Only {
    /// Calls `show` for each later start, for as long as the program lives.
    ///
    /// # Errors
    /// The socket or its thread could not be made; later starts then only end.
    pub fn hear(&self, show: impl Fn() -> Answer + Send + 'static) -> io::Result<()> {
        door::hear(&self.dir, show)
    }
}

#[cfg(unix)]
mod door {
    use std::fs;
    use std::io::{self, Read as _, Write as _};
    use std::net::Shutdown;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::{Path, PathBuf};
    use std::thread;
    use std::time::Duration;

    use oneslot::state::durable;

    use super::Answer;

    /// What is said where the panel is not shown; one that shows it says nothing.
    const LATER: &[u8; 5] = b"later";
    /// A first one that says nothing for so long, as earlier versions do, shows it.
    const UNTIL_SAID: Duration = Duration::from_secs(1);
    /// The first one may still be on its way to its socket.
    const TRIES: u32 = 50;
    const BETWEEN_TRIES: Duration = Duration::from_millis(100);

    pub(super) fn ask(dir: &Path) -> io::Result<Answer> {
        let path = socket(dir);
        let mut tries = 0;
        loop {
            match UnixStream::connect(&path) {
                Ok(first) => return Ok(answer(first)),
                Err(error) if tries == TRIES => return Err(error),
                Err(_) => thread::sleep(BETWEEN_TRIES),
            }
            tries += 1;
        }
    }

    fn answer(mut first: UnixStream) -> Answer {
        let mut said = [0; LATER.len()];
        let _ = first.set_read_timeout(Some(UNTIL_SAID));
        match first.read_exact(&mut said) {
            Ok(()) if said == *LATER => Answer::Later,
            Ok(()) | Err(_) => Answer::Shown,
        }
    }

    pub(super) fn hear(dir: &Path, show: impl Fn() -> Answer + Send + 'static) -> io::Result<()> {
        let path = socket(dir);
        // Only the one that holds the lock comes here, so what lies there was left by a crash.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let listener = UnixListener::bind(&path)?;
        // Its folder is closed already; so is what lies in it, whatever the mask was.
        durable::close_file(&path)?;
        thread::Builder::new()
            .name("oneslot-second".to_owned())
            .spawn(move || {
                for mut caller in listener.incoming().flatten() {
                    if show() == Answer::Later {
                        // A caller that left does not need to know.
                        let _ = caller.write_all(LATER);
                    }
                    let _ = caller.shutdown(Shutdown::Write);
                    // The caller's end is waited for, so that a burst of starts is one wish each.
                    let _ = caller.set_read_timeout(Some(BETWEEN_TRIES));
                    let _ = caller.read(&mut [0]);
                }
            })
            .map(|_| ())
    }

    /// The directory is this user's alone, and so is the socket in it.
    fn socket(dir: &Path) -> PathBuf {
        dir.join("tray.sock")
    }
}

#[cfg(not(unix))]
mod door {
    use std::io;
    use std::path::Path;

    use super::Answer;

    pub(super) fn ask(_dir: &Path) -> io::Result<Answer> {
        Ok(Answer::Shown)
    }

    pub(super) fn hear(_dir: &Path, _show: impl Fn() -> Answer + Send + 'static) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_second_start_asks_the_first_and_a_crash_leaves_no_claim() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::open(temp.path()).unwrap();
        std::fs::write(temp.path().join("tray.sock"), "").unwrap();
        let Start::First(only) = start(&state).unwrap() else {
            unreachable!("no other program uses this directory")
        };
        let (told, heard) = mpsc::channel();
        only.hear(move || {
            told.send(()).unwrap();
            Answer::Shown
        })
        .unwrap();
        assert!(
            matches!(start(&state).unwrap(), Start::Second(Answer::Shown)),
            "one runs already"
        );
        let wish = heard.recv_timeout(Duration::from_secs(5));
        assert!(wish.is_ok(), "the first is asked to show its panel");
        drop(only);
        assert!(
            matches!(start(&state).unwrap(), Start::First(_)),
            "the lock ends with the one that held it"
        );
    }
}
