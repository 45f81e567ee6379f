//! The lease on the slot: held to the last byte, let go when the client goes, and settled.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::support::chat;
use crate::support::client::Client;
use crate::support::flavour::Flavour;
use crate::support::gateway::Setup;
use crate::support::held::hold;
use crate::support::script::{Gate, Script, delta};
use crate::support::upstream::{How, Upstream};
use crate::support::wire::chunk;

#[test]
fn the_lease_lives_until_the_body_has_ended_and_not_until_the_head() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let held = hold(&gateway, &upstream);
    let mut next = gateway.open_chat(&chat::whole("next"));
    gateway.until_queue(1, 1);
    assert!(
        next.is_silent_for(Duration::from_millis(1200)),
        "the next one waits"
    );
    assert_eq!(
        upstream.chats().len(),
        1,
        "the body has not ended, so nobody else runs"
    );
    held.release();
    assert_eq!(next.finish().status(), 200);
    gateway.stands(&upstream);
}

/// A running client leaves: the upstream's connection closes, then the next one starts.
fn the_running_client_leaves(body: &Value, script: Script, wait_for_byte: bool, leave: fn(Client)) {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    upstream.next_chat(script);
    let mut client = gateway.open_chat(body);
    upstream.until_chats(1);
    if wait_for_byte {
        client.body_until_has("one");
    }
    let mut next = gateway.open_chat(&chat::whole("next"));
    gateway.until_queue(1, 1);
    leave(client);
    let (how, closed) = upstream.until_ended(0);
    assert!(
        matches!(how, How::PeerFin | How::PeerRst),
        "the upstream's connection is closed: {how:?}"
    );
    assert_eq!(next.finish().status(), 200, "the next one starts");
    assert!(
        closed <= upstream.chats()[1].at,
        "the old call is closed before the next begins"
    );
    let record = gateway.until_record("left");
    assert_eq!(record["outcome"], "left");
    let status = gateway.status();
    assert_eq!(
        status["health"]["consecutive_failures"], 0,
        "a leaver is no failure: {status}"
    );
    gateway.stands(&upstream);
}

#[test]
fn a_client_that_leaves_before_the_first_byte_of_a_stream_stops_the_server() {
    for leave in [Client::fin, Client::rst] {
        the_running_client_leaves(&chat::streamed("x"), Script::new().hang(), false, leave);
    }
}

#[test]
fn a_client_that_leaves_between_two_tokens_stops_the_server() {
    for leave in [Client::fin, Client::rst] {
        let script = Script::stream().delta("one").hang();
        the_running_client_leaves(&chat::streamed("x"), script, true, leave);
    }
}

#[test]
fn a_client_that_leaves_while_a_whole_answer_is_made_stops_the_server() {
    for leave in [Client::fin, Client::rst] {
        the_running_client_leaves(&chat::whole("x"), Script::new().hang(), false, leave);
    }
    let begun =
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 400\r\n\r\n{\"id\":";
    let script = Script::new().send(begun).hang();
    the_running_client_leaves(&chat::whole("x"), script, false, Client::fin);
}

#[test]
fn a_client_with_a_huge_body_that_leaves_stops_the_server() {
    let text = "x".repeat(4 * 1024 * 1024);
    let script = Script::stream().delta("one").hang();
    the_running_client_leaves(&chat::streamed(&text), script, true, Client::fin);
    the_running_client_leaves(
        &chat::whole(&text),
        Script::new().hang(),
        false,
        Client::rst,
    );
}

#[test]
fn a_running_client_with_bytes_behind_its_request_is_seen_to_leave() {
    for behind in [&b"\r\n"[..], b"POST /v1/chat/completions HTTP/1.1\r\n"] {
        let upstream = Upstream::plain();
        let mut gateway = Setup::before(&upstream).start();
        upstream.next_chat(Script::new().hang());
        let body = chat::whole("leaves").to_string();
        let mut bytes = gateway.request("POST", "/v1/chat/completions", body.as_bytes());
        bytes.extend_from_slice(behind);
        let client = gateway.open(&bytes);
        upstream.until_chats(1);
        client.fin();
        assert_ne!(upstream.until_ended(0).0, How::Answered);
        gateway.stands(&upstream);
    }
}

#[test]
fn after_an_abort_the_servers_own_busy_signal_is_waited_for() {
    let upstream = Upstream::start(Flavour::LlamaCpp { window: 4096 });
    let mut gateway = Setup::before(&upstream).start();
    assert_eq!(
        gateway
            .chat(&chat::whole("so that it is known what it is"))
            .status(),
        200
    );
    let idle = Gate::new();
    let told = idle.clone();
    upstream.always("GET", "/slots", move |_| {
        let busy = !told.is_open();
        Script::json(
            200,
            &json!([{"id": 0, "n_ctx": 4096, "is_processing": busy}]),
        )
    });
    upstream.next_chat(Script::new().hang());
    let client = gateway.open_chat(&chat::streamed("leaves"));
    upstream.until_chats(2);
    let mut next = gateway.open_chat(&chat::whole("next"));
    gateway.until_queue(1, 1);
    client.fin();
    upstream.until_ended(1);
    let asked = |upstream: &Upstream| {
        upstream
            .probes()
            .iter()
            .filter(|probe| probe.starts_with("GET /slots"))
            .count()
    };
    let before = asked(&upstream);
    upstream.until("two more looks at /slots", |state| {
        let looks = state
            .log
            .iter()
            .filter(|seen| seen.request.path() == "/slots")
            .count();
        (looks >= before + 2).then_some(())
    });
    assert_eq!(
        upstream.chats().len(),
        2,
        "the server still works on the old one"
    );
    idle.open();
    assert_eq!(next.finish().status(), 200);
    gateway.stands(&upstream);
}

#[test]
fn a_server_that_is_always_busy_keeps_the_slot_for_the_total_limit() {
    let upstream = Upstream::start(Flavour::LlamaCpp { window: 4096 });
    let mut gateway = Setup::before(&upstream)
        .config("timeouts.total_s = 2")
        .start();
    upstream.always("GET", "/slots", |_| {
        Script::json(
            200,
            &json!([{"id": 0, "n_ctx": 4096, "is_processing": true}]),
        )
    });
    upstream.next_chat(Script::new().hang());
    let client = gateway.open_chat(&chat::streamed("leaves"));
    upstream.until_chats(1);
    client.fin();
    upstream.until_ended(0);
    let answer = gateway
        .open_chat(&chat::whole("next"))
        .finish_within(Duration::from_secs(40));
    assert_eq!(answer.status(), 200, "2 s at most: {}", answer.text());
    upstream.as_usual("GET", "/slots");
    gateway.stands(&upstream);
}

#[test]
fn a_reader_that_stops_reading_is_cut() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .http_limits("write_idle_ms=1000")
        .start();
    let piece = chunk(delta(&"x".repeat(60_000)).as_bytes());
    upstream.next_chat(
        Script::stream()
            .drip(&piece, Duration::from_millis(1), 2_000)
            .ending(),
    );
    let mut stuck = Client::connect_narrow(gateway.address());
    let body = chat::streamed("flood me").to_string();
    stuck.send(&gateway.request("POST", "/v1/chat/completions", body.as_bytes()));
    upstream.until_chats(1);
    let (how, _) = upstream.until_ended(0);
    assert_ne!(how, How::Answered, "a stuck reader may not hold the slot");
    gateway.stands(&upstream);
    drop(stuck);
}

#[test]
fn a_slow_reader_that_moves_is_not_cut() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .http_limits("write_idle_ms=2000")
        .start();
    let text = "x".repeat(60_000);
    let piece = chunk(delta(&text).as_bytes());
    upstream.next_chat(
        Script::stream()
            .drip(&piece, Duration::from_millis(1), 150)
            .ending(),
    );
    let mut slow = Client::connect_narrow(gateway.address());
    let body = chat::streamed("flood me").to_string();
    slow.send(&gateway.request("POST", "/v1/chat/completions", body.as_bytes()));
    for megabytes in 1..=8 {
        slow.body_until("another megabyte", |body| {
            body.len() >= megabytes * 1_000_000
        });
        // The pause is the point: a reader that rests less than the limit is a reader.
        std::thread::sleep(Duration::from_millis(500));
    }
    let answer = slow.finish();
    assert!(
        answer.text().ends_with("data: [DONE]\n\n"),
        "the slow reader got all of it"
    );
    gateway.stands(&upstream);
}

#[test]
fn leaving_at_random_moments_never_loses_the_slot() {
    let seed = 20_260_101;
    let mut random = SmallRng::seed_from_u64(seed);
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("queue.max_waiting = 8")
        .limit("fresh_ms", 60_000)
        .start();
    upstream.chats_always(|_| {
        Script::stream()
            .delta("one ")
            .wait(Duration::from_millis(3))
            .delta("two ")
            .wait(Duration::from_millis(3))
            .ending()
    });
    let mut others = Vec::new();
    for _ in 0..60 {
        let body = if random.random_bool(0.5) {
            chat::streamed("x")
        } else {
            chat::whole("x")
        };
        let client = gateway.open_chat(&body);
        std::thread::sleep(Duration::from_micros(random.random_range(0..9_000)));
        match random.random_range(0..3) {
            0 => client.fin(),
            1 => client.rst(),
            _ => others.push(client),
        }
    }
    for mut client in others {
        let answer = client.finish();
        assert!(
            matches!(answer.status(), 200 | 503),
            "seed {seed}: {}",
            answer.text()
        );
    }
    gateway.stands(&upstream);
}

#[test]
fn a_person_can_stop_the_running_answer() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let mut held = hold(&gateway, &upstream);
    let status = gateway.status();
    let id = status["queue"]["items"][0]["id"]
        .as_str()
        .expect("the running one is listed")
        .to_owned();
    gateway.cli_ok(&["cancel", &id]);
    let answer = held.client.finish();
    let error = crate::support::refused::error_event(&answer.body, "LLM_INTERRUPTED");
    assert!(
        error["message"].as_str().unwrap().contains("person"),
        "{error}"
    );
    assert_ne!(upstream.until_ended(0).0, How::Answered);
    gateway.stands(&upstream);
}

#[test]
fn a_person_can_take_one_out_of_the_line() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let held = hold(&gateway, &upstream);
    let mut waiting = crate::support::held::queue(&gateway, 2);
    let status = gateway.status();
    let items = status["queue"]["items"]
        .as_array()
        .expect("the line is listed")
        .clone();
    let id = items[1]["id"].as_str().expect("who waits has an id");
    let answer = gateway.control("DELETE", &format!("/oneslot/requests/{id}"), "");
    assert!(answer.status() < 300, "{}", answer.text());
    let told = waiting.remove(0).finish();
    assert!(
        told.status() >= 400,
        "who was taken out is told: {}",
        told.text()
    );
    assert!(told.code().is_some());
    gateway.until_queue(1, 1);
    held.release();
    assert_eq!(waiting.remove(0).finish().status(), 200);
    assert_eq!(upstream.order(), ["hold the slot", "number 1"]);
    gateway.stands(&upstream);
}

#[test]
fn an_unknown_request_cannot_be_cancelled() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    assert_eq!(
        gateway
            .control("DELETE", "/oneslot/requests/nobody", "")
            .status(),
        404
    );
    assert!(!gateway.cli(&["cancel", "nobody"]).status.success());
    gateway.stands(&upstream);
}
