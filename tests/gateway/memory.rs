//! Memory pressure: shorter answers, then none, and a reading that is no pressure.

use serde_json::{Value, json};

use crate::support::chat;
use crate::support::flavour::Flavour;
use crate::support::gateway::{Gateway, Setup};
use crate::support::refused::{Advice, refused};
use crate::support::upstream::Upstream;

/// Limits under which any machine is at this level, read often.
fn always_at(level: &str) -> Value {
    let levels = match level {
        "elevated" => 1,
        "high" => 2,
        _ => 3,
    };
    let up_to_level = |value: u64| (0..3).map(move |at| if at < levels { value } else { 0 });
    json!({
        "interval_ms": 250,
        "rise_readings": 1,
        "critical_holds_ms": 3_600_000,
        "ram_percent": up_to_level(100).collect::<Vec<_>>(),
        "ram_mib": up_to_level(1_048_576).collect::<Vec<_>>(),
    })
}

fn until_level(gateway: &Gateway, level: &str) -> Value {
    gateway.until_status(&format!("pressure is {level}"), |status| {
        status["pressure"]["level"] == level
    })
}

/// A chat that asks for 1,500 tokens, and what the upstream was asked for.
fn granted(level: &str) -> (Value, Option<String>) {
    let upstream = Upstream::start(Flavour::LlamaCpp { window: 2048 });
    let mut gateway = Setup::before(&upstream)
        .limit("memory", always_at(level))
        .start();
    // The first request makes the gateway look; the level may need its answer to rise.
    gateway.chat(&chat::whole("hello"));
    let status = until_level(&gateway, level);
    assert!(
        status["pressure"]["cause"]["code"].is_string(),
        "the reading is named: {status}"
    );
    let mut body = chat::whole("a long answer, please");
    body["max_tokens"] = json!(1500);
    let answer = gateway.chat(&body);
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let sent = upstream.chat_bodies().pop().unwrap()["max_tokens"].clone();
    gateway.stands(&upstream);
    (
        sent,
        answer.head.get("x-oneslot-max-tokens").map(str::to_owned),
    )
}

#[test]
fn elevated_memory_pressure_shortens_answers_to_a_quarter_of_the_window() {
    let (sent, said) = granted("elevated");
    assert_eq!(sent, 512);
    let said = said.expect("a changed limit is disclosed");
    assert!(said.starts_with("512; asked=1500; reason="), "{said}");
}

#[test]
fn high_memory_pressure_shortens_answers_to_an_eighth_of_the_window() {
    let (sent, said) = granted("high");
    assert_eq!(sent, 256);
    assert!(said.is_some_and(|said| said.starts_with("256; asked=1500; reason=")));
}

#[test]
fn critical_memory_pressure_holds_requests_back_then_says_so() {
    let upstream = Upstream::plain();
    let gateway = Setup::before(&upstream)
        .limit("memory", always_at("critical"))
        .config("queue.max_wait_whole_s = 2")
        .start();
    // What was asked before the first reading may still go through.
    let answer = crate::support::eventually("a request is held back", || {
        let answer = gateway.chat(&chat::whole("hello"));
        (answer.status() != 200).then_some(answer)
    });
    let error = refused(&answer, 503, "LLM_MEMORY_PRESSURE", Advice::Later);
    assert_eq!(error["code"], "LLM_MEMORY_PRESSURE");
    let message = error["message"].as_str().unwrap();
    assert!(message.to_lowercase().contains("memory"), "{message}");
    assert_eq!(gateway.status()["pressure"]["level"], "critical");
    assert!(upstream.most_in_flight() <= 1);
}

#[test]
fn critical_that_grows_no_worse_counts_as_high_and_serves() {
    let upstream = Upstream::plain();
    let mut limits = always_at("critical");
    limits["critical_holds_ms"] = json!(2000);
    let mut gateway = Setup::before(&upstream).limit("memory", limits).start();
    let answer = gateway.chat(&chat::whole("hello"));
    assert_eq!(
        answer.status(),
        200,
        "a machine that is always full still serves: {}",
        answer.text()
    );
    gateway.stands(&upstream);
}

#[test]
fn with_sensitivity_off_memory_never_counts_as_short() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("pressure.sensitivity = \"off\"")
        .limit("memory", always_at("critical"))
        .start();
    assert_eq!(gateway.chat(&chat::whole("hello")).status(), 200);
    let status = gateway.until_status("memory was read", |status| {
        status["pressure"]["ram"]["total"].is_u64()
    });
    assert_eq!(status["pressure"]["level"], "normal");
    gateway.stands(&upstream);
}
