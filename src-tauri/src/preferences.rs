//! What the tray itself keeps, beside the gateway's settings: language, notifications, and which
//! apps ever called. It lies in the state directory and means nothing to a gateway without a tray.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use oneslot::state::{StateDir, durable, regular};
use oneslot::telemetry::snapshot::Snapshot;
use serde::{Deserialize, Serialize};

use crate::i18n::{Language, LanguageWish};

/// Apps that are remembered; names come from callers.
const APPS: usize = 200;

/// What is kept, and where.
#[derive(Debug)]
pub struct Preferences {
    path: PathBuf,
    kept: Mutex<Kept>,
}

/// What is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Kept {
    /// The language asked for.
    pub language: LanguageWish,
    /// Which incidents are reported.
    pub notify: NotifySwitches,
    /// Apps that ever called, by the names that records use.
    pub seen_apps: BTreeSet<String>,
}

/// One switch per kind of lasting incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(default)]
pub struct NotifySwitches {
    /// The model server stopped answering.
    pub down: bool,
    /// Memory is short.
    pub memory: bool,
    /// No model server was found.
    pub no_server: bool,
    /// The gateway does not serve.
    pub not_serving: bool,
}

/// A change of what is kept; absent members stay.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(test, ts(optional_fields))]
pub struct ShellWish {
    /// The language.
    pub language_wish: Option<LanguageWish>,
    /// Whether to start at login.
    pub start_at_login: Option<bool>,
    /// Which incidents are reported.
    pub notify: Option<NotifyWish>,
}

/// A change of the switches; absent members stay.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(test, ts(optional_fields))]
pub struct NotifyWish {
    /// The model server stopped answering.
    pub down: Option<bool>,
    /// Memory is short.
    pub memory: Option<bool>,
    /// No model server was found.
    pub no_server: Option<bool>,
    /// The gateway does not serve.
    pub not_serving: Option<bool>,
}

impl Default for NotifySwitches {
    fn default() -> Self {
        Self {
            down: true,
            memory: true,
            no_server: true,
            not_serving: true,
        }
    }
}

impl Preferences {
    /// What was kept in `state`; the defaults where nothing was, or nothing that can be read. What
    /// cannot be read is copied aside, since the next change replaces it.
    pub fn open(state: &StateDir) -> Self {
        let path = state.path().join("tray.json");
        let kept = read(&path).unwrap_or_else(|fault| {
            if fault.is_damage() {
                let aside = durable::keep_aside(&path, jiff::Timestamp::now());
                tracing::warn!(?aside, %fault, "what the tray kept cannot be read");
            }
            Kept::default()
        });
        Self {
            path,
            kept: Mutex::new(kept),
        }
    }

    /// What is kept now.
    pub fn kept(&self) -> Kept {
        self.lock().clone()
    }

    /// The language to say things in.
    pub fn language(&self) -> Language {
        let wish = self.lock().language;
        wish.language(sys_locale::get_locale().as_deref())
    }

    /// Changes what is kept, and writes it down.
    ///
    /// # Errors
    /// It could not be written; it holds until the program ends.
    pub fn change(&self, wish: &ShellWish) -> std::io::Result<()> {
        let mut kept = self.lock();
        if let Some(language) = wish.language_wish {
            kept.language = language;
        }
        if let Some(notify) = wish.notify {
            kept.notify = notify.over(kept.notify);
        }
        write(&self.path, &kept)
    }

    /// Remembers the apps in a snapshot. Gives whether there are new ones.
    pub fn note_apps(&self, snapshot: &Snapshot) -> bool {
        let waiting = snapshot
            .queue
            .items
            .iter()
            .filter_map(|one| one.app.as_ref());
        let ended = snapshot.recent.iter().filter_map(|one| one.app.as_ref());
        let mut kept = self.lock();
        let before = kept.seen_apps.len();
        for app in waiting.chain(ended) {
            if kept.seen_apps.len() < APPS && !kept.seen_apps.contains(app) {
                kept.seen_apps.insert(app.clone());
            }
        }
        kept.seen_apps.len() > before
    }

    /// Writes down what is kept.
    ///
    /// # Errors
    /// Whatever the file system said.
    pub fn keep(&self) -> std::io::Result<()> {
        write(&self.path, &self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NotifyWish {
    fn over(self, switches: NotifySwitches) -> NotifySwitches {
        NotifySwitches {
            down: self.down.unwrap_or(switches.down),
            memory: self.memory.unwrap_or(switches.memory),
            no_server: self.no_server.unwrap_or(switches.no_server),
            not_serving: self.not_serving.unwrap_or(switches.not_serving),
        }
    }
}

/// Why nothing that was kept can be had.
#[derive(Debug, thiserror::Error)]
enum Unread {
    #[error("it cannot be read: {0}")]
    Read(#[from] std::io::Error),
    #[error("it is damaged: {0}")]
    Parse(#[from] serde_json::Error),
}

impl Unread {
    /// Whether there is something that a person may want to look at.
    fn is_damage(&self) -> bool {
        match self {
            Self::Read(error) => error.kind() != std::io::ErrorKind::NotFound,
            Self::Parse(_) => true,
        }
    }
}

fn read(path: &Path) -> Result<Kept, Unread> {
    Ok(serde_json::from_slice(&regular::read(
        path,
        regular::KEPT,
    )?)?)
}

fn write(path: &Path, kept: &Kept) -> std::io::Result<()> {
    match regular::read(path, regular::KEPT) {
        // Its content is unknown, and it could not be kept aside.
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        Ok(_) | Err(_) => {}
    }
    let text = serde_json::to_vec_pretty(kept).map_err(std::io::Error::from)?;
    durable::write(path, &text)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use oneslot::telemetry::snapshot::{Item, Queue};

    use super::*;

    #[test]
    fn what_is_kept_is_there_after_a_restart_and_a_damaged_file_is_not_fatal() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::open(temp.path()).unwrap();
        let shell = Preferences::open(&state);
        let wish =
            serde_json::from_str(r#"{"language_wish": "zh-CN", "notify": {"memory": false}}"#);
        shell.change(&wish.unwrap()).unwrap();
        let kept = Preferences::open(&state).kept();
        assert_eq!(kept.language, LanguageWish::Chinese);
        assert!(!kept.notify.memory, "it was switched off");
        assert!(kept.notify.down, "the others stay");
        let path = temp.path().join("tray.json");
        for damage in [b"{".as_slice(), &[0; 400], br#"{"notify": 7}"#, b""] {
            std::fs::write(&path, damage).unwrap();
            let shell = Preferences::open(&state);
            assert_eq!(shell.kept(), Kept::default());
            shell.keep().unwrap();
            let mut files = std::fs::read_dir(temp.path()).unwrap().flatten();
            let kept = files.any(|file| {
                let name = file.file_name().to_string_lossy().into_owned();
                name.starts_with("tray.json.corrupt-")
                    && std::fs::read(file.path()).unwrap() == damage
            });
            assert!(kept, "what could not be read is kept aside: {damage:?}");
        }
    }

    #[test]
    fn an_app_is_remembered_once() {
        let temp = tempfile::tempdir().unwrap();
        let shell = Preferences::open(&StateDir::open(temp.path()).unwrap());
        let item = Item {
            app: Some("zed".to_owned()),
            ..Item::default()
        };
        let snapshot = Snapshot {
            queue: Queue {
                items: vec![item],
                ..Queue::default()
            },
            ..Snapshot::default()
        };
        assert!(shell.note_apps(&snapshot), "it is new");
        assert!(!shell.note_apps(&snapshot), "it is known");
    }
}
