//! The plan by tables: every row was worked out from the rule by hand or by a second program.

use proptest::prelude::*;

use super::{
    Cause, Grant, Ladder, MARGIN, NoneAsked, Overflow, Plan, QueueExempt, Reason, Reasoning, Rung,
    Terms, ceiling, exempt, plan, rung,
};
use crate::config::Preset;
use crate::memory::Level;
use crate::request::Chat;

use Expected::{Fits, Over};
use Level::{Critical, Elevated, High, Normal};
use QueueExempt::{No, Yes};

/// What a row of the table expects, with `must` as the whole prompt.
enum Expected {
    /// Reserve, budget, granted, written, why.
    Fits(u64, u64, u64, Option<u64>, Option<Reason>),
    /// What an overflow says is reserved.
    Over(u64),
}

/// Window, must, asked, queued requests, memory, whether the queue does not count (tools).
type Row = (u64, u64, Option<u64>, usize, Level, QueueExempt, Expected);

#[rustfmt::skip]
const TABLE: [Row; 52] = [
    // The design's example, alone, with a line, with tools, under pressure.
    (16384, 10000, Some(8192), 0, Normal, No, Fits(4096, 12256, 6352, Some(6352), Some(Reason::Window))),
    (16384, 10000, Some(8192), 1, Normal, No, Fits(4096, 12256, 4096, Some(4096), Some(Reason::Waiting))),
    (16384, 10000, Some(8192), 1, Normal, Yes, Fits(4096, 12256, 6352, Some(6352), Some(Reason::Window))),
    (16384, 10000, Some(8192), 1, High, Yes, Fits(1024, 15328, 1024, Some(1024), Some(Reason::Pressure))),
    (16384, 10000, None, 0, Normal, No, Fits(4096, 12256, 6352, None, None)),
    (16384, 10000, None, 2, Normal, No, Fits(4096, 12256, 4096, Some(4096), Some(Reason::Waiting))),
    (16384, 10000, None, 0, Elevated, No, Fits(4096, 12256, 4096, Some(4096), Some(Reason::Pressure))),
    (16384, 10000, None, 0, High, No, Fits(1024, 15328, 1024, Some(1024), Some(Reason::Pressure))),
    (16384, 16000, Some(8192), 0, Normal, No, Fits(352, 16000, 352, Some(352), Some(Reason::Window))),
    (16384, 16096, Some(8192), 0, Normal, No, Fits(256, 16096, 256, Some(256), Some(Reason::Window))),
    (16384, 16097, Some(8192), 0, Normal, No, Over(288)),
    (16384, 16200, Some(100), 0, Normal, No, Fits(100, 16252, 100, None, None)),
    (16384, 16252, Some(100), 0, Normal, No, Fits(100, 16252, 100, None, None)),
    (16384, 16253, Some(100), 0, Normal, No, Over(132)),
    (16384, 0, Some(0), 0, Normal, No, Fits(0, 16352, 0, None, None)),
    (2048, 100, None, 0, Normal, No, Fits(512, 1504, 1916, None, None)),
    (2048, 100, Some(24), 0, Normal, No, Fits(24, 1992, 24, None, None)),
    (2048, 100, Some(24), 3, High, No, Fits(24, 1992, 24, None, None)),
    (2048, 1500, None, 0, Normal, No, Fits(512, 1504, 516, None, None)),
    (2048, 1504, Some(512), 0, Normal, No, Fits(512, 1504, 512, None, None)),
    (2048, 1505, Some(512), 0, Normal, No, Fits(511, 1505, 511, Some(511), Some(Reason::Window))),
    (2048, 1760, Some(512), 0, Normal, No, Fits(256, 1760, 256, Some(256), Some(Reason::Window))),
    (2048, 1761, Some(512), 0, Normal, No, Over(288)),
    (2048, 500, Some(4096), 0, Normal, No, Fits(512, 1504, 1516, Some(1516), Some(Reason::Window))),
    (2048, 500, Some(4096), 1, Normal, No, Fits(512, 1504, 512, Some(512), Some(Reason::Waiting))),
    (2048, 500, Some(4096), 1, Normal, Yes, Fits(512, 1504, 1516, Some(1516), Some(Reason::Window))),
    (2048, 500, Some(4096), 0, Elevated, Yes, Fits(512, 1504, 512, Some(512), Some(Reason::Pressure))),
    (2048, 500, Some(4096), 4, High, No, Fits(256, 1760, 256, Some(256), Some(Reason::Pressure))),
    (2048, 1700, Some(4096), 4, High, No, Fits(256, 1760, 256, Some(256), Some(Reason::Pressure))),
    (4096, 3000, Some(1024), 0, Normal, No, Fits(1024, 3040, 1024, None, None)),
    (4096, 3041, Some(1024), 0, Normal, No, Fits(1023, 3041, 1023, Some(1023), Some(Reason::Window))),
    (4096, 3808, Some(1024), 0, Normal, No, Fits(256, 3808, 256, Some(256), Some(Reason::Window))),
    (4096, 3809, Some(1024), 0, Normal, No, Over(288)),
    (4096, 3809, Some(128), 0, Normal, No, Fits(128, 3936, 128, None, None)),
    (4096, 200, None, 1, Normal, No, Fits(1024, 3040, 1024, Some(1024), Some(Reason::Waiting))),
    (4096, 200, None, 1, Normal, Yes, Fits(1024, 3040, 3864, None, None)),
    (4096, 200, Some(300), 1, Normal, No, Fits(300, 3764, 300, None, None)),
    (4096, 200, None, 0, High, No, Fits(512, 3552, 512, Some(512), Some(Reason::Pressure))),
    (512, 100, None, 0, Normal, No, Fits(128, 352, 380, None, None)),
    (512, 100, None, 1, Normal, No, Fits(128, 352, 256, Some(256), Some(Reason::Waiting))),
    (512, 100, None, 0, High, No, Fits(128, 352, 128, Some(128), Some(Reason::Pressure))),
    (512, 416, None, 0, Normal, No, Fits(64, 416, 64, None, None)),
    (512, 417, None, 0, Normal, No, Over(96)),
    (512, 300, Some(400), 1, Normal, No, Fits(128, 352, 180, Some(180), Some(Reason::Window))),
    (32768, 1000, None, 1, Normal, No, Fits(4096, 28640, 4096, Some(4096), Some(Reason::Waiting))),
    (32768, 1000, Some(16000), 1, Normal, No, Fits(4096, 28640, 4096, Some(4096), Some(Reason::Waiting))),
    (32768, 30000, Some(16000), 1, Elevated, No, Fits(2736, 30000, 2736, Some(2736), Some(Reason::Window))),
    (32768, 30000, Some(16000), 0, Normal, No, Fits(2736, 30000, 2736, Some(2736), Some(Reason::Window))),
    (131072, 90000, Some(8192), 0, Normal, Yes, Fits(8192, 122848, 8192, None, None)),
    (131072, 90000, Some(8192), 2, Normal, No, Fits(4096, 126944, 4096, Some(4096), Some(Reason::Waiting))),
    (131072, 130784, Some(8192), 2, High, Yes, Fits(256, 130784, 256, Some(256), Some(Reason::Window))),
    (131072, 130785, Some(8192), 2, High, Yes, Over(288)),
];

fn terms(preset: Preset, window: u64, asked: Option<u64>, plan: Plan) -> Terms {
    Terms {
        preset,
        plan,
        window: Some(window),
        margin: MARGIN,
        asked,
        none_asked: NoneAsked::EndsAtWindow,
    }
}

#[test]
fn everyone_gets_the_number_the_rule_gives() {
    for (window, must, asked, waiting, level, tools, expected) in TABLE {
        let row = format!(
            "window {window} must {must} asked {asked:?} waiting {waiting} {level:?} {tools:?}"
        );
        let terms = terms(
            Preset::Balanced,
            window,
            asked,
            plan(waiting, level, tools, Ladder::On),
        );
        match expected {
            Over(reserved) => assert_eq!(
                terms.overflow(must),
                Some(Overflow {
                    needed: must,
                    reserved,
                    window
                }),
                "cannot fit: {row}"
            ),
            Fits(reserve, budget, granted, write, reason) => {
                assert_eq!(terms.overflow(must), None, "fits: {row}");
                assert_eq!(terms.reserve(must), reserve, "reserve: {row}");
                assert_eq!(terms.budget(must), budget, "budget: {row}");
                let grant = Grant {
                    granted: Some(granted),
                    asked,
                    write,
                    reason,
                };
                assert_eq!(terms.grant(must), grant, "granted: {row}");
            }
        }
    }
}

#[test]
fn the_designs_example_keeps_its_promise() {
    let terms = terms(Preset::Balanced, 16_384, Some(8_192), Plan::default());
    assert_eq!(terms.reserve(10_000), 4_096, "a quarter of the window");
    assert_eq!(
        terms.budget(10_000) - 10_000,
        2_256,
        "so much history stays"
    );
    let granted = terms.grant(terms.budget(10_000)).granted;
    assert_eq!(granted, Some(4_096), "even with all of it");
}

#[test]
fn the_rung_is_the_worse_of_line_and_memory() {
    #[rustfmt::skip]
    let table = [
        (0, Normal, No, Rung::Full, None),
        (1, Normal, No, Rung::Shorter, Some(Cause::Waiting)),
        (4, Normal, No, Rung::Shorter, Some(Cause::Waiting)),
        (4, Normal, Yes, Rung::Full, None),
        (0, Elevated, No, Rung::Shorter, Some(Cause::Pressure)),
        (1, Elevated, No, Rung::Shorter, Some(Cause::Waiting)),
        (1, Elevated, Yes, Rung::Shorter, Some(Cause::Pressure)),
        (1, High, No, Rung::Short, Some(Cause::Pressure)),
        (0, High, Yes, Rung::Short, Some(Cause::Pressure)),
        (1, Critical, No, Rung::NotNow, Some(Cause::Pressure)),
        (0, Critical, Yes, Rung::NotNow, Some(Cause::Pressure)),
    ];
    for (waiting, level, exempt, rung, cause) in table {
        let found = plan(waiting, level, exempt, Ladder::On);
        assert_eq!(
            found,
            Plan { rung, cause },
            "{waiting} waiting, {level:?}, exempt {exempt:?}"
        );
    }
}

#[test]
fn a_switched_off_ladder_leaves_every_request_as_asked() {
    for level in [Normal, Elevated, High, Critical] {
        assert_eq!(
            rung(4, level, No, Ladder::Off),
            Rung::Full,
            "a person said so, at {level:?}"
        );
    }
}

#[test]
fn ceilings_follow_the_table_also_with_no_window_known() {
    let balanced = |rung, window| ceiling(rung, Preset::Balanced, window);
    assert_eq!(balanced(Rung::Full, Some(4096)), None, "as asked");
    assert_eq!(
        balanced(Rung::Shorter, Some(512)),
        Some(256),
        "never under 256"
    );
    assert_eq!(balanced(Rung::Shorter, Some(8192)), Some(2048), "a quarter");
    assert_eq!(
        balanced(Rung::Shorter, Some(131_072)),
        Some(4096),
        "never over 4096"
    );
    assert_eq!(
        balanced(Rung::Short, Some(512)),
        Some(128),
        "never under 128"
    );
    assert_eq!(balanced(Rung::Short, Some(4096)), Some(512), "an eighth");
    assert_eq!(
        balanced(Rung::Short, Some(131_072)),
        Some(1024),
        "never over 1024"
    );
    assert_eq!(balanced(Rung::Shorter, None), Some(4096), "the upper end");
    assert_eq!(balanced(Rung::Short, None), Some(1024), "the upper end");
    for (rung, tokens) in [(Rung::Full, 256), (Rung::Shorter, 128), (Rung::Short, 64)] {
        for window in [None, Some(512), Some(131_072)] {
            assert_eq!(
                ceiling(rung, Preset::Strict, window),
                Some(tokens),
                "the article's"
            );
        }
    }
}

#[test]
fn strict_reserves_and_grants_the_same_number() {
    #[rustfmt::skip]
    let table = [
        // window, asked, waiting, reserve = granted, budget, written, why
        (4096, None, 0, 256, 3808, Some(256), Some(Reason::Preset)),
        (4096, Some(128), 0, 128, 3936, None, None),
        (4096, Some(1000), 0, 256, 3808, Some(256), Some(Reason::Preset)),
        (4096, None, 1, 128, 3936, Some(128), Some(Reason::Waiting)),
        (4096, Some(64), 1, 64, 4000, None, None),
        (4096, Some(1000), 2, 128, 3936, Some(128), Some(Reason::Waiting)),
        (352, None, 0, 256, 64, Some(256), Some(Reason::Preset)),
    ];
    for (window, asked, waiting, reserve, budget, write, reason) in table {
        let terms = terms(
            Preset::Strict,
            window,
            asked,
            plan(waiting, Normal, No, Ladder::On),
        );
        assert_eq!(
            terms.overflow(0),
            None,
            "64 tokens are enough: {window} {asked:?} {waiting}"
        );
        assert_eq!(
            (terms.reserve(0), terms.budget(0)),
            (reserve, budget),
            "{asked:?} {waiting}"
        );
        let grant = Grant {
            granted: Some(reserve),
            asked,
            write,
            reason,
        };
        assert_eq!(terms.grant(budget), grant, "{asked:?} {waiting}");
    }
}

#[test]
fn strict_refuses_an_input_budget_under_64() {
    let terms = terms(Preset::Strict, 351, None, Plan::default());
    let overflow = Overflow {
        needed: 0,
        reserved: 288,
        window: 351,
    };
    assert_eq!(terms.overflow(0), Some(overflow), "63 are left");
}

#[test]
fn a_limit_is_always_written_for_an_upstream_that_runs_on() {
    let quiet = terms(Preset::Balanced, 4096, None, Plan::default());
    assert_eq!(
        quiet.grant(1000).write,
        None,
        "elsewhere none asked is none written"
    );
    let ollama = Terms {
        none_asked: NoneAsked::RunsOn,
        ..quiet
    };
    let grant = ollama.grant(1000);
    assert_eq!(
        (grant.write, grant.reason),
        (Some(3064), Some(Reason::Window)),
        "up to the window"
    );
    let asked = Terms {
        asked: Some(100),
        ..ollama
    };
    assert_eq!(
        asked.grant(1000).write,
        None,
        "a limit that holds anyway stays as it is"
    );
}

#[test]
fn with_no_window_known_only_the_ceiling_limits() {
    let plan = plan(1, Normal, No, Ladder::On);
    let terms = Terms {
        window: None,
        ..terms(Preset::Balanced, 0, Some(8192), plan)
    };
    assert_eq!(
        terms.overflow(1_000_000),
        None,
        "nothing is refused on a guess"
    );
    assert_eq!(terms.budget(0), u64::MAX, "nor cut");
    assert_eq!(
        terms.grant(1_000_000).write,
        Some(4096),
        "the ceiling's upper end"
    );
    assert_eq!(
        terms.at_rest().grant(1_000_000).write,
        None,
        "nothing limits it at rest"
    );
}

#[test]
fn an_estimated_prompt_over_the_window_still_grants_the_floor() {
    let terms = terms(Preset::Balanced, 2048, Some(512), Plan::default());
    assert_eq!(
        terms.grant(9_000).granted,
        Some(256),
        "the estimate may be wrong"
    );
}

#[test]
fn a_changed_limit_says_what_was_asked_and_why() {
    let plan = plan(1, Normal, No, Ladder::On);
    let cut = terms(Preset::Balanced, 2048, Some(4096), plan);
    assert_eq!(
        cut.grant(500).header().as_deref(),
        Some("512; asked=4096; reason=waiting")
    );
    let none = terms(Preset::Balanced, 2048, None, plan);
    assert_eq!(
        none.grant(500).header().as_deref(),
        Some("512; asked=none; reason=waiting")
    );
    assert_eq!(
        none.at_rest().grant(500).header(),
        None,
        "nothing changed, nothing said"
    );
}

#[test]
fn the_line_does_not_shorten_tool_calls_json_and_reasoning() {
    // Report of half a tool call executed because the cap hit in the middle of it.
    let body = |member: &str| format!(r#"{{"messages":[]{member}}}"#);
    let read = |member| Chat::read(body(member).into()).unwrap();
    assert_eq!(
        exempt(&read(""), Reasoning::Unseen),
        No,
        "a plain chat waits like all"
    );
    assert_eq!(
        exempt(&read(""), Reasoning::Seen),
        Yes,
        "it would be cut before it began"
    );
    for member in [
        r#","tools":[{"type":"function"}]"#,
        r#","functions":[{"name":"f"}]"#,
        r#","response_format":{"type":"json_object"}"#,
        r#","response_format":{"type":"json_schema","json_schema":{}}"#,
    ] {
        assert_eq!(exempt(&read(member), Reasoning::Unseen), Yes, "{member}");
    }
}

proptest! {
    #[test]
    fn the_plan_never_raises_what_was_asked_nor_exceeds_the_window(
        window in 64_u64..200_000,
        must in 0_u64..200_000,
        prompt in 0_u64..200_000,
        asked in prop::option::of(0_u64..100_000),
        waiting in 0_usize..5,
        level in prop::sample::select(vec![Normal, Elevated, High, Critical]),
        preset in prop::sample::select(vec![Preset::Balanced, Preset::Strict]),
    ) {
        let terms = terms(preset, window, asked, plan(waiting, level, No, Ladder::On));
        if terms.overflow(must).is_some() {
            return Ok(());
        }
        let budget = terms.budget(must);
        prop_assert!(must <= budget, "what must stay has its room");
        prop_assert!(terms.reserve(must) >= terms.floor(), "and the answer its least");
        let prompt = must.max(prompt.min(budget));
        let grant = terms.grant(prompt);
        let granted = grant.granted.unwrap();
        prop_assert!(asked.is_none_or(|asked| granted <= asked), "never more than asked");
        prop_assert!(terms.ceiling().is_none_or(|most| granted <= most), "never over the ceiling");
        prop_assert!(granted >= terms.reserve(must), "what was reserved is granted");
        prop_assert!(prompt + granted + MARGIN <= window, "prompt and answer fit together");
        prop_assert_eq!(grant.write.is_some(), grant.reason.is_some(), "every change has a reason");
        prop_assert!(terms.reserve(must) <= terms.at_rest().reserve(0), "a rung never reserves more");
    }
}
