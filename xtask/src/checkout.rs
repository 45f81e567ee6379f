//! Where things are: the working tree, the cache folder, built programs, cargo itself.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;

/// Names another cache folder, so that several clones can share one.
const CACHE_VARIABLE: &str = "ONESLOT_CACHE";

/// One working tree of the project.
pub(crate) struct Checkout {
    root: PathBuf,
    cache: PathBuf,
}

impl Checkout {
    /// The tree for which cargo runs this program, and its cache folder, which is created.
    ///
    /// The tree is read at run time: if two trees share a target folder, cargo may run a program
    /// that was built in the other one.
    ///
    /// # Errors
    /// [`Error::Write`] if the cache folder cannot be created.
    pub(crate) fn find() -> Result<Self, Error> {
        let package = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = package.parent().unwrap_or(&package).to_path_buf();
        let cache = env::var_os(CACHE_VARIABLE)
            .filter(|value| !value.is_empty())
            .map_or_else(|| root.join(".cache"), |value| root.join(value));
        fs::create_dir_all(&cache).map_err(Error::write(&cache))?;
        Ok(Self { root, cache })
    }

    /// A path in the tree.
    pub(crate) fn file(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// A path in the cache folder.
    pub(crate) fn cached(&self, relative: &str) -> PathBuf {
        self.cache.join(relative)
    }

    /// Cargo, in the tree, without the variables that the outer cargo sets for this package: build
    /// scripts that watch them would run every time.
    pub(crate) fn cargo(&self) -> Command {
        const OURS: [&str; 4] = [
            "CARGO_PKG_",
            "CARGO_MANIFEST_",
            "CARGO_BIN_",
            "CARGO_CRATE_",
        ];
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        for (name, _) in env::vars_os() {
            let text = name.to_string_lossy();
            if OURS.iter().any(|prefix| text.starts_with(prefix)) {
                command.env_remove(name);
            }
        }
        command.current_dir(&self.root);
        command
    }
}

/// The folder into which cargo puts the programs of a profile, which is beside this program's.
/// Right for any `CARGO_TARGET_DIR`.
///
/// # Errors
/// [`Error::Read`] if the system does not say where this program is.
pub(crate) fn built(profile: &str) -> Result<PathBuf, Error> {
    let this = env::current_exe().map_err(Error::read(Path::new("xtask")))?;
    let target = this.ancestors().nth(2).unwrap_or(&this);
    Ok(target.join(profile))
}

/// A program's file name on this system.
pub(crate) fn program(name: &str) -> String {
    format!("{name}{}", env::consts::EXE_SUFFIX)
}

/// Reads a text file.
///
/// # Errors
/// [`Error::Read`].
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(Error::read(path))
}

/// Writes a file, and the folders above it if need be.
///
/// # Errors
/// [`Error::Write`].
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Error> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(Error::write(folder))?;
    }
    fs::write(path, content).map_err(Error::write(path))
}

/// Removes a folder with its content, if it exists.
///
/// # Errors
/// [`Error::Write`].
pub(crate) fn remove(folder: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(folder) {
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(Error::write(folder)),
    }
}

/// Makes an empty folder; one that exists is removed first.
///
/// # Errors
/// [`Error::Write`].
pub(crate) fn empty(folder: &Path) -> Result<(), Error> {
    remove(folder)?;
    fs::create_dir_all(folder).map_err(Error::write(folder))
}
