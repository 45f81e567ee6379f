//! The clients in JavaScript, and two versions of Node to run them: what an app of today ships,
//! and the oldest that the newest client takes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{stamp, system};
use crate::call;
use crate::checkout::{self, Checkout};
use crate::fault::Fault;

/// Where the clients and their Nodes are.
pub(super) struct Clients {
    /// A Node that runs the older client.
    pub(super) node: PathBuf,
    /// A Node that runs the newer one.
    pub(super) node22: PathBuf,
    /// The folder of packages.
    pub(super) modules: PathBuf,
}

/// Installs what `tests/live/node/package-lock.json` names, and nothing newer.
///
/// # Errors
/// [`Fault::Failed`] when npm says no, [`Fault::Missing`] when there is no Node new enough.
pub(super) fn bring(checkout: &Checkout) -> Result<Clients, Fault> {
    let home = checkout.cached("clients");
    let mut made_from = String::new();
    let mut files = Vec::new();
    for name in ["package.json", "package-lock.json"] {
        let text = checkout::read(&checkout.file("tests/live/node").join(name))?;
        made_from.push_str(&text);
        files.push((name, text));
    }
    if !stamp::matches(&home, &made_from) {
        stamp::renew(&home)?;
        for (name, text) in &files {
            checkout::write(&home.join(name), text)?;
        }
        let mut npm = Command::new(system::NPM_PROGRAM);
        npm.current_dir(&home).args([
            "ci",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--loglevel",
            "error",
        ]);
        call::run(&mut npm)?;
        stamp::set(&home, &made_from)?;
    }
    let modules = home.join("node_modules");
    Ok(Clients {
        node: node(&modules, 20)?,
        node22: node(&modules, 22)?,
        modules,
    })
}

/// A Node of this major version from the packages; on a system for which they hold none, the one
/// on the PATH if it is as new as the newest that we need.
fn node(modules: &Path, major: u32) -> Result<PathBuf, Fault> {
    let start = format!("node{major}-");
    let folders = fs::read_dir(modules).map_err(|source| Fault::Read {
        path: modules.to_path_buf(),
        source,
    })?;
    let packaged = folders
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&start))
        .map(|entry| entry.path().join("bin").join("node"))
        .find(|node| node.exists());
    if let Some(node) = packaged {
        return Ok(node);
    }
    let new_enough = "process.exit(process.versions.node.split('.')[0] >= 22 ? 0 : 1)";
    if call::answers("node", &["-e", new_enough]) {
        return Ok(PathBuf::from("node"));
    }
    Err(Fault::Missing {
        what: "Node 22 or newer".to_owned(),
        remedy: "install it and put it on the PATH".to_owned(),
    })
}
