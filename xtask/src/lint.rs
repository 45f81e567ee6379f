//! The checks that run no code of ours: formatting, clippy, dependencies.

use crate::call;
use crate::checkout::Checkout;
use crate::fault::Fault;
use crate::say;
use crate::{panel, parts};

/// House rules that bind the product and not its tests. A test fails by panicking, reads the real
/// clock and spawns what it likes; clippy's own exemptions do not reach the shared code of
/// integration tests, so the whole pass over test targets lifts them.
const LIFTED_FOR_TESTS: [&str; 6] = [
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
pub(crate) fn lint(checkout: &Checkout) -> Result<(), Fault> {
    parts::toolchain(checkout)?;
    parts::linters(checkout)?;
    parts::desktop()?;
    panel::build(checkout)?;
    sources(checkout)?;
    dependencies(checkout)
}

/// Formatting and clippy.
///
/// # Errors
/// [`Fault::Failed`] with the tool that complained.
pub(crate) fn sources(checkout: &Checkout) -> Result<(), Fault> {
    say::step("Formatting");
    call::run(checkout.cargo().args(["fmt", "--all", "--check"]))?;
    say::step("Clippy, the product");
    let product = ["clippy", "--workspace", "--lib", "--bins", "--locked"];
    call::run(
        checkout
            .cargo()
            .args(product)
            .args(["--", "-D", "warnings"]),
    )?;
    say::step("Clippy, its tests");
    let tests = [
        "clippy",
        "--workspace",
        "--tests",
        "--benches",
        "--examples",
        "--locked",
    ];
    let mut command = checkout.cargo();
    command.args(tests).args(["--", "-D", "warnings"]);
    for rule in LIFTED_FOR_TESTS {
        command.args(["-A", rule]);
    }
    call::run(&mut command)
}

/// Licences, sources and bans of everything we depend on, as `deny.toml` has them. Advisories
/// need a database from the network and are left to the hosted workflow.
///
/// # Errors
/// [`Fault::Failed`] when cargo-deny cannot be built or finds something.
pub(crate) fn dependencies(checkout: &Checkout) -> Result<(), Fault> {
    say::step("Dependencies");
    let deny = parts::deny(checkout)?;
    let mut command = std::process::Command::new(deny);
    command
        .current_dir(checkout.file(""))
        .args([
            "--workspace",
            "--locked",
            "check",
            "--hide-inclusion-graph",
            "--allow",
            "unused-wrapper",
        ])
        .args(["bans", "licenses", "sources"]);
    call::run(&mut command)
}
