//! What is kept of the file: a copy of a faulty one, the last good one, and its mode.
//!
//! Nothing here stops the program; what could not be done is a notice.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use jiff::Timestamp;

use super::Loaded;
use super::error::{Notice, words};
use super::file::{bytes, parse};
use crate::state::durable;

/// Copies a file that cannot be used to `config.toml.corrupt-<time>` beside it.
pub(super) fn keep_aside(file: &Path, now: Timestamp) -> Notice {
    match durable::keep_aside(file, now) {
        Ok(copy) => Notice::KeptAside {
            file: file.to_owned(),
            copy,
        },
        Err(error) => not_done("copy", file, &error),
    }
}

/// Copies a good file to `good`, unless the copy is already the same.
pub(super) fn keep_good(file: &Path, good: &Path) -> Option<Notice> {
    let kept = match bytes(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        // It may have changed since it was read, so it is checked again before it is kept.
        Ok(new) if is_good(file, &new) && !bytes(good).is_ok_and(|old| old == new) => {
            durable::write(good, &new)
        }
        Ok(_) | Err(_) => Ok(()),
    };
    kept.err().map(|error| not_done("write", good, &error))
}

/// Puts the copy at `good` out of use, under another name: the program started without its file,
/// so that a later edit must not restore what the copy says.
pub(super) fn retire(file: &Path, good: &Path) -> Notice {
    let mut copy = OsString::from(good);
    copy.push(".unused");
    match fs::rename(good, &copy) {
        Ok(()) => Notice::Missing {
            file: file.to_owned(),
            copy: copy.into(),
        },
        Err(error) => not_done("rename", good, &error),
    }
}

/// Closes a file to other users if it holds a credential, or may hold one.
pub(super) fn close(file: &Path, loaded: &Loaded) -> Option<Notice> {
    let settings = &loaded.settings;
    let holds_one = settings.upstream.api_key.is_some()
        || !settings.access.keys.is_empty()
        || loaded.is_fallback();
    if !holds_one || !file.is_file() {
        return None;
    }
    match durable::close_file(file) {
        Ok(had) => had.map(|had| Notice::Tightened {
            file: file.to_owned(),
            had,
        }),
        Err(error) => Some(not_done("close to other users", file, &error)),
    }
}

/// Whether the text says anything, and nothing in it is wrong.
fn is_good(file: &Path, bytes: &[u8]) -> bool {
    !bytes.is_empty()
        && std::str::from_utf8(bytes).is_ok_and(|text| parse(file, text).faultless().is_ok())
}

fn not_done(action: &'static str, file: &Path, error: &io::Error) -> Notice {
    Notice::NotDone {
        action,
        file: file.to_owned(),
        reason: words(error),
    }
}
