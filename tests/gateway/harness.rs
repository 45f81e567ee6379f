//! The harness tested on itself: what it records must be what happened.

use std::time::Duration;

use serde_json::json;

use crate::support::chat;
use crate::support::client::{Client, End, request};
use crate::support::flavour::Flavour;
use crate::support::script::{Gate, Script, delta};
use crate::support::upstream::{How, Upstream};

fn post(upstream: &Upstream, body: &str) -> Client {
    let host = upstream.address().to_string();
    let bytes = request(
        "POST",
        "/v1/chat/completions",
        &[("host", &host)],
        body.as_bytes(),
    );
    let mut client = Client::connect(upstream.address());
    client.send(&bytes);
    client
}

#[test]
fn a_scripted_answer_arrives_as_written_and_is_recorded() {
    let upstream = Upstream::plain();
    upstream.next_chat(Script::streamed("one two"));
    let answer = post(&upstream, r#"{"stream":true}"#).finish();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.end, End::Whole);
    assert!(answer.text().ends_with("data: [DONE]\n\n"));
    let chats = upstream.until_chats(1);
    assert_eq!(chats[0].request.body, br#"{"stream":true}"#);
    assert_eq!(upstream.until_ended(0).0, How::Answered);
}

#[test]
fn bytes_sent_one_by_one_arrive_whole() {
    let upstream = Upstream::plain();
    let event = delta("가🙂é");
    upstream.next_chat(
        Script::stream()
            .send(format!("{:x}\r\n", event.len()).as_bytes())
            .send_byte_by_byte(event.as_bytes())
            .send(b"\r\n")
            .ending(),
    );
    let answer = post(&upstream, "{}").finish();
    assert!(answer.body.starts_with(event.as_bytes()));
}

#[test]
fn a_reset_and_an_early_end_look_different() {
    let upstream = Upstream::plain();
    upstream.next_chat(Script::stream().delta("one").rst());
    assert_eq!(post(&upstream, "{}").finish().end, End::Rst);
    upstream.next_chat(Script::stream().delta("one").fin());
    let cut = post(&upstream, "{}").finish();
    assert_eq!(cut.end, End::Fin);
    assert_eq!(cut.text(), delta("one"));
}

#[test]
fn a_peer_that_leaves_is_noticed_and_no_longer_in_flight() {
    let upstream = Upstream::plain();
    let gate = Gate::new();
    upstream.next_chat(Script::new().open(&gate).hang());
    let client = post(&upstream, "{}");
    upstream.until("the request", |state| {
        (state.in_flight() == 1).then_some(())
    });
    client.fin();
    assert_eq!(upstream.until_ended(0).0, How::PeerFin);
    upstream.next_chat(Script::new().hang());
    let client = post(&upstream, "{}");
    upstream.until_chats(2);
    client.rst();
    assert_eq!(upstream.until_ended(1).0, How::PeerRst);
    assert_eq!(upstream.most_in_flight(), 1);
    assert!(gate.is_open());
}

#[test]
fn two_at_once_are_counted_as_two() {
    let upstream = Upstream::plain();
    let gate = Gate::new();
    for _ in 0..2 {
        upstream.next_chat(Script::stream().wait_for(&gate).ending());
    }
    let mut first = post(&upstream, "{}");
    let mut second = post(&upstream, "{}");
    upstream.until_chats(2);
    gate.open();
    first.finish();
    second.finish();
    assert_eq!(upstream.most_in_flight(), 2);
}

#[test]
fn it_dies_and_comes_back_on_the_same_port() {
    let upstream = Upstream::plain();
    upstream.next_chat(Script::new().hang());
    let mut client = post(&upstream, "{}");
    upstream.until_chats(1);
    upstream.die();
    assert_eq!(client.closed(), End::Rst);
    assert_eq!(upstream.until_ended(0).0, How::Died);
    assert!(
        std::net::TcpStream::connect_timeout(&upstream.address(), Duration::from_secs(1)).is_err(),
        "a dead server's port is closed"
    );
    upstream.come_back();
    assert_eq!(post(&upstream, "{}").finish().status(), 200);
}

#[test]
fn llama_cpp_refuses_what_does_not_fit_in_its_own_words() {
    let upstream = Upstream::start(Flavour::LlamaCpp { window: 50 });
    let long = chat::whole(&chat::words("w", 100)).to_string();
    let refused = post(&upstream, &long).finish();
    assert_eq!(refused.status(), 400);
    assert_eq!(refused.json()["error"]["n_prompt_tokens"], json!(108));
    assert_eq!(refused.head.get("connection"), Some("close"));
    assert_eq!(
        post(&upstream, &chat::whole("hello").to_string())
            .finish()
            .status(),
        200
    );
}

#[test]
fn ollama_loads_on_demand_and_says_so() {
    let upstream = Upstream::start(Flavour::Ollama {
        loaded: None,
        on_load: 32_768,
    });
    let ps = || {
        let mut client = Client::connect(upstream.address());
        client.send(&request("GET", "/api/ps", &[("host", "x")], b""));
        client.finish().json()
    };
    assert_eq!(ps()["models"], json!([]));
    post(&upstream, "{}").finish();
    assert_eq!(ps()["models"][0]["context_length"], json!(32_768));
}

#[test]
fn a_server_that_loads_or_wants_a_key_says_so_on_every_route() {
    let upstream = Upstream::plain();
    upstream.start_loading();
    let loading = post(&upstream, "{}").finish();
    assert_eq!(loading.status(), 503);
    assert_eq!(loading.json()["error"]["message"], "Loading model");
    upstream.finish_loading();
    upstream.demand_key("k1");
    assert_eq!(post(&upstream, "{}").finish().status(), 401);
}
