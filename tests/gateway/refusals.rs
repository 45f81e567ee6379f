//! Every row of the refusal table, on the wire.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::chat;
use crate::support::client::{Client, Response, request};
use crate::support::flavour::{Flavour, llama_overflow};
use crate::support::gateway::Setup;
use crate::support::held::{hold, queue};
use crate::support::refused::{
    Advice, error_event, golden, golden_bytes, refused, refused_natively,
};
use crate::support::script::{Script, delta};
use crate::support::upstream::Upstream;
use crate::support::wire::response;

/// The fields of a good chat request in front of this Host.
fn headed<'a>(host: &'a str, extra: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut fields = vec![("host", host), ("content-type", "application/json")];
    fields.extend_from_slice(extra);
    fields
}

// LLM_UNAVAILABLE.

#[test]
fn a_refused_connection_is_unavailable_with_the_cooldown_as_advice() {
    let upstream = Upstream::plain();
    upstream.die();
    let mut gateway = Setup::before(&upstream).start();
    let answer = gateway.chat(&chat::whole("hello"));
    let error = refused(&answer, 503, "LLM_UNAVAILABLE", Advice::Later);
    assert_eq!(error["code"], "LLM_UNAVAILABLE");
    assert_eq!(error["type"], "server_error");
    assert_eq!(error["param"], Value::Null);
    let after: u64 = answer.head.get("retry-after").unwrap().parse().unwrap();
    assert!(
        after <= 3,
        "the first cooldown is 3 s, the advice was {after}"
    );
    upstream.come_back();
    gateway.stands(&upstream);
}

#[test]
fn an_answer_that_never_begins_is_unavailable_however_the_connection_ends() {
    for ending in [Script::new().fin(), Script::new().rst()] {
        for body in [chat::whole("hello"), chat::streamed("hello")] {
            let upstream = Upstream::plain();
            let mut gateway = Setup::before(&upstream).start();
            // A reused connection may be tried once more: both tries end the same way.
            upstream.next_chat(ending.clone());
            upstream.next_chat(ending.clone());
            let answer = gateway.chat(&body);
            refused(&answer, 503, "LLM_UNAVAILABLE", Advice::Later);
            gateway.stands(&upstream);
        }
    }
}

#[test]
fn half_a_whole_answer_is_unavailable_and_never_half_a_200() {
    let half = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 400\r\n\r\n{\"id\":\"x\",\"choices\":[";
    let chunked = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"id\"\r\n";
    for begun in [&half[..], &chunked[..]] {
        for ending in [
            Script::new().send(begun).fin(),
            Script::new().send(begun).rst(),
        ] {
            let upstream = Upstream::plain();
            let mut gateway = Setup::before(&upstream).start();
            upstream.next_chat(ending);
            let answer = gateway.chat(&chat::whole("hello"));
            refused(&answer, 503, "LLM_UNAVAILABLE", Advice::Later);
            gateway.stands(&upstream);
        }
    }
}

#[test]
fn what_does_not_speak_http_is_unavailable() {
    for garbage in [
        &b"SSH-2.0-OpenSSH_9.2\r\n"[..],
        b"HTTP/1.1 banana\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: application/json\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    ] {
        let upstream = Upstream::plain();
        let mut gateway = Setup::before(&upstream).start();
        upstream.next_chat(Script::new().send(garbage).fin());
        upstream.next_chat(Script::new().send(garbage).fin());
        let answer = gateway.chat(&chat::whole("hello"));
        refused(&answer, 503, "LLM_UNAVAILABLE", Advice::Later);
        gateway.stands(&upstream);
    }
}

// LLM_LOADING.

#[test]
fn a_load_longer_than_its_budget_is_loading_and_no_failure() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("timeouts.loading_s = 1")
        .start();
    upstream.start_loading();
    let answer = gateway.chat(&chat::whole("hello"));
    let error = refused(&answer, 503, "LLM_LOADING", Advice::Later);
    assert_eq!(error["code"], "LLM_LOADING");
    assert_eq!(
        answer.head.get("retry-after"),
        Some("5"),
        "loading says 5 seconds"
    );
    let status = gateway.status();
    assert_eq!(
        status["health"]["consecutive_failures"], 0,
        "loading is no failure: {status}"
    );
    upstream.finish_loading();
    gateway.stands(&upstream);
}

// LLM_OVERLOADED.

#[test]
fn a_full_line_is_overloaded_at_once() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("queue.max_waiting = 1")
        .start();
    let held = hold(&gateway, &upstream);
    let waiting = queue(&gateway, 1);
    let answer = gateway.chat(&chat::whole("one too many"));
    let error = refused(&answer, 503, "LLM_OVERLOADED", Advice::Later);
    assert_eq!(error["code"], "LLM_OVERLOADED");
    assert_eq!(error["type"], "server_error");
    held.release();
    for mut client in waiting {
        assert_eq!(client.finish().status(), 200);
    }
    gateway.stands(&upstream);
}

#[test]
fn a_full_line_is_429_when_the_configuration_says_so() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("queue.max_waiting = 0\nqueue.full_status = 429")
        .start();
    let held = hold(&gateway, &upstream);
    let answer = gateway.chat(&chat::whole("one too many"));
    let error = refused(&answer, 429, "LLM_OVERLOADED", Advice::Later);
    assert_eq!(error["type"], "rate_limit_error");
    held.release();
    gateway.stands(&upstream);
}

// LLM_QUEUE_TIMEOUT.

#[test]
fn a_wait_longer_than_its_limit_is_a_queue_timeout() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("queue.max_wait_whole_s = 1\nqueue.max_wait_s = 1\nrelay.commit_after_s = 0")
        .start();
    let held = hold(&gateway, &upstream);
    for body in [chat::whole("too late"), chat::streamed("too late")] {
        let answer = gateway.chat(&body);
        let error = refused(&answer, 503, "LLM_QUEUE_TIMEOUT", Advice::Later);
        assert_eq!(error["code"], "LLM_QUEUE_TIMEOUT");
    }
    held.release();
    assert_eq!(
        upstream.chats().len(),
        1,
        "who waited too long never reached the upstream"
    );
    gateway.stands(&upstream);
}

// LLM_PAUSED.

#[test]
fn a_pause_until_resumed_tells_programs_not_to_come_back() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    gateway.cli_ok(&["pause"]);
    let answer = gateway.chat(&chat::whole("hello"));
    let error = refused(&answer, 423, "LLM_PAUSED", Advice::Never);
    assert_eq!(error["code"], "LLM_PAUSED");
    golden(&answer, "paused");
    gateway.cli_ok(&["resume"]);
    gateway.stands(&upstream);
}

#[test]
fn a_pause_that_ends_after_the_wait_limit_is_refused_with_its_end() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    gateway.cli_ok(&["pause", "15m"]);
    let answer = gateway.chat(&chat::whole("hello"));
    let error = refused(&answer, 423, "LLM_PAUSED", Advice::Never);
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("15 minutes"), "{message}");
    gateway.cli_ok(&["resume"]);
    gateway.stands(&upstream);
}

// CONTEXT_OVERFLOW.

#[test]
fn a_prompt_that_cannot_fit_is_a_context_overflow_with_both_numbers() {
    let upstream = Upstream::start(Flavour::LlamaCpp { window: 1000 });
    let mut gateway = Setup::before(&upstream).start();
    let answer = gateway.chat(&chat::whole(&chat::words("w", 3000)));
    let error = refused(&answer, 400, "CONTEXT_OVERFLOW", Advice::Never);
    assert_eq!(
        error["code"], "context_length_exceeded",
        "agents compact on this code alone"
    );
    assert_eq!(error["type"], "invalid_request_error");
    assert_eq!(error["param"], "messages");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("1000") && message.contains("3008"),
        "both numbers: {message}"
    );
    assert!(
        message.contains("maximum context length"),
        "the words clients look for: {message}"
    );
    golden(&answer, "context-overflow");
    assert_eq!(
        upstream.chats().len(),
        0,
        "nothing was sent that could not fit"
    );
    gateway.stands(&upstream);
}

#[test]
fn every_overflow_an_upstream_can_say_becomes_the_same_refusal() {
    let prose = json!({"error": "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input"});
    let ollama = json!({"error": {"message": "the prompt is longer than the context length currently available to the model", "type": "invalid_request_error", "param": null, "code": null}});
    let nested = json!({"error": "{\"error\":{\"code\":400,\"message\":\"request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it\",\"type\":\"exceed_context_size_error\",\"n_prompt_tokens\":9000,\"n_ctx\":4096}}"});
    for overflow in [
        llama_overflow(9000, 4096),
        Script::json(400, &prose),
        Script::json(400, &ollama),
        Script::json(400, &nested),
        Script::json(
            400,
            &json!({"error": {"message": "Context size has been exceeded."}}),
        ),
    ] {
        let upstream = Upstream::plain();
        let mut gateway = Setup::before(&upstream).start();
        upstream.chats_always(move |_| overflow.clone());
        let answer = gateway.chat(&chat::whole("cannot be cut"));
        let error = refused(&answer, 400, "CONTEXT_OVERFLOW", Advice::Never);
        assert_eq!(error["code"], "context_length_exceeded");
        let status = gateway.status();
        assert_eq!(
            status["health"]["consecutive_failures"], 0,
            "the client's doing: {status}"
        );
        gateway.stands(&upstream);
    }
}

// LLM_TIMEOUT.

#[test]
fn a_stream_without_a_first_byte_is_a_timeout() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("timeouts.first_byte_s = 1\nrelay.commit_after_s = 0")
        .start();
    upstream.next_chat(Script::new().hang());
    let answer = gateway.chat(&chat::streamed("hello"));
    let error = refused(&answer, 504, "LLM_TIMEOUT", Advice::Never);
    assert_eq!(error["code"], "LLM_TIMEOUT");
    golden(&answer, "timeout-first-byte");
    upstream.until_ended(0);
    assert_eq!(
        upstream.chats().len(),
        1,
        "a generation is never sent again after a timeout"
    );
    let health = gateway.status()["health"].clone();
    assert_eq!(health["state"], "down", "not up: {health}");
    let last = &health["last_error"]["code"];
    assert_eq!(last, "silent", "not responding: {health}");
    gateway.stands(&upstream);
}

#[test]
fn a_whole_answer_past_its_total_limit_is_a_timeout() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("timeouts.total_s = 1")
        .start();
    upstream.next_chat(Script::new().hang());
    let answer = gateway.chat(&chat::whole("hello"));
    refused(&answer, 504, "LLM_TIMEOUT", Advice::Never);
    golden(&answer, "timeout-total");
    upstream.until_ended(0);
    gateway.stands(&upstream);
}

#[test]
fn a_stall_in_the_middle_of_a_stream_is_said_in_the_stream() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("timeouts.stall_s = 1")
        .start();
    upstream.next_chat(Script::stream().delta("one").hang());
    let answer = gateway.chat(&chat::streamed("hello"));
    assert_eq!(answer.status(), 200);
    let error = error_event(&answer.body, "LLM_TIMEOUT");
    assert_eq!(error["type"], "server_error");
    assert!(
        answer.body.starts_with(delta("one").as_bytes()),
        "what came is kept"
    );
    upstream.until_ended(0);
    gateway.stands(&upstream);
}

// LLM_UPSTREAM.

#[test]
fn an_upstreams_own_refusal_keeps_its_status_and_code() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let body = json!({"error": {"message": "bad grammar", "type": "invalid_request_error",
        "param": "grammar", "code": "bad_grammar"}});
    for status in [400, 404, 422] {
        upstream.next_chat(Script::json(status, &body));
        let answer = gateway.chat(&chat::whole("hello"));
        let error = refused(&answer, status, "LLM_UPSTREAM", Advice::AsStatusSays);
        assert_eq!(error["code"], "bad_grammar", "the upstream's own code");
        assert_eq!(error["type"], "invalid_request_error");
        assert_eq!(error["param"], "grammar");
        assert!(error["message"].as_str().unwrap().contains("bad grammar"));
        golden(&answer, &format!("upstream-{status}"));
    }
    let status = gateway.status();
    assert_eq!(
        status["health"]["consecutive_failures"], 0,
        "a 4xx is the client's: {status}"
    );
    gateway.stands(&upstream);
}

#[test]
fn an_upstreams_failure_is_503_whatever_its_body() {
    for (status, kind, body) in [
        (
            500,
            "application/json",
            &br#"{"error":{"message":"boom","type":"server_error","code":500}}"#[..],
        ),
        (500, "application/json", br#"{"error":"boom"}"#),
        (
            500,
            "application/json",
            br#"{"error":{"message":"boom"},"message":"boom"}"#,
        ),
        (500, "text/plain", b""),
        (
            502,
            "text/html",
            b"<html><body><h1>502 Bad Gateway</h1></body></html>",
        ),
        (503, "text/plain", b"no"),
        (599, "application/json", b"{"),
    ] {
        let upstream = Upstream::plain();
        let mut gateway = Setup::before(&upstream).start();
        upstream.next_chat(Script::whole(status, kind, body));
        let answer = gateway.chat(&chat::whole("hello"));
        assert_eq!(answer.status(), 503, "{status} {kind}: {}", answer.text());
        assert_eq!(answer.code(), Some("LLM_UPSTREAM"));
        assert_eq!(answer.head.get("content-type"), Some("application/json"));
        assert!(answer.json()["error"]["message"].is_string());
        assert_ne!(answer.head.get("retry-after"), Some("0"));
        gateway.stands(&upstream);
    }
}

#[test]
fn a_success_that_is_no_answer_is_never_relayed_as_one() {
    for (status, kind, body) in [
        (
            200,
            "text/html",
            &b"<html>Sign in to the hotel network</html>"[..],
        ),
        (200, "text/plain", b"hello"),
        (200, "application/json", b""),
        (200, "application/json", br#"{"error":{"message":"boom"}}"#),
        (
            200,
            "application/json",
            br#"{"error":"Unexpected endpoint or method."}"#,
        ),
        (204, "application/json", b""),
        (302, "text/html", b""),
    ] {
        for request in [chat::whole("hello"), chat::streamed("hello")] {
            let upstream = Upstream::plain();
            let mut gateway = Setup::before(&upstream).start();
            upstream.next_chat(Script::new().send(&response(
                status,
                &[
                    ("content-type", kind),
                    ("location", "http://127.0.0.1:1/v1/models"),
                ],
                body,
            )));
            let answer = gateway.chat(&request);
            let said = format!(
                "{status} {kind} {request}: {:?} {}",
                answer.head,
                answer.text()
            );
            if answer.status() == 200 {
                // Only a stream may have to say it inside.
                assert_eq!(request["stream"], true, "{said}");
                assert!(answer.text().contains("\"error\""), "{said}");
                assert!(!answer.text().contains("[DONE]"), "{said}");
            } else {
                assert!(answer.status() >= 400, "{said}");
                assert!(answer.json()["error"]["message"].is_string(), "{said}");
            }
            assert_eq!(upstream.chats().len(), 1, "no redirect is followed: {said}");
            gateway.stands(&upstream);
        }
    }
}

#[test]
fn an_upstreams_text_is_cut_to_two_hundred_characters() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let long = "é".repeat(5_000);
    upstream.next_chat(Script::json(
        400,
        &json!({"error": {"message": long, "type": "t"}}),
    ));
    let answer = gateway.chat(&chat::whole("hello"));
    let error = refused(&answer, 400, "LLM_UPSTREAM", Advice::AsStatusSays);
    let shown = error["message"].as_str().unwrap().matches('é').count();
    assert!(
        (100..=200).contains(&shown),
        "an excerpt of at most 200 characters, was {shown}"
    );
    gateway.stands(&upstream);
}

#[test]
fn statuses_that_sdks_retry_at_once_are_never_passed_on() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    for status in [408, 409, 499] {
        upstream.next_chat(Script::json(status, &json!({"error": {"message": "no"}})));
        let answer = gateway.chat(&chat::whole("hello"));
        assert_eq!(
            answer.status(),
            400,
            "{status} would be retried at once: {}",
            answer.text()
        );
    }
    for advice in ["0", "-5", "100000", "tomorrow", "61"] {
        upstream.next_chat(Script::new().send(&response(
            429,
            &[
                ("content-type", "application/json"),
                ("retry-after", advice),
            ],
            br#"{"error":{"message":"slow down"}}"#,
        )));
        let answer = gateway.chat(&chat::whole("hello"));
        assert_eq!(answer.status(), 429);
        if let Some(after) = answer.head.get("retry-after") {
            let seconds: u64 = after.parse().expect("whole seconds");
            assert!(
                (1..=60).contains(&seconds),
                "Retry-After {advice} became {after}"
            );
        }
    }
    gateway.stands(&upstream);
}

// LLM_INTERRUPTED.

#[test]
fn a_stream_that_is_cut_says_interrupted() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    upstream.next_chat(Script::stream().delta("one").fin());
    let answer = gateway.chat(&chat::streamed("hello"));
    let error = error_event(&answer.body, "LLM_INTERRUPTED");
    assert_eq!(error["type"], "server_error");
    let event = &answer.body[delta("one").len()..];
    golden_bytes(event, "interrupted.sse");
    gateway.stands(&upstream);
}

// LLM_REPEATED_CRASH.

#[test]
fn a_body_that_was_in_flight_at_two_deaths_is_not_sent_a_third_time() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let deadly = chat::whole("this one kills it");
    for death in 1..=2 {
        let mut client = {
            upstream.next_chat(Script::new().hang());
            gateway.open_chat(&deadly)
        };
        upstream.until_chats(death);
        upstream.die();
        refused(&client.finish(), 503, "LLM_UNAVAILABLE", Advice::Later);
        // The port refuses connections: a death, and not a reset by a server that lives on.
        gateway.control("POST", "/oneslot/check", "");
        gateway.until_status("seen dead", |status| status["health"]["state"] == "down");
        upstream.come_back();
        gateway.control("POST", "/oneslot/check", "");
        gateway.until_status("the server is back", |status| {
            status["health"]["state"] == "ready"
        });
    }
    let answer = gateway.chat(&deadly);
    let error = refused(&answer, 422, "LLM_REPEATED_CRASH", Advice::Never);
    assert_eq!(error["code"], "LLM_REPEATED_CRASH");
    golden(&answer, "repeated-crash");
    assert_eq!(upstream.chats().len(), 2, "the third try stayed here");
    gateway.stands(&upstream);
}

#[test]
fn a_death_on_a_connection_that_was_used_before_counts_as_well() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).limit("fresh_ms", 60_000).start();
    let deadly = chat::whole("this one kills it");
    for death in 1..=2 {
        // Leaves a connection behind that the deadly one goes out on.
        assert_eq!(gateway.chat(&chat::whole("harmless")).status(), 200);
        upstream.next_chat(Script::new().hang());
        let mut client = gateway.open_chat(&deadly);
        let chats = upstream.until_chats(2 * death);
        assert_eq!(
            chats[2 * death - 1].connection,
            chats[2 * death - 2].connection,
            "the connection is used again"
        );
        upstream.die();
        refused(&client.finish(), 503, "LLM_UNAVAILABLE", Advice::Later);
        // The port refuses connections: a death, and not a reset by a server that lives on.
        gateway.control("POST", "/oneslot/check", "");
        gateway.until_status("seen dead", |status| status["health"]["state"] == "down");
        upstream.come_back();
        gateway.control("POST", "/oneslot/check", "");
        gateway.until_status("the server is back", |status| {
            status["health"]["state"] == "ready"
        });
    }
    let answer = gateway.chat(&deadly);
    refused(&answer, 422, "LLM_REPEATED_CRASH", Advice::Never);
    assert_eq!(gateway.chat(&chat::whole("harmless")).status(), 200);
    gateway.stands(&upstream);
}

// What the client did wrong.

#[test]
fn a_malformed_request_says_what_is_wrong_and_takes_no_place() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let deep = format!(
        r#"{{"model":"m","messages":{}1{}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let barely = format!(
        r#"{{"model":"m","messages":{}1{}}}"#,
        "[".repeat(200),
        "]".repeat(200)
    );
    for body in [
        "",
        "{",
        "null",
        "[]",
        "\"text\"",
        "{\"model\":\"m\",\"messages\":[}",
        "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]} trailing",
        "{\"model\":\"m\"}",
        "{\"model\":\"m\",\"messages\":[]}",
        "{\"model\":\"m\",\"messages\":\"hello\"}",
        "{\"model\":\"m\",\"model\":\"n\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
        "{\"model\":\"m\",\"messages\":[],\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
        "{\"model\":\"m\",\"stream\":true,\"stream\":false,\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
        "{\"model\":\"m\",\"max_tokens\":1,\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
        "{\"model\":\"m\",\"mod\\u0065l\":\"n\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
        &deep,
        &barely,
    ] {
        let answer =
            gateway.exchange(&gateway.request("POST", "/v1/chat/completions", body.as_bytes()));
        let error = refused(&answer, 400, "BAD_REQUEST", Advice::Never);
        assert_eq!(error["code"], "BAD_REQUEST");
        assert_eq!(error["type"], "invalid_request_error");
    }
    let invalid_utf8 =
        b"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"\xff\xfe\"}]}";
    let answer = gateway.exchange(&gateway.request("POST", "/v1/chat/completions", invalid_utf8));
    refused(&answer, 400, "BAD_REQUEST", Advice::Never);
    assert_eq!(
        upstream.chats().len(),
        0,
        "nothing malformed reaches the upstream"
    );
    gateway.stands(&upstream);
}

#[test]
fn a_missing_or_wrong_key_is_unauthorized() {
    let upstream = Upstream::plain();
    let gateway = Setup::before(&upstream)
        .config("access.require_key = true")
        .start();
    let body = chat::whole("hello").to_string();
    for extra in [
        &[][..],
        &[("authorization", "Bearer wrong")],
        &[("x-api-key", "wrong")],
        &[("authorization", "Basic d3Jvbmc6d3Jvbmc=")],
    ] {
        let answer = gateway.exchange(&gateway.request_with(
            "POST",
            "/v1/chat/completions",
            extra,
            body.as_bytes(),
        ));
        let error = refused(&answer, 401, "UNAUTHORIZED", Advice::Never);
        assert_eq!(error["type"], "authentication_error");
        golden(&answer, "unauthorized");
    }
    assert_eq!(upstream.chats().len(), 0, "who has no key reaches nothing");
}

#[test]
fn a_foreign_host_is_forbidden() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let body = chat::whole("hello").to_string();
    let bytes = request(
        "POST",
        "/v1/chat/completions",
        &headed("evil.example", &[]),
        body.as_bytes(),
    );
    let answer = gateway.exchange(&bytes);
    let error = refused(&answer, 403, "FORBIDDEN_HOST", Advice::Never);
    assert_eq!(error["type"], "permission_error");
    golden(&answer, "forbidden-host");
    gateway.stands(&upstream);
}

#[test]
fn a_foreign_origin_is_forbidden_and_shown() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let body = chat::whole("hello").to_string();
    let answer = gateway.exchange(&gateway.request_with(
        "POST",
        "/v1/chat/completions",
        &[("origin", "https://evil.example")],
        body.as_bytes(),
    ));
    refused(&answer, 403, "FORBIDDEN_ORIGIN", Advice::Never);
    golden(&answer, "forbidden-origin");
    let shown = gateway.status()["refused_origins"].to_string();
    assert!(
        shown.contains("https://evil.example"),
        "a person can allow it: {shown}"
    );
    gateway.stands(&upstream);
}

#[test]
fn model_management_is_blocked() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let answer = gateway.exchange(&gateway.request("POST", "/api/pull", br#"{"model":"x"}"#));
    refused_natively(&answer, 403, "ADMIN_BLOCKED", Advice::Never);
    golden(&answer, "admin-blocked");
    let answer = gateway.exchange(&gateway.request("POST", "/models/load", br#"{"model":"x"}"#));
    refused(&answer, 403, "ADMIN_BLOCKED", Advice::Never);
    assert!(!upstream.probes().iter().any(|probe| probe.contains("pull")));
    gateway.stands(&upstream);
}

#[test]
fn an_unknown_route_is_not_found() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let answer = gateway.get("/v2/anything");
    let error = refused(&answer, 404, "NOT_FOUND", Advice::Never);
    assert_eq!(error["code"], "NOT_FOUND");
    golden(&answer, "not-found");
    gateway.stands(&upstream);
}

#[test]
fn a_known_route_with_another_method_names_the_one_it_has() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let answer = gateway.get("/v1/chat/completions");
    refused(&answer, 405, "METHOD_NOT_ALLOWED", Advice::Never);
    assert!(
        answer
            .head
            .get("allow")
            .is_some_and(|allow| allow.contains("POST"))
    );
    let answer = gateway.exchange(&gateway.request("POST", "/v1/models", b"{}"));
    refused(&answer, 405, "METHOD_NOT_ALLOWED", Advice::Never);
    assert!(
        answer
            .head
            .get("allow")
            .is_some_and(|allow| allow.contains("GET"))
    );
    gateway.stands(&upstream);
}

#[test]
fn a_body_over_the_limit_is_refused_before_it_is_read() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let host = gateway.address().to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        64 * 1024 * 1024 + 1
    );
    let answer = gateway.exchange(head.as_bytes());
    let error = refused(&answer, 413, "TOO_LARGE", Advice::Never);
    assert_eq!(error["code"], "TOO_LARGE");
    golden(&answer, "too-large-body");
    let expecting = head.replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n");
    let mut client = gateway.open(expecting.as_bytes());
    refused(&client.finish(), 413, "TOO_LARGE", Advice::Never);
    gateway.stands(&upstream);
}

#[test]
fn a_head_over_its_limits_is_refused() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let huge = "x".repeat(33 * 1024);
    let answer =
        gateway.exchange(&gateway.request_with("GET", "/v1/models", &[("x-a", &huge)], b""));
    assert_eq!(answer.status(), 431, "33 KiB of head: {}", answer.text());
    let names: Vec<String> = (0..65).map(|at| format!("x-{at}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
    let answer = gateway.exchange(&gateway.request_with("GET", "/v1/models", &many, b""));
    assert_eq!(
        answer.status(),
        431,
        "more than 64 fields: {}",
        answer.text()
    );
    let long = format!("/v1/models?{}", "q".repeat(9 * 1024));
    let answer = gateway.get(&long);
    assert_eq!(answer.status(), 414, "a URI of 9 KiB: {}", answer.text());
    gateway.stands(&upstream);
}

#[test]
fn a_compressed_body_is_an_unsupported_media_type() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    for coding in ["gzip", "zstd", "br", "deflate"] {
        let answer = gateway.exchange(&gateway.request_with(
            "POST",
            "/v1/chat/completions",
            &[("content-encoding", coding)],
            b"\x1f\x8b\x08\x00",
        ));
        let error = refused(&answer, 415, "UNSUPPORTED_MEDIA_TYPE", Advice::Never);
        assert_eq!(error["code"], "UNSUPPORTED_MEDIA_TYPE");
    }
    assert_eq!(upstream.chats().len(), 0);
    gateway.stands(&upstream);
}

// The gateway itself.

#[test]
fn those_in_line_at_shutdown_are_told_and_the_running_stream_ends_in_the_open() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).limit("shutdown_ms", 1000).start();
    let mut held = hold(&gateway, &upstream);
    let waiting = queue(&gateway, 2);
    gateway.signal("TERM");
    for mut client in waiting {
        let answer = client.finish();
        let error = refused(&answer, 503, "SHUTTING_DOWN", Advice::Later);
        assert_eq!(error["code"], "SHUTTING_DOWN");
        golden(&answer, "shutting-down");
    }
    let cut = held.client.finish();
    let error = error_event(&cut.body, "LLM_INTERRUPTED");
    assert!(
        error["message"].as_str().unwrap().contains("shut down"),
        "{error}"
    );
    let status = gateway.until_exit();
    assert!(status.success(), "a wished-for end is a success: {status}");
    upstream.until_ended(0);
    assert!(
        std::net::TcpStream::connect_timeout(&gateway.address(), Duration::from_secs(1)).is_err(),
        "the port is free"
    );
}

#[test]
fn every_response_has_a_request_id_of_its_own() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let mut ids = Vec::new();
    let mut note = |answer: &Response| {
        let id = answer
            .head
            .get("x-oneslot-request-id")
            .unwrap_or_default()
            .to_owned();
        assert!(
            !id.is_empty(),
            "every response has a request id: {:?}",
            answer.head
        );
        // What SDKs show as the request's id.
        assert!(
            answer.head.get("x-request-id").is_some(),
            "{:?}",
            answer.head
        );
        ids.push(id);
    };
    note(&gateway.chat(&chat::whole("hello")));
    note(&gateway.chat(&chat::streamed("hello")));
    note(&gateway.get("/v1/models"));
    note(&gateway.get("/nothing"));
    note(&gateway.get("/v1/chat/completions"));
    note(&gateway.exchange(&gateway.request("POST", "/v1/chat/completions", b"{")));
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "ids are unique: {ids:?}");
    gateway.stands(&upstream);
}

#[test]
fn no_server_at_all_names_the_three_ports() {
    // The usual ports are asked, so this only says something where nothing listens there.
    for port in [11_434, 1234, 8080] {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            eprintln!("port {port} is taken on this machine: nothing to see here");
            return;
        }
    }
    let gateway = Setup::bare().start();
    let answer = gateway.chat(&chat::whole("hello"));
    let error = refused(&answer, 503, "LLM_UNAVAILABLE", Advice::Later);
    let message = error["message"].as_str().unwrap();
    for port in ["11434", "1234", "8080"] {
        assert!(
            message.contains(port),
            "the ports that were asked: {message}"
        );
    }
}

#[test]
fn a_wrong_base_url_says_so() {
    let upstream = Upstream::plain();
    upstream.always("GET", "/v1/models", |_| {
        Script::whole(404, "text/plain", b"404 page not found")
    });
    let mut gateway = Setup::before(&upstream).start();
    let answer = gateway.chat(&chat::whole("hello"));
    let error = refused(&answer, 503, "LLM_UNAVAILABLE", Advice::Later);
    assert!(
        error["message"].as_str().unwrap().contains("base_url"),
        "{error}"
    );
    assert_eq!(upstream.chats().len(), 0, "a wrong address gets no prompt");
    upstream.as_usual("GET", "/v1/models");
    gateway.stands(&upstream);
}

#[test]
fn a_client_that_half_closes_leaks_no_place() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let client = gateway.open_chat(&chat::whole("hello"));
    client.half_close();
    gateway.until_queue(0, 0);
    drop(client);
    gateway.stands(&upstream);
    let _: Client = gateway.connect();
}
