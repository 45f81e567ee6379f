//! Where things are: the working tree, the cache of downloaded parts, cargo itself.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fault::Fault;

/// Names another folder for downloaded parts, so that a second clone can use them.
const CACHE_VARIABLE: &str = "ONESLOT_CACHE";

/// One working tree of the project.
pub(crate) struct Checkout {
    root: PathBuf,
    cache: PathBuf,
}

impl Checkout {
    /// The tree that cargo runs this program for, and its cache folder, made if need be.
    ///
    /// Asked at run time: with one target folder for two trees, cargo may run a program that was
    /// built in the other.
    ///
    /// # Errors
    /// [`Fault::Write`] when the cache folder cannot be made.
    pub(crate) fn find() -> Result<Self, Fault> {
        let package = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = package.parent().unwrap_or(&package).to_path_buf();
        let cache = env::var_os(CACHE_VARIABLE)
            .filter(|value| !value.is_empty())
            .map_or_else(|| root.join(".cache"), |value| root.join(value));
        fs::create_dir_all(&cache).map_err(|source| Fault::Write {
            path: cache.clone(),
            source,
        })?;
        Ok(Self { root, cache })
    }

    /// A path inside the tree.
    pub(crate) fn file(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// A path inside the cache folder.
    pub(crate) fn cached(&self, relative: &str) -> PathBuf {
        self.cache.join(relative)
    }

    /// Cargo, in the tree, without what the cargo that runs us told us about this package:
    /// build scripts that watch those variables would run again each time.
    pub(crate) fn cargo(&self) -> Command {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        for (name, _) in env::vars_os() {
            let told = name.to_str().is_some_and(|name| {
                [
                    "CARGO_PKG_",
                    "CARGO_MANIFEST_",
                    "CARGO_BIN_",
                    "CARGO_CRATE_",
                ]
                .iter()
                .any(|prefix| name.starts_with(prefix))
            });
            if told {
                command.env_remove(name);
            }
        }
        command.current_dir(&self.root);
        command
    }
}

/// Reads a text file.
///
/// # Errors
/// [`Fault::Read`].
pub(crate) fn read(path: &Path) -> Result<String, Fault> {
    fs::read_to_string(path).map_err(|source| Fault::Read {
        path: path.to_path_buf(),
        source,
    })
}

/// Writes a text file whole.
///
/// # Errors
/// [`Fault::Write`].
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Fault> {
    fs::write(path, text).map_err(|source| Fault::Write {
        path: path.to_path_buf(),
        source,
    })
}
