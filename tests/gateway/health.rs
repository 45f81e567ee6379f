//! The upstream's health: probes, cooldown, loading, keys, and whose fault a failure is.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::chat;
use crate::support::client::Client;
use crate::support::eventually;
use crate::support::flavour::Flavour;
use crate::support::gateway::{Gateway, Setup};
use crate::support::held::{hold, queue};
use crate::support::refused::{Advice, error_event, refused};
use crate::support::script::Script;
use crate::support::upstream::{How, Upstream};

/// Fails one chat by a reset, so that the cooldown begins.
fn fail_one(gateway: &Gateway, upstream: &Upstream) {
    upstream.next_chat(Script::new().send(b"HTTP/1.1 200 OK\r\n").rst());
    let answer = gateway.chat(&chat::whole("fails"));
    refused(&answer, 503, "LLM_UNAVAILABLE", Advice::Later);
}

fn cooling(status: &Value) -> bool {
    status["health"]["cooldown_ms"]
        .as_u64()
        .is_some_and(|left| left > 0)
}

#[test]
fn a_server_that_comes_back_is_served_without_touching_the_gateway() {
    let upstream = Upstream::plain();
    upstream.die();
    let mut gateway = Setup::before(&upstream)
        .config("health.cooldown_ms = 500")
        .start();
    refused(
        &gateway.chat(&chat::whole("hello")),
        503,
        "LLM_UNAVAILABLE",
        Advice::Later,
    );
    upstream.come_back();
    let answer = eventually("the server is found again", || {
        let answer = gateway.chat(&chat::whole("hello"));
        (answer.status() == 200).then_some(answer)
    });
    assert_eq!(answer.status(), 200);
    let status = gateway.status();
    assert_eq!(
        status["health"]["consecutive_failures"], 0,
        "success forgets: {status}"
    );
    assert_eq!(status["health"]["state"], "ready");
    gateway.stands(&upstream);
}

#[test]
fn nothing_reaches_the_upstream_during_cooldown_and_arrivals_do_not_extend_it() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("health.cooldown_ms = 5000\nhealth.idle_interval_s = 1")
        .limit("cooldown_max_ms", 5000)
        .start();
    fail_one(&gateway, &upstream);
    let (connections, requests) = (upstream.connections(), upstream.requests());
    let mut last = u64::MAX;
    let mut arrivals = 0;
    while {
        let status = gateway.status();
        let left = status["health"]["cooldown_ms"].as_u64().unwrap_or(0);
        assert!(
            left <= last,
            "arrivals never extend it: {left} after {last}"
        );
        last = left;
        left > 1500
    } {
        let answer = gateway.chat(&chat::whole("hello"));
        refused(&answer, 503, "LLM_UNAVAILABLE", Advice::Later);
        let after: u64 = answer.head.get("retry-after").unwrap().parse().unwrap();
        assert!(after <= 5, "the advice is what is left: {after}");
        refused(
            &gateway.chat(&chat::streamed("hello")),
            503,
            "LLM_UNAVAILABLE",
            Advice::Later,
        );
        arrivals += 2;
        assert_eq!(
            upstream.connections(),
            connections,
            "no probe and no request"
        );
        assert_eq!(upstream.requests(), requests, "no probe and no request");
    }
    assert!(arrivals >= 10, "many arrived: {arrivals}");
    gateway.until_status("the cooldown ends by itself", |status| {
        status["health"]["state"] == "ready" && !cooling(status)
    });
    let probes = upstream.look(|state| {
        state.log[requests..]
            .iter()
            .map(|seen| seen.request.path().to_owned())
            .collect::<Vec<_>>()
    });
    assert!(
        probes.contains(&"/v1/models".to_owned()),
        "when it ends, it is probed: {probes:?}"
    );
    for probe in &probes {
        assert!(
            harmless(&format!("GET {probe}")),
            "and nothing else is tried: {probes:?}"
        );
    }
    assert_eq!(gateway.chat(&chat::whole("hello")).status(), 200);
    gateway.stands(&upstream);
}

#[test]
fn the_cooldown_doubles_up_to_its_limit() {
    let upstream = Upstream::plain();
    upstream.die();
    let gateway = Setup::before(&upstream)
        .config("health.cooldown_ms = 1000")
        .limit("cooldown_max_ms", 3000)
        .start();
    gateway.chat(&chat::whole("hello"));
    // Each probe at a cooldown's end fails again.
    let status = gateway.until_status("three failures in a row", |status| {
        status["health"]["consecutive_failures"]
            .as_u64()
            .is_some_and(|count| count >= 3)
    });
    let left = status["health"]["cooldown_ms"].as_u64().unwrap();
    assert!(
        (1001..=3000).contains(&left),
        "longer than the first, at most the limit: {left}"
    );
    assert_eq!(status["health"]["state"], "down");
    assert!(
        status["health"]["last_error"]["code"].is_string(),
        "what was seen is kept: {status}"
    );
}

#[test]
fn queued_requests_keep_their_place_through_an_outage() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let mut held = hold(&gateway, &upstream);
    let waiting = queue(&gateway, 3);
    upstream.die();
    error_event(&held.client.finish().body, "LLM_INTERRUPTED");
    gateway.until_status("known down", |status| status["health"]["state"] == "down");
    let late = gateway.chat(&chat::whole("arrives while it is down"));
    refused(&late, 503, "LLM_UNAVAILABLE", Advice::Later);
    gateway.until_queue(0, 3);
    upstream.come_back();
    gateway.control("POST", "/oneslot/check", "");
    for mut client in waiting {
        let answer = client.finish();
        assert_eq!(answer.status(), 200, "{}", answer.text());
    }
    assert_eq!(
        upstream.order(),
        ["hold the slot", "number 0", "number 1", "number 2"],
        "in their old order"
    );
    gateway.stands(&upstream);
}

#[test]
fn a_wait_that_ends_behind_a_cooldown_names_it() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("queue.max_wait_whole_s = 2")
        .start();
    let mut held = hold(&gateway, &upstream);
    let mut waiting = queue(&gateway, 1).remove(0);
    upstream.die();
    error_event(&held.client.finish().body, "LLM_INTERRUPTED");
    refused(&waiting.finish(), 503, "LLM_UNAVAILABLE", Advice::Later);
    upstream.come_back();
    gateway.stands(&upstream);
}

#[test]
fn only_the_request_whose_own_probe_failed_is_refused() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("health.cooldown_ms = 1000")
        .limit("fresh_ms", 0)
        .start();
    let held = hold(&gateway, &upstream);
    let mut waiting = queue(&gateway, 3);
    upstream.next("GET", "/v1/models", Script::new().rst());
    upstream.next("GET", "/v1/models", Script::new().rst());
    held.release();
    let first = waiting.remove(0).finish();
    if first.status() != 200 {
        refused(&first, 503, "LLM_UNAVAILABLE", Advice::Later);
    }
    for client in &mut waiting {
        assert_eq!(
            client.finish().status(),
            200,
            "those behind keep their place"
        );
    }
    gateway.stands(&upstream);
}

#[test]
fn check_now_ends_a_cooldown() {
    for by_command in [true, false] {
        let upstream = Upstream::plain();
        let mut gateway = Setup::before(&upstream)
            .config("health.cooldown_ms = 60000")
            .limit("cooldown_max_ms", 60_000)
            .start();
        fail_one(&gateway, &upstream);
        assert!(cooling(&gateway.status()));
        if by_command {
            gateway.cli_ok(&["check"]);
        } else {
            assert!(gateway.control("POST", "/oneslot/check", "").status() < 300);
        }
        let status = gateway.until_status("ready at once", |status| {
            status["health"]["state"] == "ready"
        });
        assert!(!cooling(&status), "{status}");
        assert_eq!(gateway.chat(&chat::whole("hello")).status(), 200);
        gateway.stands(&upstream);
    }
}

#[test]
fn a_probe_that_times_out_is_sent_again_and_the_queue_waits() {
    let upstream = Upstream::plain();
    for _ in 0..2 {
        upstream.next("GET", "/v1/models", Script::new().hang());
    }
    let mut gateway = Setup::before(&upstream).start();
    let answer = gateway.chat(&chat::whole("waits for 2 and 5 s"));
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let status = gateway.status();
    assert_eq!(status["health"]["consecutive_failures"], 0, "{status}");
    gateway.stands(&upstream);
}

#[test]
fn strict_is_down_at_the_first_probe_that_times_out() {
    let upstream = Upstream::plain();
    upstream.always("GET", "/v1/models", |_| Script::new().hang());
    let mut gateway = Setup::before(&upstream)
        .config("preset = \"strict\"")
        .start();
    let began = Instant::now();
    let answer = gateway.chat(&chat::whole("hello"));
    refused(&answer, 503, "LLM_UNAVAILABLE", Advice::Later);
    assert!(began.elapsed() < Duration::from_secs(7), "one probe of 2 s");
    assert_eq!(
        upstream.chats().len(),
        0,
        "no prompt goes to a server that does not answer"
    );
    gateway.stands(&upstream);
}

#[test]
fn a_reset_by_a_server_that_lives_on_is_no_crash() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    for _ in 0..3 {
        fail_one(&gateway, &upstream);
        assert!(gateway.control("POST", "/oneslot/check", "").status() < 300);
        gateway.until_status("ready again", |status| status["health"]["state"] == "ready");
    }
    assert_eq!(gateway.chat(&chat::whole("fails")).status(), 200);
    gateway.stands(&upstream);
}

#[test]
fn an_aborted_request_settles_until_the_server_is_idle() {
    let upstream = Upstream::start(Flavour::LlamaCpp { window: 4096 });
    let mut gateway = Setup::before(&upstream).start();
    assert_eq!(gateway.chat(&chat::whole("first")).status(), 200);
    let held = hold(&gateway, &upstream);
    upstream.always("GET", "/slots", |_| {
        Script::json(200, &json!([{"id": 0, "is_processing": true}]))
    });
    drop(held);
    let status = gateway.until_status("it settles", |status| {
        status["queue"]["items"][0]["phase"] == "settling"
    });
    assert!(status["queue"]["items"][0]["app"].is_string(), "{status}");
    let mut waiting = gateway.open_chat(&chat::whole("next"));
    assert!(
        waiting.is_silent_for(Duration::from_secs(11)),
        "the server is busy all the time"
    );
    let status = gateway.status();
    let item = &status["queue"]["items"][0];
    assert_eq!(item["phase"], "settling", "{status}");
    assert!(item["age_ms"].as_u64().unwrap() >= 11_000, "{status}");
    let line = "the server is still working on a cancelled request";
    let log = std::fs::read_to_string(gateway.state_path().join("oneslot.log")).unwrap();
    assert_eq!(log.matches(line).count(), 1, "one line: {log}");
    upstream.as_usual("GET", "/slots");
    assert_eq!(waiting.finish().status(), 200, "idle at last");
    gateway.stands(&upstream);
}

#[test]
fn a_server_error_that_is_its_own_fault_starts_a_cooldown() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let died = json!({"error": {"message": "model runner has unexpectedly stopped, this may be due to resource limitations or an internal error", "type": "api_error", "param": null, "code": null}});
    upstream.next_chat(Script::json(500, &died));
    let answer = gateway.chat(&chat::whole("hello"));
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.code(), Some("LLM_UPSTREAM"));
    let status = gateway.status();
    assert_eq!(
        status["health"]["state"], "down",
        "a dead runner is said only this way: {status}"
    );
    gateway.stands(&upstream);
}

// Loading.

#[test]
fn loading_is_waited_for_and_is_no_failure() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("timeouts.first_byte_s = 1\ntimeouts.total_s = 1\nrelay.commit_after_s = 0")
        .start();
    upstream.start_loading();
    let mut whole = gateway.open_chat(&chat::whole("first"));
    let mut streamed = gateway.open_chat(&chat::streamed("second"));
    let status = gateway.until_status("it is seen to load", |status| {
        status["health"]["state"] == "loading"
    });
    assert_eq!(status["health"]["consecutive_failures"], 0, "{status}");
    assert!(
        whole.is_silent_for(Duration::from_millis(2500)),
        "a load longer than the first-byte limit is not aborted"
    );
    upstream.finish_loading();
    assert_eq!(whole.finish().status(), 200);
    assert_eq!(streamed.finish().status(), 200);
    let status = gateway.status();
    assert_eq!(status["health"]["consecutive_failures"], 0, "{status}");
    assert!(!cooling(&status), "neither starts a cooldown: {status}");
    gateway.stands(&upstream);
}

#[test]
fn a_list_of_models_is_no_proof_that_the_model_is_loaded() {
    let loading =
        json!({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}});
    // Some servers say it on /health as well, others have no such route.
    for has_health in [true, false] {
        let upstream = Upstream::plain();
        let mut gateway = Setup::before(&upstream).start();
        let body = loading.clone();
        upstream.chats_always(move |_| Script::json(503, &body));
        if has_health {
            let body = loading.clone();
            upstream.always("GET", "/health", move |_| Script::json(503, &body));
        }
        let mut client = gateway.open_chat(&chat::whole("hello"));
        let status = gateway.until_status("it is seen to load", |status| {
            status["health"]["state"] == "loading"
        });
        assert_eq!(
            status["health"]["consecutive_failures"], 0,
            "no failure: {status}"
        );
        upstream.as_usual("GET", "/health");
        upstream.as_usual("POST", "/v1/chat/completions");
        assert_eq!(client.finish().status(), 200, "it was waited for");
        assert!(
            upstream.chats().len() < 60,
            "a loading server is asked gently"
        );
        gateway.stands(&upstream);
    }
}

#[test]
fn an_ollama_that_blocks_while_it_loads_is_not_timed_out() {
    let upstream = Upstream::start(Flavour::Ollama {
        loaded: None,
        on_load: 8192,
    });
    let mut gateway = Setup::before(&upstream)
        .config("timeouts.first_byte_s = 1\ntimeouts.total_s = 1\nrelay.commit_after_s = 0")
        .start();
    let loaded = json!({"model": "llama3.2", "created_at": "2026-01-01T00:00:00Z", "response": "",
        "done": true, "done_reason": "load"});
    upstream.next(
        "POST",
        "/api/generate",
        Script::new()
            .wait(Duration::from_millis(2500))
            .send(&crate::support::wire::json_response(200, &loaded)),
    );
    let mut body = chat::streamed("hello");
    body["model"] = json!("llama3.2");
    let answer = gateway.chat(&body);
    assert_eq!(
        answer.status(),
        200,
        "loading has a budget of its own: {}",
        answer.text()
    );
    assert_eq!(gateway.status()["health"]["consecutive_failures"], 0);
    gateway.stands(&upstream);
}

// Keys.

#[test]
fn a_server_that_wants_a_key_is_alive_and_the_clients_key_works() {
    let upstream = Upstream::plain();
    upstream.demand_key("sk-client");
    let gateway = Setup::before(&upstream).start();
    let body = chat::whole("hello").to_string();
    let with_key = gateway.exchange(&gateway.request_with(
        "POST",
        "/v1/chat/completions",
        &[("authorization", "Bearer sk-client")],
        body.as_bytes(),
    ));
    assert_eq!(
        with_key.status(),
        200,
        "the client's key goes through: {}",
        with_key.text()
    );
    let without = gateway.chat(&chat::whole("hello"));
    assert_eq!(
        without.status(),
        401,
        "the upstream's own 401: {}",
        without.text()
    );
    assert_eq!(without.code(), Some("LLM_UPSTREAM"));
    let status = gateway.status();
    assert_eq!(
        status["health"]["consecutive_failures"], 0,
        "a 401 is a sign of life: {status}"
    );
    assert!(!cooling(&status));
    assert_eq!(upstream.most_in_flight(), 1);
}

#[test]
fn a_configured_key_replaces_the_clients() {
    let upstream = Upstream::plain();
    upstream.demand_key("sk-configured");
    let mut gateway = Setup::before(&upstream)
        .config("upstream.api_key = \"sk-configured\"")
        .start();
    let body = chat::whole("hello").to_string();
    let answer = gateway.exchange(&gateway.request_with(
        "POST",
        "/v1/chat/completions",
        &[
            ("authorization", "Bearer sk-from-the-client"),
            ("x-api-key", "sk-from-the-client"),
        ],
        body.as_bytes(),
    ));
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let seen = upstream.look(|state| {
        state
            .log
            .iter()
            .map(|seen| String::from_utf8_lossy(&seen.request.raw_head).into_owned())
            .collect::<String>()
    });
    assert!(
        !seen.contains("sk-from-the-client"),
        "one credential, the configured one"
    );
    gateway.stands(&upstream);
}

// What is asked, and how often.

fn harmless(probe: &str) -> bool {
    let path = probe.split('?').next().unwrap_or_default();
    [
        "GET /",
        "GET /health",
        "GET /v1/models",
        "GET /props",
        "GET /slots",
        "GET /api/version",
        "GET /api/tags",
        "GET /api/ps",
        "GET /api/v0/models",
        "GET /api/v1/models",
    ]
    .contains(&path)
}

#[test]
fn only_what_wakes_nothing_is_probed() {
    for flavour in [
        Flavour::Plain,
        Flavour::LlamaCpp { window: 4096 },
        Flavour::Ollama {
            loaded: Some(4096),
            on_load: 4096,
        },
        Flavour::LmStudio {
            loaded: Some(4096),
            on_load: 4096,
        },
    ] {
        let upstream = Upstream::start(flavour.clone());
        let mut gateway = Setup::before(&upstream)
            .config("health.idle_interval_s = 1")
            .start();
        gateway.get("/v1/models");
        upstream.until("a few idle probes", |state| {
            let probes = state
                .log
                .iter()
                .filter(|seen| seen.request.path() == "/v1/models")
                .count();
            (probes >= 3).then_some(())
        });
        for probe in upstream.probes() {
            assert!(
                harmless(&probe),
                "{probe} could wake or load a model ({flavour:?})"
            );
        }
        assert_eq!(
            upstream.chats().len(),
            0,
            "a probe is never a chat ({flavour:?})"
        );
        gateway.stands(&upstream);
    }
}

#[test]
fn only_a_person_who_looks_makes_the_server_be_asked_more_often() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("health.idle_interval_s = 1")
        .start();
    let probes = |seen: &[String]| seen.iter().filter(|one| *one == "GET /v1/models").count();
    let mut icon = gateway.open(&gateway.request("GET", "/oneslot/events", b""));
    icon.body_until_has("\"ready\"");
    let before = probes(&upstream.probes());
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(
        probes(&upstream.probes()),
        before,
        "a program that follows the events is no viewer"
    );
    let mut panel = gateway.open(&gateway.request("GET", "/oneslot/events?watched=yes", b""));
    panel.body_until_has("\"ready\"");
    crate::support::eventually(
        "it is probed each second while a viewer is connected",
        || (probes(&upstream.probes()) >= before + 3).then_some(()),
    );
    gateway.stands(&upstream);
}

#[test]
fn nothing_is_probed_while_bytes_flow() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("health.idle_interval_s = 1")
        .limit("fresh_ms", 500)
        .start();
    assert_eq!(
        gateway.chat(&chat::whole("so that it is known")).status(),
        200
    );
    let piece = crate::support::wire::chunk(crate::support::script::delta("tick").as_bytes());
    upstream.next_chat(
        Script::stream()
            .drip(&piece, Duration::from_millis(100), 30)
            .ending(),
    );
    let mut client = gateway.open_chat(&chat::streamed("flow"));
    client.body_until_has("tick");
    let before = upstream.probes().len();
    client.finish();
    let during = upstream.look(|state| {
        let end = state.chats()[1].ended.map(|(_, at)| at);
        state
            .log
            .iter()
            .filter(|seen| !seen.request.is_inference())
            .skip(before)
            .filter(|seen| end.is_none_or(|end| seen.at < end))
            .count()
    });
    assert_eq!(during, 0, "bytes are evidence enough");
    gateway.stands(&upstream);
}

#[test]
fn what_clients_do_wrong_is_never_charged_to_the_server() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    for _ in 0..10 {
        upstream.next_chat(Script::json(400, &json!({"error": {"message": "no"}})));
        assert_eq!(gateway.chat(&chat::whole("bad")).status(), 400);
        upstream.next_chat(Script::json(
            404,
            &json!({"error": {"message": "model 'x' not found"}}),
        ));
        assert_eq!(gateway.chat(&chat::whole("unknown model")).status(), 404);
        let before = upstream.chats().len();
        upstream.next_chat(Script::json(
            413,
            &json!({"error": {"message": "too large"}}),
        ));
        assert_eq!(gateway.chat(&chat::whole("too large")).status(), 413);
        upstream.next_chat(Script::new().hang());
        let client: Client = gateway.open_chat(&chat::whole("leaves"));
        upstream.until_chats(before + 2);
        client.fin();
        assert_ne!(upstream.until_ended(before + 1).0, How::Answered);
        gateway.until_queue(0, 0);
    }
    let status = gateway.status();
    assert_eq!(status["health"]["consecutive_failures"], 0, "{status}");
    assert_eq!(status["health"]["state"], "ready");
    assert_eq!(
        gateway.chat(&chat::whole("good")).status(),
        200,
        "served at once"
    );
    gateway.stands(&upstream);
}

#[test]
fn a_reused_connection_that_ends_before_any_byte_is_tried_once_on_a_new_one() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).limit("fresh_ms", 60_000).start();
    assert_eq!(gateway.chat(&chat::whole("first")).status(), 200);
    upstream.next_chat(Script::new().fin());
    let answer = gateway.chat(&chat::whole("second"));
    let chats = upstream.chats();
    let reused = chats[..1]
        .iter()
        .any(|seen| seen.connection == chats[1].connection);
    if reused {
        assert_eq!(
            answer.status(),
            200,
            "an idle connection that died is no failure"
        );
        assert_eq!(chats.len(), 3);
        assert_ne!(chats[2].connection, chats[1].connection, "on a new one");
        assert_eq!(gateway.status()["health"]["consecutive_failures"], 0);
    } else {
        refused(&answer, 503, "LLM_UNAVAILABLE", Advice::Later);
    }
    gateway.stands(&upstream);
}

#[test]
fn a_server_that_restarts_many_times_under_load_loses_nothing() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("health.cooldown_ms = 100\nqueue.max_waiting = 32")
        .limit("cooldown_max_ms", 100)
        .start();
    upstream.chats_always(|_| {
        Script::stream()
            .delta("one")
            .wait(Duration::from_millis(10))
            .ending()
    });
    for _ in 0..15 {
        let clients: Vec<Client> = (0..8)
            .map(|at| gateway.open_chat(&chat::streamed(&format!("{at}"))))
            .collect();
        upstream.die();
        upstream.come_back();
        for mut client in clients {
            let answer = client.finish();
            let whole = answer.text().contains("[DONE]");
            let refused = answer.text().contains("\"error\":{");
            assert!(
                whole != refused,
                "an answer or an explicit error: {}",
                answer.text()
            );
        }
        gateway.until_queue(0, 0);
    }
    gateway.stands(&upstream);
}

#[test]
fn localhost_is_tried_on_both_families() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let upstream = Upstream::start_on(address, Flavour::Plain);
        let mut gateway = Setup::bare()
            .config(&format!(
                "upstream.base_url = \"http://localhost:{}/v1\"",
                upstream.address().port()
            ))
            .start();
        assert_eq!(
            gateway.chat(&chat::whole("hello")).status(),
            200,
            "{address}"
        );
        gateway.stands(&upstream);
    }
}

#[test]
fn proxy_settings_are_ignored_for_loopback() {
    let upstream = Upstream::plain();
    let mut setup = Setup::before(&upstream);
    for name in [
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
        "HTTPS_PROXY",
    ] {
        setup = setup.env(name, "http://127.0.0.1:9");
    }
    let mut gateway = setup.start();
    assert_eq!(gateway.chat(&chat::whole("hello")).status(), 200);
    gateway.stands(&upstream);
}

#[test]
fn the_upstream_sees_its_own_host_and_one_length() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    gateway.chat(&chat::whole("hello"));
    let seen = &upstream.chats()[0].request;
    assert_eq!(
        seen.head.get("host"),
        Some(upstream.address().to_string().as_str())
    );
    let framings = seen.head.all("content-length").len() + seen.head.all("transfer-encoding").len();
    assert_eq!(framings, 1, "exactly one framing header: {:?}", seen.head);
    gateway.stands(&upstream);
}

#[test]
fn check_of_a_dead_server_fails_and_says_why() {
    let upstream = Upstream::plain();
    let gateway = Setup::before(&upstream).start();
    gateway.cli_ok(&["check"]);
    upstream.die();
    let output = gateway.cli(&["check"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("the model server is down: "), "{text}");
    assert!(text.contains("oneslotd doctor"), "{text}");
}
