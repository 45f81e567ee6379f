//! Notices that the file changed, without asking again and again.
//!
//! Whoever saves may write in place, rename over, or remove and write anew, so the directory is
//! watched and not the file; and its directory or a link on the way may be replaced, so they are
//! watched as well ([`super::way`]), and everything anew after each change. What a change means is
//! for [`Loaded::reload`](super::Loaded::reload) to say.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::event::{Event, EventKind, ModifyKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

use super::way::{self, Stop};

/// A watch on one file, which ends when it is dropped.
#[derive(Debug)]
pub struct Watch {
    file: PathBuf,
    changes: mpsc::Receiver<()>,
    sender: mpsc::Sender<()>,
    // Held for its threads; `None` where the platform refused, and then only signals tell.
    _armed: Option<RecommendedWatcher>,
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
        source: notify::Error,
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
        let (sender, changes) = mpsc::channel(1);
        let (armed, error) = match arm(file, &sender) {
            Ok(armed) => (Some(armed), None),
            Err(error) => (None, Some(error)),
        };
        let watch = Self {
            file: file.to_owned(),
            changes,
            sender,
            _armed: armed,
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
        // Without a watcher nothing ever comes; whoever waits here waits beside other things.
        #[cfg(unix)]
        tokio::select! {
            _ = self.changes.recv() => {}
            () = hung_up(&mut self.hangup) => {}
        }
        #[cfg(not(unix))]
        let _ = self.changes.recv().await;
        while let Ok(Some(())) = tokio::time::timeout(SETTLES, self.changes.recv()).await {}
        self.arm_again().await;
    }

    /// Watches what is there now, before it is read: what comes later is noticed.
    async fn arm_again(&mut self) {
        let (file, sender) = (self.file.clone(), self.sender.clone());
        let armed = tokio::task::spawn_blocking(move || arm(&file, &sender)).await;
        match armed {
            Ok(Ok(armed)) => self._armed = Some(armed),
            Ok(Err(error)) => {
                tracing::warn!(%error, "changes of the configuration may need SIGHUP");
            }
            // It panicked; the watch that was armed before may still see something.
            Err(_) => {}
        }
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
fn arm(file: &Path, sender: &mpsc::Sender<()>) -> Result<RecommendedWatcher, WatchError> {
    let mut failed = None;
    for _ in 0..TRIES {
        let stops = way::stops(file).map_err(|source| WatchError::Find {
            file: file.to_owned(),
            source,
        })?;
        match watcher(&stops, sender) {
            // What was replaced before it was watched is looked for once more.
            Ok(watcher) if way::stops(file).is_ok_and(|now| now == stops) => return Ok(watcher),
            Ok(_) => {}
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| WatchError::Find {
        file: file.to_owned(),
        source: io::Error::other("it changes all the time"),
    }))
}

fn watcher(stops: &[Stop], sender: &mpsc::Sender<()>) -> Result<RecommendedWatcher, WatchError> {
    let last = stops.last().map(|stop| stop.directory.clone());
    let last = last.unwrap_or_default();
    let failed = |source| WatchError::Watch {
        directory: last.clone(),
        source,
    };
    let (sender, named) = (sender.clone(), stops.to_vec());
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        if event.is_ok_and(|event| concerns(&event, &named)) {
            // A full channel already says what this would say.
            let _ = sender.try_send(());
        }
    })
    .map_err(failed)?;
    for (at, stop) in stops.iter().enumerate() {
        if stops[..at].iter().any(|it| it.directory == stop.directory) {
            continue;
        }
        let watched = watcher.watch(&stop.directory, RecursiveMode::NonRecursive);
        // One further up may be closed to this user, who can then not replace it either.
        if stop.directory == last {
            watched.map_err(failed)?;
        }
    }
    Ok(watcher)
}

fn concerns(event: &Event, stops: &[Stop]) -> bool {
    let is_moved = match event.kind {
        EventKind::Create(_) | EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)) => {
            true
        }
        EventKind::Modify(_) => false,
        // Reading is no change; and reading the file is what follows a change.
        EventKind::Access(_) => return false,
        EventKind::Any | EventKind::Other => true,
    };
    // What is written matters in the file; of the others only whether they are the same.
    let last = stops.len().saturating_sub(1);
    let looked_at = if is_moved { stops } else { &stops[last..] };
    let is_named = |path: &PathBuf| {
        let name = path.file_name();
        name.is_some_and(|name| looked_at.iter().any(|stop| stop.name == name))
    };
    event.paths.is_empty() || event.paths.iter().any(is_named)
}
