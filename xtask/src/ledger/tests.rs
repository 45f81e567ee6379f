//! The ledger against made-up files and test runs.

use std::path::PathBuf;

use super::*;

const TWO: &str = r#"
[[promise]]
id = "order"
promise = "First come,  first | served"
tests = ["gateway::queue::in_order", "queue::tests::in_order"]

[[promise]]
id = "bound"
promise = "The line is bounded"
tests = ["full"]
"#;

fn parse(text: &str) -> Result<Ledger, String> {
    Ledger::parse(text, PathBuf::from("promises.toml")).map_err(|fault| fault.to_string())
}

fn ran(lines: &str) -> Outcomes {
    Outcomes::read(&format!(
        "Running unittests src/lib.rs (t/oneslot-1)\n{lines}"
    ))
}

#[test]
fn a_promise_holds_when_each_of_its_tests_passed() {
    let ledger = parse(TWO).expect("the file is in order");
    let outcomes = ran("test queue::tests::in_order ... ok\n\
         test gateway::queue::in_order ... ok\n\
         test full ... ok");
    assert!(ledger.holds(&outcomes).is_ok(), "all three ran and passed");
}

#[test]
fn a_missing_ignored_failed_or_ambiguous_test_breaks_its_promise() {
    let ledger = parse(TWO).expect("the file is in order");
    let outcomes = ran("test queue::tests::in_order ... ignored\n\
         test a::full ... ok\n\
         test b::full ... FAILED");
    let said = ledger
        .holds(&outcomes)
        .expect_err("no promise is kept")
        .to_string();
    for part in [
        "order: no test `gateway::queue::in_order` ran",
        "order: `queue::tests::in_order` was ignored",
        "bound: `full` could be any of oneslot::a::full, oneslot::b::full",
    ] {
        assert!(
            said.contains(part),
            "`{part}` must be said, not only: {said}"
        );
    }
}

#[test]
fn a_ledger_that_is_not_in_order_is_refused_with_the_place() {
    for (text, part) in [
        (
            "[[promise]]\nid = 'a'\npromise = 'b'",
            "entry 1: `tests` is missing",
        ),
        (
            "[[promise]]\nid = 'a'\npromise = 'b'\ntests = []",
            "entry 1: `tests` is missing, empty",
        ),
        (
            "[[promise]]\nid = 'a'\ntests = ['t']",
            "entry 1: `promise` is missing",
        ),
        (
            "[[promise]]\nid = 'a'\nproof = 't'",
            "entry 1: `proof` is not a member",
        ),
        ("[[promises]]\nid = 'a'", "`promises` is not one of"),
        ("[[promise", "promises.toml: "),
    ] {
        let said = parse(text).expect_err("the entry is wrong");
        assert!(
            said.contains(part),
            "`{part}` must be said, not only: {said}"
        );
    }
    let twice = parse(&TWO.replace("bound", "order")).expect_err("one id, two promises");
    assert!(
        twice.contains("`order` is used twice"),
        "an id names one promise: {twice}"
    );
}

#[test]
fn the_table_has_a_row_for_each_promise() {
    let table = parse(TWO).expect("the file is in order").table();
    let row =
        "| First come, first \\| served | `gateway::queue::in_order`<br>`queue::tests::in_order` |";
    assert!(
        table.contains(row),
        "a bar in a sentence must not end its cell: {table}"
    );
    assert_eq!(
        table.lines().count(),
        4,
        "two lines of head, two of promises"
    );
}
