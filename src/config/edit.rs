//! Changing one setting in the file: comments stay, and of two edits at once neither is lost.
//!
//! The result is checked before it replaces the file, so that no edit can leave a file that would
//! be refused; and a file that cannot be read is never overwritten. A file that is gone is written
//! again from its last good copy.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use toml_edit::{DocumentMut, Item, Table, TableLike};

use super::Key;
use super::error::{Fault, joined};
use super::file::{self, Content};
use super::load::Sources;
use super::schema::{self, Member};
use super::values::toml;
use crate::state::durable;

/// Why a setting was not changed; the file is then as it was.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// There is no such setting.
    #[error("{path} is not a setting")]
    Find {
        /// The path that was asked for.
        path: String,
    },
    /// The file cannot be read as it is, or could not be with this change.
    #[error("{}", joined(faults, "; "))]
    Faulty {
        /// What is wrong.
        faults: Vec<Fault>,
    },
    /// The file is read-only.
    #[error("{} is read-only and stays as it is", file.display())]
    ReadOnly {
        /// The file.
        file: PathBuf,
    },
    /// Another program kept the file locked for too long.
    #[error("{} is being changed by another program", file.display())]
    Lock {
        /// The file.
        file: PathBuf,
    },
    /// The file, or its directory, could not be written.
    #[error("cannot write {}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// What a change was made to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Basis {
    /// The file, or nothing where there was none.
    File,
    /// The last good copy, since the file was gone or empty: it was written again.
    Good {
        /// The file.
        file: PathBuf,
        /// The copy.
        good: PathBuf,
    },
}

impl Basis {
    /// What a person should know about it.
    pub fn note(&self) -> Option<String> {
        match self {
            Self::File => None,
            Self::Good { file, good } => Some(format!(
                "{} was missing or empty, so it was written again from the last good copy ({})",
                file.display(),
                good.display()
            )),
        }
    }
}

/// How long an edit waits for another one; each takes milliseconds.
const TRIES: u32 = 200;
const BETWEEN_TRIES: Duration = Duration::from_millis(25);

impl Sources {
    /// Sets the setting at `path` in the file, or removes it from the file with `None`.
    ///
    /// # Errors
    ///
    /// [`EditError`]; the file is then as it was.
    pub fn edit(&self, path: &str, value: Option<&Value>) -> Result<Basis, EditError> {
        let member = found(path)?;
        let ((), basis) = self.change(|document| put(document, member, value))?;
        Ok(basis)
    }

    /// Changes the keys in the file, and returns what `change` returned.
    ///
    /// # Errors
    ///
    /// [`EditError`]; the file is then as it was.
    pub fn edit_keys<R>(
        &self,
        change: impl FnOnce(&mut Vec<Key>) -> R,
    ) -> Result<(R, Basis), EditError> {
        let member = found("access.keys")?;
        self.change(|document| {
            let item = document.get("access").and_then(|access| access.get("keys"));
            let keys = item.map(file::json).unwrap_or_default();
            let mut keys: Vec<Key> = serde_json::from_value(keys).unwrap_or_default();
            let result = change(&mut keys);
            let keys = serde_json::to_value(keys).unwrap_or_default();
            put(document, member, Some(&keys));
            result
        })
    }

    fn change<R>(
        &self,
        change: impl FnOnce(&mut DocumentMut) -> R,
    ) -> Result<(R, Basis), EditError> {
        // A link stays a link: what it points to is changed.
        let file = fs::canonicalize(&self.file).unwrap_or_else(|_| self.file.clone());
        let failed = |source| EditError::Write {
            file: file.clone(),
            source,
        };
        if let Some(directory) = file.parent().filter(|path| !path.as_os_str().is_empty()) {
            durable::private_dir(directory).map_err(failed)?;
        }
        let _lock = lock(&file)?;
        if fs::metadata(&file).is_ok_and(|metadata| metadata.permissions().readonly()) {
            return Err(EditError::ReadOnly { file });
        }
        let (mut document, basis) = self.document(&file)?;
        let result = change(&mut document);
        let text = document.to_string();
        let parsed = file::parse(&file, &text).faultless();
        parsed.map_err(|faults| EditError::Faulty { faults })?;
        durable::write(&file, text.as_bytes()).map_err(failed)?;
        Ok((result, basis))
    }

    /// What to start from: the file, or the last good copy where the file is gone or empty. Its
    /// settings are still in use, and one change must not remove the others.
    fn document(&self, file: &Path) -> Result<(DocumentMut, Basis), EditError> {
        let mut basis = Basis::File;
        let text = match file::read(file) {
            Content::Missing | Content::Empty => {
                let good = self.read_good().map(|(good, _)| good);
                match good.map(|good| (file::read(&good), good)) {
                    Some((Content::Text(text), good)) => {
                        let file = file.to_owned();
                        basis = Basis::Good { file, good };
                        text
                    }
                    _ => String::new(),
                }
            }
            Content::Text(text) => text,
            Content::Unreadable(fault) => {
                return Err(EditError::Faulty {
                    faults: vec![fault],
                });
            }
        };
        let document = text.parse().map_err(|_| EditError::Faulty {
            faults: file::parse(file, &text).faults,
        })?;
        Ok((document, basis))
    }
}

fn found(path: &str) -> Result<&'static Member, EditError> {
    schema::find(path).ok_or_else(|| EditError::Find {
        path: path.to_owned(),
    })
}

/// Sets or removes `member`, keeping the comments around it.
fn put(document: &mut DocumentMut, member: &Member, value: Option<&Value>) {
    let (section, name) = member.section();
    let root = document.as_table_mut();
    let Some(section) = section else {
        return put_in(root, name, value);
    };
    let is_set = root
        .get(section)
        .and_then(Item::as_table_like)
        .is_some_and(|table| table.contains_key(name));
    // A reload takes a file that no longer mentions it for half written.
    let not_required = Value::Bool(false);
    let value = match value {
        None if !is_set => return,
        None if member.path == "access.require_key" => Some(&not_required),
        value => value,
    };
    let item = root
        .entry(section)
        .or_insert_with(|| Item::Table(Table::new()));
    // If it is not a section, the check of the result says so.
    if let Some(table) = item.as_table_like_mut() {
        put_in(table, name, value);
    }
}

fn put_in(table: &mut dyn TableLike, name: &str, value: Option<&Value>) {
    let Some(value) = value else {
        table.remove(name);
        return;
    };
    let mut new = toml(value);
    match table.get_mut(name) {
        Some(Item::Value(old)) => {
            *new.decor_mut() = old.decor().clone();
            *old = new;
        }
        // Keys written as [[access.keys]] become one list.
        Some(other) => *other = Item::Value(new),
        None => {
            table.insert(name, Item::Value(new));
        }
    }
}

/// Locks a sibling of the file: the file itself is replaced, and a lock on it with it.
fn lock(file: &Path) -> Result<File, EditError> {
    let mut name = std::ffi::OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(".lock");
    let failed = |source| EditError::Write {
        file: file.to_owned(),
        source,
    };
    let lock = durable::open_lock(&file.with_file_name(name)).map_err(failed)?;
    for _ in 0..TRIES {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) => thread::sleep(BETWEEN_TRIES),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
    }
    Err(EditError::Lock {
        file: file.to_owned(),
    })
}
