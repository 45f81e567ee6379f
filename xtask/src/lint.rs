//! Checks without running tests: formatting, clippy, dependencies.

use std::process::Command;

use crate::checkout::Checkout;
use crate::error::Error;
use crate::{deps, output, panel, process};

/// House rules for the product and not for its tests, which may panic, read the clock and spawn.
/// clippy's own exemptions do not reach the shared code of integration tests.
const PRODUCT_ONLY: [&str; 6] = [
    "clippy::unwrap_used",
    "clippy::expect_used",
    "clippy::panic",
    "clippy::print_stdout",
    "clippy::print_stderr",
    "clippy::disallowed_methods",
];

/// Runs every check.
///
/// # Errors
/// The first check that fails.
pub(crate) fn lint(checkout: &Checkout) -> Result<(), Error> {
    tools(checkout)?;
    deps::install(checkout, &[&deps::TRAY, &deps::PANEL, &deps::DENY])?;
    // The tray's program contains the panel.
    panel::build(checkout)?;
    sources(checkout)?;
    dependencies(checkout)
}

/// Checks early that rustfmt and clippy are installed.
///
/// # Errors
/// [`Error::Missing`] with the command that installs it.
pub(crate) fn tools(checkout: &Checkout) -> Result<(), Error> {
    for (tool, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if process::stdout(checkout.cargo().args([tool, "--version"])).is_err() {
            return Err(Error::Missing {
                what: format!("`cargo {tool}`"),
                remedy: format!("run `rustup component add {component}`"),
            });
        }
    }
    Ok(())
}

/// Formatting and clippy.
///
/// # Errors
/// [`Error::Failed`] with the tool that complained.
pub(crate) fn sources(checkout: &Checkout) -> Result<(), Error> {
    output::step("Formatting");
    process::run(checkout.cargo().args(["fmt", "--all", "--check"]))?;
    output::step("Clippy, the product");
    let mut product = checkout.cargo();
    product.args(["clippy", "--workspace", "--locked", "--lib", "--bins"]);
    process::run(product.args(["--", "-D", "warnings"]))?;
    output::step("Clippy, its tests");
    let mut tests = checkout.cargo();
    tests
        .args(["clippy", "--workspace", "--locked", "--tests"])
        .args(["--benches", "--examples", "--", "-D", "warnings"]);
    for rule in PRODUCT_ONLY {
        tests.args(["-A", rule]);
    }
    process::run(&mut tests)
}

/// Licences, sources and bans of all dependencies, as in `deny.toml`. Advisories need a database
/// from the network; the hosted workflow checks them.
///
/// # Errors
/// [`Error::Failed`] if cargo-deny finds something.
pub(crate) fn dependencies(checkout: &Checkout) -> Result<(), Error> {
    output::step("Dependencies");
    let mut deny = Command::new(deps::deny(checkout)?);
    deny.current_dir(checkout.file(""))
        .args(["--workspace", "--locked", "check"])
        .args(["--hide-inclusion-graph", "--allow", "unused-wrapper"])
        .args(["bans", "licenses", "sources"]);
    process::run(&mut deny)
}
