//! Reports that the file changed, without polling.
//!
//! An editor may write in place, rename over the file, or remove it and write it again, so its
//! directory is watched and not the file. A link on the path may be replaced too, so the
//! directories of links are watched as well, and everything again after each change. No directory
//! above is watched: many programs write in the user's configuration directory, and a directory
//! reports itself when it is moved or removed. What a change means is for
//! [`Loaded::reload`](super::Loaded::reload) to say.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use notify::event::{Event, EventKind, ModifyKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

/// A watch on one file, which ends when it is dropped.
#[derive(Debug)]
pub struct Watch {
    file: PathBuf,
    /// `None` where the platform refused; then only SIGHUP causes a reload.
    armed: Option<Armed>,
    #[cfg(unix)]
    hangup: Option<tokio::signal::unix::Signal>,
}

/// Why changes of the file are not noticed.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The path of the file cannot be followed.
    #[error("cannot follow the path of {}", file.display())]
    Follow {
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

/// The watches on directories.
#[derive(Debug)]
struct Armed {
    changes: mpsc::Receiver<()>,
    /// Ends its thread when it is dropped.
    _watcher: RecommendedWatcher,
}

/// An entry that decides which file a path means: a name in a directory that is not a link.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    directory: PathBuf,
    name: OsString,
}

/// A save causes several events; this long after the last of them they are one change.
const SETTLES: Duration = Duration::from_millis(150);

/// The path may change while it is being watched; so often it is followed again.
const TRIES: u32 = 8;

/// More links than this are a circle, as the operating systems see it.
const LINKS: usize = 40;

impl Watch {
    /// Watches `file`, which need not exist, nor its directory.
    ///
    /// A failure is returned beside a watch that still receives SIGHUP (on Unix). Call it inside a
    /// Tokio runtime.
    pub fn start(file: &Path) -> (Self, Option<WatchError>) {
        let (armed, error) = match Armed::on(file) {
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

    /// Waits until the file changed, or SIGHUP asks for it to be read again.
    ///
    /// # Cancel safety
    ///
    /// A change between two calls is kept; one that is settling when the future is dropped is
    /// lost.
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
        match tokio::task::spawn_blocking(move || Armed::on(&file)).await {
            Ok(Ok(armed)) => self.armed = Some(armed),
            Ok(Err(error)) => {
                tracing::warn!(%error, "changes of the configuration may need SIGHUP");
            }
            // It panicked; the watches from before may still see something.
            Err(_) => {}
        }
    }
}

/// A change that a watch sees; without one it never resolves.
async fn seen(armed: &mut Option<Armed>) {
    let change = match armed {
        Some(armed) => armed.changes.recv().await,
        None => None,
    };
    if change.is_none() {
        std::future::pending().await
    }
}

#[cfg(unix)]
async fn hung_up(signal: &mut Option<tokio::signal::unix::Signal>) {
    let received = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if received.is_none() {
        std::future::pending::<()>().await;
    }
}

impl Armed {
    /// Watches the path of `file` as it is now.
    fn on(file: &Path) -> Result<Self, WatchError> {
        let follow = || {
            entries(file).map_err(|source| WatchError::Follow {
                file: file.to_owned(),
                source,
            })
        };
        let mut entries = follow()?;
        let mut armed = Self::watch(&entries);
        for _ in 1..TRIES {
            // What was replaced before it was watched is followed once more.
            let now = follow()?;
            if armed.is_ok() && now == entries {
                break;
            }
            entries = now;
            armed = Self::watch(&entries);
        }
        armed
    }

    fn watch(entries: &[Entry]) -> Result<Self, WatchError> {
        let last = entries.last().map(|entry| entry.directory.clone());
        let last = last.unwrap_or_default();
        let failed = |source| WatchError::Watch {
            directory: last.clone(),
            source,
        };
        let (sender, changes) = mpsc::channel(1);
        let named = entries.to_vec();
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if event.is_ok_and(|event| concerns(&event, &named)) {
                // A full channel already reports a change.
                let _ = sender.try_send(());
            }
        })
        .map_err(failed)?;
        for (at, entry) in entries.iter().enumerate() {
            let directory = &entry.directory;
            if entries
                .iter()
                .take(at)
                .any(|other| other.directory == *directory)
            {
                continue;
            }
            let watched = watcher.watch(directory, RecursiveMode::NonRecursive);
            // The directory of a link may be closed to this user.
            if *directory == last {
                watched.map_err(failed)?;
            }
        }
        Ok(Self {
            changes,
            _watcher: watcher,
        })
    }
}

/// Whether the file may be another, or may have been written to.
fn concerns(event: &Event, entries: &[Entry]) -> bool {
    let is_replaced = match event.kind {
        // Reading is no change; and reading the file is what follows a change.
        EventKind::Access(_) => return false,
        EventKind::Modify(ModifyKind::Name(_))
        | EventKind::Create(_)
        | EventKind::Remove(_)
        | EventKind::Any
        | EventKind::Other => true,
        EventKind::Modify(_) => false,
    };
    // What is written matters in the file itself; links and directories only when replaced.
    let file = entries.len().saturating_sub(1);
    let relevant = entries.get(if is_replaced { 0 } else { file }..);
    let is_relevant = |path: &PathBuf| {
        relevant.unwrap_or_default().iter().any(|entry| {
            path.file_name() == Some(&entry.name) || (is_replaced && *path == entry.directory)
        })
    };
    event.paths.is_empty() || event.paths.iter().any(is_relevant)
}

/// The entries on the path of `file`: the links that are followed, then the file's own or the
/// first that is missing.
///
/// # Errors
///
/// There is no current directory, a link cannot be read, or links form a circle.
fn entries(file: &Path) -> io::Result<Vec<Entry>> {
    let mut at = PathBuf::new();
    let mut ahead = components(&std::path::absolute(file)?);
    let mut links = Vec::new();
    let mut last = None;
    while let Some(component) = ahead.pop() {
        let name = match component.components().next() {
            Some(Component::Normal(name)) => name.to_owned(),
            Some(Component::ParentDir) => {
                at.pop();
                continue;
            }
            Some(Component::RootDir | Component::Prefix(_)) => {
                at.push(component);
                continue;
            }
            Some(Component::CurDir) | None => continue,
        };
        let path = at.join(&name);
        let entry = Entry {
            directory: at.clone(),
            name,
        };
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_symlink() => {
                links.push(entry);
                if links.len() > LINKS {
                    return Err(io::Error::other("its links form a circle"));
                }
                ahead.extend(components(&fs::read_link(&path)?));
            }
            Ok(_) => {
                last = Some(entry);
                at = path;
            }
            Err(_) => {
                last = Some(entry);
                ahead.clear();
            }
        }
    }
    Ok(links.into_iter().chain(last).collect())
}

/// The components of a path, the first one last.
fn components(path: &Path) -> Vec<PathBuf> {
    let components = path
        .components()
        .map(|component| component.as_os_str().into());
    components.rev().collect()
}

#[cfg(test)]
#[path = "tests/watching.rs"]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
