//! `cargo xtask test`: everything that a submission must pass.
//!
//! All building comes before all testing, because a model server starves beside a compiler.

use std::time::Instant;

use crate::call;
use crate::checkout::Checkout;
use crate::fault::Fault;
use crate::ledger::Ledger;
use crate::lint;
use crate::outcomes::Outcomes;
use crate::panel;
use crate::parts;
use crate::say;

/// What the names of tests against a real model have in common.
const LIVE: &str = "live::";

/// Sets up, lints, builds, tests, and holds the ledger of promises against the tests that ran.
///
/// # Errors
/// The first step that fails.
pub(crate) fn test(checkout: &Checkout) -> Result<(), Fault> {
    #[expect(
        clippy::disallowed_methods,
        reason = "says how long the suite took, decides nothing"
    )]
    let began = Instant::now();
    let ledger = Ledger::read(checkout)?;
    parts::toolchain(checkout)?;
    parts::linters(checkout)?;
    // The tray's program holds the panel's page, so that comes before anything that compiles it.
    parts::desktop()?;
    panel::build(checkout)?;
    lint::sources(checkout)?;
    lint::dependencies(checkout)?;
    build(checkout)?;
    panel::test(checkout)?;
    let outcomes = run_tests(checkout)?;
    say::step("Promises");
    ledger.holds(&outcomes)?;
    say::line(&format!(
        "{} held, each by tests that passed",
        ledger.count()
    ));
    ledger.is_printed(checkout)?;
    say::step(&format!("All done in {} s", began.elapsed().as_secs()));
    say::line(&outcomes.summary());
    Ok(())
}

/// Measures the gateway under floods, optimised as it is shipped, one after the other.
///
/// # Errors
/// A build that fails, or a bound that does not hold.
pub(crate) fn load(checkout: &Checkout) -> Result<(), Fault> {
    parts::toolchain(checkout)?;
    say::step("Load");
    let build = ["test", "--release", "--locked", "--test", "gateway"];
    let alone = [
        "--",
        "load::",
        "--ignored",
        "--nocapture",
        "--test-threads",
        "1",
    ];
    call::run(checkout.cargo().args(build).args(alone))
}

/// The product's own features were compiled alone by clippy; here it is built with what its tests
/// add, once for both.
fn build(checkout: &Checkout) -> Result<(), Fault> {
    say::step("Build");
    let all = ["test", "--workspace", "--no-run", "--locked"];
    call::run(checkout.cargo().args(all))
}

fn run_tests(checkout: &Checkout) -> Result<Outcomes, Fault> {
    let live = parts::ready(checkout)?;
    say::step("Tests");
    let quick = tests(checkout, &live, &["--skip", LIVE])?;
    // One at a time and beside nothing else: a real model starves where anything competes.
    say::step("Tests with a real model");
    let real = tests(checkout, &live, &[LIVE, "--test-threads", "1"])?;
    Ok(Outcomes::read(&format!("{quick}\n{real}")))
}

/// One run of all test programs, with arguments for each; what it printed.
fn tests(checkout: &Checkout, live: &parts::Live, filter: &[&str]) -> Result<String, Fault> {
    let mut command = checkout.cargo();
    command
        .args(["test", "--workspace", "--no-fail-fast", "--locked"])
        .arg("--")
        .args(filter)
        .envs(live.environment())
        // The outcomes are read from this text: it must be plain.
        .env("CARGO_TERM_COLOR", "never");
    let shown = call::shown(&command);
    let (status, output) = call::run_and_keep(command)?;
    if status.success() {
        Ok(output)
    } else {
        Err(Fault::Failed { shown, status })
    }
}
