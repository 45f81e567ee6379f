//! The panel in `ui/`: building, testing, taking pictures.

use std::path::Path;
use std::process::Command;

use crate::checkout::Checkout;
use crate::deps::{self, Stamp};
use crate::error::Error;
use crate::{output, process};

const VITE: &str = "vite/bin/vite.js";
const VITEST: &str = "vitest/vitest.mjs";

/// What the built panel depends on.
const INPUTS: [&str; 8] = [
    "icons/source",
    "ui/index.html",
    "ui/package.json",
    "ui/package-lock.json",
    "ui/src",
    "ui/svelte.config.js",
    "ui/tsconfig.json",
    "ui/vite.config.ts",
];

/// Builds the panel into `ui/dist`, from where the tray's program takes it, unless that is up to
/// date. [`deps::PANEL`] must be installed.
///
/// # Errors
/// A build that fails.
pub(crate) fn build(checkout: &Checkout) -> Result<(), Error> {
    let inputs = INPUTS.map(|path| checkout.file(path));
    let file = checkout.file("ui/node_modules/panel-built-from");
    let stamp = Stamp::new(file, deps::hash(&inputs)?);
    if stamp.is_current() && checkout.file("ui/dist/index.html").exists() {
        return Ok(());
    }
    output::step("Building the panel");
    tool(checkout, VITE, &["build", "--logLevel", "warn"])?;
    stamp.set()
}

/// Lints the panel and runs its tests: units, and in a browser with axe.
///
/// # Errors
/// What cannot be installed, or the first check that fails.
pub(crate) fn test(checkout: &Checkout) -> Result<(), Error> {
    deps::install(checkout, &[&deps::PANEL, &deps::BROWSER])?;
    output::step("The panel");
    let prettier = ["--check", "--log-level", "warn", "."];
    tool(checkout, "prettier/bin/prettier.cjs", &prettier)?;
    let check = "svelte-check/bin/svelte-check";
    tool(checkout, check, &["--fail-on-warnings"])?;
    tool(checkout, VITEST, &["run", "--project", "unit"])?;
    build_with_fake_host(checkout)?;
    tool(checkout, VITEST, &["run", "--project", "browser"])
}

/// Takes a picture of every state, into the cache folder.
///
/// # Errors
/// As [`test`].
pub(crate) fn shots(checkout: &Checkout, filter: Option<&str>) -> Result<(), Error> {
    deps::install(checkout, &[&deps::PANEL, &deps::BROWSER, &deps::FONTS])?;
    output::step("Pictures of the panel");
    build_with_fake_host(checkout)?;
    let mut command = node(checkout, "tests/browser/shots.ts".as_ref())?;
    command.arg(checkout.cached("shots")).args(filter);
    process::run(&mut command)
}

fn build_with_fake_host(checkout: &Checkout) -> Result<(), Error> {
    let args = ["build", "--mode", "fake", "--logLevel", "warn"];
    tool(checkout, VITE, &args)
}

/// Runs a program of an npm package, without npm.
fn tool(checkout: &Checkout, program: &str, args: &[&str]) -> Result<(), Error> {
    let script = Path::new("node_modules").join(program);
    process::run(node(checkout, &script)?.args(args))
}

fn node(checkout: &Checkout, script: &Path) -> Result<Command, Error> {
    let mut command = Command::new(deps::node(checkout)?);
    command
        .current_dir(checkout.file("ui"))
        .arg(script)
        .env("ONESLOT_TEST_BROWSER", deps::browser().unwrap_or_default())
        .env("NO_COLOR", "1");
    Ok(command)
}
