//! What is kept beside the file: faulty files aside, the last good one, modes.
//!
//! None of it stops the program; what could not be done is a notice.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::Loaded;
use super::fault::{Notice, words};
use super::file::{bytes, parse};
use super::load::sound;
use crate::state::durable;

/// Copies a file that cannot be used to `config.toml.corrupt-<time>` beside it.
pub(super) fn aside(file: &Path, now: Timestamp) -> Notice {
    match durable::keep_aside(file, now) {
        Ok(copy) => Notice::KeptAside {
            file: file.to_owned(),
            copy,
        },
        Err(error) => Notice::NotKeptAside {
            file: file.to_owned(),
            reason: words(&error),
        },
    }
}

/// Copies a good file to `good`, unless the copy is already the same.
pub(super) fn good(file: &Path, good: &Path) -> Option<Notice> {
    let kept = match bytes(file) {
        // An empty file says nothing, and no file says nothing new: the copy stays.
        Ok(bytes) if bytes.is_empty() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(now) if bytes(good).is_ok_and(|old| old == now) => in_use(good),
        // It may have changed since it was judged; then it is judged again before it is kept.
        Ok(bytes) if !is_sound(file, &bytes) => Ok(()),
        Ok(bytes) => durable::write(good, &bytes).and_then(|()| in_use(good)),
        Err(error) => Err(error),
    };
    not_kept(good, kept)
}

/// Notes that the copy at `good` is not in use: the program was started without its file, so the
/// next change must not bring back what it says.
pub(super) fn unused(good: &Path) -> Option<Notice> {
    let mark = mark_of(good);
    let marked = if mark.exists() {
        Ok(())
    } else {
        durable::write(&mark, b"")
    };
    not_kept(good, marked)
}

/// Whether the copy at `good` was noted as not in use.
pub(super) fn is_unused(good: &Path) -> bool {
    mark_of(good).exists()
}

fn in_use(good: &Path) -> io::Result<()> {
    match fs::remove_file(mark_of(good)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn mark_of(good: &Path) -> PathBuf {
    let mut name = good.as_os_str().to_owned();
    name.push(".unused");
    name.into()
}

fn not_kept(good: &Path, kept: io::Result<()>) -> Option<Notice> {
    let reason = words(&kept.err()?);
    Some(Notice::GoodNotKept {
        good: good.to_owned(),
        reason,
    })
}

/// Closes a file that holds a credential, or may hold one since nobody could read it, to others.
pub(super) fn secure(file: &Path, loaded: &Loaded) -> Option<Notice> {
    let settings = &loaded.settings;
    let holds_one = settings.upstream.api_key.is_some()
        || !settings.access.keys.is_empty()
        || loaded.notices.iter().any(Notice::is_fallback);
    if !holds_one || !file.is_file() {
        return None;
    }
    match durable::close_file(file) {
        Ok(None) => None,
        Ok(Some(had)) => Some(Notice::Tightened {
            file: file.to_owned(),
            had,
        }),
        Err(error) => Some(Notice::Open {
            file: file.to_owned(),
            reason: words(&error),
        }),
    }
}

fn is_sound(file: &Path, bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| sound(parse(file, text)).is_ok())
}
