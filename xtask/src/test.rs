//! `cargo xtask test`, and the longer runs of its tests: `soak` and `load`.
//!
//! All building comes before all testing, because a model server starves beside a compiler.

use std::fmt;
use std::ops::AddAssign;
use std::time::Instant;

use crate::checkout::Checkout;
use crate::error::Error;
use crate::{deps, lint, output, panel, process};

/// Part of the names of all tests with a real model.
const REAL_MODEL: &str = "live::";

/// Installs, lints, builds and tests everything.
///
/// # Errors
/// The first step that fails.
pub(crate) fn test(checkout: &Checkout) -> Result<(), Error> {
    #[expect(
        clippy::disallowed_methods,
        reason = "only shows how long the run took"
    )]
    let start = Instant::now();
    lint::tools(checkout)?;
    let needs = [
        &deps::TRAY,
        &deps::PANEL,
        &deps::DENY,
        &deps::BROWSER,
        &deps::TRAY_TESTS,
        &deps::MODEL,
        &deps::REAL_TESTS,
    ];
    deps::install(checkout, &needs)?;
    // The tray's program contains the panel, so the panel comes before anything that compiles.
    panel::build(checkout)?;
    lint::sources(checkout)?;
    lint::dependencies(checkout)?;
    output::step("Build");
    let build = ["test", "--workspace", "--no-run", "--locked"];
    process::run(checkout.cargo().args(build))?;
    panel::test(checkout)?;
    output::step("Tests");
    let mut counts = Counts::default();
    let quick = cargo_test(checkout, &["--skip", REAL_MODEL], &mut counts)?;
    // One at a time: a real model starves beside other work.
    output::step("Tests with a real model");
    let one_by_one = [REAL_MODEL, "--test-threads", "1"];
    let real = cargo_test(checkout, &one_by_one, &mut counts)?;
    output::step(&format!("Ended after {} s", start.elapsed().as_secs()));
    output::line(&counts.to_string());
    quick.and(real)
}

/// Sends random traffic to the gateway for so many minutes; the test is in `tests/gateway/soak.rs`.
///
/// # Errors
/// [`Error::Failed`] if a promise broke; the test prints its seed.
pub(crate) fn soak(checkout: &Checkout, minutes: u64) -> Result<(), Error> {
    output::step(&format!("Random traffic for {minutes} min"));
    let mut command = checkout.cargo();
    command
        .args(["test", "--package", "oneslot", "--test", "gateway"])
        .args(["--locked", "--", "soak::", "--nocapture"])
        .env("ONESLOT_SOAK_S", minutes.saturating_mul(60).to_string());
    process::run(&mut command)
}

/// Measures the optimised gateway under floods, one after the other.
///
/// # Errors
/// A build that fails, or a bound that does not hold.
pub(crate) fn load(checkout: &Checkout) -> Result<(), Error> {
    output::step("Load");
    let mut command = checkout.cargo();
    command
        .args(["test", "--release", "--locked", "--test", "gateway", "--"])
        .args(["load::", "--ignored", "--nocapture", "--test-threads", "1"]);
    process::run(&mut command)
}

/// Runs all test programs with these arguments, and adds up what they report.
fn cargo_test(
    checkout: &Checkout,
    args: &[&str],
    counts: &mut Counts,
) -> Result<Result<(), Error>, Error> {
    let mut command = checkout.cargo();
    command
        .args(["test", "--workspace", "--no-fail-fast", "--locked", "--"])
        .args(args)
        .envs(deps::test_environment(checkout)?)
        .env("CARGO_TERM_COLOR", "never");
    let (found, ended) = process::run_and_read(command, Counts::read)?;
    found.into_iter().for_each(|found| *counts += found);
    Ok(ended)
}

/// Numbers of tests, as test programs report them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Counts {
    /// Reads a test program's last line:
    /// `test result: ok. 7 passed; 0 failed; 1 ignored; 0 measured; …`.
    fn read(line: &str) -> Option<Self> {
        let (_, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |name: &str| {
            let mut numbers = numbers.split("; ");
            numbers.find_map(|part| part.strip_suffix(name)?.trim().parse().ok())
        };
        Some(Self {
            passed: count("passed")?,
            failed: count("failed")?,
            ignored: count("ignored")?,
        })
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            failed,
            ignored,
        } = self;
        write!(f, "{passed} passed; {failed} failed; {ignored} ignored")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_several_programs_are_added_up() {
        let printed = "\
running 3 tests
test queue::a_test ... ok
test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.10s
test result: FAILED. 10 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s
test result: no numbers";
        let mut counts = Counts::default();
        let found = printed.lines().filter_map(Counts::read);
        found.for_each(|found| counts += found);
        assert_eq!(counts.to_string(), "12 passed; 3 failed; 1 ignored");
    }
}
