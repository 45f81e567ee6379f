//! The cut point stays put: over turns, and when a rung passes.

use serde_json::Value;

use super::{call, chat, chat_with, fit_exactly, result, rules, say, tokens};
use crate::degrade::{Cause, Plan, Rung, Terms};
use crate::window::{Certainty, FitRules, Trim, Units, fit};

const WINDOW: u64 = 2_048;

/// Turn `n` of an English chat: about 60 tokens.
fn turn(n: usize) -> [Value; 2] {
    let size = 120 + n * 37 % 90;
    [
        say("user", "q".repeat(size)),
        say("assistant", "a".repeat(100 + n * 13 % 40)),
    ]
}

/// The index of the first message that is kept behind the system message, turn by turn.
fn cut_points(trim: Trim, turns: usize, plan: impl Fn(usize) -> Plan) -> (Vec<usize>, u64) {
    let mut list = vec![say("system", "You are terse.")];
    let mut points = Vec::new();
    let mut used = 0;
    for n in 0..turns {
        let [question, answer] = turn(n);
        list.push(question);
        let chat = chat(&list);
        let base = rules(WINDOW, Some(128), trim);
        let rules = FitRules {
            terms: Terms {
                plan: plan(n),
                ..base.terms
            },
            ..base
        };
        let (found, counts) = fit_exactly(&chat, rules);
        assert!(counts <= 8, "few counts, turn {n}");
        let fit = found.unwrap();
        points.push(fit.keep.map_or(1, |keep| keep[1]));
        used += fit.prompt_after;
        list.push(answer);
    }
    (points, used / turns as u64)
}

fn moves(points: &[usize]) -> usize {
    points.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

#[test]
fn over_sixty_turns_a_steady_cut_moves_seldom_and_only_forward() {
    let (points, used) = cut_points(Trim::Steady, 60, |_| Plan::default());
    assert!(points.is_sorted(), "never back: {points:?}");
    assert!(
        (1..=6).contains(&moves(&points)),
        "it stays put for several turns: {points:?}"
    );
    assert!(
        used > WINDOW / 2,
        "and the window is used: {used} on average"
    );
    let (minimal, _) = cut_points(Trim::Minimal, 60, |_| Plan::default());
    assert!(
        moves(&minimal) > 20,
        "cutting the least moves it nearly every turn: {minimal:?}"
    );
}

#[test]
fn a_passing_rung_does_not_move_the_cut() {
    let (calm, _) = cut_points(Trim::Steady, 60, |_| Plan::default());
    let (busy, _) = cut_points(Trim::Steady, 60, |n| match n % 3 {
        0 => Plan::default(),
        1 => Plan {
            rung: Rung::Shorter,
            cause: Some(Cause::Waiting),
        },
        _ => Plan {
            rung: Rung::Short,
            cause: Some(Cause::Pressure),
        },
    });
    assert_eq!(
        calm, busy,
        "the server's cache is worth more than a few messages"
    );
}

#[test]
fn a_large_window_is_cut_alike_on_every_rung() {
    // Over 16,384 a rung's ceiling leaves more room than the reserve at rest.
    let list: Vec<Value> = (0..400)
        .flat_map(|n| {
            [
                say("user", "q".repeat(400 + n % 7)),
                say("assistant", "a".repeat(200)),
            ]
        })
        .chain([say("user", "end")])
        .collect();
    let chat = chat(&list);
    let base = rules(32_768, None, Trim::Steady);
    let calm = fit_exactly(&chat, base).0.unwrap();
    assert!(calm.dropped > 0, "the chat is longer than the window");
    for (rung, cause) in [
        (Rung::Shorter, Cause::Waiting),
        (Rung::Short, Cause::Pressure),
    ] {
        let plan = Plan {
            rung,
            cause: Some(cause),
        };
        let rules = FitRules {
            terms: Terms { plan, ..base.terms },
            ..base
        };
        assert_eq!(
            fit_exactly(&chat, rules).0.unwrap().keep,
            calm.keep,
            "{rung:?}"
        );
    }
}

#[test]
fn a_steady_cut_falls_back_to_finer_steps_where_no_coarse_one_is_left() {
    // What must stay leaves room for one small exchange, less than any grid step.
    let list = [
        say("user", "o".repeat(600)),
        say("assistant", "o".repeat(600)),
        say("user", "n".repeat(200)),
        say("assistant", "n".repeat(100)),
        say("user", "m".repeat(7_400)),
    ];
    let fit = fit_exactly(&chat(&list), rules(WINDOW, Some(256), Trim::Steady))
        .0
        .unwrap();
    assert_eq!(
        fit.keep,
        Some(vec![2, 3, 4]),
        "the newer exchange fits and stays"
    );
}

#[test]
fn trimming_switched_off_cuts_nothing_and_refuses_what_is_certain() {
    let list: Vec<Value> = (0..60).flat_map(turn).chain([say("user", "end")]).collect();
    let chat = chat(&list);
    let off = rules(WINDOW, Some(128), Trim::Off);
    let overflow = fit_exactly(&chat, off).0.unwrap_err();
    assert_eq!(overflow.needed, tokens(&chat, None), "the whole chat");
    let guess = FitRules {
        certainty: Certainty::Estimate,
        ..off
    };
    let fit = fit_exactly(&chat, guess).0.unwrap();
    assert_eq!(
        (fit.keep, fit.dropped),
        (None, 0),
        "on a guess it is sent whole"
    );
}

#[test]
fn a_short_chat_needs_no_count_and_a_fitting_one_needs_one() {
    let short = chat(&[say("system", "s"), say("user", "hello")]);
    let (found, counts) = fit_exactly(&short, rules(WINDOW, Some(128), Trim::Steady));
    let fit = found.unwrap();
    assert_eq!(
        (counts, fit.keep, fit.grant.write),
        (0, None, None),
        "bytes bound the tokens"
    );
    assert_eq!(
        fit.certainty,
        Certainty::Estimate,
        "and what is shown is an estimate"
    );
    // Characters exceed the window, tokens do not: answered whole.
    let english = chat(&[say("user", "w".repeat(5_000))]);
    let (found, counts) = fit_exactly(&english, rules(WINDOW, Some(128), Trim::Steady));
    assert_eq!(
        (found.unwrap().keep, counts),
        (None, 1),
        "one count shows that it fits"
    );
}

#[test]
fn very_uneven_chats_still_need_few_counts() {
    let list: Vec<Value> = (0..500_usize)
        .map(|n| say("user", "x".repeat(if n % 41 == 0 { 5_000 } else { n % 5 })))
        .collect();
    let chat = chat(&list);
    for window in [512, 1_024, 2_048, 8_192, 12_000] {
        for trim in [Trim::Steady, Trim::Minimal] {
            let mut counts = 0;
            let found = fit(&chat, rules(window, Some(64), trim), |keep| {
                counts += 1;
                // A server whose counts follow the estimates badly.
                let kept = keep.map_or(list.len(), <[usize]>::len) as u64;
                tokens(&chat, keep) / 3 + kept * 15
            });
            assert!(counts <= 8, "{counts} counts at {window} {trim:?}");
            let fit = found.unwrap();
            assert!(
                fit.prompt_after <= fit.budget,
                "it fits at {window} {trim:?}"
            );
        }
    }
}

// --- which pieces ---

fn pieces(list: &[Value]) -> Vec<Vec<usize>> {
    Units::of(&chat(list))
        .iter()
        .map(<[usize]>::to_vec)
        .collect()
}

#[test]
fn whole_exchanges_go_and_a_greeting_goes_with_the_first() {
    let list = [
        say("assistant", "hi"),
        say("user", "1"),
        say("assistant", "1"),
        say("system", "s"),
        say("user", "2"),
        say("user2", "?"),
        say("user", "3"),
        say("assistant", "prefill"),
    ];
    assert_eq!(pieces(&list), [vec![0, 1, 2], vec![4, 5]]);
    assert_eq!(
        pieces(&[say("assistant", "hi"), say("user", "1")]),
        [vec![0]],
        "alone it goes alone"
    );
}

#[test]
fn older_groups_of_the_last_exchange_go_after_all_exchanges() {
    let list = [
        say("user", "1"),
        say("user", "2"),
        say("assistant", "let me look"),
        call(&["a"]),
        result("a", "r"),
        call(&["b", "c"]),
        result("b", "r"),
        result("c", "r"),
        say("assistant", "one more"),
        call(&["d"]),
        result("d", "r"),
        say("assistant", "so"),
    ];
    assert_eq!(pieces(&list), [vec![0], vec![2, 3, 4], vec![5, 6, 7, 8]]);
}

#[test]
fn calls_and_results_that_stand_apart_are_one_piece() {
    let list = [
        say("user", "1"),
        call(&["a"]),
        say("user", "hurry"),
        result("a", "late"),
        say("user", "3"),
    ];
    assert_eq!(
        pieces(&list),
        [vec![0, 1, 2, 3]],
        "the exchanges the pair spans"
    );
    let list = [
        say("user", "1"),
        call(&["a"]),
        call(&["b"]),
        result("a", "r"),
        result("b", "r"),
    ];
    assert!(
        pieces(&list).is_empty(),
        "the last group's result belongs to the call before it"
    );
    let list = [
        say("user", "1"),
        call(&["a"]),
        say("user", "2"),
        result("a", "late"),
    ];
    assert!(
        pieces(&list).is_empty(),
        "a pair that reaches into what stays keeps its call"
    );
}

#[test]
fn repeated_ids_pair_with_the_nearest_call() {
    let list = [
        say("user", "1"),
        call(&["call_0"]),
        result("call_0", "r"),
        say("user", "2"),
        call(&["call_0"]),
        result("call_0", "r"),
        say("user", "3"),
    ];
    assert_eq!(
        pieces(&list),
        [vec![0, 1, 2], vec![3, 4, 5]],
        "two exchanges, not one"
    );
}

#[test]
fn legacy_functions_pair_by_order() {
    let legacy =
        serde_json::json!({"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}});
    let answer = serde_json::json!({"role": "function", "name": "f", "content": "r"});
    let list = [
        say("user", "1"),
        legacy.clone(),
        answer.clone(),
        legacy,
        answer,
    ];
    assert_eq!(
        pieces(&list),
        [vec![1, 2]],
        "the older group goes, the last stays"
    );
}

#[test]
fn a_chat_without_a_user_keeps_its_last_group_or_message() {
    assert!(pieces(&[]).is_empty(), "nothing to drop");
    assert!(
        pieces(&[say("system", "s")]).is_empty(),
        "a system message stays"
    );
    assert_eq!(
        pieces(&[say("assistant", "1"), say("assistant", "2")]),
        [vec![0]]
    );
    let list = [
        say("assistant", "1"),
        call(&["a"]),
        result("a", "r"),
        call(&["b"]),
        result("b", "r"),
        say("assistant", "so"),
    ];
    assert_eq!(pieces(&list), [vec![0], vec![1, 2]]);
}

#[test]
fn tools_alone_that_do_not_fit_are_refused_with_both_numbers() {
    let tools: Vec<Value> = (0..40)
        .map(|n| serde_json::json!({"n": n, "schema": "s".repeat(400)}))
        .collect();
    let chat = chat_with(&[say("user", "hi")], serde_json::json!({"tools": tools}));
    let overflow = fit_exactly(&chat, rules(4_096, Some(1_024), Trim::Steady))
        .0
        .unwrap_err();
    assert!(overflow.needed > 4_096, "the tools count: {overflow:?}");
    assert_eq!(
        (overflow.reserved, overflow.window),
        (288, 4_096),
        "least answer and margin"
    );
}
