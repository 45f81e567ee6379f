//! Node, and npm packages as their lock files name them.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::stamp::{self, Stamp};
use super::system;
use crate::checkout::{self, Checkout};
use crate::error::Error;
use crate::process;

/// A folder with `package.json` and `package-lock.json`, and the cache folder into which it is
/// installed; without one it is installed where it is.
pub(super) struct Project {
    source: &'static str,
    cached: Option<&'static str>,
}

/// The Node that the panel's tools and the newest client need; Debian's is older.
pub(super) const NODE: Project = Project {
    source: "xtask/node",
    cached: Some("node"),
};

/// The panel's tools look for their packages beside its sources.
pub(super) const PANEL: Project = Project {
    source: "ui",
    cached: None,
};

/// The official clients in JavaScript, and the oldest Node that they support.
pub(super) const CLIENTS: Project = Project {
    source: "tests/live/node",
    cached: Some("clients"),
};

/// The panel's `engines`.
const NEW_ENOUGH: &str = "const [major, minor] = process.versions.node.split('.').map(Number); \
                          process.exit(major >= 24 || (major == 22 && minor >= 12) ? 0 : 1)";

impl Project {
    fn home(&self, checkout: &Checkout) -> PathBuf {
        let cached = self.cached.map(|name| checkout.cached(name));
        cached.unwrap_or_else(|| checkout.file(self.source))
    }

    /// The files that say what is installed, with their contents.
    fn inputs(&self, checkout: &Checkout) -> Result<Vec<(&'static str, String)>, Error> {
        let files = ["package.json", "package-lock.json", ".npmrc"].into_iter();
        files
            .map(|name| (name, checkout.file(self.source).join(name)))
            .filter(|(_, path)| path.exists())
            .map(|(name, path)| Ok((name, checkout::read(&path)?)))
            .collect()
    }

    fn stamp(&self, checkout: &Checkout) -> Result<Stamp, Error> {
        let inputs = self.inputs(checkout)?;
        let made_from = inputs.into_iter().map(|(_, text)| text).collect();
        // npm removes this folder first.
        let file = self.home(checkout).join("node_modules/made-from");
        Ok(Stamp::new(file, made_from))
    }
}

/// Whether exactly these packages are installed.
///
/// # Errors
/// [`Error::Read`].
pub(super) fn is_ready(checkout: &Checkout, project: &Project) -> Result<bool, Error> {
    project.stamp(checkout).map(|stamp| stamp.is_current())
}

/// Installs exactly the packages that the lock file names.
///
/// # Errors
/// [`Error::Failed`] if npm fails.
pub(super) fn install(checkout: &Checkout, project: &Project) -> Result<(), Error> {
    let home = project.home(checkout);
    if project.cached.is_some() {
        checkout::empty(&home)?;
        for (name, text) in project.inputs(checkout)? {
            checkout::write(&home.join(name), text)?;
        }
    }
    let mut npm = Command::new(system::NPM_PROGRAM);
    npm.current_dir(&home)
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .args(["--loglevel", "error"])
        // Packages check the Node that runs npm, which is not the one that runs them.
        .env("npm_config_engine_strict", "false");
    process::run(&mut npm)?;
    project.stamp(checkout)?.set()
}

/// A Node for the panel's tools: the one on the PATH if it is new enough, else the cached one.
///
/// # Errors
/// [`Error::Missing`] if there is neither.
pub(crate) fn node(checkout: &Checkout) -> Result<PathBuf, Error> {
    if process::succeeds("node", &["-e", NEW_ENOUGH]) {
        return Ok(PathBuf::from("node"));
    }
    let cached = is_ready(checkout, &NODE)?.then(|| packaged(&NODE.home(checkout), 22));
    cached.flatten().ok_or_else(|| Error::Missing {
        what: "Node 22.12 or newer".to_owned(),
        remedy: "install it and put it on the PATH".to_owned(),
    })
}

/// Node 20 from the clients' packages, or [`node`] on systems for which they have none.
///
/// # Errors
/// As [`node`].
pub(super) fn node20(checkout: &Checkout) -> Result<PathBuf, Error> {
    packaged(&CLIENTS.home(checkout), 20).map_or_else(|| node(checkout), Ok)
}

/// The folder of the clients' packages.
pub(super) fn client_packages(checkout: &Checkout) -> PathBuf {
    CLIENTS.home(checkout).join("node_modules")
}

fn packaged(home: &Path, major: u32) -> Option<PathBuf> {
    let start = format!("node{major}-");
    let packages = stamp::entries(&home.join("node_modules")).ok()?;
    packages
        .iter()
        .filter(|path| {
            let name = path.file_name().unwrap_or_default();
            name.to_string_lossy().starts_with(&start)
        })
        .map(|path| path.join("bin/node"))
        .find(|node| node.exists())
}
