//! What became of each test, read from what `cargo test` printed.
//!
//! A test's full name is its binary's name and its path in there: `oneslot::refusal::tests::…` for
//! the library, `gateway::queue::…` for `tests/gateway/`, `doc::…` for an example in a comment.

use std::collections::BTreeMap;

/// How one test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed,
    Ignored,
}

/// Every test that was named in a run, by full name.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    by_name: BTreeMap<String, Outcome>,
}

impl Outcomes {
    /// Reads the output of one or more runs of `cargo test`.
    pub(crate) fn read(output: &str) -> Self {
        let mut outcomes = Self::default();
        let mut binary = String::new();
        let mut open: Option<String> = None;
        for line in output.lines().map(str::trim_end) {
            if let Some(name) = binary_of(line) {
                binary = name;
                open = None;
            } else if let Some((name, rest)) = test_of(line) {
                let name = format!("{binary}::{name}");
                match outcome_of(rest) {
                    Some(outcome) => outcomes.add(name, outcome),
                    // With one thread the name is printed first, and what the test's children
                    // print comes between it and the word that tells how it ended.
                    None => open = Some(name),
                }
            } else if let Some(outcome) = last_word_outcome(line)
                && let Some(name) = open.take()
            {
                outcomes.add(name, outcome);
            }
        }
        outcomes
    }

    /// All binaries' tests in one line, each test counted once.
    pub(crate) fn summary(&self) -> String {
        let count = |wanted| {
            self.by_name
                .values()
                .filter(|&&outcome| outcome == wanted)
                .count()
        };
        format!(
            "{} passed, {} failed, {} skipped",
            count(Outcome::Passed),
            count(Outcome::Failed),
            count(Outcome::Ignored)
        )
    }

    /// The tests whose full name is `name` or ends in `::name`.
    pub(crate) fn named(&self, name: &str) -> Vec<(&str, Outcome)> {
        self.by_name
            .iter()
            .filter(|(full, _)| {
                full.strip_suffix(name)
                    .is_some_and(|before| before.is_empty() || before.ends_with("::"))
            })
            .map(|(full, outcome)| (full.as_str(), *outcome))
            .collect()
    }

    /// A test that failed once has failed, whatever another run of it said.
    fn add(&mut self, name: String, outcome: Outcome) {
        let known = self.by_name.entry(name).or_insert(outcome);
        if outcome == Outcome::Failed {
            *known = outcome;
        }
    }
}

/// The binary that cargo announces: `Running tests/gateway/main.rs (…/deps/gateway-0123)`.
fn binary_of(line: &str) -> Option<String> {
    let line = line.trim_start();
    if line.starts_with("Doc-tests ") {
        return Some("doc".to_owned());
    }
    let path = line.strip_prefix("Running ")?.strip_suffix(')')?;
    let (_, path) = path.rsplit_once(" (")?;
    let file = path.rsplit(['/', '\\']).next()?;
    let file = file.strip_suffix(".exe").unwrap_or(file);
    let (name, _hash) = file.rsplit_once('-')?;
    Some(name.to_owned())
}

/// The name in a line of the test runner, and what follows it: `test queue::full ... ok`.
fn test_of(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ...")?;
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    Some((name, rest.trim_start()))
}

fn outcome_of(word: &str) -> Option<Outcome> {
    if word == "ok" {
        Some(Outcome::Passed)
    } else if word == "FAILED" {
        Some(Outcome::Failed)
    } else if word == "ignored" || word.starts_with("ignored, ") {
        Some(Outcome::Ignored)
    } else {
        None
    }
}

fn last_word_outcome(line: &str) -> Option<Outcome> {
    if line.ends_with("FAILED") {
        Some(Outcome::Failed)
    } else if line == "ok" {
        Some(Outcome::Passed)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
     Running unittests src/lib.rs (/t/debug/deps/oneslot-0a1b2c)

running 3 tests
test queue::tests::a_full_line_refuses ... ok
test queue::tests::slow ... ignored, takes an hour
test slot::tests::it_panics - should panic ... ok

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out

     Running tests/gateway/main.rs (/t/debug/deps/gateway-99ff)

running 2 tests
test queue::a_full_line_refuses ... FAILED
test queue::one_thread ... noise of a child
more noise
ok
   Doc-tests oneslot
test src/lib.rs - slot (line 12) ... ok
";

    #[test]
    fn a_test_is_found_by_the_end_of_its_name_and_only_at_a_joint() {
        let outcomes = Outcomes::read(OUTPUT);
        assert_eq!(
            outcomes.summary(),
            "4 passed, 1 failed, 1 skipped",
            "every test of every binary is taken in"
        );
        assert_eq!(
            outcomes.named("gateway::queue::a_full_line_refuses"),
            [("gateway::queue::a_full_line_refuses", Outcome::Failed)],
            "the binary's name tells two tests of one name apart"
        );
        assert_eq!(
            outcomes.named("a_full_line_refuses").len(),
            2,
            "both end so"
        );
        assert!(
            outcomes.named("line_refuses").is_empty(),
            "half a word is no name"
        );
    }

    #[test]
    fn ignored_panicking_and_noisy_tests_are_read_for_what_they_are() {
        let outcomes = Outcomes::read(OUTPUT);
        let of = |name| outcomes.named(name).first().map(|(_, outcome)| *outcome);
        assert_eq!(
            of("slow"),
            Some(Outcome::Ignored),
            "a reason may follow the word"
        );
        assert_eq!(
            of("it_panics"),
            Some(Outcome::Passed),
            "the marker is not the name"
        );
        assert_eq!(
            of("one_thread"),
            Some(Outcome::Passed),
            "noise may stand between"
        );
    }
}
