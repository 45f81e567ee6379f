//! Failures people reported of comparable software, one test each.

use serde_json::{Value, json};

use super::{call, chat, chat_with, fit_exactly, result, rules, say, sent, tokens};
use crate::refusal::Refusal;
use crate::request::{Chat, Edit};
use crate::window::{
    Certainty, Counting, FitRules, Ratio, Trim, cut_silently, estimate, fit_by_estimate,
};

#[test]
fn a_chat_that_ends_with_a_result_keeps_its_call_and_its_user() {
    // The rule "always keep the last message" once kept a result without its call.
    let list = [
        say("system", "s"),
        say("user", "q".repeat(1_500)),
        call(&["c1"]),
        result("c1", "r".repeat(6_000)),
        call(&["c2"]),
        result("c2", "r".repeat(500)),
    ];
    let fit = fit_exactly(&chat(&list), rules(1_024, Some(128), Trim::Minimal))
        .0
        .unwrap();
    assert_eq!(
        fit.keep,
        Some(vec![0, 1, 4, 5]),
        "the older pair goes as one"
    );
}

#[test]
fn no_cut_position_breaks_parallel_calls() {
    let list = [
        say("user", "a".repeat(700)),
        call(&["c1", "c2"]),
        result("c1", "r".repeat(700)),
        result("c2", "r".repeat(700)),
        say("user", "b".repeat(700)),
    ];
    let chat = chat(&list);
    for window in (64..1_200).step_by(8) {
        for trim in [Trim::Steady, Trim::Minimal] {
            match fit_exactly(&chat, rules(window, Some(16), trim)).0 {
                Ok(fit) => {
                    let kept = fit.keep.unwrap_or_else(|| (0..5).collect());
                    assert!(
                        kept == [0, 1, 2, 3, 4] || kept == [4],
                        "all or none at {window}: {kept:?}"
                    );
                }
                Err(overflow) => assert!(overflow.needed > window / 2, "too long at {window}"),
            }
        }
    }
}

#[test]
fn a_long_text_part_in_an_array_makes_trimming_fire() {
    // Arrays were once counted by their number of parts.
    let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
    let parts = json!([{"type": "text", "text": "x".repeat(20_000)}, picture]);
    let chat = chat(&[
        json!({"role": "user", "content": parts}),
        say("user", "and now?"),
    ]);
    assert!(
        estimate(&chat, None, Counting::Bytes, Ratio::ONE) > 7_000,
        "text and picture"
    );
    let rules = FitRules {
        certainty: Certainty::Estimate,
        ..rules(4_096, Some(256), Trim::Steady)
    };
    let fit = fit_by_estimate(&chat, rules, Counting::Bytes, Ratio::ONE).unwrap();
    assert_eq!(fit.keep, Some(vec![1]), "the old message goes");
}

#[test]
fn tools_schemas_and_the_answer_are_part_of_the_budget() {
    let tools: Vec<Value> = (0..40)
        .map(|n| json!({"n": n, "schema": "s".repeat(400)}))
        .collect();
    let schema = json!({"type": "json_schema", "json_schema": {"s": "s".repeat(2_000)}});
    let mut list: Vec<Value> = (0..40)
        .flat_map(|n| {
            [
                say("user", format!("{n}").repeat(60)),
                say("assistant", "a".repeat(200)),
            ]
        })
        .collect();
    list.push(say("user", "end"));
    let members =
        json!({"tools": tools, "functions": tools, "response_format": schema, "max_tokens": 1024});
    let chat = chat_with(&list, members);
    let rules = FitRules {
        certainty: Certainty::Certain,
        ..rules(16_384, chat.asked(), Trim::Minimal)
    };
    let fit = fit_by_estimate(&chat, rules, Counting::Bytes, Ratio::ONE).unwrap();
    assert!(fit.dropped > 0, "the chat alone would have fitted");
    assert_eq!(fit.reserve, 1_024, "the answer keeps its room");
    assert!(fit.prompt_after + 1_024 + 32 <= 16_384, "all of it fits");
    assert_eq!(
        sent(&chat, &fit).outside(),
        chat.outside(),
        "tools are never trimmed"
    );
}

#[test]
fn a_server_that_cut_the_prompt_in_silence_is_found_out() {
    // 6,000 tokens sent into a window believed larger; the server says it read 2,050.
    let chat = chat(&[say("user", "世".repeat(5_992))]);
    let counted = estimate(&chat, None, Counting::Bytes, Ratio::ONE);
    assert_eq!(counted, 6_000, "one a character and 8");
    assert!(
        cut_silently(counted, 0, Certainty::Estimate, 2_050),
        "far below the estimate"
    );
}

#[test]
fn members_the_gateway_does_not_know_survive_trimming() {
    let body = r#"{"temperature":1.0,"chat_template_kwargs":{"enable_thinking":false},"seed":12345678901234567890123,
 "messages":[{"role":"user","content":"OLD"},{"role":"user","content":"new","x":1e0}],"seed":1,"options":{"num_ctx":2},"keep_alive":null,"stream_options":{}}"#;
    let body = body.replace("OLD", &"o".repeat(20_000));
    let chat = Chat::read(body.clone().into()).unwrap();
    let fit = fit_exactly(&chat, rules(2_048, Some(64), Trim::Steady))
        .0
        .unwrap();
    let text = chat.edited(&Edit {
        keep: fit.keep,
        ..Edit::default()
    });
    let old = format!(r#"{{"role":"user","content":"{}"}},"#, "o".repeat(20_000));
    assert_eq!(text, body.replace(&old, ""), "only the old message is gone");
}

#[test]
fn an_overflow_has_the_words_clients_look_for() {
    let chat = chat(&[say("system", "s".repeat(9_000)), say("user", "q")]);
    let overflow = fit_exactly(&chat, rules(1_024, None, Trim::Steady))
        .0
        .unwrap_err();
    let needed = tokens(&chat, None).to_string();
    let refusal = Refusal::from(overflow);
    let message = refusal.message();
    assert_eq!(
        (refusal.status().as_u16(), refusal.code()),
        (400, "CONTEXT_OVERFLOW")
    );
    assert!(
        message.contains("1024") && message.contains(&needed),
        "both numbers: {message}"
    );
    assert!(
        message.contains("maximum context length"),
        "the phrase: {message}"
    );
}

#[test]
fn a_megabyte_of_base64_costs_what_a_picture_costs() {
    let blob = "A".repeat(1_000_000);
    let attached = |text: &str| {
        json!({"role": "user", "content": [
            {"type": "text", "text": text},
            {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{blob}")}},
            {"type": "input_audio", "input_audio": {"data": blob, "format": "wav"}},
        ]})
    };
    let list = [attached("old"), say("assistant", "seen"), attached("new")];
    let chat = chat(&list);
    let guess = |window| FitRules {
        certainty: Certainty::Certain,
        ..rules(window, Some(256), Trim::Minimal)
    };
    let whole = fit_by_estimate(&chat, guess(8_192), Counting::Bytes, Ratio::ONE).unwrap();
    assert_eq!(whole.dropped, 0, "four attachments fit into 8,192");
    let cut = fit_by_estimate(&chat, guess(2_560), Counting::Bytes, Ratio::ONE).unwrap();
    assert_eq!(
        cut.keep,
        Some(vec![2]),
        "the old attachments go as whole messages, the last stays"
    );
}
