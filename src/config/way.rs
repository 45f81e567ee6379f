//! The way to a file: every entry that decides which file its path means.
//!
//! Those are its own name in its directory, the name of that directory in the one above, and
//! every link that is followed. Where something is missing, the way ends at what is there. Not
//! here: watching them ([`super::watch`]).

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// An entry on the way: a name in a directory that is no link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stop {
    pub(super) directory: PathBuf,
    pub(super) name: OsString,
}

/// More links than this are a circle, as the systems see it.
const LINKS: usize = 40;

/// The stops on the way to `file`; the last one is the file's own, or the first that is missing.
///
/// # Errors
///
/// There is no current directory, a link cannot be read, or links go in a circle.
pub(super) fn stops(file: &Path) -> io::Result<Vec<Stop>> {
    let mut at = PathBuf::new();
    let mut ahead = pieces(&std::path::absolute(file)?);
    let mut links = Vec::new();
    let mut last = None;
    while let Some(piece) = ahead.pop() {
        let name = match piece.components().next() {
            Some(Component::Normal(name)) => name.to_owned(),
            Some(Component::ParentDir) => {
                at.pop();
                continue;
            }
            Some(Component::RootDir | Component::Prefix(_)) => {
                at.push(piece);
                continue;
            }
            Some(Component::CurDir) | None => continue,
        };
        let entry = at.join(&name);
        let stop = Stop {
            directory: at.clone(),
            name,
        };
        match fs::symlink_metadata(&entry) {
            Ok(about) if about.is_symlink() => {
                links.push(stop);
                if links.len() > LINKS {
                    return Err(io::Error::other("its links go in a circle"));
                }
                ahead.extend(pieces(&fs::read_link(&entry)?));
            }
            Ok(_) => {
                last = Some(stop);
                at = entry;
            }
            Err(_) => {
                last = Some(stop);
                ahead.clear();
            }
        }
    }
    let above = last.as_ref().and_then(|last| {
        Some(Stop {
            directory: last.directory.parent()?.to_owned(),
            name: last.directory.file_name()?.to_owned(),
        })
    });
    Ok(links.into_iter().chain(above).chain(last).collect())
}

/// The pieces of a path, the first one last.
fn pieces(path: &Path) -> Vec<PathBuf> {
    let pieces = path.components().map(|piece| piece.as_os_str().into());
    pieces.rev().collect()
}

#[cfg(all(test, unix))]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn every_link_and_the_last_two_names_are_on_the_way() {
        let temp = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(temp.path()).unwrap();
        fs::create_dir_all(root.join("v1/deep")).unwrap();
        fs::write(root.join("v1/deep/o.toml"), "").unwrap();
        symlink("v1", root.join("data")).unwrap();
        symlink("../data/deep/o.toml", root.join("v1/link.toml")).unwrap();
        let stop = |directory: &str, name: &str| Stop {
            directory: root.join(directory),
            name: name.into(),
        };
        assert_eq!(
            stops(&root.join("v1/link.toml")).unwrap(),
            [
                stop("v1", "link.toml"),
                stop("", "data"),
                stop("v1", "deep"),
                stop("v1/deep", "o.toml"),
            ]
            .map(|stop| Stop {
                directory: stop.directory.components().collect(),
                ..stop
            })
        );
    }

    #[test]
    fn the_way_ends_where_something_is_missing() {
        let temp = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(temp.path()).unwrap();
        let way = stops(&root.join("not/yet/o.toml")).unwrap();
        let last = way.last().unwrap();
        assert_eq!(
            (last.directory.as_path(), last.name.to_str()),
            (root.as_path(), Some("not"))
        );
    }

    #[test]
    fn a_circle_of_links_is_an_error() {
        let temp = tempfile::tempdir().unwrap();
        symlink("b", temp.path().join("a")).unwrap();
        symlink("a", temp.path().join("b")).unwrap();
        assert!(stops(&temp.path().join("a")).is_err());
    }
}
