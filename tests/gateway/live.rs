//! Against a real llama.cpp with a real model in a window of 2,048 tokens, by real clients.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::chat;
use crate::support::client::{Client, Response};
use crate::support::gateway::{Gateway, Setup};
use crate::support::live::{LIVE_LIMIT, LiveChat, RealModel, SDKS, Sdk, alone};
use crate::support::refused::{Advice, error_event, refused};
use crate::support::tcp_proxy::Tap;
use crate::support::within;

const WINDOW: u32 = 2048;

/// Limits a starved machine keeps; a test that wants a shorter one says so after it.
fn before(url: &str) -> Setup {
    Setup::bare().config(&format!("upstream.base_url = {url:?}"))
}

fn base(gateway: &Gateway) -> String {
    format!("{}/v1", gateway.url())
}

/// A chat that takes as long as this many tokens do.
fn lasting(tokens: u32, stream: bool) -> Value {
    let mut body = if stream {
        chat::streamed("Count.")
    } else {
        chat::whole("Count.")
    };
    body["model"] = json!("smollm2");
    body["max_tokens"] = json!(tokens);
    body["ignore_eos"] = json!(true);
    body
}

/// An answer under way on the real server.
fn running(gateway: &Gateway, tokens: u32) -> Client {
    let mut client = gateway.open_chat(&lasting(tokens, true));
    client.head_within(LIVE_LIMIT);
    client.body_until_has("data: ");
    client
}

fn short(text: &str) -> Value {
    let mut body = chat::whole(text);
    body["model"] = json!("smollm2");
    body["max_tokens"] = json!(8);
    body
}

fn answered(gateway: &Gateway, body: &Value) -> Response {
    gateway.open_chat(body).finish_within(LIVE_LIMIT)
}

/// The next normal request is served, whatever was before.
fn recovers(gateway: &Gateway) {
    within(LIVE_LIMIT, "a normal answer", || {
        (answered(gateway, &short("Hello?")).status() == 200).then_some(())
    });
    gateway.until_queue(0, 0);
}

fn header<'a>(answer: &'a Value, name: &str) -> Option<&'a str> {
    answer["headers"][name].as_str()
}

#[test]
fn the_official_clients_get_their_answers_whole_and_streamed() {
    let _alone = alone();
    let model = RealModel::start(WINDOW);
    let gateway = before(&model.url()).start();
    for sdk in SDKS {
        let whole = LiveChat::new(sdk, &base(&gateway)).max_tokens(16).run();
        assert_eq!(whole["ok"], true, "{sdk:?}: {whole}");
        assert!(
            !whole["text"].as_str().unwrap().is_empty(),
            "{sdk:?}: {whole}"
        );
        assert!(
            header(&whole, "x-oneslot-request-id").is_some(),
            "{sdk:?}: {whole}"
        );
        assert_eq!(
            header(&whole, "x-oneslot-window"),
            Some("2048"),
            "{sdk:?}: {whole}"
        );
        let streamed = LiveChat::new(sdk, &base(&gateway))
            .max_tokens(16)
            .streamed()
            .run();
        assert_eq!(streamed["ok"], true, "{sdk:?}: {streamed}");
        assert!(streamed["chunks"].as_u64() > Some(1), "{sdk:?}: {streamed}");
        assert!(streamed["finish"].is_string(), "{sdk:?}: {streamed}");
    }
    recovers(&gateway);
}

#[test]
fn the_streamed_bytes_equal_the_servers() {
    let _alone = alone();
    let model = RealModel::start(WINDOW);
    let tap = Tap::before(model.port());
    let gateway = before(&tap.url()).start();
    for stream in [true, false] {
        let mut body = lasting(24, stream);
        body["messages"] = json!([chat::message("user", "Write one line about 三月 and 🙂.")]);
        let answer = answered(&gateway, &body);
        assert_eq!(answer.status(), 200, "{}", answer.text());
        let heard = tap.chats().pop().unwrap();
        assert_eq!(answer.body, heard.answer(), "byte for byte");
        assert_eq!(
            heard.request(),
            body,
            "and nothing was changed on the way in"
        );
    }
    recovers(&gateway);
}

#[test]
fn of_twenty_real_clients_four_wait_and_fifteen_are_told() {
    let _alone = alone();
    let model = RealModel::start(WINDOW);
    let gateway = before(&model.url()).start();
    recovers(&gateway);
    let mut long = running(&gateway, 1500);
    let asked = LiveChat::new(Sdk::Python, &base(&gateway))
        .max_tokens(8)
        .clients(19, 250)
        .start();
    gateway.until_queue(1, 4);
    let mut deferred: f64 = 0.0;
    within(
        LIVE_LIMIT,
        "fifteen refusals while the long answer runs",
        || {
            deferred = deferred.max(model.metric("llamacpp:requests_deferred").unwrap_or(0.0));
            let recent = gateway.status()["recent"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let told = recent
                .iter()
                .filter(|record| record["code"] == "LLM_OVERLOADED")
                .count();
            (told == 15).then_some(())
        },
    );
    long.finish_within(LIVE_LIMIT);
    let lines = asked.finish_all();
    let (ok, told): (Vec<&Value>, Vec<&Value>) = lines.iter().partition(|line| line["ok"] == true);
    assert_eq!((ok.len(), told.len()), (4, 15), "{lines:#?}");
    for line in told {
        let error = &line["error"];
        assert_eq!(error["code"], "LLM_OVERLOADED", "{line}");
        assert_eq!(error["status"], 503, "{line}");
        let after: u64 = error["headers"]["retry-after"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        assert!((1..=60).contains(&after), "{line}");
    }
    // They started one after the other, so those that waited ended in the order of their start.
    let order: Vec<u64> = ok
        .iter()
        .map(|line| line["client"].as_u64().unwrap())
        .collect();
    assert!(
        order.is_sorted(),
        "order of service is order of arrival: {order:?}"
    );
    deferred = deferred.max(model.metric("llamacpp:requests_deferred").unwrap_or(0.0));
    assert_eq!(deferred, 0.0, "the server never had a second one");
    recovers(&gateway);
}

#[test]
fn the_clients_retry_exactly_as_told() {
    let _alone = alone();
    let model = RealModel::start(WINDOW);
    let gateway = before(&model.url()).config("queue.max_waiting = 0").start();
    recovers(&gateway);
    for sdk in SDKS {
        // The slot settles after a client that left, and nobody may wait here.
        recovers(&gateway);
        let long = running(&gateway, 1500);
        let seen = LiveChat::new(sdk, &base(&gateway)).retries(1).run();
        let attempts = seen["attempts"].as_array().unwrap();
        assert_eq!(attempts[0]["status"], 503, "{sdk:?}: {seen}");
        assert_eq!(attempts.len(), 2, "{sdk:?} tries once more: {seen}");
        let gap = attempts[1]["sent"].as_f64().unwrap() - attempts[0]["answered"].as_f64().unwrap();
        assert!(
            gap >= 0.95,
            "{sdk:?} waits at least the second it was told: {gap}"
        );
        long.fin();
        gateway.until_queue(0, 0);
    }
    gateway.cli_ok(&["pause"]);
    for sdk in SDKS {
        let seen = LiveChat::new(sdk, &base(&gateway)).retries(2).run();
        assert_eq!(seen["error"]["code"], "LLM_PAUSED", "{sdk:?}: {seen}");
        assert_eq!(
            seen["attempts"].as_array().unwrap().len(),
            1,
            "{sdk:?} stays away: {seen}"
        );
    }
    gateway.cli_ok(&["resume"]);
    recovers(&gateway);
}

const ENGLISH: &str = "The committee considered the extraordinary circumstances surrounding the international development programme and recommended further investigation. ";

#[test]
fn characters_that_exceed_the_window_are_served_whole_when_the_tokens_fit() {
    let _alone = alone();
    let model = RealModel::start(WINDOW);
    let tap = Tap::before(model.port());
    let gateway = before(&tap.url()).start();
    let mut body = short(&format!("{}\nSummarise.", ENGLISH.repeat(50)));
    body["max_tokens"] = json!(4);
    assert!(body.to_string().len() > 3 * WINDOW as usize);
    let counted = model
        .post("/v1/chat/completions/input_tokens", &body.to_string())
        .json();
    let tokens = counted["input_tokens"].as_u64().unwrap();
    assert!((800..1700).contains(&tokens), "it fits in tokens: {tokens}");
    let answer = answered(&gateway, &body);
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert_eq!(
        answer.head.get("x-oneslot-prompt-tokens"),
        Some(tokens.to_string().as_str())
    );
    assert_eq!(
        answer.json()["usage"]["prompt_tokens"],
        tokens,
        "the server agrees"
    );
    let chats = tap.chats();
    assert_eq!(chats.len(), 1, "at the first try");
    assert_eq!(chats[0].request(), body, "whole");
    recovers(&gateway);
}

#[test]
fn sixty_turns_never_show_the_server_s_400_and_keep_the_system_message() {
    let _alone = alone();
    let model = RealModel::start(WINDOW);
    let tap = Tap::before(model.port());
    let gateway = before(&tap.url()).start();
    let system = chat::message("system", "You are brief.");
    let mut messages = vec![system.clone()];
    let mut said_dropped = 0;
    for turn in 0..60 {
        messages.push(chat::message(
            "user",
            &format!("Turn {turn}. {ENGLISH}{ENGLISH}"),
        ));
        let mut body = chat::of(&messages);
        body["model"] = json!("smollm2");
        body["max_tokens"] = json!(8);
        let answer = answered(&gateway, &body);
        assert_eq!(answer.status(), 200, "turn {turn}: {}", answer.text());
        let sent = tap.chats().pop().unwrap().request();
        assert_eq!(
            sent["messages"][0], system,
            "the system message is always there"
        );
        assert_eq!(sent["messages"].as_array().unwrap().last(), messages.last());
        let gone = messages.len() - sent["messages"].as_array().unwrap().len();
        let said: usize = answer
            .head
            .get("x-oneslot-dropped-messages")
            .map_or(0, |count| count.parse().unwrap());
        assert_eq!(said, gone, "what was dropped is said, turn {turn}");
        said_dropped = said_dropped.max(said);
        let text = answer.json()["choices"][0]["message"]["content"].clone();
        messages.push(json!({"role": "assistant", "content": text}));
    }
    assert!(said_dropped > 20, "sixty turns do not fit");
    let refusals = tap
        .chats()
        .iter()
        .filter(|heard| heard.status() == Some(400))
        .count();
    assert_eq!(refusals, 0, "exact counting needs no second try");
    recovers(&gateway);
}

#[test]
fn an_impossible_prompt_is_refused_with_both_numbers_also_while_the_slot_is_busy() {
    let _alone = alone();
    let model = RealModel::start(WINDOW);
    let gateway = before(&model.url()).start();
    recovers(&gateway);
    let long = running(&gateway, 1200);
    let body = short(&ENGLISH.repeat(200));
    let counted = model
        .post("/v1/chat/completions/input_tokens", &body.to_string())
        .json();
    let answer = answered(&gateway, &body);
    let error = refused(&answer, 400, "CONTEXT_OVERFLOW", Advice::Never);
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("2048"), "{message}");
    assert!(
        message.contains(&counted["input_tokens"].to_string()),
        "{message}"
    );
    assert_eq!(
        gateway.status()["queue"]["running"],
        1,
        "the long one still runs"
    );
    long.fin();
    for sdk in SDKS {
        let file = gateway.home().join("messages.json");
        std::fs::write(&file, body["messages"].to_string()).unwrap();
        let seen = LiveChat::new(sdk, &base(&gateway))
            .messages(&file)
            .retries(2)
            .run();
        assert_eq!(
            seen["error"]["code"], "context_length_exceeded",
            "{sdk:?}: {seen}"
        );
        assert_eq!(
            seen["attempts"].as_array().unwrap().len(),
            1,
            "{sdk:?}: never retried"
        );
    }
    recovers(&gateway);
}

// The server dies, or stops.

#[test]
fn a_server_killed_before_the_first_byte_is_unavailable_and_recovers() {
    let _alone = alone();
    let mut model = RealModel::start(WINDOW);
    let gateway = before(&model.url()).limit("fresh_ms", 600_000).start();
    for stream in [false, true] {
        recovers(&gateway);
        model.freeze();
        let mut client = gateway.open_chat(&lasting(16, stream));
        gateway.until_queue(1, 0);
        model.kill();
        let answer = client.finish_within(LIVE_LIMIT);
        refused(&answer, 503, "LLM_UNAVAILABLE", Advice::Later);
        model.restart();
    }
    recovers(&gateway);
}

#[test]
fn a_server_killed_while_it_makes_a_whole_answer_is_unavailable() {
    let _alone = alone();
    let mut model = RealModel::start(WINDOW);
    let gateway = before(&model.url()).start();
    recovers(&gateway);
    let mut client = gateway.open_chat(&lasting(1500, false));
    model.until_busy(true);
    model.kill();
    refused(
        &client.finish_within(LIVE_LIMIT),
        503,
        "LLM_UNAVAILABLE",
        Advice::Later,
    );
    // During cooldown everyone is told at once.
    refused(
        &answered(&gateway, &short("x")),
        503,
        "LLM_UNAVAILABLE",
        Advice::Later,
    );
    model.restart();
    recovers(&gateway);
}

#[test]
fn a_server_killed_in_the_middle_of_a_stream_is_said_in_the_stream_to_every_client() {
    let _alone = alone();
    let mut model = RealModel::start(WINDOW);
    let gateway = before(&model.url()).start();
    recovers(&gateway);
    let mut client = running(&gateway, 1500);
    model.kill();
    let answer = client.finish_within(LIVE_LIMIT);
    let error = error_event(&answer.body, "LLM_INTERRUPTED");
    let message = error["message"].as_str().unwrap_or_default();
    assert!(
        message.starts_with("The model server's process ")
            && message.ends_with("in the middle of the answer, which is incomplete"),
        "it says that the process is gone, not only that a connection broke: {message}"
    );
    for sdk in SDKS {
        model.restart();
        recovers(&gateway);
        let chat = LiveChat::new(sdk, &base(&gateway))
            .streamed()
            .max_tokens(1500)
            .extra(&json!({"ignore_eos": true}))
            .start();
        within(LIVE_LIMIT, "the stream flows", || {
            let items = gateway.status()["queue"]["items"].clone();
            let flows = items[0]["phase"] == "answer" || items[0]["phase"] == "streaming";
            (flows || model.is_busy()).then_some(())
        });
        // A few tokens more, so that the client has some of them.
        std::thread::sleep(Duration::from_millis(300));
        model.kill();
        let seen = chat.finish();
        assert_eq!(
            seen["ok"], false,
            "{sdk:?} does not take it for an answer: {seen}"
        );
        let code = seen["error"]["code"].as_str().unwrap_or_default();
        assert!(
            code == "LLM_INTERRUPTED" || code == "LLM_UNAVAILABLE",
            "{sdk:?} sees why: {seen}"
        );
    }
    model.restart();
    recovers(&gateway);
}

#[test]
fn a_server_that_is_stopped_before_the_first_byte_times_out_and_its_late_bytes_go_to_nobody() {
    let _alone = alone();
    let model = RealModel::start(WINDOW);
    let gateway = before(&model.url())
        .config("timeouts.first_byte_s = 3\ntimeouts.total_s = 3\nrelay.commit_after_s = 0")
        .limit("fresh_ms", 600_000)
        .start();
    for stream in [true, false] {
        recovers(&gateway);
        model.freeze();
        let answer = answered(&gateway, &lasting(16, stream));
        refused(&answer, 504, "LLM_TIMEOUT", Advice::Never);
        let told = answered(&gateway, &short("while it is stopped"));
        refused(&told, 503, "LLM_UNAVAILABLE", Advice::Later);
        model.thaw();
        recovers(&gateway);
    }
}

#[test]
fn a_server_that_is_stopped_in_the_middle_of_a_stream_stalls_and_says_so() {
    let _alone = alone();
    let model = RealModel::start(WINDOW);
    let gateway = before(&model.url()).config("timeouts.stall_s = 3").start();
    recovers(&gateway);
    let mut client = running(&gateway, 1500);
    model.freeze();
    let answer = client.finish_within(LIVE_LIMIT);
    error_event(&answer.body, "LLM_TIMEOUT");
    model.thaw();
    recovers(&gateway);
}

#[test]
fn a_restarted_server_that_loads_is_waited_for() {
    let _alone = alone();
    let mut model = RealModel::start(WINDOW);
    let gateway = before(&model.url()).start();
    recovers(&gateway);
    model.kill();
    refused(
        &answered(&gateway, &short("x")),
        503,
        "LLM_UNAVAILABLE",
        Advice::Later,
    );
    model.restart();
    gateway.cli_ok(&["check"]);
    recovers(&gateway);
    let status = gateway.status();
    assert_eq!(status["health"]["consecutive_failures"], 0, "{status}");
}

// Clients leave.

/// Whoever leaves while it runs: the server stops working, and the next one is served.
fn leaving_stops_the_server(
    model: &RealModel,
    gateway: &Gateway,
    client: Client,
    leave: fn(Client),
) {
    model.until_busy(true);
    let mut next = gateway.open_chat(&short("next"));
    gateway.until_queue(1, 1);
    leave(client);
    let answer = next.finish_within(LIVE_LIMIT);
    assert_eq!(
        answer.status(),
        200,
        "the next one starts: {}",
        answer.text()
    );
    gateway.until_queue(0, 0);
    model.until_busy(false);
    let deferred = model.metric("llamacpp:requests_deferred").unwrap_or(0.0);
    assert_eq!(deferred, 0.0, "it had settled before the next one was sent");
}

#[test]
fn a_client_that_leaves_the_real_server_frees_only_its_own_place() {
    let _alone = alone();
    let model = RealModel::start(WINDOW);
    let gateway = before(&model.url()).start();
    recovers(&gateway);
    for leave in [Client::fin, Client::rst] {
        let stream = running(&gateway, 1500);
        leaving_stops_the_server(&model, &gateway, stream, leave);
        let whole = gateway.open_chat(&lasting(1500, false));
        leaving_stops_the_server(&model, &gateway, whole, leave);
        // A long prompt: it leaves before the first byte.
        let mut reading = short(&ENGLISH.repeat(70));
        reading["stream"] = json!(true);
        reading["cache_prompt"] = json!(false);
        reading["max_tokens"] = json!(200);
        let before_first = gateway.open_chat(&reading);
        leaving_stops_the_server(&model, &gateway, before_first, leave);
        // Four megabytes the server does not read as prompt, and stray bytes behind.
        let mut heavy = lasting(1500, true);
        heavy["padding"] = json!("x".repeat(4 * 1024 * 1024));
        let mut bytes =
            gateway.request("POST", "/v1/chat/completions", heavy.to_string().as_bytes());
        leaving_stops_the_server(&model, &gateway, gateway.open(&bytes), leave);
        bytes.extend_from_slice(b"\r\n");
        leaving_stops_the_server(&model, &gateway, gateway.open(&bytes), leave);
    }
    // And one that waits.
    let mut long = running(&gateway, 200);
    let waiting = gateway.open_chat(&short("leaves"));
    gateway.until_queue(1, 1);
    waiting.fin();
    gateway.until_queue(1, 0);
    let answer = long.finish_within(LIVE_LIMIT);
    assert!(
        answer.text().ends_with("data: [DONE]\n\n"),
        "the running one is not touched"
    );
    recovers(&gateway);
}

#[test]
fn an_official_client_that_is_killed_stops_the_server() {
    let _alone = alone();
    let model = RealModel::start(WINDOW);
    let gateway = before(&model.url()).start();
    recovers(&gateway);
    for sdk in [Sdk::Python, Sdk::Node7] {
        let chat = LiveChat::new(sdk, &base(&gateway))
            .streamed()
            .max_tokens(1500)
            .extra(&json!({"ignore_eos": true}))
            .start();
        model.until_busy(true);
        chat.kill();
        gateway.until_queue(0, 0);
        model.until_busy(false);
    }
    recovers(&gateway);
}

// By the command line.

#[test]
fn pause_resume_and_cancel_work_on_the_running_gateway() {
    let _alone = alone();
    let model = RealModel::start(WINDOW);
    let gateway = before(&model.url()).start();
    recovers(&gateway);
    let mut long = running(&gateway, 1500);
    let id = gateway.status()["queue"]["items"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    gateway.cli_ok(&["pause", "15m"]);
    let seen = LiveChat::new(Sdk::Python, &base(&gateway)).run();
    assert_eq!(seen["error"]["code"], "LLM_PAUSED", "{seen}");
    gateway.cli_ok(&["cancel", &id]);
    error_event(&long.finish_within(LIVE_LIMIT).body, "LLM_INTERRUPTED");
    model.until_busy(false);
    let gateway = gateway.restart();
    let seen = LiveChat::new(Sdk::Node7, &base(&gateway)).run();
    assert_eq!(
        seen["error"]["code"], "LLM_PAUSED",
        "paused survives a restart: {seen}"
    );
    gateway.cli_ok(&["resume"]);
    recovers(&gateway);
}
