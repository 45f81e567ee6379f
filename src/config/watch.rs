//! Notices that the file changed, without asking again and again.
//!
//! Whoever saves may write in place, rename over, or remove and write anew, so the directory is
//! watched and not the file. What a change means is for [`Loaded::reload`](super::Loaded::reload)
//! to say.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::event::{Event, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

use crate::state::durable;

/// A watch on one file, which ends when it is dropped.
#[derive(Debug)]
pub struct Watch {
    changes: mpsc::Receiver<()>,
    // Held for its threads; `None` where the platform refused, and then only signals tell.
    _watcher: Option<RecommendedWatcher>,
    #[cfg(unix)]
    hangup: Option<tokio::signal::unix::Signal>,
}

/// Why changes of the file are not noticed by themselves.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The directory could not be made or found.
    #[error("cannot open {}", directory.display())]
    Open {
        /// The directory.
        directory: PathBuf,
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

impl Watch {
    /// Watches `file`, which need not exist; its directory is made if it is missing.
    ///
    /// A failure is returned beside a watch that still hears SIGHUP (on Unix). Call it inside a
    /// Tokio runtime.
    pub fn start(file: &Path) -> (Self, Option<WatchError>) {
        let (sender, changes) = mpsc::channel(1);
        let (watcher, error) = match watcher(file, sender) {
            Ok(watcher) => (Some(watcher), None),
            Err(error) => (None, Some(error)),
        };
        let watch = Self {
            changes,
            _watcher: watcher,
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
        let changed = tokio::select! {
            changed = self.changes.recv() => changed,
            () = hung_up(&mut self.hangup) => return,
        };
        #[cfg(not(unix))]
        let changed = self.changes.recv().await;
        if changed.is_none() {
            // Without a watcher nothing ever comes; whoever waits here waits beside other things.
            #[cfg(unix)]
            hung_up(&mut self.hangup).await;
            #[cfg(not(unix))]
            std::future::pending::<()>().await;
            return;
        }
        while let Ok(Some(())) = tokio::time::timeout(SETTLES, self.changes.recv()).await {}
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

fn watcher(file: &Path, sender: mpsc::Sender<()>) -> Result<RecommendedWatcher, WatchError> {
    let mut places = vec![place(file)?];
    if let Ok(target) = std::fs::canonicalize(file) {
        // A linked file is changed where it really is.
        let target = place(&target)?;
        if !places.contains(&target) {
            places.push(target);
        }
    }
    let directories: Vec<PathBuf> = places
        .iter()
        .map(|(directory, _)| directory.clone())
        .collect();
    let names: Vec<OsString> = places.into_iter().map(|(_, name)| name).collect();
    let first = directories.first().cloned().unwrap_or_default();
    let failed = |directory: &Path, source| WatchError::Watch {
        directory: directory.to_owned(),
        source,
    };
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        if event.is_ok_and(|event| concerns(&event, &names)) {
            // A full channel already says what this would say.
            let _ = sender.try_send(());
        }
    })
    .map_err(|source| failed(&first, source))?;
    for directory in &directories {
        watcher
            .watch(directory, RecursiveMode::NonRecursive)
            .map_err(|source| failed(directory, source))?;
    }
    Ok(watcher)
}

/// The real directory of a file, and its name there.
fn place(file: &Path) -> Result<(PathBuf, OsString), WatchError> {
    let directory = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let opened = durable::private_dir(directory).and_then(|()| std::fs::canonicalize(directory));
    let directory = opened.map_err(|source| WatchError::Open {
        directory: directory.to_owned(),
        source,
    })?;
    Ok((directory, file.file_name().unwrap_or_default().to_owned()))
}

fn concerns(event: &Event, names: &[OsString]) -> bool {
    let kind = match event.kind {
        EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_) => true,
        // Reading is no change; and reading the file is what follows a change.
        EventKind::Access(_) => false,
        EventKind::Any | EventKind::Other => true,
    };
    let is_named = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|n| names.iter().any(|m| m == n))
    };
    kind && (event.paths.is_empty() || event.paths.iter().any(is_named))
}
