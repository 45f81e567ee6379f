//! The article's table, one test a row, under preset `strict`.
//!
//! Where the design goes further than the article the tests follow the design and say so.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::chat;
use crate::support::flavour::Flavour;
use crate::support::gateway::{Gateway, Setup};
use crate::support::held::{hold, queue};
use crate::support::refused::{Advice, refused};
use crate::support::script::{Gate, Script, completion};
use crate::support::upstream::Upstream;
use crate::support::wire::json_response;

fn strict(upstream: &Upstream) -> Setup {
    Setup::before(upstream).config("preset = \"strict\"")
}

/// What a message costs by the article: role, content and eight, one per character.
fn cost(message: &Value) -> usize {
    let count = |member: &str| message[member].as_str().unwrap_or_default().chars().count();
    count("role") + count("content") + 8
}

fn total(messages: &[Value]) -> usize {
    messages.iter().map(cost).sum()
}

fn user(characters: usize) -> Value {
    chat::message("user", &"字".repeat(characters))
}

#[test]
fn base_url_model_and_window_come_from_the_environment() {
    let upstream = Upstream::plain();
    let gateway = Setup::bare()
        .config("preset = \"strict\"")
        .env("LLM_BASE_URL", &format!("{}/v1", upstream.url()))
        .env("LLM_MODEL", "my-model")
        .env("LLM_N_CTX", "2048")
        .start();
    let body = json!({"messages": [{"role": "user", "content": "x"}]});
    let answer = gateway.chat(&body);
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert_eq!(upstream.chat_bodies()[0]["model"], "my-model");
    assert_eq!(answer.head.get("x-oneslot-window"), Some("2048"));
}

#[test]
fn without_them_the_articles_own_addresses_and_numbers_hold() {
    let upstream = Upstream::plain();
    let gateway = strict(&upstream).start();
    let body = json!({"messages": [{"role": "user", "content": "x"}]});
    let answer = gateway.chat(&body);
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert_eq!(upstream.chat_bodies()[0]["model"], "llama3.2");
    assert_eq!(answer.head.get("x-oneslot-window"), Some("4096"));
    let alone = Setup::bare().config("preset = \"strict\"").start();
    let url = alone.status()["upstream"]["base_url"].to_string();
    assert!(url.contains("127.0.0.1:11434"), "{url}");
}

#[test]
fn health_is_asked_before_each_completion() {
    let upstream = Upstream::plain();
    let mut gateway = strict(&upstream).start();
    for _ in 0..3 {
        let before = upstream.requests();
        assert_eq!(gateway.chat(&chat::whole("x")).status(), 200);
        let since: Vec<String> = upstream.look(|state| {
            state.log[before..]
                .iter()
                .map(|seen| format!("{} {}", seen.request.method, seen.request.path()))
                .collect()
        });
        let chat = since
            .iter()
            .position(|seen| seen == "POST /v1/chat/completions")
            .unwrap();
        assert!(
            since[..chat].iter().any(|seen| seen == "GET /v1/models"),
            "health first: {since:?}"
        );
    }
    gateway.stands(&upstream);
}

#[test]
fn an_unhealthy_server_is_unavailable_and_gets_no_prompt() {
    for sick in [
        Script::json(500, &json!({"error": "no"})),
        Script::new().hang(),
        Script::new().rst(),
    ] {
        let upstream = Upstream::plain();
        upstream.always("GET", "/v1/models", move |_| sick.clone());
        let mut gateway = strict(&upstream).start();
        let answer = gateway.chat(&chat::whole("x"));
        refused(&answer, 503, "LLM_UNAVAILABLE", Advice::Later);
        assert_eq!(upstream.chats().len(), 0);
        gateway.stands(&upstream);
    }
}

#[test]
fn one_runs_four_wait_and_the_sixth_is_overloaded_at_once() {
    let upstream = Upstream::plain();
    let mut gateway = strict(&upstream).start();
    let held = hold(&gateway, &upstream);
    let waiting = queue(&gateway, 4);
    let sixth = gateway.chat(&chat::whole("sixth"));
    refused(&sixth, 503, "LLM_OVERLOADED", Advice::Later);
    held.release();
    for mut client in waiting {
        assert_eq!(client.finish().status(), 200);
    }
    assert_eq!(
        upstream.order(),
        [
            "hold the slot",
            "number 0",
            "number 1",
            "number 2",
            "number 3"
        ]
    );
    gateway.stands(&upstream);
}

/// Fails once as told; then three seconds of cooldown, every time, and the line goes on.
fn cools_down_after(config: &str, break_it: impl Fn(&Upstream), mend_it: impl Fn(&Upstream)) {
    let upstream = Upstream::plain();
    let mut gateway = strict(&upstream).config(config).start();
    for _ in 0..2 {
        break_it(&upstream);
        let answer = gateway.chat(&chat::whole("fails"));
        assert!(answer.status() >= 500, "{}", answer.text());
        let left = gateway.status()["health"]["cooldown_ms"].as_u64().unwrap();
        assert!(
            (1..=3000).contains(&left),
            "3,000 ms without doubling: {left}"
        );
        mend_it(&upstream);
        let seen = upstream.requests();
        refused(
            &gateway.chat(&chat::whole("too early")),
            503,
            "LLM_UNAVAILABLE",
            Advice::Later,
        );
        assert_eq!(upstream.requests(), seen, "nothing is sent during cooldown");
        gateway.until_status("the cooldown ends", |status| {
            status["health"]["cooldown_ms"] == 0
        });
        crate::support::eventually("the line goes on", || {
            (gateway.chat(&chat::whole("goes on")).status() == 200).then_some(())
        });
    }
    gateway.stands(&upstream);
}

#[test]
fn a_failed_health_check_cools_down_for_three_seconds() {
    cools_down_after(
        "",
        |upstream| upstream.always("GET", "/v1/models", |_| Script::json(500, &json!({}))),
        |upstream| upstream.as_usual("GET", "/v1/models"),
    );
}

#[test]
fn a_connection_failure_cools_down_for_three_seconds() {
    cools_down_after(
        "",
        |upstream| upstream.chats_always(|_| Script::new().rst()),
        |upstream| upstream.as_usual("POST", "/v1/chat/completions"),
    );
}

#[test]
fn a_timeout_cools_down_for_three_seconds() {
    cools_down_after(
        "timeouts.total_s = 1",
        |upstream| upstream.chats_always(|_| Script::new().hang()),
        |upstream| upstream.as_usual("POST", "/v1/chat/completions"),
    );
}

#[test]
fn the_output_limit_is_what_was_asked_at_most_256_and_128_while_anyone_waits() {
    let upstream = Upstream::plain();
    let mut gateway = strict(&upstream).start();
    for (asked, granted) in [
        (None, 256),
        (Some(1000), 256),
        (Some(100), 100),
        (Some(256), 256),
    ] {
        let mut body = chat::whole("x");
        if let Some(asked) = asked {
            body["max_tokens"] = json!(asked);
        }
        assert_eq!(gateway.chat(&body).status(), 200);
        assert_eq!(
            upstream.chat_bodies().pop().unwrap()["max_tokens"],
            granted,
            "{asked:?} alone"
        );
    }
    for (asked, granted) in [(None, 128), (Some(1000), 128), (Some(100), 100)] {
        let mut body = chat::whole("while somebody waits");
        if let Some(asked) = asked {
            body["max_tokens"] = json!(asked);
        }
        let held = hold(&gateway, &upstream);
        let before = upstream.chats().len();
        let gate = Gate::new();
        upstream.next_chat(
            Script::new()
                .wait_for(&gate)
                .send(&json_response(200, &completion("x"))),
        );
        let mut first = gateway.open_chat(&body);
        gateway.until_queue(1, 1);
        let mut second = gateway.open_chat(&chat::whole("waits"));
        gateway.until_queue(1, 2);
        held.release();
        let sent = upstream.until_chats(before + 1)[before].request.json();
        gate.open();
        assert_eq!(sent["max_tokens"], granted, "{asked:?} while one waits");
        assert_eq!(first.finish().status(), 200);
        assert_eq!(second.finish().status(), 200);
    }
    gateway.stands(&upstream);
}

#[test]
fn a_window_that_leaves_less_than_64_for_the_input_is_a_context_overflow() {
    let upstream = Upstream::plain();
    // 256 + 32 + 63 leaves one too few; with a smaller limit the same window is enough.
    let mut gateway = strict(&upstream).config("window.context = 351").start();
    let answer = gateway.chat(&chat::whole("x"));
    refused(&answer, 400, "CONTEXT_OVERFLOW", Advice::Never);
    let mut body = chat::whole("x");
    body["max_tokens"] = json!(255);
    assert_eq!(gateway.chat(&body).status(), 200, "64 is enough");
    upstream.look(|state| assert_eq!(state.chats().len(), 1));
    let mut small = Setup::before(&upstream)
        .config("preset = \"strict\"\nwindow.context = 352")
        .start();
    small.stands(&upstream);
    assert!(gateway.is_alive());
}

#[test]
fn a_message_costs_role_content_and_eight_one_per_scalar_value() {
    let upstream = Upstream::plain();
    let gateway = strict(&upstream).config("window.context = 1000").start();
    let budget = 1000 - 256 - 32;
    let fits = budget - "user".len() - 8;
    for character in ["字", "a", "🙂", "é"] {
        let exactly = chat::of(&[chat::message("user", &character.repeat(fits))]);
        let answer = gateway.chat(&exactly);
        assert_eq!(
            answer.status(),
            200,
            "{fits} × {character} fits: {}",
            answer.text()
        );
        let one_more = chat::of(&[chat::message("user", &character.repeat(fits + 1))]);
        refused(
            &gateway.chat(&one_more),
            400,
            "CONTEXT_OVERFLOW",
            Advice::Never,
        );
    }
}

#[test]
fn system_messages_stay_the_oldest_others_go_and_the_last_one_stays() {
    let upstream = Upstream::plain();
    let gateway = strict(&upstream).config("window.context = 1000").start();
    let budget = 1000 - 256 - 32;
    let mut messages = vec![chat::message("system", "系统")];
    for turn in 0..10 {
        messages.push(user(60 + turn));
        messages.push(chat::message("assistant", &"答".repeat(50 + turn)));
    }
    messages.push(user(40));
    let answer = gateway.chat(&chat::of(&messages));
    assert_eq!(answer.status(), 200, "{}", answer.text());
    // Message by message, from the oldest, until it fits: the article's own loop.
    let mut rest = messages[1..].to_vec();
    while rest.len() > 1 && cost(&messages[0]) + total(&rest) > budget {
        rest.remove(0);
    }
    let mut wanted = vec![messages[0].clone()];
    wanted.append(&mut rest);
    let sent = upstream.chat_bodies().pop().unwrap();
    assert_eq!(sent["messages"], json!(wanted));
    let gone = (messages.len() - wanted.len()).to_string();
    assert_eq!(
        answer.head.get("x-oneslot-dropped-messages"),
        Some(gone.as_str())
    );
}

#[test]
fn what_the_user_just_said_is_never_cut_silently() {
    let upstream = Upstream::plain();
    let gateway = strict(&upstream).config("window.context = 1000").start();
    let answer = gateway.chat(&chat::of(&[
        user(10),
        chat::message("assistant", "ok"),
        user(900),
    ]));
    let error = refused(&answer, 400, "CONTEXT_OVERFLOW", Advice::Never);
    assert_eq!(error["code"], "context_length_exceeded");
    assert_eq!(upstream.chats().len(), 0);
}

#[test]
fn inference_has_its_own_limit_and_is_a_timeout_after_it() {
    let upstream = Upstream::plain();
    let mut gateway = strict(&upstream).config("timeouts.total_s = 2").start();
    upstream.next_chat(Script::new().hang());
    let answer = gateway.chat(&chat::whole("x"));
    let error = refused(&answer, 504, "LLM_TIMEOUT", Advice::Never);
    assert!(
        error["message"].as_str().unwrap().contains("2 seconds"),
        "{error}"
    );
    gateway.stands(&upstream);
    // The limit itself is not waited for here: it is shown.
    let shown = strict(&upstream).start();
    let config = shown.config_path().display().to_string();
    let text = shown.cli_ok(&["config", "--config", &config]);
    let line = text
        .lines()
        .find(|line| line.contains("total_s"))
        .unwrap_or_default()
        .to_owned();
    assert!(line.contains("120"), "120,000 ms: {line:?} in {text}");
}

#[test]
fn a_connection_that_fails_is_unavailable() {
    let upstream = Upstream::plain();
    let mut gateway = strict(&upstream).start();
    upstream.chats_always(|_| Script::new().rst());
    refused(
        &gateway.chat(&chat::whole("x")),
        503,
        "LLM_UNAVAILABLE",
        Advice::Later,
    );
    upstream.die();
    gateway.stands_after_return(&upstream);
}

#[test]
fn an_upstream_error_is_503_or_its_own_4xx_with_an_excerpt_of_200() {
    let upstream = Upstream::plain();
    let mut gateway = strict(&upstream).start();
    let long = "长".repeat(500);
    for (status, wanted) in [(400, 400), (404, 404), (422, 422), (500, 503), (502, 503)] {
        upstream.next_chat(Script::whole(
            status,
            "text/plain; charset=utf-8",
            long.as_bytes(),
        ));
        let answer = gateway.chat(&chat::whole("x"));
        assert_eq!(answer.status(), wanted, "{status}: {}", answer.text());
        assert_eq!(answer.code(), Some("LLM_UPSTREAM"));
        let message = answer.json()["error"]["message"]
            .as_str()
            .unwrap()
            .to_owned();
        let shown = message.matches('长').count();
        assert!(
            (1..=200).contains(&shown),
            "the first 200 characters: {shown}"
        );
        gateway.control("POST", "/oneslot/check", "");
        gateway.until_status("ready", |status| status["health"]["state"] == "ready");
    }
    gateway.stands(&upstream);
}

#[test]
fn it_merges_nothing_adds_no_private_field_retries_nothing_and_streams_hold_the_slot() {
    let upstream = Upstream::plain();
    let mut gateway = strict(&upstream).start();
    let held = hold(&gateway, &upstream);
    let same = chat::whole("the same");
    let mut first = gateway.open_chat(&same);
    gateway.until_queue(1, 1);
    let mut second = gateway.open_chat(&same);
    gateway.until_queue(1, 2);
    assert!(
        second.is_silent_for(Duration::from_millis(1100)),
        "a stream holds the slot to its last token"
    );
    assert_eq!(upstream.chats().len(), 1);
    held.release();
    assert_eq!(first.finish().status(), 200);
    assert_eq!(second.finish().status(), 200);
    assert_eq!(upstream.chats().len(), 3, "equal prompts are not merged");
    for body in upstream.chat_bodies() {
        for private in ["num_ctx", "n_ctx", "options", "truncate", "keep_alive"] {
            assert!(body[private].is_null(), "{private} in {body}");
        }
    }
    upstream.next_chat(Script::json(500, &json!({"error": "boom"})));
    let before = upstream.chats().len();
    gateway.chat(&chat::whole("fails"));
    assert_eq!(upstream.chats().len(), before + 1, "no jittery retries");
    gateway.stands(&upstream);
}

#[test]
fn line_length_time_budget_and_failures_are_in_the_log() {
    let upstream = Upstream::start(Flavour::Plain);
    let gateway: Gateway = strict(&upstream)
        .config("window.context = 1000\nlog.format = \"json\"")
        .start();
    let mut messages = vec![chat::message("system", "s")];
    messages.extend((0..20).map(|_| user(60)));
    let answer = gateway.chat(&chat::of(&messages));
    let id = answer.head.get("x-oneslot-request-id").unwrap().to_owned();
    let line = crate::support::eventually("its line", || {
        gateway
            .said()
            .lines()
            .find(|line| line.contains(&id))
            .map(str::to_owned)
    });
    for word in [
        "queue",
        "prompt_before",
        "prompt_after",
        "budget",
        "failures",
    ] {
        assert!(line.contains(word), "{word} in {line}");
    }
    let record = gateway.until_record("done");
    assert_eq!(record["budget"], 1000 - 256 - 32);
    assert_eq!(record["prompt_before"], total(&messages));
    assert!(record["prompt_after"].as_u64() <= Some(712));
}
