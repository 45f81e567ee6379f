//! Stamps: a file beside something made, with what it was made from. What is up to date is left
//! alone; what is half made has no stamp and is made again.

use std::fs;
use std::path::{Path, PathBuf};

use crate::checkout;
use crate::error::Error;

/// The stamp of one thing.
pub(crate) struct Stamp {
    file: PathBuf,
    made_from: String,
}

impl Stamp {
    /// A stamp in `file` for something made from `made_from`.
    pub(crate) fn new(file: PathBuf, made_from: String) -> Self {
        Self { file, made_from }
    }

    /// Whether the thing was completed, from the same inputs.
    pub(crate) fn is_current(&self) -> bool {
        fs::read_to_string(&self.file).is_ok_and(|found| found == self.made_from)
    }

    /// Says that the thing is complete.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub(crate) fn set(&self) -> Result<(), Error> {
        checkout::write(&self.file, &self.made_from)
    }
}

/// A hash of all files in these files and folders: their paths and contents.
///
/// # Errors
/// [`Error::Read`].
pub(crate) fn hash(roots: &[PathBuf]) -> Result<String, Error> {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};

    let mut hasher = DefaultHasher::new();
    let mut pending = roots.to_vec();
    while let Some(path) = pending.pop() {
        path.hash(&mut hasher);
        if path.is_dir() {
            pending.extend(entries(&path)?);
        } else {
            fs::read(&path)
                .map_err(Error::read(&path))?
                .hash(&mut hasher);
        }
    }
    Ok(format!("{:016x}", hasher.finish()))
}

/// The content of a folder, sorted.
///
/// # Errors
/// [`Error::Read`].
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(folder).map_err(Error::read(folder))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("oneslot-{name}-{}", std::process::id()));
        checkout::empty(&folder).expect("a temporary folder can be made");
        folder
    }

    #[test]
    fn a_stamp_is_current_only_for_the_same_inputs() {
        let folder = folder("stamp");
        let stamp = |made_from: &str| Stamp::new(folder.join("stamp"), made_from.to_owned());
        assert!(!stamp("a").is_current(), "half made");
        stamp("a").set().expect("the folder is writable");
        assert!(stamp("a").is_current());
        assert!(!stamp("b").is_current(), "the inputs changed");
        checkout::remove(&folder).expect("the folder is ours");
        checkout::remove(&folder).expect("a missing folder is no error");
    }

    #[test]
    fn a_hash_covers_names_and_contents_in_all_depths() {
        let folder = folder("hash");
        let hash = || hash(std::slice::from_ref(&folder)).expect("readable");
        let mut seen = vec![hash()];
        for (name, content) in [("a", "1"), ("a", "2"), ("deep/er/b", "1")] {
            checkout::write(&folder.join(name), content).expect("writable");
            seen.push(hash());
        }
        fs::rename(folder.join("a"), folder.join("c")).expect("writable");
        seen.push(hash());
        assert_eq!(seen[4], hash(), "the same files give the same hash");
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 5, "each change gives another hash");
        checkout::remove(&folder).expect("the folder is ours");
    }
}
