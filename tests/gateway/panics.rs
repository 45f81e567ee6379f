//! A panic in any stage ends one request, says so, frees the slot and writes nothing of what was
//! said. The program is built with `fault-injection`, so that a test can ask for one.

use std::path::{Path, PathBuf};

use crate::support::chat;
use crate::support::client::Response;
use crate::support::eventually;
use crate::support::gateway::{Gateway, Setup};
use crate::support::held::hold;
use crate::support::refused::{Advice, error_event, refused};
use crate::support::script::{Gate, Script};
use crate::support::upstream::Upstream;

const WORDS: &str = "CANARY-3b9d-panic";

/// A gateway that looks for wishes in a file, and the file.
fn started(upstream: &Upstream) -> (Gateway, PathBuf) {
    let home = tempfile::tempdir().expect("a temporary directory can be made");
    let file = home.keep().join("fault");
    let gateway = Setup::before(upstream)
        .config("log.level = \"trace\"")
        .env("ONESLOT_FAULT", &file.display().to_string())
        .start();
    (gateway, file)
}

fn panic_at(file: &Path, stage: &str) {
    std::fs::write(file, format!("{stage}\n{WORDS}")).unwrap();
}

fn used_up(file: &Path) {
    eventually("the panic happened", || (!file.exists()).then_some(()));
}

fn is_internal(answer: &Response) {
    let error = refused(answer, 500, "INTERNAL", Advice::Never);
    assert!(!error.to_string().contains(WORDS), "{error}");
}

#[test]
fn a_panic_before_an_answer_is_one_coded_500_and_frees_the_slot() {
    let upstream = Upstream::plain();
    let (mut gateway, file) = started(&upstream);
    for stage in ["Gate", "Queue", "Trim", "Connect", "Head", "Record"] {
        for body in [chat::whole("x"), chat::streamed("x")] {
            // A stream that has begun says it in the stream.
            if stage == "Record" && body["stream"] == true {
                continue;
            }
            panic_at(&file, stage);
            let answer = gateway.chat(&body);
            used_up(&file);
            is_internal(&answer);
            let next = gateway.chat(&body);
            assert_eq!(next.status(), 200, "after {stage}: {}", next.text());
        }
    }
    gateway.stands(&upstream);
}

#[test]
fn a_panic_in_the_middle_of_a_stream_is_an_error_event_and_frees_the_slot() {
    let upstream = Upstream::plain();
    let (mut gateway, file) = started(&upstream);
    let script = |gate: &Gate| Script::stream().delta("one").wait_for(gate).delta("two");
    // While a piece is relayed, and while a cut is being recorded.
    for (stage, rest) in [("Body", true), ("Record", false)] {
        let gate = Gate::new();
        upstream.next_chat(if rest {
            script(&gate).ending()
        } else {
            script(&gate).last_chunk()
        });
        let mut client = gateway.open_chat(&chat::streamed("x"));
        client.body_until_has("one");
        panic_at(&file, stage);
        gate.open();
        let answer = client.finish();
        used_up(&file);
        let error = error_event(&answer.body, "INTERNAL");
        assert!(!error.to_string().contains(WORDS), "{error}");
        gateway.control("POST", "/oneslot/check", "");
        assert_eq!(gateway.chat(&chat::streamed("x")).status(), 200);
    }
    gateway.stands(&upstream);
}

#[test]
fn a_panic_behind_the_end_of_a_stream_adds_nothing_to_it() {
    let upstream = Upstream::plain();
    let (mut gateway, file) = started(&upstream);
    let gate = Gate::new();
    upstream.next_chat(Script::stream().delta("one").wait_for(&gate).ending());
    let mut client = gateway.open_chat(&chat::streamed("x"));
    client.body_until_has("one");
    panic_at(&file, "Record");
    gate.open();
    let answer = client.finish();
    used_up(&file);
    let text = answer.text();
    assert!(
        text.ends_with("data: [DONE]\n\n"),
        "the answer was whole: {text}"
    );
    gateway.stands(&upstream);
}

#[test]
fn a_panic_while_the_server_is_probed_is_a_failed_probe_and_not_the_last_one() {
    let upstream = Upstream::plain();
    let (mut gateway, file) = started(&upstream);
    gateway.until_status("the first probe is over", |status| {
        status["health"]["state"] == "ready"
    });
    panic_at(&file, "Probe");
    gateway.control("POST", "/oneslot/check", "");
    used_up(&file);
    gateway.until_status("it failed", |status| status["health"]["state"] == "down");
    gateway.stands(&upstream);
}

#[test]
fn a_panic_of_one_request_disturbs_no_other() {
    let upstream = Upstream::plain();
    let (mut gateway, file) = started(&upstream);
    let held = hold(&gateway, &upstream);
    let mut waiting = gateway.open_chat(&chat::whole("waits"));
    gateway.until_queue(1, 1);
    for stage in ["Gate", "Queue"] {
        panic_at(&file, stage);
        is_internal(&gateway.chat(&chat::whole("panics")));
        used_up(&file);
        gateway.until_queue(1, 1);
    }
    let answer = held.release();
    assert!(answer.text().contains("[DONE]"), "{}", answer.text());
    assert_eq!(waiting.finish().status(), 200);
    gateway.stands(&upstream);
}

#[test]
fn a_panic_logs_where_and_never_what() {
    let upstream = Upstream::plain();
    let (mut gateway, file) = started(&upstream);
    for stage in ["Gate", "Trim", "Head"] {
        panic_at(&file, stage);
        gateway.chat(&chat::whole(WORDS));
        used_up(&file);
    }
    gateway.stands(&upstream);
    let said = gateway.said();
    assert!(
        said.contains("src/fault_injection.rs"),
        "its place is logged: {said}"
    );
    assert!(!said.contains(WORDS), "its words are not: {said}");
}
