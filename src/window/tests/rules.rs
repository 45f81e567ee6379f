//! The rule as properties, and the article's vectors.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{call, chat, chat_with, fit_exactly, result, rules, say, sent, tokens};
use crate::config::Preset;
use crate::degrade::{Cause, Overflow, Plan, Rung, Terms};
use crate::request::Role;
use crate::window::{
    ByteBound, Certainty, Counting, FitRules, Lesson, PER_MEDIUM, Ratio, Sent, Trim, Units,
    cut_silently, estimate, fit_by_estimate, relearn, strict_trim, surely_fits,
};

// --- generated chats ---

fn words() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z ]{0,400}", "[世界窗口]{0,60}", Just(String::new())]
}

/// One turn: a user's message, rounds of parallel calls, perhaps a closing answer.
fn turn() -> impl Strategy<Value = Vec<Value>> {
    let round = (1_usize..4, words(), prop::option::of(words()));
    (
        words(),
        prop::collection::vec(round, 0..3),
        prop::option::of(words()),
        0..12_u8,
    )
        .prop_map(|(question, rounds, answer, extra)| {
            let mut list = vec![say("user", question)];
            for (parallel, text, remark) in rounds {
                list.extend(remark.map(|remark| say("assistant", remark)));
                // Ids are made unique once the whole chat is known.
                let ids: Vec<String> = (0..parallel).map(|n| format!("?{n}")).collect();
                let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
                list.push(call(&ids));
                list.extend(ids.iter().map(|id| result(id, text.clone())));
            }
            list.extend(answer.map(|answer| say("assistant", answer)));
            match extra {
                0 => list.push(say("developer", "be brief")),
                1 => list.push(say("user2", "who?")),
                2 => list.push(say("user", "again")),
                _ => {}
            }
            list
        })
}

fn messages() -> impl Strategy<Value = Vec<Value>> {
    let system = prop::option::of(words());
    let greeting = prop::option::of("[a-z ]{0,80}");
    (
        system,
        greeting,
        prop::collection::vec(turn(), 1..12),
        any::<prop::sample::Index>(),
    )
        .prop_map(|(system, greeting, turns, end)| {
            let mut list: Vec<Value> = system.map(|text| say("system", text)).into_iter().collect();
            list.extend(greeting.map(|text| say("assistant", text)));
            let mut round = 0;
            for mut message in turns.into_iter().flatten() {
                if let Some(calls) = message.get_mut("tool_calls").and_then(Value::as_array_mut) {
                    round += 1;
                    for call in calls {
                        let id = format!("{round}{}", call["id"].as_str().unwrap());
                        call["id"] = Value::from(id);
                    }
                } else if message["role"] == "tool" {
                    let id = format!("{round}{}", message["tool_call_id"].as_str().unwrap());
                    message["tool_call_id"] = Value::from(id);
                }
                list.push(message);
            }
            // A chat may end with a user, an answer or results, never between call and result.
            let mut length = 1 + end.index(list.len());
            while list.get(length).is_some_and(|next| next["role"] == "tool") {
                length += 1;
            }
            list.truncate(length);
            list
        })
}

fn trims() -> impl Strategy<Value = Trim> {
    prop_oneof![Just(Trim::Steady), Just(Trim::Minimal)]
}

fn plans() -> impl Strategy<Value = Plan> {
    prop_oneof![
        Just(Plan::default()),
        Just(Plan {
            rung: Rung::Shorter,
            cause: Some(Cause::Waiting)
        }),
        Just(Plan {
            rung: Rung::Short,
            cause: Some(Cause::Pressure)
        }),
    ]
}

fn under(plan: Plan, rules: FitRules) -> FitRules {
    FitRules {
        terms: Terms {
            plan,
            ..rules.terms
        },
        ..rules
    }
}

/// Everything the rule promises about which messages are left.
fn check_kept(list: &[Value], keep: &[usize]) {
    let role = |index: usize| list[index]["role"].as_str().unwrap();
    assert!(keep.is_sorted_by(|a, b| a < b), "order kept: {keep:?}");
    for index in 0..list.len() {
        if ["system", "developer"].contains(&role(index)) {
            assert!(
                keep.contains(&index),
                "system message {index} stays: {keep:?}"
            );
        }
    }
    let last_user = (0..list.len()).rfind(|index| role(*index) == "user");
    let from = last_user.unwrap_or(0);
    assert!(
        last_user.is_none_or(|user| keep.contains(&user)),
        "the last user message stays"
    );
    let has_call = |index: &usize| list[*index].get("tool_calls").is_some();
    let group = (from..list.len()).rfind(has_call).unwrap_or(from);
    if last_user.is_some() {
        for index in group..list.len() {
            assert!(
                keep.contains(&index),
                "{index} belongs to the end, which stays: {keep:?}"
            );
        }
    }
    let first = keep
        .iter()
        .find(|index| !["system", "developer"].contains(&role(**index)));
    if keep.len() < list.len() && last_user.is_some() {
        assert_eq!(
            first.map(|index| role(*index)),
            Some("user"),
            "a user speaks first: {keep:?}"
        );
    }
    for (index, message) in list.iter().enumerate() {
        if message["role"] != "tool" {
            continue;
        }
        let id = &message["tool_call_id"];
        let calls = |caller: &&Value| {
            let calls = caller["tool_calls"].as_array();
            calls.is_some_and(|calls| calls.iter().any(|call| call["id"] == *id))
        };
        let caller = list.iter().position(|message| calls(&message)).unwrap();
        assert_eq!(
            keep.contains(&index),
            keep.contains(&caller),
            "call and result together: {keep:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_fitted_chat_keeps_every_promise(
        list in messages(),
        window in 200_u64..3_000,
        asked in prop::option::of(0_u64..2_000),
        trim in trims(),
        plan in plans(),
    ) {
        let chat = chat(&list);
        let rules = under(plan, rules(window, asked, trim));
        let (found, counts) = fit_exactly(&chat, rules);
        prop_assert!(counts <= 8, "{counts} counts are too many");
        let all: Vec<usize> = (0..list.len()).collect();
        match found {
            Ok(fit) => {
                let keep = fit.keep.clone().unwrap_or(all);
                check_kept(&list, &keep);
                prop_assert_eq!(fit.dropped, list.len() - keep.len(), "what is said is what is done");
                let real = tokens(&chat, Some(&keep));
                if fit.certainty == Certainty::Certain {
                    prop_assert_eq!(fit.prompt_after, real, "the count of what is sent");
                }
                let must = Units::of(&chat);
                let everything = must.kept(must.len());
                prop_assert!(real <= fit.budget || keep == everything, "never over budget");
                prop_assert!(real + rules.terms.floor() + 32 <= window, "room for the least answer");
                let granted = fit.grant.granted.unwrap();
                prop_assert!(asked.is_none_or(|asked| granted <= asked), "never more than asked");
                if fit.certainty == Certainty::Certain {
                    prop_assert!(real + granted + 32 <= window, "prompt and answer fit together");
                }
                let again = fit_exactly(&sent(&chat, &fit), rules).0.unwrap();
                prop_assert_eq!(again.dropped, 0, "a fitted chat fits");
            }
            Err(overflow) => {
                let units = Units::of(&chat);
                let must = tokens(&chat, Some(&units.kept(units.len())));
                prop_assert_eq!(overflow.needed, must, "the number that was too much");
                prop_assert!(must + overflow.reserved > window, "it cannot fit");
            }
        }
    }

    #[test]
    fn minimal_drops_nothing_it_need_not(list in messages(), window in 200_u64..3_000) {
        let chat = chat(&list);
        let (found, counts) = fit_exactly(&chat, rules(window, Some(64), Trim::Minimal));
        if let Ok(fit) = found && fit.dropped > 0 && counts < 8 {
            let units = Units::of(&chat);
            let cut = (0..=units.len()).find(|cut| Some(units.kept(*cut)) == fit.keep).unwrap();
            let one_less = tokens(&chat, Some(&units.kept(cut - 1)));
            prop_assert!(one_less > fit.budget, "one exchange more would not have fitted");
        }
    }

    #[test]
    fn an_estimate_alone_refuses_nothing(list in messages(), window in 64_u64..1_000, trim in trims()) {
        let chat = chat(&list);
        let rules = FitRules { certainty: Certainty::Estimate, ..rules(window, None, trim) };
        let fit = fit_by_estimate(&chat, rules, Counting::Bytes, Ratio::ONE);
        let fit = fit.expect("the server has the last word");
        let all: Vec<usize> = (0..list.len()).collect();
        let keep = fit.keep.clone().unwrap_or(all);
        check_kept(&list, &keep);
        if fit.prompt_after > fit.budget {
            let units = Units::of(&chat);
            prop_assert_eq!(keep, units.kept(units.len()), "all that may go has gone");
        }
    }

    #[test]
    fn strict_never_orphans_a_result_and_never_exceeds_its_budget(list in messages(), budget in 64_u64..2_000) {
        let chat = chat(&list);
        let cost = |keep: &[usize]| estimate(&chat, Some(keep), Counting::Scalar, Ratio::ONE);
        match strict_trim(chat.messages(), budget) {
            Ok(keep) => {
                prop_assert!(cost(&keep) <= budget, "by its own count");
                prop_assert!(keep.contains(&(list.len() - 1)), "the last message stays");
                let system = |index: &usize| chat.messages()[*index].role() == Role::System;
                prop_assert!(keep.iter().is_sorted_by_key(|index| (!system(index), *index)), "system first");
                for index in &keep {
                    let id = &list[*index]["tool_call_id"];
                    let calls = |other: &&usize| list[**other]["tool_calls"].as_array()
                        .is_some_and(|calls| calls.iter().any(|call| call["id"] == *id));
                    prop_assert!(id.is_null() || keep.iter().any(|other| calls(&other)), "no orphan");
                }
            }
            Err(long) => prop_assert!(long.needed > budget, "the number that was too much"),
        }
    }

    #[test]
    fn what_surely_fits_fits_by_the_harshest_tokenizer(list in messages(), budget in 0_u64..8_000) {
        let chat = chat(&list);
        // A token per byte and a verbose template.
        let harsh: u64 = chat.messages().iter().map(|message| message.size().bytes + 20).sum();
        prop_assert!(!surely_fits(&chat, budget) || harsh + 300 <= budget, "certain means certain");
    }
}

#[test]
fn strict_trims_as_the_article_does_in_all_240_cases() {
    let text = include_str!("../../../tests/vectors/trim.json");
    let file: Value = serde_json::from_str(text).unwrap();
    let cases = file["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 240, "the whole file");
    for (number, case) in cases.iter().enumerate() {
        let chat = chat(case["messages"].as_array().unwrap());
        let budget = case["token_budget"].as_u64().unwrap();
        let found = strict_trim(chat.messages(), budget);
        match case.get("kept") {
            Some(kept) => {
                let kept: Vec<usize> = serde_json::from_value(kept.clone()).unwrap();
                assert_eq!(found, Ok(kept), "case {number}");
            }
            None => {
                let needed = found.expect_err("the article refuses").needed;
                assert!(needed > budget, "case {number}: {needed} over {budget}");
            }
        }
    }
}

#[test]
fn preset_strict_refuses_by_its_own_count_and_asks_for_none() {
    let long = "x".repeat(4_000);
    let chat = chat(&[say("user", "old"), say("user", long)]);
    let mut rules = rules(4_096, None, Trim::Steady);
    rules.terms.preset = Preset::Strict;
    let (found, counts) = fit_exactly(&chat, rules);
    let overflow = Overflow {
        needed: 4_012,
        reserved: 288,
        window: 4_096,
    };
    assert_eq!(
        (found, counts),
        (Err(overflow), 0),
        "4,000 characters, user, 8"
    );
}

#[test]
fn preset_strict_sends_the_system_messages_first() {
    let chat = chat(&[say("user", "a"), say("system", "s")]);
    let mut rules = rules(4_096, None, Trim::Steady);
    rules.terms.preset = Preset::Strict;
    let fit = fit_exactly(&chat, rules).0.unwrap();
    assert_eq!(fit.keep, Some(vec![1, 0]), "the article's order");
    assert_eq!(
        (fit.dropped, fit.grant.write, fit.budget),
        (0, Some(256), 3_808),
        "its numbers"
    );
}

#[test]
fn an_estimate_is_three_bytes_a_token_and_eight_a_message() {
    let members = json!({"tools": [{"type": "function"}]});
    let picture = json!({"type": "image_url", "image_url": {"url": "https://x/y.png"}});
    let list = [
        say("user", "abcd"),
        say("user", "世界"),
        json!({"role": "user", "content": [picture]}),
    ];
    let chat = chat_with(&list, members);
    let tools = (r#"[{"type":"function"}]"#.len() as u64).div_ceil(3);
    let expected = (2 + 8) + (2 + 8) + (PER_MEDIUM + 8) + tools;
    assert_eq!(estimate(&chat, None, Counting::Bytes, Ratio::ONE), expected);
    let scaled = estimate(
        &chat,
        None,
        Counting::Bytes,
        Ratio::learned(expected * 2, expected),
    );
    assert_eq!(
        scaled,
        expected * 2,
        "a learned count scales back to itself"
    );
}

#[test]
fn odd_messages_cost_something() {
    for content in [
        json!(null),
        json!(5),
        json!(["bare"]),
        json!({"a": ["b"]}),
        json!([]),
    ] {
        let chat = chat(&[json!({"role": "user2", "content": content})]);
        assert!(
            estimate(&chat, None, Counting::Bytes, Ratio::ONE) > 0,
            "{content}"
        );
    }
}

#[test]
fn an_overflow_with_numbers_makes_the_next_estimate_right_and_certain() {
    let chat = chat(&[say("user", "x".repeat(3_000)), say("user", "y")]);
    let sent = Sent {
        chat: &chat,
        keep: None,
        ratio: Ratio::ONE,
        window: Some(4_096),
    };
    let lesson = relearn(sent, Some(4_031), Some(2_048));
    assert_eq!(
        (lesson.window, lesson.certainty),
        (Some(2_048), Certainty::Certain)
    );
    assert_eq!(
        estimate(&chat, None, Counting::Bytes, lesson.ratio),
        4_031,
        "the server's number"
    );
}

#[test]
fn an_overflow_without_numbers_no_longer_counts_as_fitting() {
    let chat = chat(&[
        say("user", "x".repeat(300)),
        say("assistant", "y"),
        say("user", "z"),
    ]);
    for (known, named) in [
        (Some(4_096), None),
        (None, Some(4_096)),
        (Some(8_192), Some(4_096)),
    ] {
        let sent = Sent {
            chat: &chat,
            keep: None,
            ratio: Ratio::ONE,
            window: known,
        };
        let Lesson {
            ratio,
            window,
            certainty,
        } = relearn(sent, None, named);
        assert_eq!((window, certainty), (Some(4_096), Certainty::Estimate));
        let bytes = ByteBound::Refuted;
        let rules = FitRules {
            certainty,
            bytes,
            ..rules(4_096, Some(64), Trim::Minimal)
        };
        let fit = fit_by_estimate(&chat, rules, Counting::Bytes, ratio).unwrap();
        assert_eq!(fit.keep, Some(vec![2]), "all that may go goes");
        assert!(
            estimate(&chat, None, Counting::Bytes, ratio) > 4_096,
            "what was refused is too long"
        );
    }
    let sent = Sent {
        chat: &chat,
        keep: None,
        ratio: Ratio::ONE,
        window: None,
    };
    let lesson = relearn(sent, None, None);
    assert_eq!(
        (lesson.window, lesson.ratio > Ratio::ONE),
        (None, true),
        "no window, a raised ratio"
    );
}

#[test]
fn a_prompt_cut_in_silence_is_noticed_and_a_coarse_estimate_is_not() {
    use Certainty::{Certain, Estimate};
    assert!(
        cut_silently(6_000, 0, Certain, 2_050),
        "a third of what was sent"
    );
    assert!(
        cut_silently(6_000, 0, Estimate, 2_050),
        "too far off for any text"
    );
    assert!(
        !cut_silently(6_000, 0, Certain, 3_000),
        "half is not under half"
    );
    assert!(!cut_silently(1_600, 0, Estimate, 1_000), "English");
    assert!(!cut_silently(2_500, 0, Estimate, 1_000), "indented code");
    assert!(
        !cut_silently(60, 0, Certain, 5),
        "a few tokens mean nothing"
    );
    assert!(
        !cut_silently(3 * PER_MEDIUM + 200, 3, Estimate, 400),
        "small pictures cost less"
    );
    assert!(
        !cut_silently(1_000, 0, Certain, 1_100),
        "more than counted is no cut"
    );
}
