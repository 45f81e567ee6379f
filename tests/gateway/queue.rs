//! The line: who waits, in which order, who is told no, and who leaves.

use std::time::Duration;

use serde_json::json;

use crate::support::chat;
use crate::support::client::Client;
use crate::support::gateway::{Gateway, Setup};
use crate::support::held::{hold, queue};
use crate::support::refused::{Advice, refused};
use crate::support::script::{Gate, Script, completion};
use crate::support::upstream::{How, Upstream};

/// An answer that takes a moment, so that two at once would be seen.
fn unhurried(text: &str) -> Script {
    Script::new()
        .wait(Duration::from_millis(20))
        .send(&crate::support::wire::json_response(200, &completion(text)))
}

#[test]
fn of_twenty_at_once_one_runs_four_wait_and_the_rest_are_told_at_once() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let held = hold(&gateway, &upstream);
    upstream.chats_always(|_| unhurried("served"));
    let mut clients: Vec<Client> = (0..19)
        .map(|at| gateway.open_chat(&chat::whole(&format!("client {at}"))))
        .collect();
    gateway.until_queue(1, 4);
    // The held answer still runs, so whoever has an answer now was refused.
    let mut refusals = 0;
    let mut waiting = Vec::new();
    let refused_by_now = |client: &Client| client.has_unread();
    crate::support::eventually("fifteen are refused while the slot is held", || {
        (clients
            .iter()
            .filter(|client| refused_by_now(client))
            .count()
            >= 15)
            .then_some(())
    });
    for mut client in clients.drain(..) {
        if client.has_unread() {
            let answer = client.finish();
            refused(&answer, 503, "LLM_OVERLOADED", Advice::Later);
            refusals += 1;
        } else {
            waiting.push(client);
        }
    }
    assert_eq!(
        (refusals, waiting.len()),
        (15, 4),
        "4 wait beside the running one"
    );
    held.release();
    for mut client in waiting {
        let answer = client.finish();
        assert_eq!(answer.status(), 200);
        assert!(
            answer.head.get("x-oneslot-wait-ms").is_some(),
            "who waited is told how long"
        );
    }
    assert_eq!(
        upstream.chats().len(),
        5,
        "a refused request never reaches the upstream"
    );
    gateway.stands(&upstream);
}

#[test]
fn service_follows_arrival() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("queue.max_waiting = 12")
        .start();
    let held = hold(&gateway, &upstream);
    upstream.chats_always(|_| unhurried("served"));
    let clients = queue(&gateway, 12);
    held.release();
    for mut client in clients {
        assert_eq!(client.finish().status(), 200);
    }
    let order = upstream.order();
    let wanted: Vec<String> = (0..12).map(|at| format!("number {at}")).collect();
    assert_eq!(order[1..], wanted, "first come, first served");
    gateway.stands(&upstream);
}

#[test]
fn fifty_clients_of_both_kinds_are_all_answered_one_at_a_time() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("queue.max_waiting = 64")
        .start();
    upstream.chats_always(|request| {
        let pause = Duration::from_millis(5);
        if request.json()["stream"] == json!(true) {
            Script::stream()
                .delta("one")
                .wait(pause)
                .delta("two")
                .ending()
        } else {
            unhurried("served")
        }
    });
    let clients: Vec<Client> = (0..50)
        .map(|at| {
            let text = format!("client {at}");
            gateway.open_chat(&if at % 2 == 0 {
                chat::whole(&text)
            } else {
                chat::streamed(&text)
            })
        })
        .collect();
    for mut client in clients {
        let answer = client.finish();
        assert_eq!(answer.status(), 200, "{}", answer.text());
        assert_eq!(answer.end, crate::support::client::End::Whole);
    }
    assert_eq!(
        upstream.chats().len(),
        50,
        "every request was sent exactly once"
    );
    assert_eq!(upstream.most_in_flight(), 1);
    gateway.stands(&upstream);
}

#[test]
fn two_slots_run_two_and_never_three() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("upstream.slots = 2")
        .start();
    let first = hold(&gateway, &upstream);
    let second = hold(&gateway, &upstream);
    let mut third = gateway.open_chat(&chat::whole("third"));
    gateway.until_queue(2, 1);
    assert_eq!(upstream.most_in_flight(), 2);
    first.release();
    assert_eq!(third.finish().status(), 200);
    second.release();
    gateway.stands_with_slots(&upstream, 2);
}

#[test]
fn equal_prompts_are_never_merged() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let held = hold(&gateway, &upstream);
    let same = chat::whole("the same prompt");
    let mut clients = Vec::new();
    for waiting in 1..=3 {
        clients.push(gateway.open_chat(&same));
        gateway.until_queue(1, waiting);
    }
    held.release();
    for mut client in clients {
        assert_eq!(client.finish().status(), 200);
    }
    assert_eq!(upstream.chats().len(), 4, "each got an answer of its own");
    gateway.stands(&upstream);
}

// Leaving while queued.

/// What lies behind the request on the wire when its client leaves.
#[derive(Debug, Clone, Copy)]
enum Baggage {
    Nothing,
    FourMegabytes,
    PipelinedRequest,
    StrayBytes,
}

#[derive(Debug, Clone, Copy)]
enum Leave {
    Fin,
    Rst,
}

const BAGGAGE: [Baggage; 4] = [
    Baggage::Nothing,
    Baggage::FourMegabytes,
    Baggage::PipelinedRequest,
    Baggage::StrayBytes,
];

fn bytes_of(gateway: &Gateway, text: &str, baggage: Baggage) -> Vec<u8> {
    let text = match baggage {
        Baggage::FourMegabytes => format!("{} {text}", "x".repeat(4 * 1024 * 1024)),
        _ => text.to_owned(),
    };
    let body = chat::whole(&text).to_string();
    let mut bytes = gateway.request("POST", "/v1/chat/completions", body.as_bytes());
    match baggage {
        Baggage::Nothing | Baggage::FourMegabytes => {}
        Baggage::PipelinedRequest => {
            let second = chat::whole("pipelined behind").to_string();
            bytes.extend(gateway.request("POST", "/v1/chat/completions", second.as_bytes()));
        }
        Baggage::StrayBytes => bytes.extend_from_slice(b"\r\n"),
    }
    bytes
}

fn who_leaves_while_queued(leave: Leave) {
    for baggage in BAGGAGE {
        let upstream = Upstream::plain();
        let mut gateway = Setup::before(&upstream).start();
        let held = hold(&gateway, &upstream);
        let leaver = gateway.open(&bytes_of(&gateway, "leaves", baggage));
        gateway.until_queue(1, 1);
        let mut stayer = gateway.open_chat(&chat::whole("stays"));
        gateway.until_queue(1, 2);
        match leave {
            Leave::Fin => leaver.fin(),
            Leave::Rst => leaver.rst(),
        }
        let status = gateway.until_queue(1, 1);
        assert_eq!(
            status["queue"]["running"], 1,
            "the running one is not touched: {status}"
        );
        gateway.until_record("left");
        held.release();
        assert_eq!(stayer.finish().status(), 200, "{baggage:?}");
        assert_eq!(
            upstream.order(),
            ["hold the slot", "stays"],
            "who left ({leave:?}, {baggage:?}) never reaches the upstream"
        );
        gateway.stands(&upstream);
    }
}

#[test]
fn a_waiting_client_that_leaves_politely_is_gone_whatever_it_had_sent() {
    who_leaves_while_queued(Leave::Fin);
}

#[test]
fn a_waiting_client_that_is_reset_is_gone_whatever_it_had_sent() {
    who_leaves_while_queued(Leave::Rst);
}

#[test]
fn a_waiting_stream_that_leaves_is_gone_also_after_it_was_committed() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("relay.commit_after_s = 1")
        .start();
    let held = hold(&gateway, &upstream);
    let mut leaver = gateway.open_chat(&chat::streamed("leaves"));
    gateway.until_queue(1, 1);
    leaver.body_until_has(": ping");
    leaver.fin();
    gateway.until_queue(1, 0);
    held.release();
    assert_eq!(upstream.order(), ["hold the slot"]);
    gateway.stands(&upstream);
}

#[test]
fn leaving_frees_only_ones_own_place() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("queue.max_wait_whole_s = 1\nrelay.commit_after_s = 0")
        .start();
    let gates: Vec<Gate> = (0..20).map(|_| Gate::new()).collect();
    let mut script = Script::stream();
    for (at, gate) in gates.iter().enumerate() {
        script = script.delta(&format!("chunk{at} ")).wait_for(gate);
    }
    upstream.next_chat(script.ending());
    let mut running = gateway.open_chat(&chat::streamed("A"));
    running.body_until_has("chunk0");
    let leaver = gateway.open_chat(&chat::whole("B"));
    gateway.until_queue(1, 1);
    let mut late = gateway.open_chat(&chat::whole("C"));
    gateway.until_queue(1, 2);
    leaver.fin();
    gateway.until_queue(1, 1);
    refused(&late.finish(), 503, "LLM_QUEUE_TIMEOUT", Advice::Later);
    gateway.until_queue(1, 0);
    for (at, gate) in gates.iter().enumerate() {
        running.body_until_has(&format!("chunk{at} "));
        gate.open();
    }
    assert!(
        running.finish().text().ends_with("data: [DONE]\n\n"),
        "all twenty chunks came"
    );
    assert_eq!(
        upstream.order(),
        ["A"],
        "the upstream saw exactly one request"
    );
    gateway.stands(&upstream);
}

#[test]
fn positions_and_ages_are_shown_and_move_up() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let held = hold(&gateway, &upstream);
    let mut clients = queue(&gateway, 3);
    let places = |gateway: &Gateway| -> Vec<u64> {
        let status = gateway.status();
        let items = status["queue"]["items"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        items
            .iter()
            .filter(|item| item["phase"] == "waiting" || item["phase"] == "queued")
            .map(|item| item["position"].as_u64().unwrap_or(u64::MAX))
            .collect()
    };
    let before = places(&gateway);
    assert_eq!(before.len(), 3, "three wait: {}", gateway.status()["queue"]);
    clients.remove(0).fin();
    gateway.until_queue(1, 2);
    let after = places(&gateway);
    assert_eq!(after, before[..2], "the others moved up");
    held.release();
    for mut client in clients {
        assert_eq!(client.finish().status(), 200);
    }
    gateway.stands(&upstream);
}

// Places and counters.

#[test]
fn the_normal_request_is_served_after_every_kind_of_failure() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("timeouts.first_byte_s = 1\ntimeouts.total_s = 2\nhealth.cooldown_ms = 100")
        .limit("cooldown_max_ms", 100)
        .start();
    let then_normal = |what: &str, gateway: &Gateway| {
        gateway.until_queue(0, 0);
        let answer = crate::support::eventually(&format!("a normal answer after {what}"), || {
            let answer = gateway.chat(&chat::whole("normal"));
            (answer.status() == 200).then_some(answer)
        });
        assert_eq!(answer.status(), 200, "after {what}");
    };
    gateway.exchange(&gateway.request("POST", "/v1/chat/completions", b"{\"messages\":"));
    then_normal("malformed JSON", &gateway);
    upstream.next_chat(Script::json(
        400,
        &json!({"error": {"message": "unknown role"}}),
    ));
    gateway.chat(&chat::of(&[chat::message("user2", "hello")]));
    then_normal("an unknown role", &gateway);
    upstream.next_chat(Script::json(
        502,
        &json!({"error": {"message": "bad gateway"}}),
    ));
    gateway.chat(&chat::whole("hello"));
    then_normal("an upstream 502", &gateway);
    upstream.die();
    gateway.chat(&chat::whole("hello"));
    upstream.come_back();
    then_normal("a refused connection", &gateway);
    upstream.next_chat(Script::new().hang());
    gateway.chat(&chat::whole("hello"));
    then_normal("an upstream timeout", &gateway);
    for script in [
        Script::new().hang(),
        Script::new()
            .send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-")
            .hang(),
        Script::stream().delta("one").hang(),
    ] {
        let before = upstream.chats().len();
        upstream.next_chat(script);
        let client = gateway.open_chat(&chat::streamed("leaves"));
        upstream.until_chats(before + 1);
        client.fin();
        upstream.until_ended(before);
        then_normal("a client that left", &gateway);
    }
    let half = gateway.request("POST", "/v1/chat/completions", &[b'x'; 5000]);
    gateway.open(&half[..half.len() - 2000]).fin();
    then_normal("half an upload", &gateway);
    gateway.stands(&upstream);
}

#[test]
fn a_refused_request_touches_no_counter_and_a_place_is_never_lost_in_a_race() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("queue.max_waiting = 2")
        .limit("fresh_ms", 60_000)
        .start();
    for round in 0..40 {
        let held = hold(&gateway, &upstream);
        let first = gateway.open_chat(&chat::whole("leaves as its turn comes"));
        gateway.until_queue(1, 1);
        let mut second = gateway.open_chat(&chat::whole("stays"));
        gateway.until_queue(1, 2);
        for _ in 0..5 {
            let answer = gateway.chat(&chat::whole("refused"));
            refused(&answer, 503, "LLM_OVERLOADED", Advice::Later);
        }
        let depth = gateway.status()["queue"]["waiting"].as_u64();
        assert_eq!(
            depth,
            Some(2),
            "the refused changed nothing in round {round}"
        );
        // Both happen as close together as the scheduler allows, now one first, now the other.
        if round % 2 == 0 {
            held.let_go();
            first.fin();
        } else {
            first.fin();
            held.let_go();
        }
        assert_eq!(second.finish().status(), 200, "round {round}");
        drop(held);
        gateway.until_queue(0, 0);
    }
    gateway.stands(&upstream);
}

#[test]
fn the_line_is_as_bounded_before_a_cold_server_as_before_a_warm_one() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("queue.max_waiting = 1")
        .start();
    for cold in [false, true] {
        let gate = Gate::new();
        if cold {
            upstream.start_loading();
        } else {
            let gate = gate.clone();
            upstream.chats_always(move |_| {
                Script::new()
                    .wait_for(&gate)
                    .send(&crate::support::wire::json_response(200, &completion("x")))
            });
        }
        let clients: Vec<Client> = (0..6)
            .map(|at| gateway.open_chat(&chat::whole(&format!("{at}"))))
            .collect();
        crate::support::eventually("four are refused", || {
            (clients.iter().filter(|client| client.has_unread()).count() == 4).then_some(())
        });
        gate.open();
        upstream.finish_loading();
        let (mut served, mut told) = (0, 0);
        for mut client in clients {
            let answer = client.finish();
            if answer.status() == 200 {
                served += 1;
            } else {
                refused(&answer, 503, "LLM_OVERLOADED", Advice::Later);
                told += 1;
            }
        }
        assert_eq!((served, told), (2, 4), "cold: {cold}");
        gateway.until_queue(0, 0);
    }
    gateway.stands(&upstream);
}

#[test]
fn reads_answer_beside_a_running_answer() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let held = hold(&gateway, &upstream);
    let waiting = queue(&gateway, 1);
    for path in ["/v1/models", "/oneslot/status", "/healthz", "/metrics", "/"] {
        let answer = gateway.get(path);
        assert_eq!(
            answer.status(),
            200,
            "{path} needs no slot: {}",
            answer.text()
        );
    }
    assert_eq!(
        gateway.status()["queue"]["running"],
        1,
        "the long answer still runs"
    );
    held.release();
    for mut client in waiting {
        assert_eq!(client.finish().status(), 200);
    }
    gateway.stands(&upstream);
}

#[test]
fn a_slow_list_of_models_is_answered_from_the_last_one() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let fresh = gateway.get("/v1/models");
    assert_eq!(fresh.status(), 200);
    let held = hold(&gateway, &upstream);
    upstream.always("GET", "/v1/models", |_| Script::new().hang());
    let cached = gateway.get("/v1/models");
    assert_eq!(
        cached.status(),
        200,
        "a cached copy when the upstream is slow: {}",
        cached.text()
    );
    assert_eq!(cached.body, fresh.body);
    upstream.as_usual("GET", "/v1/models");
    held.release();
    gateway.stands(&upstream);
}

#[test]
fn the_upstreams_clock_starts_at_dispatch_and_not_in_line() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("timeouts.first_byte_s = 1\nrelay.commit_after_s = 0")
        .start();
    let held = hold(&gateway, &upstream);
    let mut waiting =
        gateway.open_chat(&chat::streamed("waits longer than the first byte may take"));
    gateway.until_queue(1, 1);
    let quiet = waiting.is_silent_for(Duration::from_millis(1500));
    assert!(quiet, "the wait in line is not the upstream's");
    held.release();
    let answer = waiting.finish();
    assert_eq!(answer.status(), 200, "{}", answer.text());
    gateway.stands(&upstream);
}

#[test]
fn a_slow_upload_holds_no_place() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("queue.max_waiting = 0")
        .start();
    let body = chat::whole("slow").to_string();
    let bytes = gateway.request("POST", "/v1/chat/completions", body.as_bytes());
    let (most, rest) = bytes.split_at(bytes.len() - 5);
    let mut slow = gateway.open(most);
    for _ in 0..3 {
        assert_eq!(
            gateway.chat(&chat::whole("quick")).status(),
            200,
            "nobody is in the way"
        );
    }
    assert_eq!(gateway.status()["queue"]["running"], 0);
    slow.send(rest);
    assert_eq!(slow.finish().status(), 200);
    gateway.stands(&upstream);
}

#[test]
fn a_client_that_comes_back_does_not_wait_behind_itself() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("queue.max_waiting = 1")
        .start();
    // A client gives up on a running answer and asks again at once, as SDKs do.
    for attempt in 0..5 {
        upstream.next_chat(Script::new().hang());
        let client = gateway.open_chat(&chat::whole("heavy"));
        upstream.until_chats(attempt + 1);
        client.fin();
    }
    let answer = gateway.chat(&chat::whole("heavy"));
    assert_eq!(answer.status(), 200);
    for attempt in 0..5 {
        let (how, ended) = upstream.until_ended(attempt);
        assert_ne!(
            how,
            How::Answered,
            "an abandoned attempt is cancelled upstream"
        );
        let next = upstream.chats()[attempt + 1].at;
        assert!(ended <= next, "it is cancelled before its retry runs");
    }
    gateway.stands(&upstream);
}

#[test]
fn small_calls_ahead_in_the_line_delay_a_chat_but_never_starve_it() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let held = hold(&gateway, &upstream);
    let mut clients = queue(&gateway, 3);
    let mut user = gateway.open_chat(&chat::whole("the user's own"));
    gateway.until_queue(1, 4);
    held.release();
    assert_eq!(user.finish().status(), 200);
    for client in &mut clients {
        assert_eq!(client.finish().status(), 200);
    }
    assert_eq!(
        upstream.order().last().map(String::as_str),
        Some("the user's own")
    );
    gateway.stands(&upstream);
}

#[test]
fn two_requests_on_one_connection_are_both_served_in_order() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let first = chat::whole("first").to_string();
    let second = chat::whole("second").to_string();
    let mut bytes = gateway.request("POST", "/v1/chat/completions", first.as_bytes());
    bytes.extend(gateway.request("POST", "/v1/chat/completions", second.as_bytes()));
    let mut client = gateway.open(&bytes);
    assert_eq!(client.finish().status(), 200);
    assert_eq!(client.finish().status(), 200);
    assert_eq!(upstream.order(), ["first", "second"]);
    gateway.stands(&upstream);
}
