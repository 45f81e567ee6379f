//! Watches where the library does the platform's part. Its events come from a thread of its own.

use std::io;
use std::path::PathBuf;

use notify::event::{Event, EventKind, ModifyKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

use crate::config::way::Stop;

use super::WatchError;

/// Ends the watches when it is dropped.
#[derive(Debug)]
pub(super) struct Armed {
    changes: mpsc::Receiver<()>,
    // Held for its thread.
    _watcher: RecommendedWatcher,
}

impl Armed {
    /// Watches each directory on the way.
    ///
    /// # Errors
    /// The platform refuses for the last one.
    pub(super) fn on(stops: &[Stop]) -> Result<Self, WatchError> {
        let last = stops.last().map(|stop| stop.directory.clone());
        let last = last.unwrap_or_default();
        let failed = |source| WatchError::Watch {
            directory: last.clone(),
            source: io::Error::other(source),
        };
        let (sender, changes) = mpsc::channel(1);
        let named = stops.to_vec();
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
        Ok(Self {
            changes,
            _watcher: watcher,
        })
    }

    /// Resolves when the file may be another, or have been written to.
    ///
    /// # Cancel safety
    /// May be dropped and called again.
    pub(super) async fn changed(&mut self) {
        if self.changes.recv().await.is_none() {
            std::future::pending().await
        }
    }
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
