//! What goes through a stream: every byte as it came, and an end that is said aloud.

use std::time::Duration;

use serde_json::json;

use crate::support::chat;
use crate::support::client::{End, Response};
use crate::support::gateway::{Gateway, Setup};
use crate::support::held::hold;
use crate::support::refused::{Advice, error_event, refused};
use crate::support::script::{DONE, Gate, Script, completion, delta, event, finish};
use crate::support::upstream::{How, Upstream};
use crate::support::wire::{LAST_CHUNK, chunk, find};

/// One stream through a gateway with this configuration, after the standing checks.
fn relayed(script: Script, config: &str) -> Response {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).config(config).start();
    upstream.next_chat(script);
    let answer = gateway.chat(&chat::streamed("hello"));
    assert_eq!(upstream.chats().len(), 1, "a stream is never sent twice");
    gateway.stands(&upstream);
    answer
}

fn same_bytes(answer: &Response, wanted: &[u8]) {
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.end, End::Whole);
    assert_eq!(
        answer.text(),
        String::from_utf8_lossy(wanted),
        "the relayed bytes are the upstream's bytes"
    );
    assert_eq!(answer.body, wanted);
}

#[test]
fn characters_cut_by_packets_arrive_whole() {
    let wanted = format!("{}{}{DONE}", delta("가🙂é"), finish("stop"));
    let script = Script::stream()
        .send(format!("{:x}\r\n", wanted.len()).as_bytes())
        .send_byte_by_byte(wanted.as_bytes())
        .send(b"\r\n0\r\n\r\n");
    same_bytes(&relayed(script, ""), wanted.as_bytes());
    // And each byte in a chunk of its own, so that every cut inside a character is tried.
    let mut script = Script::stream();
    for byte in wanted.as_bytes() {
        script = script.chunk(&[*byte]);
    }
    same_bytes(&relayed(script.last_chunk(), ""), wanted.as_bytes());
}

#[test]
fn bytes_that_are_no_utf8_are_relayed_and_kill_nothing() {
    let mut wanted = b"data: {\"choices\":[{\"delta\":{\"content\":\"\xea\xb0\"}}]}\n\n".to_vec();
    wanted.extend_from_slice(finish("stop").as_bytes());
    wanted.extend_from_slice(DONE.as_bytes());
    same_bytes(
        &relayed(Script::stream().chunk(&wanted).last_chunk(), ""),
        &wanted,
    );
}

#[test]
fn a_complete_stream_gets_nothing_added_and_nothing_taken() {
    for ending in [
        format!("{}{DONE}", finish("stop")),
        finish("length"),
        DONE.to_owned(),
    ] {
        let wanted = format!("{}{}{ending}", delta("one "), delta("two"));
        let script = Script::stream().chunk(wanted.as_bytes()).last_chunk();
        same_bytes(&relayed(script, ""), wanted.as_bytes());
    }
    // As llama.cpp says it: a first delta of null, and usage in a chunk without choices.
    let usage = "data: {\"choices\":[],\"object\":\"chat.completion.chunk\",\"usage\":{\"completion_tokens\":1,\"prompt_tokens\":9,\"total_tokens\":10},\"timings\":{\"cache_n\":0,\"prompt_n\":9}}\n\n";
    let wanted = format!(
        "{}{}{}{usage}{DONE}",
        event(&json!({"role": "assistant", "content": null}), None),
        delta("1.0"),
        finish("stop")
    );
    same_bytes(
        &relayed(Script::stream().chunk(wanted.as_bytes()).last_chunk(), ""),
        wanted.as_bytes(),
    );
}

#[test]
fn line_ends_of_every_kind_pass() {
    let wanted = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\n\r\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\r\n\r\ndata: [DONE]\r\n\r\n";
    same_bytes(
        &relayed(Script::stream().chunk(wanted.as_bytes()).last_chunk(), ""),
        wanted.as_bytes(),
    );
}

#[test]
fn comments_pass_unchanged() {
    let wanted = format!(
        ":\n\n{}: ping\n\n{}:ping\r\n\r\n{}{DONE}",
        delta("one"),
        delta("two"),
        finish("stop")
    );
    let mut script = Script::stream();
    for block in wanted.split_inclusive("\n\n") {
        script = script.chunk(block.as_bytes());
    }
    same_bytes(&relayed(script.last_chunk(), ""), wanted.as_bytes());
}

#[test]
fn a_whole_answer_is_relayed_byte_for_byte() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let odd = b"{ \"choices\" : [ {\"message\":{\"content\":\"\\u00e9\xc3\xa9\"},\"finish_reason\":\"stop\", \"n\": 1.0, \"big\": 123456789012345678901234567890} ],\n\t\"usage\":null }\n";
    upstream.next_chat(Script::whole(200, "application/json; charset=utf-8", odd));
    let answer = gateway.chat(&chat::whole("hello"));
    same_bytes(&answer, odd);
    assert_eq!(
        answer.head.get("content-type"),
        Some("application/json; charset=utf-8")
    );
    gateway.stands(&upstream);
}

// Timing.

#[test]
fn every_event_is_passed_on_before_the_next_one_exists() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let gates: Vec<Gate> = (0..5).map(|_| Gate::new()).collect();
    let mut script = Script::stream();
    for (at, gate) in gates.iter().enumerate() {
        script = script.delta(&format!("event{at}")).wait_for(gate);
    }
    upstream.next_chat(script.ending());
    let body = chat::streamed("hello").to_string();
    let mut client = gateway.open(&gateway.request_with(
        "POST",
        "/v1/chat/completions",
        &[("accept-encoding", "gzip, br, zstd")],
        body.as_bytes(),
    ));
    for (at, gate) in gates.iter().enumerate() {
        // The upstream sends no more until this one has arrived.
        client.body_until_has(&format!("event{at}"));
        gate.open();
    }
    let answer = client.finish();
    assert_eq!(
        answer.head.get("content-encoding"),
        None,
        "an event stream is never compressed"
    );
    assert!(answer.text().ends_with(DONE));
    let seen = &upstream.chats()[0].request;
    assert_eq!(
        seen.head.get("accept-encoding"),
        None,
        "a compressed stream cannot be checked"
    );
    gateway.stands(&upstream);
}

#[test]
fn a_slow_stream_that_flows_has_no_total_limit() {
    let piece = chunk(delta("tick").as_bytes());
    let script = Script::stream()
        .drip(&piece, Duration::from_millis(500), 8)
        .ending();
    let answer = relayed(
        script,
        "timeouts.total_s = 1\ntimeouts.first_byte_s = 2\ntimeouts.stall_s = 3",
    );
    assert_eq!(
        answer.text().matches("tick").count(),
        8,
        "a slow answer is no failure"
    );
    assert!(answer.text().ends_with(DONE));
}

#[test]
fn silence_shorter_than_the_stall_limit_is_no_failure() {
    let script = Script::stream()
        .delta("one")
        .wait(Duration::from_millis(1500))
        .delta("two")
        .ending();
    assert!(
        relayed(script, "timeouts.stall_s = 4")
            .text()
            .ends_with(DONE)
    );
}

#[test]
fn a_whole_answer_may_take_longer_than_a_first_byte() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("timeouts.first_byte_s = 1\ntimeouts.stall_s = 1")
        .start();
    upstream.next_chat(Script::new().wait(Duration::from_millis(2500)).send(
        &crate::support::wire::json_response(
            200,
            &crate::support::script::completion("late but whole"),
        ),
    ));
    let answer = gateway.chat(&chat::whole("hello"));
    assert_eq!(
        answer.status(),
        200,
        "it has no byte before its last: {}",
        answer.text()
    );
    assert_eq!(gateway.status()["health"]["consecutive_failures"], 0);
    gateway.stands(&upstream);
}

// Ends that are not ends.

/// The stream began, then broke as the script says; what came first must be there untouched.
fn interrupted(script: Script, config: &str, code: &str) {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).config(config).start();
    let seen = Gate::new();
    let begun = Script::stream().delta("one ").delta("two").wait_for(&seen);
    upstream.next_chat(Script {
        steps: begun.steps.into_iter().chain(script.steps).collect(),
    });
    let mut client = gateway.open_chat(&chat::streamed("hello"));
    client.body_until_has("two");
    seen.open();
    let answer = client.finish();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.end, End::Whole, "the stream itself ends properly");
    assert_eq!(
        answer.head.get("connection"),
        None,
        "Node takes a cut for an end with close"
    );
    let begun = format!("{}{}", delta("one "), delta("two"));
    assert!(
        answer.text().starts_with(&begun),
        "all that came was delivered: {}",
        answer.text()
    );
    error_event(&answer.body, code);
    let record = gateway.until_record("failed");
    assert_eq!(record["code"], code, "recorded with its code: {record}");
    assert_eq!(upstream.chats().len(), 1, "nothing is retried after bytes");
    gateway.stands(&upstream);
}

#[test]
fn a_stream_that_is_reset_says_so() {
    interrupted(Script::new().rst(), "", "LLM_INTERRUPTED");
}

#[test]
fn a_stream_whose_framing_is_cut_says_so() {
    interrupted(Script::new().fin(), "", "LLM_INTERRUPTED");
    interrupted(
        Script::new().send(b"40\r\ndata: {").fin(),
        "",
        "LLM_INTERRUPTED",
    );
    interrupted(Script::new().send(b"zz\r\n").hang(), "", "LLM_INTERRUPTED");
}

#[test]
fn a_stream_that_falls_silent_says_so() {
    interrupted(Script::new().hang(), "timeouts.stall_s = 1", "LLM_TIMEOUT");
}

#[test]
fn a_stream_that_ends_politely_without_its_finish_says_so() {
    interrupted(Script::new().last_chunk(), "", "LLM_INTERRUPTED");
    // As Ollama does when its runner has died: an empty delta, then a clean end.
    let empty = event(&json!({"role": "assistant", "content": ""}), None);
    interrupted(
        Script::new().chunk(empty.as_bytes()).last_chunk(),
        "",
        "LLM_INTERRUPTED",
    );
}

#[test]
fn a_stream_without_framing_that_ends_early_says_so() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    upstream.next_chat(Script::new().send(head).send(delta("one").as_bytes()).fin());
    let answer = gateway.chat(&chat::streamed("hello"));
    assert!(answer.text().starts_with(&delta("one")));
    error_event(&answer.body, "LLM_INTERRUPTED");
    gateway.control("POST", "/oneslot/check", "");
    gateway.until_status("ready again", |status| status["health"]["state"] == "ready");
    // The same with its finish is complete.
    let whole = format!("{}{}{DONE}", delta("one"), finish("stop"));
    upstream.next_chat(Script::new().send(head).send(whole.as_bytes()).fin());
    let answer = gateway.chat(&chat::streamed("hello"));
    assert_eq!(answer.text(), whole);
    assert_eq!(
        answer.head.get("connection"),
        None,
        "no close on a streamed response"
    );
    gateway.stands(&upstream);
}

#[test]
fn a_cut_in_the_middle_of_a_line_does_not_glue_the_error_to_it() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let seen = Gate::new();
    let half = "data: {\"choices\":[{\"delta\":{\"content\":\"hal";
    upstream.next_chat(
        Script::stream()
            .delta("one")
            .chunk(half.as_bytes())
            .wait_for(&seen)
            .rst(),
    );
    let mut client = gateway.open_chat(&chat::streamed("hello"));
    client.body_until_has("\"hal");
    seen.open();
    let answer = client.finish();
    let text = answer.text();
    let begun = format!("{}{half}", delta("one"));
    assert!(text.starts_with(&begun), "{text}");
    assert!(
        text[begun.len()..].starts_with("\n\ndata: {\"error\""),
        "the half line is ended: {text}"
    );
    assert!(!text.contains("[DONE]"));
    gateway.stands(&upstream);
}

#[test]
fn a_stream_with_nothing_in_it_is_not_an_empty_answer() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    for empty in [Script::stream().last_chunk(), Script::stream().fin()] {
        upstream.next_chat(empty);
        let answer = gateway.chat(&chat::streamed("hello"));
        if answer.status() == 200 {
            error_event(&answer.body, "LLM_INTERRUPTED");
        } else {
            assert_eq!(answer.status(), 503, "{}", answer.text());
        }
        gateway.control("POST", "/oneslot/check", "");
        gateway.until_status("ready again", |status| status["health"]["state"] == "ready");
    }
    gateway.stands(&upstream);
}

#[test]
fn a_broken_stream_counts_against_the_server_once() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    upstream.next_chat(Script::stream().delta("one").fin());
    gateway.chat(&chat::streamed("hello"));
    let status = gateway.until_status("the failure is counted", |status| {
        status["health"]["consecutive_failures"] != 0
    });
    assert_eq!(
        status["health"]["consecutive_failures"], 1,
        "once: {status}"
    );
    assert_eq!(status["health"]["state"], "down");
    gateway.stands(&upstream);
}

// Errors the upstream says inside its stream.

#[test]
fn an_error_inside_a_stream_is_relayed_as_it_is_and_recorded_as_a_failure() {
    for error in [
        "data: {\"error\":{\"code\":500,\"message\":\"compute error\",\"type\":\"server_error\"}}\n\n",
        "data: {\"error\":\"plain string\"}\n\n",
        "error: {\"code\":500,\"message\":\"compute error\"}\n\n",
        "event: error\ndata: {\"error\":{\"message\":\"compute error\"}}\n\n",
        "data: {\"error\":null}\n\n",
    ] {
        let upstream = Upstream::plain();
        let mut gateway = Setup::before(&upstream).start();
        let wanted = format!("{}{error}", delta("one"));
        upstream.next_chat(
            Script::stream()
                .delta("one")
                .chunk(error.as_bytes())
                .last_chunk(),
        );
        let answer = gateway.chat(&chat::streamed("hello"));
        assert!(
            answer.text().starts_with(&wanted),
            "byte for byte: {}",
            answer.text()
        );
        if !error.contains("null") && !error.starts_with("error:") {
            assert_eq!(answer.text(), wanted, "said once is enough");
        }
        assert!(!answer.text().contains("[DONE]"));
        gateway.until_record("failed");
        gateway.stands(&upstream);
    }
}

#[test]
fn an_overflow_inside_a_stream_is_the_clients_and_starts_no_cooldown() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let error = "data: {\"error\":{\"code\":400,\"message\":\"request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it\",\"type\":\"exceed_context_size_error\",\"n_prompt_tokens\":9000,\"n_ctx\":4096}}\n\n";
    upstream.chats_always(move |_| Script::stream().chunk(error.as_bytes()).last_chunk());
    let answer = gateway.chat(&chat::streamed("hello"));
    if answer.status() == 200 {
        assert!(
            answer.text().contains("exceed"),
            "it is said in the stream: {}",
            answer.text()
        );
        assert!(!answer.text().contains("[DONE]"));
    } else {
        refused(&answer, 400, "CONTEXT_OVERFLOW", Advice::Never);
    }
    let status = gateway.status();
    assert_eq!(
        status["health"]["consecutive_failures"], 0,
        "not the server's fault: {status}"
    );
    assert_ne!(status["recent"][0]["outcome"], "done");
    gateway.stands(&upstream);
}

// Committing to a stream that waits.

/// The body without the comments the gateway itself puts before the first byte.
fn without_own_comments(body: &[u8]) -> String {
    String::from_utf8_lossy(body)
        .split_inclusive('\n')
        .skip_while(|line| {
            line.starts_with(": ping") || line.starts_with(": oneslot") || *line == "\n"
        })
        .collect()
}

fn committed(gateway: &Gateway, text: &str) -> crate::support::client::Client {
    let mut client = gateway.open_chat(&chat::streamed(text));
    let head = client.head();
    assert_eq!(head.status(), 200);
    assert_eq!(
        head.get("content-type")
            .map(|kind| kind.starts_with("text/event-stream")),
        Some(true)
    );
    assert_eq!(head.get("connection"), None);
    client.body_until_has(": ping\n");
    client
}

#[test]
fn a_waiting_stream_commits_and_is_kept_alive_then_gets_its_answer() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("relay.commit_after_s = 1")
        .start();
    let held = hold(&gateway, &upstream);
    let mut client = committed(&gateway, "waits");
    let wanted = format!("{}{}{DONE}", delta("at last"), finish("stop"));
    upstream.next_chat(Script::stream().chunk(wanted.as_bytes()).last_chunk());
    held.release();
    let answer = client.finish();
    assert_eq!(
        without_own_comments(&answer.body),
        wanted,
        "then the upstream's bytes alone"
    );
    gateway.stands(&upstream);
}

#[test]
fn a_committed_stream_is_pinged_again_while_it_waits() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("relay.commit_after_s = 1")
        .start();
    let held = hold(&gateway, &upstream);
    let mut client = committed(&gateway, "waits long");
    client.body_until("a second ping", |body| {
        String::from_utf8_lossy(body).matches(": ping\n").count() >= 2
    });
    held.release();
    assert!(client.finish().text().ends_with(DONE));
    gateway.stands(&upstream);
}

#[test]
fn a_prompt_that_is_read_slowly_commits_the_stream_too() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("relay.commit_after_s = 1")
        .start();
    let ready = Gate::new();
    upstream.next_chat(
        Script::new()
            .wait_for(&ready)
            .sse_head()
            .delta("one")
            .ending(),
    );
    let mut client = committed(&gateway, "a long prompt");
    ready.open();
    assert!(client.finish().text().ends_with(DONE));
    gateway.stands(&upstream);
}

#[test]
fn after_the_commit_a_refusal_is_said_in_the_stream_with_the_code_it_would_have_had() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("relay.commit_after_s = 1\nqueue.max_wait_s = 2")
        .start();
    let held = hold(&gateway, &upstream);
    let mut client = committed(&gateway, "waits too long");
    let answer = client.finish();
    let error = error_event(&answer.body, "LLM_QUEUE_TIMEOUT");
    assert_eq!(error["type"], "server_error");
    held.release();
    assert_eq!(upstream.chats().len(), 1);
    gateway.stands(&upstream);
}

#[test]
fn after_the_commit_every_failure_of_the_upstream_keeps_its_code() {
    let gate = Gate::new();
    for (after, config, code) in [
        (Script::new().rst(), "", "LLM_UNAVAILABLE"),
        (
            Script::json(500, &json!({"error": {"message": "boom"}})),
            "",
            "LLM_UPSTREAM",
        ),
        (
            Script::json(
                400,
                &json!({"error": {"message": "bad", "code": "bad_grammar"}}),
            ),
            "",
            "bad_grammar",
        ),
        (
            Script::new().hang(),
            "timeouts.first_byte_s = 2",
            "LLM_TIMEOUT",
        ),
    ] {
        let upstream = Upstream::plain();
        let mut gateway = Setup::before(&upstream)
            .config(&format!("relay.commit_after_s = 1\n{config}"))
            .start();
        let gate = if code == "LLM_TIMEOUT" {
            Gate::new()
        } else {
            gate.clone()
        };
        let waiting = Gate::new();
        let script = Script::new().wait_for(&waiting);
        upstream.next_chat(Script {
            steps: script.steps.into_iter().chain(after.steps).collect(),
        });
        let mut client = committed(&gateway, "hello");
        waiting.open();
        gate.open();
        let answer = client.finish();
        error_event(&answer.body, code);
        gateway.stands(&upstream);
    }
}

#[test]
fn a_commit_of_zero_never_commits() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("relay.commit_after_s = 0")
        .start();
    let held = hold(&gateway, &upstream);
    let mut client = gateway.open_chat(&chat::streamed("waits"));
    gateway.until_queue(1, 1);
    assert!(
        client.is_silent_for(Duration::from_secs(2)),
        "no byte before the answer's own"
    );
    held.release();
    assert_eq!(client.finish().status(), 200);
    gateway.stands(&upstream);
}

#[test]
fn a_whole_answer_never_commits_early() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("relay.commit_after_s = 1")
        .start();
    let held = hold(&gateway, &upstream);
    let mut client = gateway.open_chat(&chat::whole("waits"));
    gateway.until_queue(1, 1);
    assert!(
        client.is_silent_for(Duration::from_secs(2)),
        "a 200 could no longer become a refusal"
    );
    held.release();
    assert_eq!(client.finish().status(), 200);
    gateway.stands(&upstream);
}

// Odd upstreams.

#[test]
fn an_event_of_megabytes_is_relayed_and_not_collected() {
    let big = "x".repeat(8 * 1024 * 1024);
    let wanted = format!("{}{}{DONE}", delta(&big), finish("stop"));
    let script = Script::stream().chunk(wanted.as_bytes()).last_chunk();
    let answer = relayed(script, "");
    assert_eq!(answer.body.len(), wanted.len());
    assert_eq!(answer.body, wanted.as_bytes());
}

#[test]
fn a_whole_answer_too_big_to_hold_flows() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let big = json!({"choices": [{"message": {"content": "x".repeat(20 * 1024 * 1024)},
        "finish_reason": "stop"}]})
    .to_string();
    upstream.next_chat(Script::whole(200, "application/json", big.as_bytes()));
    let answer = gateway.chat(&chat::whole("hello"));
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.body.len(), big.len());
    gateway.stands(&upstream);
}

#[test]
fn interim_heads_and_bytes_behind_an_answer_confuse_nobody() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let wanted = format!("{}{}{DONE}", delta("one"), finish("stop"));
    let mut bytes = chunk(wanted.as_bytes());
    bytes.extend_from_slice(LAST_CHUNK);
    bytes.extend_from_slice(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nOTHER");
    upstream.next_chat(
        Script::new()
            .send(b"HTTP/1.1 100 Continue\r\n\r\n")
            .sse_head()
            .send(&bytes),
    );
    let answer = gateway.chat(&chat::streamed("hello"));
    same_bytes(&answer, wanted.as_bytes());
    let next = gateway.chat(&chat::whole("next"));
    assert_eq!(next.status(), 200);
    assert!(
        find(&next.body, b"OTHER").is_none(),
        "an answer nobody asked for goes to nobody"
    );
    gateway.stands(&upstream);
}

#[test]
fn heads_that_no_server_should_send_end_in_an_answer_or_an_error_and_nothing_else() {
    let long = "x".repeat(500_000);
    let many: String = (0..150).map(|at| format!("x-{at}: 1\r\n")).collect();
    let body = br#"{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}"#;
    let length = body.len();
    let with = |fields: &str| {
        let mut bytes = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{fields}content-length: {length}\r\n\r\n"
        )
        .into_bytes();
        bytes.extend_from_slice(body);
        Script::new().send(&bytes)
    };
    let short = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5\r\n\r\n{\"choices\":[]}";
    for script in [
        with(&format!("x-long: {long}\r\n")),
        with(&many),
        with("transfer-encoding: chunked\r\n"),
        with("content-length: 3\r\n"),
        Script::new().send(short),
        Script::new()
            .send(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n")
            .fin(),
        Script::new()
            .drip(
                b"HTTP/1.1 100 Continue\r\n\r\n",
                Duration::from_millis(1),
                300,
            )
            .fin(),
    ] {
        for body in [chat::whole("x"), chat::streamed("x")] {
            let upstream = Upstream::plain();
            let mut gateway = Setup::before(&upstream).start();
            upstream.next_chat(script.clone());
            upstream.next_chat(script.clone());
            let answer = gateway.chat(&body);
            assert!(
                matches!(answer.status(), 200 | 502..=504),
                "{:?}",
                answer.head
            );
            assert_eq!(answer.head.get("x-long"), None);
            assert_eq!(answer.end, End::Whole);
            gateway.stands(&upstream);
        }
    }
}

#[test]
fn late_bytes_after_an_abort_go_to_nobody() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("timeouts.first_byte_s = 1\nrelay.commit_after_s = 0\nhealth.cooldown_ms = 100")
        .start();
    let late = Gate::new();
    upstream.next_chat(
        Script::new()
            .wait_for(&late)
            .sse_head()
            .delta("LATE")
            .ending(),
    );
    let answer = gateway.chat(&chat::streamed("hello"));
    refused(&answer, 504, "LLM_TIMEOUT", Advice::Never);
    assert_ne!(
        upstream.until_ended(0).0,
        How::Answered,
        "the call was given up"
    );
    late.open();
    let next = crate::support::eventually("served again", || {
        let next = gateway.chat(&chat::streamed("next"));
        (next.status() == 200).then_some(next)
    });
    assert!(!next.text().contains("LATE"));
    gateway.stands(&upstream);
}

#[test]
fn a_streamed_answer_to_a_whole_request_and_the_other_way_round_are_not_lost() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    // A server that ignores `stream: true` answers whole; the client gets what it sent.
    upstream.next_chat(Script::answer("whole instead"));
    let answer = gateway.chat(&chat::streamed("hello"));
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert!(answer.text().contains("whole instead"));
    // And one that streams although nobody asked is relayed as it comes.
    upstream.next_chat(Script::stream().delta("streamed instead").ending());
    let answer = gateway.chat(&chat::whole("hello"));
    assert!(answer.text().contains("streamed instead"));
    gateway.stands(&upstream);
}

#[test]
fn an_answer_in_one_piece_cannot_go_into_a_stream_that_was_begun_and_is_recorded_as_failed() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("relay.commit_after_s = 1")
        .start();
    let gate = Gate::new();
    let whole = completion("whole instead");
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        whole.to_string().len()
    );
    upstream.next_chat(
        Script::new()
            .wait_for(&gate)
            .send(head.as_bytes())
            .send(whole.to_string().as_bytes()),
    );
    let mut client = gateway.open_chat(&chat::streamed("hello"));
    client.body_until_has(": ping");
    gate.open();
    let answer = client.finish();
    let error = error_event(&answer.body, "LLM_UPSTREAM");
    assert!(
        error["message"].to_string().contains("in one piece"),
        "{error}"
    );
    let last = gateway.status()["recent"][0].clone();
    assert_eq!(last["outcome"], "failed", "as the client was told: {last}");
    assert_eq!(last["code"], "LLM_UPSTREAM");
    gateway.stands(&upstream);
}

#[test]
fn the_finish_reason_length_reaches_the_client() {
    let wanted = format!("{}{}{DONE}", delta("cut of"), finish("length"));
    let script = Script::stream().chunk(wanted.as_bytes()).last_chunk();
    same_bytes(&relayed(script, ""), wanted.as_bytes());
}

#[test]
fn done_completes_a_stream_whose_client_closes_at_once() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 7}});
    let usage = format!("data: {usage}\n\n");
    for (count, reset) in [(1, false), (2, true)] {
        let script = Script::stream().delta("x").chunk(finish("stop").as_bytes());
        let script = script.chunk(usage.as_bytes()).chunk(DONE.as_bytes());
        upstream.next_chat(script.hang());
        let mut client = gateway.open_chat(&chat::streamed("hello"));
        client.body_until_has("[DONE]");
        if reset {
            client.rst()
        } else {
            client.fin()
        }
        let record = &gateway.until_recent(count)[0];
        assert_eq!(record["outcome"], "done", "{record}");
        assert_eq!(record["finish"], "stop");
        assert_eq!(record["completion_tokens"], 7);
    }
    gateway.stands(&upstream);
}

#[test]
fn a_body_left_open_after_done_is_closed_within_a_second() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    upstream.next_chat(
        Script::stream()
            .delta("x")
            .chunk(finish("stop").as_bytes())
            .chunk(DONE.as_bytes())
            .hang(),
    );
    let start = std::time::Instant::now();
    let answer = gateway.chat(&chat::streamed("hello"));
    assert_eq!(answer.end, End::Whole);
    assert!(
        start.elapsed() < Duration::from_secs(3),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(gateway.until_recent(1)[0]["outcome"], "done");
    gateway.stands(&upstream);
}

#[test]
fn a_stream_with_another_content_type_is_relayed_as_a_stream() {
    for start in [
        "data: ",
        "event: x\ndata: ",
        "id: 1\ndata: ",
        "retry: 5\ndata: ",
        ": hi\ndata: ",
    ] {
        for kind in ["application/json", "TEXT/EVENT-STREAM"] {
            let upstream = Upstream::plain();
            let mut gateway = Setup::before(&upstream).start();
            let first = format!("{start}{}", delta("one").trim_start_matches("data: "));
            let rest = format!("{}{DONE}", finish("stop"));
            let open = Gate::new();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n"
            );
            let script = Script::new().send(head.as_bytes());
            let script = script
                .chunk(&first.as_bytes()[..2])
                .chunk(&first.as_bytes()[2..]);
            upstream.next_chat(script.wait_for(&open).chunk(rest.as_bytes()).last_chunk());
            let mut client = gateway.open_chat(&chat::streamed("hello"));
            client.body_until_has("one");
            open.open();
            let answer = client.finish();
            assert_eq!(answer.text(), format!("{first}{rest}"));
            let header = |name| answer.head.get(name).map(str::to_ascii_lowercase);
            assert_eq!(header("content-type").as_deref(), Some("text/event-stream"));
            assert_eq!(header("x-accel-buffering").as_deref(), Some("no"));
            assert_eq!(header("cache-control").as_deref(), Some("no-cache"));
            gateway.stands(&upstream);
        }
    }
}

#[test]
fn an_empty_finish_reason_does_not_complete_a_stream() {
    let empty = json!({"choices": [{"delta": {"content": "x"}, "finish_reason": ""}]});
    let empty = format!("data: {empty}\n\n");
    let script = Script::new().chunk(empty.as_bytes()).last_chunk();
    interrupted(script, "", "LLM_INTERRUPTED");
}
