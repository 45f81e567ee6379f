//! Pause, resume, unload: by the command line and by the control routes.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::chat;
use crate::support::eventually;
use crate::support::flavour::Flavour;
use crate::support::gateway::{Gateway, Setup};
use crate::support::held::{hold, queue};
use crate::support::refused::{Advice, refused};
use crate::support::script::Script;
use crate::support::upstream::Upstream;

#[test]
fn a_pause_lets_the_running_answer_finish_and_keeps_the_queue() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let held = hold(&gateway, &upstream);
    let waiting = queue(&gateway, 2);
    gateway.cli_ok(&["pause"]);
    let status = gateway.status();
    assert!(!status["pause"].is_null(), "it is shown: {status}");
    refused(
        &gateway.chat(&chat::whole("arrives")),
        423,
        "LLM_PAUSED",
        Advice::Never,
    );
    let answer = held.release();
    assert!(
        answer.text().contains("released"),
        "the running answer finishes"
    );
    gateway.until_queue(0, 2);
    assert_eq!(gateway.get("/v1/models").status(), 200, "reads go on");
    assert_eq!(upstream.chats().len(), 1, "none is dispatched while paused");
    gateway.cli_ok(&["resume"]);
    for mut client in waiting {
        assert_eq!(client.finish().status(), 200);
    }
    assert_eq!(upstream.order(), ["hold the slot", "number 0", "number 1"]);
    assert!(gateway.status()["pause"].is_null());
    gateway.stands(&upstream);
}

#[test]
fn arrivals_wait_for_a_pause_that_ends_within_their_limit() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("queue.max_waiting = 1")
        .start();
    let until_ms = jiff::Timestamp::now().as_millisecond() + 3_000;
    let body = json!({ "until_ms": until_ms }).to_string();
    assert!(gateway.control("POST", "/oneslot/pause", &body).status() < 300);
    let mut waiting = gateway.open_chat(&chat::whole("waits"));
    gateway.until_queue(0, 1);
    refused(
        &gateway.chat(&chat::whole("finds the queue full")),
        503,
        "LLM_PAUSED",
        Advice::Later,
    );
    assert_eq!(waiting.finish().status(), 200, "the pause is over");
    gateway.stands(&upstream);
}

#[test]
fn resume_says_whether_it_was_paused() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let resumed = |gateway: &Gateway| {
        let status = gateway.control("POST", "/oneslot/resume", "").json();
        status["resumed"].as_bool()
    };
    assert_eq!(resumed(&gateway), Some(false));
    gateway.cli_ok(&["pause"]);
    assert_eq!(resumed(&gateway), Some(true));
    assert_eq!(resumed(&gateway), Some(false));
    gateway.stands(&upstream);
}

#[test]
fn a_wait_that_ends_while_paused_names_the_pause() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("queue.max_wait_whole_s = 1")
        .start();
    let held = hold(&gateway, &upstream);
    let mut waiting = gateway.open_chat(&chat::whole("waits"));
    gateway.until_queue(1, 1);
    gateway.cli_ok(&["pause"]);
    held.release();
    let answer = waiting.finish();
    assert_eq!(answer.code(), Some("LLM_PAUSED"), "{}", answer.text());
    gateway.cli_ok(&["resume"]);
    gateway.stands(&upstream);
}

#[test]
fn a_pause_survives_a_restart() {
    let upstream = Upstream::plain();
    for args in [&["pause"][..], &["pause", "1h"], &["pause", "tomorrow"]] {
        let gateway = Setup::before(&upstream).start();
        gateway.cli_ok(args);
        let mut gateway = gateway.restart();
        let answer = gateway.chat(&chat::whole("hello"));
        assert_eq!(answer.status(), 423, "{args:?}: {}", answer.text());
        assert_eq!(answer.code(), Some("LLM_PAUSED"));
        gateway.cli_ok(&["resume"]);
        let mut gateway = {
            gateway.stands(&upstream);
            gateway.restart()
        };
        assert_eq!(
            gateway.chat(&chat::whole("hello")).status(),
            200,
            "a resume survives as well"
        );
        gateway.stands(&upstream);
    }
}

#[test]
fn a_pause_survives_being_killed() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    gateway.cli_ok(&["pause", "1h"]);
    gateway.signal("KILL");
    gateway.until_exit();
    let mut gateway = gateway.start_again();
    assert_eq!(
        gateway.chat(&chat::whole("hello")).code(),
        Some("LLM_PAUSED")
    );
    gateway.cli_ok(&["resume"]);
    gateway.stands(&upstream);
}

/// A directory in the file's place cannot be replaced: like on a full disk, nothing can be written.
#[test]
fn a_pause_that_cannot_be_written_has_a_notice_until_it_can() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let codes = |status: &Value| -> Vec<String> {
        let notices = status["notices"].as_array().unwrap();
        let codes = notices.iter().map(|one| one["code"].as_str().unwrap());
        codes.map(str::to_owned).collect()
    };
    let in_the_way = gateway.state_path().join("pause.json");
    std::fs::create_dir(&in_the_way).unwrap();
    std::fs::write(in_the_way.join("full"), "").unwrap();
    let status = gateway.control("POST", "/oneslot/pause", "").json();
    assert!(
        !status["pause"].is_null(),
        "it pauses all the same: {status}"
    );
    assert_eq!(codes(&status), ["pause_unkept"], "{status}");
    std::fs::remove_dir_all(&in_the_way).unwrap();
    let status = gateway.control("POST", "/oneslot/pause", "").json();
    assert!(codes(&status).is_empty(), "it is kept now: {status}");
    // The scheduler's own write of the same pause may still be under way.
    eventually("the directory is in the way", || {
        std::fs::remove_file(&in_the_way).ok();
        std::fs::create_dir(&in_the_way).ok()
    });
    let status = gateway.control("POST", "/oneslot/resume", "").json();
    assert_eq!(codes(&status), ["resume_unkept"], "{status}");
    std::fs::remove_dir(&in_the_way).unwrap();
    let status = gateway.control("POST", "/oneslot/resume", "").json();
    assert!(codes(&status).is_empty(), "nothing is left of it: {status}");
    gateway.stands(&upstream);
}

#[cfg(unix)]
#[test]
fn a_pause_is_kept_where_the_state_directory_was_removed() {
    use std::os::unix::fs::PermissionsExt as _;

    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let token = gateway.token();
    let state = gateway.state_path();
    // It may be writing there at this very moment.
    eventually("the directory is gone", || {
        std::fs::remove_dir_all(&state).ok()
    });
    let fields = [("x-oneslot-token", token.as_str())];
    let asked = gateway.request_with("POST", "/oneslot/pause", &fields, b"");
    let status = gateway.exchange(&asked).json();
    assert!(!status["pause"].is_null(), "{status}");
    assert_eq!(status["notices"], serde_json::json!([]), "nothing is lost");
    let mode = std::fs::metadata(&state).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "it is for this user alone");
    assert!(state.join("pause.json").is_file(), "a restart finds it");
    gateway.signal("TERM");
    gateway.until_exit();
    let mut gateway = gateway.start_again();
    assert_eq!(
        gateway.chat(&chat::whole("hello")).code(),
        Some("LLM_PAUSED")
    );
    gateway.cli_ok(&["resume"]);
    gateway.stands(&upstream);
}

#[test]
fn a_pause_that_is_no_time_is_refused_and_changes_nothing() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    for time in ["banana", "-5m", "0", "99999999999h"] {
        let output = gateway.cli(&["pause", time]);
        assert!(!output.status.success(), "{time} is no time");
    }
    assert!(gateway.status()["pause"].is_null());
    gateway.stands(&upstream);
}

#[test]
fn a_pause_that_is_asked_for_with_no_object_is_refused_and_changes_nothing() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    for body in [
        "[]",
        "[null, false, false]",
        "null",
        "1",
        "\"pause\"",
        "{}{}",
    ] {
        let answer = gateway.control("POST", "/oneslot/pause", body);
        assert_eq!(answer.status(), 400, "{body}: {}", answer.text());
        assert_eq!(answer.code(), Some("BAD_REQUEST"), "{body}");
    }
    assert!(gateway.status()["pause"].is_null());
    assert_eq!(
        gateway.control("POST", "/oneslot/pause", "{}").status(),
        200
    );
    assert!(gateway.status()["pause"].is_object());
    gateway.cli_ok(&["resume"]);
    gateway.stands(&upstream);
}

#[test]
fn a_person_is_told_on_the_command_line() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    assert!(!gateway.cli_ok(&["status"]).is_empty());
    let json: serde_json::Value =
        serde_json::from_str(&gateway.cli_ok(&["status", "--json"])).expect("--json is JSON");
    assert_eq!(json["queue"]["running"], 0);
    gateway.cli_ok(&["pause", "15m"]);
    let status = gateway.cli_ok(&["status"]);
    assert!(status.to_lowercase().contains("paus"), "{status}");
    gateway.cli_ok(&["resume"]);
    gateway.stands(&upstream);
}

#[test]
fn a_command_without_a_gateway_says_so() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    gateway.signal("TERM");
    gateway.until_exit();
    for args in [
        &["pause"][..],
        &["resume"],
        &["status"],
        &["check"],
        &["cancel", "x"],
    ] {
        let output = gateway.cli(args);
        assert!(!output.status.success(), "{args:?} needs a running gateway");
        assert!(!output.stderr.is_empty(), "{args:?} says why");
    }
}

#[test]
fn pause_and_resume_in_any_order_lose_no_request() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("queue.max_waiting = 64")
        .limit("fresh_ms", 60_000)
        .start();
    let address = &gateway;
    thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..100 {
                address.control("POST", "/oneslot/pause", "");
                address.control("POST", "/oneslot/resume", "");
            }
        });
        for _ in 0..3 {
            scope.spawn(move || {
                for _ in 0..50 {
                    let answer = address.chat(&chat::whole("hello"));
                    assert!(matches!(answer.status(), 200 | 423), "{}", answer.text());
                }
            });
        }
    });
    gateway.control("POST", "/oneslot/resume", "");
    gateway.stands(&upstream);
}

#[test]
fn a_server_that_never_answers_stops_neither_pause_nor_quit() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).limit("shutdown_ms", 1000).start();
    upstream.next_chat(Script::new().hang());
    let client = gateway.open_chat(&chat::whole("for ever"));
    upstream.until_chats(1);
    gateway.cli_ok(&["pause"]);
    gateway.cli_ok(&["resume"]);
    gateway.signal("TERM");
    assert!(gateway.until_exit().success(), "it quits in a bounded time");
    upstream.until_ended(0);
    drop(client);
}

#[test]
fn control_needs_the_token_of_this_run() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    for (method, path) in [
        ("POST", "/oneslot/pause"),
        ("POST", "/oneslot/resume"),
        ("POST", "/oneslot/unload"),
        ("POST", "/oneslot/check"),
        ("DELETE", "/oneslot/requests/x"),
    ] {
        for fields in [&[][..], &[("x-oneslot-token", "wrong")]] {
            let answer = gateway.exchange(&gateway.request_with(method, path, fields, b""));
            assert!(
                matches!(answer.status(), 401 | 403),
                "{method} {path} without the token: {} {}",
                answer.status(),
                answer.text()
            );
            assert!(answer.json()["error"]["message"].is_string());
        }
    }
    assert!(gateway.status()["pause"].is_null());
    gateway.stands(&upstream);
}

#[test]
fn unload_frees_the_model_where_the_server_can() {
    let upstream = Upstream::start(Flavour::Ollama {
        loaded: Some(4096),
        on_load: 4096,
    });
    let mut gateway = Setup::before(&upstream).start();
    gateway.cli_ok(&["unload"]);
    let seen = upstream.look(|state| {
        state
            .log
            .iter()
            .filter(|seen| seen.request.path() == "/api/generate")
            .map(|seen| seen.request.json())
            .collect::<Vec<_>>()
    });
    assert_eq!(seen.len(), 1);
    assert_eq!(
        seen[0]["keep_alive"],
        json!(0),
        "Ollama's way to unload: {}",
        seen[0]
    );
    gateway.stands(&upstream);
}

#[test]
fn unload_waits_for_the_slot_like_a_request() {
    let upstream = Upstream::start(Flavour::Ollama {
        loaded: Some(4096),
        on_load: 4096,
    });
    let mut gateway = Setup::before(&upstream).start();
    let held = hold(&gateway, &upstream);
    let unloads = |upstream: &Upstream| {
        upstream.look(|state| {
            state
                .log
                .iter()
                .filter(|seen| {
                    seen.request.path() == "/api/generate"
                        && seen.request.json()["keep_alive"] == json!(0)
                })
                .count()
        })
    };
    let token = gateway.token();
    let mut unload = gateway.open(&gateway.request_with(
        "POST",
        "/oneslot/unload",
        &[("x-oneslot-token", &token)],
        b"",
    ));
    assert!(
        unload.is_silent_for(Duration::from_millis(1200)) || unloads(&upstream) == 0,
        "a running answer is not pulled from under its client"
    );
    assert_eq!(unloads(&upstream), 0);
    held.release();
    upstream.until("the unload", |state| {
        state
            .log
            .iter()
            .any(|seen| seen.request.json()["keep_alive"] == json!(0))
            .then_some(())
    });
    unload.finish();
    gateway.stands(&upstream);
}

#[test]
fn unload_says_so_where_the_server_cannot() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let answer = gateway.control("POST", "/oneslot/unload", "");
    assert!((400..600).contains(&answer.status()), "{}", answer.text());
    assert!(answer.json()["error"]["message"].is_string());
    let output = gateway.cli(&["unload"]);
    assert!(!output.status.success());
    assert!(!output.stderr.is_empty(), "it says why not");
    gateway.stands(&upstream);
}

#[test]
fn a_pause_can_stop_the_running_answer() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let mut held = hold(&gateway, &upstream);
    gateway.cli_ok(&["pause", "--stop"]);
    let cut = held.client.finish();
    crate::support::refused::error_event(&cut.body, "LLM_INTERRUPTED");
    upstream.until_ended(0);
    gateway.cli_ok(&["resume"]);
    gateway.stands(&upstream);
}

#[test]
fn a_viewer_does_not_delay_shutdown() {
    let upstream = Upstream::plain();
    // Long enough that waiting for it would be the failure.
    let mut gateway = Setup::before(&upstream)
        .limit("shutdown_ms", 60_000)
        .start();
    let mut events = gateway.open(&gateway.request("GET", "/oneslot/events", b""));
    events.body_until_has("\"state\"");
    gateway.signal("TERM");
    assert!(gateway.until_exit().success(), "it ended by itself");
    assert_eq!(
        events.finish().end,
        crate::support::client::End::Whole,
        "and said so"
    );
}
