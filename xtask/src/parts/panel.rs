//! The panel's packages, as `ui/package-lock.json` names them, and the Node that runs them.

use std::path::PathBuf;
use std::process::Command;

use super::{clients, stamp, system};
use crate::call;
use crate::checkout::{self, Checkout};
use crate::fault::Fault;

/// Installs the packages beside the panel's sources, where its programs look for them. Gives that
/// folder, and a Node new enough.
///
/// # Errors
/// [`Fault::Failed`] when npm says no, [`Fault::Missing`] when there is no Node new enough.
pub(super) fn bring(checkout: &Checkout) -> Result<(PathBuf, PathBuf), Fault> {
    let home = checkout.file("ui");
    let node = clients::bring(checkout)?.node22;
    let mut made_from = String::new();
    for name in ["package.json", "package-lock.json", ".npmrc"] {
        made_from.push_str(&checkout::read(&home.join(name))?);
    }
    let modules = home.join("node_modules");
    if !stamp::matches(&modules, &made_from) {
        let mut npm = Command::new(system::NPM_PROGRAM);
        npm.current_dir(&home)
            .args(["ci", "--ignore-scripts", "--loglevel", "error"])
            // Packages look at the Node that installs them; this one is only npm's own.
            .env("npm_config_engine_strict", "false");
        call::run(&mut npm)?;
        stamp::set(&modules, &made_from)?;
    }
    Ok((home, node))
}
