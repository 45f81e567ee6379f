//! Exact counts, and servers that cannot give them.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json as value;

use super::server::{Answer, Server, json, json_with, missing};
use super::{LONG, SHORT, limits, upstream};
use crate::upstream::{Root, Upstream};

const CHAT: &str = r#"{"messages":[{"role":"user","content":"hi"}],"stream":true}"#;

async fn llama_cpp(count: fn() -> Answer) -> Server {
    Server::start(move |asked| match asked.line.split('?').next().unwrap() {
        "GET /v1/models" => json(value!({"object": "list", "data": [
            {"id": "m", "owned_by": "llamacpp"}]})),
        "POST /v1/chat/completions/input_tokens" => count(),
        _ => missing(),
    })
    .await
}

fn counts(server: &Server) -> usize {
    let lines = server.lines();
    lines
        .iter()
        .filter(|line| line.contains("input_tokens"))
        .count()
}

#[tokio::test]
async fn llama_cpp_counts_the_body_as_it_is() {
    let server = llama_cpp(|| json(value!({"input_tokens": 31}))).await;
    let upstream = upstream(&server.root());
    assert_eq!(
        upstream.count(Bytes::from_static(CHAT.as_bytes())).await,
        Some(31)
    );
    let asked = server.asked();
    let asked = asked.last().unwrap();
    assert_eq!(asked.body, CHAT);
    assert!(
        asked.line.ends_with("autoload=false"),
        "a count loads nothing: {}",
        asked.line
    );
}

#[tokio::test]
async fn a_missing_route_is_tried_once_until_the_server_is_identified_again() {
    let server = llama_cpp(missing).await;
    let upstream = upstream(&server.root());
    for _ in 0..3 {
        assert_eq!(upstream.count(Bytes::from_static(b"{}")).await, None);
    }
    assert_eq!(counts(&server), 1);
    upstream.learn().await;
    upstream.count(Bytes::from_static(b"{}")).await;
    assert_eq!(counts(&server), 2, "a newer build may be there now");
}

#[tokio::test]
async fn three_slow_counts_in_a_row_are_the_last_for_a_while() {
    let server = llama_cpp(|| Answer::Silence).await;
    let root = Root::parse(&server.root()).unwrap();
    let mut limits = limits(LONG);
    limits.count = SHORT;
    let upstream = Upstream::new(root, None, limits).unwrap();
    for _ in 0..5 {
        assert_eq!(upstream.count(Bytes::from_static(b"{}")).await, None);
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(counts(&server), 3);
}

#[tokio::test]
async fn a_body_the_server_refuses_does_not_end_the_counting() {
    let server = llama_cpp(|| json_with(400, value!({"error": {"code": 400}}))).await;
    let upstream = upstream(&server.root());
    for _ in 0..2 {
        assert_eq!(upstream.count(Bytes::from_static(b"{}")).await, None);
    }
    assert_eq!(counts(&server), 2);
}
