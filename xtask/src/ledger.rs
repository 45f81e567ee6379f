//! The ledger of promises: `tests/promises.toml` names, for each thing that the project promises,
//! the tests that prove it. A promise whose test is gone, or did not run, fails the suite.

mod page;

use std::collections::BTreeSet;
use std::path::PathBuf;

use toml_edit::{DocumentMut, Item, Table};

use crate::checkout::{self, Checkout};
use crate::fault::Fault;
use crate::outcomes::{Outcome, Outcomes};
use crate::say;

/// What to do with the table of promises.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Show it.
    Print,
    /// Put it into the architecture page.
    Write,
}

/// The whole ledger, in the file's order.
#[derive(Debug)]
pub(crate) struct Ledger {
    promises: Vec<Promise>,
}

/// One thing that the project promises.
#[derive(Debug)]
struct Promise {
    id: String,
    /// A sentence in the project's own words.
    promise: String,
    /// Full names of tests, or unmistakable ends of them.
    tests: Vec<String>,
}

/// Prints the table, or writes it into the architecture page.
///
/// # Errors
/// What [`Ledger::read`] finds wrong, or the page's own faults.
pub(crate) fn show(checkout: &Checkout, form: Form) -> Result<(), Fault> {
    let table = Ledger::read(checkout)?.table();
    match form {
        Form::Print => {
            say::line(&table);
            Ok(())
        }
        Form::Write => page::write(checkout, &table),
    }
}

impl Ledger {
    /// Reads `tests/promises.toml`.
    ///
    /// # Errors
    /// [`Fault::Read`], [`Fault::Content`] when it is no TOML, [`Fault::Findings`] for entries
    /// without a member, with a surplus one, or with an id that is taken.
    pub(crate) fn read(checkout: &Checkout) -> Result<Self, Fault> {
        let path = checkout.file("tests/promises.toml");
        let text = checkout::read(&path)?;
        Self::parse(&text, path)
    }

    fn parse(text: &str, path: PathBuf) -> Result<Self, Fault> {
        let document: DocumentMut = match text.parse() {
            Ok(document) => document,
            Err(error) => {
                return Err(Fault::Content {
                    path,
                    reason: error.to_string(),
                });
            }
        };
        let mut promises = Vec::new();
        let mut findings = Vec::new();
        for (name, item) in document.iter() {
            match item.as_array_of_tables() {
                Some(entries) if name == "promise" => {
                    for (at, entry) in entries.iter().enumerate() {
                        match Promise::read(entry) {
                            Ok(promise) => promises.push(promise),
                            Err(reason) => findings.push(format!("entry {}: {reason}", at + 1)),
                        }
                    }
                }
                _ => findings.push(format!("`{name}` is not one of the ledger's members")),
            }
        }
        let mut ids = BTreeSet::new();
        for promise in &promises {
            if !ids.insert(promise.id.as_str()) {
                findings.push(format!("the id `{}` is used twice", promise.id));
            }
        }
        found("tests/promises.toml is not in order", findings)?;
        Ok(Self { promises })
    }

    /// How many promises there are.
    pub(crate) fn count(&self) -> usize {
        self.promises.len()
    }

    /// Checks that every promise's tests ran and passed.
    ///
    /// # Errors
    /// [`Fault::Findings`], a line for each test that does not bear its promise.
    pub(crate) fn holds(&self, outcomes: &Outcomes) -> Result<(), Fault> {
        let findings = self.promises.iter().flat_map(|promise| {
            let findings = promise
                .tests
                .iter()
                .filter_map(|test| unproven(test, outcomes));
            findings.map(|reason| format!("{}: {reason}", promise.id))
        });
        found("promises that no test bears out", findings.collect())
    }

    /// Checks that the architecture page shows this ledger.
    ///
    /// # Errors
    /// The page's faults, above all that its table is not up to date.
    pub(crate) fn is_printed(&self, checkout: &Checkout) -> Result<(), Fault> {
        page::check(checkout, &self.table())
    }

    /// The ledger as a Markdown table.
    fn table(&self) -> String {
        let mut table = String::from("| promise | proven by |\n| --- | --- |");
        for promise in &self.promises {
            let tests: Vec<_> = promise
                .tests
                .iter()
                .map(|test| format!("`{test}`"))
                .collect();
            let sentence = promise.promise.replace('|', "\\|");
            let sentence = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
            table.push_str(&format!("\n| {sentence} | {} |", tests.join("<br>")));
        }
        table
    }
}

impl Promise {
    fn read(entry: &Table) -> Result<Self, String> {
        for (name, _) in entry.iter() {
            if !["id", "promise", "tests"].contains(&name) {
                return Err(format!("`{name}` is not a member of a promise"));
            }
        }
        let text = |name: &str| {
            let value = entry.get(name).and_then(Item::as_str).map(str::trim);
            let value = value.filter(|value| !value.is_empty());
            value
                .map(str::to_owned)
                .ok_or(format!("`{name}` is missing or no text"))
        };
        let tests: Option<Vec<String>> =
            entry
                .get("tests")
                .and_then(Item::as_array)
                .and_then(|tests| {
                    tests
                        .iter()
                        .map(|test| test.as_str().map(str::to_owned))
                        .collect()
                });
        let tests = tests.filter(|tests| !tests.is_empty() && tests.iter().all(|t| !t.is_empty()));
        Ok(Self {
            id: text("id")?,
            promise: text("promise")?,
            tests: tests.ok_or("`tests` is missing, empty, or no list of names")?,
        })
    }
}

/// Why a test does not bear its promise, or nothing when it does.
fn unproven(test: &str, outcomes: &Outcomes) -> Option<String> {
    match outcomes.named(test).as_slice() {
        [] => Some(format!("no test `{test}` ran")),
        [(_, Outcome::Passed)] => None,
        [(_, Outcome::Ignored)] => Some(format!("`{test}` was ignored")),
        [(_, Outcome::Failed)] => Some(format!("`{test}` failed")),
        several => {
            let names: Vec<_> = several.iter().map(|(name, _)| *name).collect();
            Some(format!("`{test}` could be any of {}", names.join(", ")))
        }
    }
}

fn found(check: &'static str, findings: Vec<String>) -> Result<(), Fault> {
    if findings.is_empty() {
        Ok(())
    } else {
        Err(Fault::Findings { check, findings })
    }
}

#[cfg(test)]
mod tests;
