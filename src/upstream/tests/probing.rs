//! The health probe against servers that are well, loading, odd or gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json as value;

use super::server::{Answer, Server, json, json_with, missing};
use super::{LONG, SHORT, limits, upstream};
use crate::refusal::Outage;
use crate::upstream::{Access, Probe, Root, Upstream};

const LIST: &str = r#"{"object":"list","data":[{"id":"m","object":"model","owned_by":"x"}]}"#;

fn list() -> Answer {
    Answer::Full(200, "content-type: application/json\r\n", LIST.to_owned())
}

fn alive() -> Probe {
    Probe::Alive {
        access: Access::Open,
        models: Some(LIST.into()),
    }
}

#[tokio::test]
async fn a_model_list_is_life_and_is_kept_for_the_cache() {
    let server = Server::start(|asked| match asked.line.as_str() {
        "GET /v1/models" => list(),
        _ => missing(),
    })
    .await;
    let upstream = upstream(&server.root());
    assert_eq!(upstream.probe(LONG).await, alive());
    assert_eq!(upstream.probe(LONG).await, alive());
    let lines = server.lines();
    let healths = lines.iter().filter(|line| *line == "GET /health").count();
    assert_eq!(
        healths, 1,
        "a server without /health is not asked for it again: {lines:?}"
    );
}

#[tokio::test]
async fn a_server_that_lists_models_while_it_loads_is_loading() {
    let loading = Arc::new(AtomicBool::new(true));
    let server = Server::start({
        let loading = Arc::clone(&loading);
        move |asked| match asked.line.as_str() {
            "GET /v1/models" => list(),
            "GET /health" if loading.load(Ordering::SeqCst) => json_with(
                503,
                value!({"error": {"message": "Loading model", "code": 503}}),
            ),
            "GET /health" => json(value!({"status": "ok"})),
            _ => missing(),
        }
    })
    .await;
    let upstream = upstream(&server.root());
    assert_eq!(upstream.probe(LONG).await, Probe::Loading);
    loading.store(false, Ordering::SeqCst);
    assert_eq!(upstream.probe(LONG).await, alive());
}

#[tokio::test]
async fn a_silent_health_route_does_not_hold_up_a_good_probe() {
    let server = Server::start(|asked| match asked.line.as_str() {
        "GET /v1/models" => list(),
        _ => Answer::Silence,
    })
    .await;
    let upstream = upstream(&server.root());
    let start = Instant::now();
    assert_eq!(upstream.probe(LONG).await, alive());
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "the grace is short"
    );
}

#[tokio::test]
async fn each_kind_of_absence_has_its_own_name() {
    for (answer, outage) in [
        ((|| Answer::Silence) as fn() -> Answer, Outage::ProbeTimeout),
        (|| Answer::Raw(b""), Outage::Reset),
        (
            || Answer::Raw(b"HTTP/1.1 200 OK\r\ncontent-le"),
            Outage::Reset,
        ),
        (
            || Answer::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{"),
            Outage::Reset,
        ),
        (
            || Answer::Raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"),
            Outage::Garbled,
        ),
        (
            || Answer::Raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"),
            Outage::Garbled,
        ),
        (missing, Outage::WrongBaseUrl),
        (
            || Answer::Full(200, "content-type: text/html\r\n", "<html>".into()),
            Outage::ProbeFailed,
        ),
        (|| Answer::Full(500, "", String::new()), Outage::ProbeFailed),
        (
            || Answer::Full(302, "location: http://127.0.0.1:9/\r\n", String::new()),
            Outage::Redirected,
        ),
    ] {
        let server = Server::start(move |_| answer()).await;
        let upstream =
            Upstream::new(Root::parse(&server.root()).unwrap(), None, limits(LONG)).unwrap();
        let limit = if outage == Outage::ProbeTimeout {
            SHORT
        } else {
            LONG
        };
        assert_eq!(upstream.probe(limit).await, Probe::Failed(outage));
    }
}

#[tokio::test]
async fn a_closed_port_refuses_whichever_way_it_is_spelled() {
    let server = Server::start(|_| Answer::Silence).await;
    let port = server.address.port();
    drop(server);
    tokio::time::sleep(Duration::from_millis(50)).await;
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        let upstream = upstream(&format!("http://{host}:{port}"));
        assert_eq!(
            upstream.probe(LONG).await,
            Probe::Failed(Outage::Refused),
            "{host} says that nothing listens"
        );
    }
}

#[tokio::test]
async fn a_server_that_wants_a_key_is_alive_and_gets_the_configured_one() {
    let server = Server::start(|asked| {
        if asked.head.contains("\nauthorization: bearer sk-1\r") {
            list()
        } else {
            json_with(401, value!({"error": {"message": "Invalid API Key"}}))
        }
    })
    .await;
    let wants_key = Probe::Alive {
        access: Access::WantsKey,
        models: None,
    };
    assert_eq!(upstream(&server.root()).probe(LONG).await, wants_key);
    let root = Root::parse(&server.root()).unwrap();
    let upstream = Upstream::new(root, Some("sk-1"), limits(LONG)).unwrap();
    assert_eq!(upstream.probe(LONG).await, alive());
    assert!(
        !format!("{upstream:?}").contains("sk-1"),
        "no key is ever printed"
    );
}
