//! Each kind is known by its own shapes, and by nothing less.

use std::time::Duration;

use serde_json::{Value, json as value};

use super::server::{Answer, Asked, Server, json, json_with, missing};
use super::{LONG, SHORT, limits, upstream};
use crate::refusal::Outage;
use crate::upstream::{BusySlots, Identified, Kind, Root, Upstream, WindowReading, discover};

fn ollama(asked: &Asked) -> Answer {
    match asked.line.as_str() {
        "GET /" => Answer::Full(
            200,
            "content-type: text/plain\r\n",
            "Ollama is running".into(),
        ),
        "GET /api/version" => json(value!({"version": "0.14.2"})),
        "GET /v1/models" => json(list("llama3.2:latest", "library")),
        _ => missing(),
    }
}

fn list(id: &str, owner: &str) -> Value {
    value!({"object": "list", "data": [{"id": id, "object": "model", "owned_by": owner}]})
}

fn kind_of(found: &Identified) -> Option<Kind> {
    match found {
        Identified::Server(identity) => Some(identity.kind),
        Identified::OneSlot | Identified::Unproven | Identified::Silent(_) => None,
    }
}

#[tokio::test]
async fn an_ollama_says_so_on_its_front_page() {
    let server = Server::start(ollama).await;
    let upstream = upstream(&server.root());
    let Identified::Server(identity) = upstream.learn().await else {
        panic!("an Ollama proves itself");
    };
    assert_eq!(identity.kind, Kind::Ollama);
    assert_eq!(identity.version.as_deref(), Some("0.14.2"));
    assert_eq!(identity.models, ["llama3.2:latest"]);
    assert_eq!(
        upstream.known_kind(),
        Some(Kind::Ollama),
        "what was learned is kept"
    );
}

#[tokio::test]
async fn llama_cpp_is_known_by_its_models_by_its_signature_and_while_it_loads() {
    let page = || Answer::Full(200, "content-type: text/html\r\n", "<html>".into());
    let by_models = Server::start(move |asked| match asked.line.as_str() {
        "GET /" => page(),
        "GET /v1/models" => json(list("smollm2", "llamacpp")),
        "GET /props" => json(value!({"build_info": "b9000", "total_slots": 1})),
        _ => missing(),
    })
    .await;
    let Identified::Server(identity) = upstream(&by_models.root()).learn().await else {
        panic!("a llama.cpp proves itself");
    };
    assert_eq!(
        (identity.kind, identity.version.as_deref()),
        (Kind::LlamaCpp, Some("b9000"))
    );

    let wants_key = Server::start(|_| {
        Answer::Full(
            401,
            "server: llama.cpp\r\n",
            r#"{"error":{"code":401}}"#.into(),
        )
    })
    .await;
    let found = upstream(&wants_key.root()).learn().await;
    assert_eq!(
        kind_of(&found),
        Some(Kind::LlamaCpp),
        "it signs also what it refuses"
    );

    let loading = Server::start(|_| {
        json_with(
            503,
            value!({"error": {"code": 503, "message": "Loading model",
                                         "type": "unavailable_error"}}),
        )
    })
    .await;
    let found = upstream(&loading.root()).learn().await;
    assert_eq!(
        kind_of(&found),
        Some(Kind::LlamaCpp),
        "loading is not unknown"
    );
}

#[tokio::test]
async fn lm_studio_is_known_by_either_of_its_lists() {
    let unexpected = || json(value!({"error": "Unexpected endpoint or method. (GET /)"}));
    let new = Server::start(move |asked| match asked.line.as_str() {
        "GET /v1/models" => json(list("a", "organization_owner")),
        "GET /api/v1/models" => json(value!({"models": [{"key": "a", "loaded_instances": []}]})),
        _ => unexpected(),
    })
    .await;
    assert_eq!(upstream(&new.root()).kind().await, Some(Kind::LmStudio));
    let old = Server::start(move |asked| match asked.line.as_str() {
        "GET /v1/models" => json(list("a", "organization_owner")),
        "GET /api/v0/models" => json(value!({"data": [{"id": "a", "state": "not-loaded"}]})),
        _ => unexpected(),
    })
    .await;
    assert_eq!(upstream(&old.root()).kind().await, Some(Kind::LmStudio));
}

#[tokio::test]
async fn an_openai_list_is_a_plain_server_and_a_bare_200_is_nothing() {
    let plain = Server::start(|asked| match asked.line.as_str() {
        "GET /v1/models" => json(list("m", "vllm")),
        _ => missing(),
    })
    .await;
    assert_eq!(upstream(&plain.root()).kind().await, Some(Kind::Plain));
    for answer in ["", "ok", "<html></html>", "{}", "[]", r#"{"data": []}"#] {
        let server = Server::start(move |_| Answer::Full(200, "", answer.into())).await;
        let upstream = upstream(&server.root());
        assert_eq!(
            upstream.learn().await,
            Identified::Unproven,
            "{answer:?} proves nothing"
        );
        assert_eq!(upstream.known_kind(), None);
    }
}

#[tokio::test]
async fn what_proves_nothing_is_not_asked_at_every_turn() {
    let server = Server::start(|_| Answer::Full(200, "", "hello".into())).await;
    let upstream = upstream(&server.root());
    assert_eq!(upstream.kind().await, None);
    let asked = server.lines().len();
    assert_eq!(upstream.window(Some("m")).await, WindowReading::Unknown);
    assert_eq!(upstream.busy_slots(None).await, BusySlots::NotShown);
    assert_eq!(
        server.lines().len(),
        asked,
        "one request has many questions"
    );
    upstream.learn().await;
    assert!(server.lines().len() > asked, "a person who asks is obeyed");
}

#[tokio::test]
async fn a_gateway_of_our_own_is_never_taken_for_a_model_server() {
    let server = Server::start(|asked| match asked.line.as_str() {
        "GET /" => Answer::Full(
            200,
            "x-oneslot-request-id: 1\r\n",
            "Ollama is running".into(),
        ),
        _ => json(list("m", "llamacpp")),
    })
    .await;
    assert_eq!(upstream(&server.root()).learn().await, Identified::OneSlot);
    let port = server.address.port();
    assert_eq!(discover(&[port], &[]).await.unwrap(), []);
}

#[tokio::test]
async fn silence_and_a_closed_port_differ() {
    let silent = Server::start(|_| Answer::Silence).await;
    let root = Root::parse(&silent.root()).unwrap();
    let upstream = Upstream::new(root, None, limits(SHORT)).unwrap();
    assert_eq!(
        upstream.learn().await,
        Identified::Silent(Outage::ProbeTimeout)
    );
    let root = silent.root();
    drop(silent);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let upstream = Upstream::new(Root::parse(&root).unwrap(), None, limits(LONG)).unwrap();
    assert_eq!(upstream.learn().await, Identified::Silent(Outage::Refused));
}

#[tokio::test]
async fn what_was_learned_stays_until_something_else_is_proven() {
    let server = Server::start(ollama).await;
    let root = server.root();
    let upstream = upstream(&root);
    assert_eq!(upstream.kind().await, Some(Kind::Ollama));
    let asked = server.lines().len();
    assert_eq!(upstream.kind().await, Some(Kind::Ollama));
    assert_eq!(
        server.lines().len(),
        asked,
        "a known kind is not asked again"
    );
    drop(server);
    tokio::time::sleep(Duration::from_millis(50)).await;
    upstream.learn().await;
    assert_eq!(
        upstream.known_kind(),
        Some(Kind::Ollama),
        "a server that is down is still itself"
    );
    let address = root.trim_start_matches("http://").to_owned();
    let _other = Server::at(&address, |asked| match asked.line.as_str() {
        "GET /v1/models" => json(list("m", "llamacpp")),
        _ => missing(),
    })
    .await
    .unwrap();
    upstream.learn().await;
    assert_eq!(
        upstream.known_kind(),
        Some(Kind::LlamaCpp),
        "another server is there now"
    );
}

#[tokio::test]
async fn auto_finds_servers_in_the_order_of_the_ports_and_asks_for_nothing_with_effects() {
    let plain = Server::start(|asked| match asked.line.as_str() {
        "GET /v1/models" => json(list("m", "x")),
        _ => missing(),
    })
    .await;
    let nothing = Server::start(|_| Answer::Full(200, "", "hello".into())).await;
    let silent = Server::start(|_| Answer::Silence).await;
    let ollama = Server::start(ollama).await;
    let ports = [&silent, &nothing, &plain, &ollama].map(|server| server.address.port());
    let found = discover(&ports, &[]).await.unwrap();
    let kinds: Vec<_> = found.iter().map(|found| found.identity.kind).collect();
    assert_eq!(
        kinds,
        [Kind::Plain, Kind::Ollama],
        "only what proves itself, in order"
    );
    assert_eq!(found[0].root.to_string(), plain.root());
    for line in [&silent, &nothing, &plain, &ollama]
        .iter()
        .flat_map(|server| server.lines())
    {
        assert!(line.starts_with("GET "), "{line} could change something");
    }
    let own = [ollama.address, plain.address];
    let before = ollama.lines().len();
    assert_eq!(discover(&ports[2..], &own).await.unwrap(), []);
    assert_eq!(
        ollama.lines().len(),
        before,
        "an own address is not even asked"
    );
}

#[tokio::test]
async fn auto_finds_a_server_on_the_other_loopback() {
    let Ok(server) = Server::at("[::1]:0", ollama).await else {
        return; // A machine without IPv6 has no other loopback.
    };
    let found = discover(&[server.address.port()], &[]).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].root.host(), "::1");
}
