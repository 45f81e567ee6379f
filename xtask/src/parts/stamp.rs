//! Stamps: a file beside a part that says what it was made from, so that a part which is up to
//! date is left alone and a half-made one is made again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::checkout;
use crate::fault::Fault;

/// Whether the part was made whole, and from this.
pub(super) fn matches(part: &Path, made_from: &str) -> bool {
    fs::read_to_string(file(part)).is_ok_and(|found| found == made_from)
}

/// Says what a part was made from. Comes last, once it is whole.
///
/// # Errors
/// [`Fault::Write`].
pub(super) fn set(part: &Path, made_from: &str) -> Result<(), Fault> {
    checkout::write(&file(part), made_from)
}

/// Removes a folder and all in it; none there is as good.
///
/// # Errors
/// [`Fault::Write`].
pub(super) fn remove(folder: &Path) -> Result<(), Fault> {
    match fs::remove_dir_all(folder) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Fault::Write {
            path: folder.to_path_buf(),
            source,
        }),
        _ => Ok(()),
    }
}

/// Makes a folder that is new and empty.
///
/// # Errors
/// [`Fault::Write`].
pub(super) fn renew(folder: &Path) -> Result<(), Fault> {
    remove(folder)?;
    fs::create_dir_all(folder).map_err(|source| Fault::Write {
        path: folder.to_path_buf(),
        source,
    })
}

fn file(part: &Path) -> PathBuf {
    part.join("made-from")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_up_to_date_only_when_it_was_made_whole_from_the_same() {
        let part = std::env::temp_dir().join(format!("oneslot-stamp-{}", std::process::id()));
        renew(&part).expect("a temporary folder can be made");
        assert!(!matches(&part, "a"), "without a stamp it may be half made");
        set(&part, "a").expect("the folder is ours");
        assert!(matches(&part, "a"), "whole, and from the same");
        assert!(!matches(&part, "b"), "what it is made from has changed");
        remove(&part).expect("the folder is ours");
        remove(&part).expect("none there is as good");
    }
}
