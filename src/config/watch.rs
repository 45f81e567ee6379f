//! Notices that the file changed, without asking again and again.
//!
//! Whoever saves may write in place, rename over, or remove and write anew, so the directory is
//! watched and not the file; and its directory or a link on the way may be replaced, so they are
//! watched as well ([`super::way`]), and everything anew after each change. On Linux the kernel is
//! asked for no more than that (`inotify`): the directory above is often one in which many
//! programs write. Elsewhere the library asks for everything. What a change means is for
//! [`Loaded::reload`](super::Loaded::reload) to say.

#[cfg_attr(target_os = "linux", path = "watch/kernel.rs")]
#[cfg_attr(not(target_os = "linux"), path = "watch/library.rs")]
mod armed;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use armed::Armed;

use super::way;

/// A watch on one file, which ends when it is dropped.
#[derive(Debug)]
pub struct Watch {
    file: PathBuf,
    /// `None` where the platform refused, and then only signals tell.
    armed: Option<Armed>,
    #[cfg(unix)]
    hangup: Option<tokio::signal::unix::Signal>,
}

/// Why changes of the file are not noticed by themselves.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The way to the file cannot be followed.
    #[error("cannot find the way to {}", file.display())]
    Find {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The platform refused.
    #[error("cannot watch {}", directory.display())]
    Watch {
        /// The directory.
        directory: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A save is several events; this long after the last of them it is one change.
const SETTLES: Duration = Duration::from_millis(150);

/// The way may change while it is being watched; so often it is looked at again.
const TRIES: u32 = 8;

impl Watch {
    /// Watches `file`, which need not exist, nor its directory.
    ///
    /// A failure is returned beside a watch that still hears SIGHUP (on Unix). Call it inside a
    /// Tokio runtime.
    pub fn start(file: &Path) -> (Self, Option<WatchError>) {
        let (armed, error) = match arm(file) {
            Ok(armed) => (Some(armed), None),
            Err(error) => (None, Some(error)),
        };
        let watch = Self {
            file: file.to_owned(),
            armed,
            #[cfg(unix)]
            hangup: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).ok(),
        };
        (watch, error)
    }

    /// Waits until the file changed, or a person asked for it to be read again with SIGHUP.
    ///
    /// # Cancel safety
    ///
    /// A change that is noticed while nobody waits is kept; one whose settling is cut short by
    /// dropping the future is lost.
    pub async fn changed(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            () = seen(&mut self.armed) => {}
            () = hung_up(&mut self.hangup) => {}
        }
        #[cfg(not(unix))]
        seen(&mut self.armed).await;
        while tokio::time::timeout(SETTLES, seen(&mut self.armed))
            .await
            .is_ok()
        {}
        self.arm_again().await;
    }

    /// Watches what is there now, before it is read: what comes later is noticed.
    async fn arm_again(&mut self) {
        let file = self.file.clone();
        let armed = tokio::task::spawn_blocking(move || arm(&file)).await;
        match armed {
            Ok(Ok(armed)) => self.armed = Some(armed),
            Ok(Err(error)) => {
                tracing::warn!(%error, "changes of the configuration may need SIGHUP");
            }
            // It panicked; the watch that was armed before may still see something.
            Err(_) => {}
        }
    }
}

/// A change that a watch sees. Without one nothing ever comes; whoever waits here waits beside
/// other things.
async fn seen(armed: &mut Option<Armed>) {
    match armed {
        Some(armed) => armed.changed().await,
        None => std::future::pending().await,
    }
}

#[cfg(unix)]
async fn hung_up(signal: &mut Option<tokio::signal::unix::Signal>) {
    let heard = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if heard.is_none() {
        std::future::pending::<()>().await;
    }
}

/// Watches the way to `file` as it is now.
fn arm(file: &Path) -> Result<Armed, WatchError> {
    let mut failed = None;
    for _ in 0..TRIES {
        let stops = way::stops(file).map_err(|source| WatchError::Find {
            file: file.to_owned(),
            source,
        })?;
        match Armed::on(&stops) {
            // What was replaced before it was watched is looked for once more.
            Ok(armed) if way::stops(file).is_ok_and(|now| now == stops) => return Ok(armed),
            Ok(_) => {}
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| WatchError::Find {
        file: file.to_owned(),
        source: io::Error::other("it changes all the time"),
    }))
}
