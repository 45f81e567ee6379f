//! Unloading, by each server's own means.

use serde_json::{Value, json as value};

use super::server::{Answer, Asked, Server, json, json_with, missing};
use super::upstream;
use crate::upstream::UnloadError;

fn orders(server: &Server) -> Vec<(String, Value)> {
    let asked = server.asked().into_iter();
    asked
        .filter(|asked| asked.line.starts_with("POST"))
        .map(|asked| (asked.line, serde_json::from_str(&asked.body).unwrap()))
        .collect()
}

fn ollama(asked: &Asked) -> Answer {
    match asked.line.as_str() {
        "GET /" => Answer::Full(200, "", "Ollama is running".into()),
        "GET /api/ps" => json(value!({"models": [
            {"name": "a:latest", "model": "a:latest"}, {"name": "b:8b", "model": "b:8b"}]})),
        "POST /api/generate" => json(value!({"done": true, "done_reason": "unload"})),
        _ => missing(),
    }
}

#[tokio::test]
async fn ollama_is_told_to_keep_nothing_alive() {
    let server = Server::start(ollama).await;
    let upstream = upstream(&server.root());
    assert_eq!(upstream.unload(None).await.unwrap(), ["a:latest", "b:8b"]);
    assert_eq!(upstream.unload(Some("a")).await.unwrap(), ["a:latest"]);
    let none: [&str; 0] = [];
    assert_eq!(
        upstream.unload(Some("c")).await.unwrap(),
        none,
        "nothing to free"
    );
    let one = |model: &str| {
        (
            "POST /api/generate".to_owned(),
            value!({"model": model, "keep_alive": 0}),
        )
    };
    assert_eq!(
        orders(&server),
        [one("a:latest"), one("b:8b"), one("a:latest")]
    );
}

fn lm_studio(asked: &Asked) -> Answer {
    match asked.line.as_str() {
        "GET /v1/models" => json(value!({"object": "list", "data": [{"id": "q"}]})),
        "GET /api/v1/models" => json(value!({"models": [{"key": "q", "loaded_instances": [
            {"id": "q", "config": {}}, {"id": "q:2", "config": {}}]}]})),
        "POST /api/v1/models/unload" => json(value!({"instance_id": "q"})),
        _ => json(value!({"error": "Unexpected endpoint or method."})),
    }
}

#[tokio::test]
async fn lm_studio_unloads_by_instance() {
    let server = Server::start(lm_studio).await;
    let upstream = upstream(&server.root());
    assert_eq!(upstream.unload(Some("q:2")).await.unwrap(), ["q:2"]);
    assert_eq!(upstream.unload(Some("q")).await.unwrap(), ["q", "q:2"]);
    assert_eq!(orders(&server)[0].1, value!({"instance_id": "q:2"}));
}

#[tokio::test]
async fn a_router_unloads_and_a_single_llama_cpp_says_what_to_do_instead() {
    let router = Server::start(|asked| match asked.line.as_str() {
        "GET /v1/models" => json(value!({"object": "list", "data": [
            {"id": "a", "owned_by": "llamacpp", "status": {"value": "loaded"}},
            {"id": "b", "owned_by": "llamacpp", "status": {"value": "unloaded"}}]})),
        "POST /models/unload" => json(value!({"success": true})),
        _ => missing(),
    })
    .await;
    assert_eq!(upstream(&router.root()).unload(None).await.unwrap(), ["a"]);
    assert_eq!(orders(&router)[0].1, value!({"model": "a"}));

    for owner in ["llamacpp", "vllm"] {
        let single = Server::start(move |asked| match asked.line.as_str() {
            "GET /v1/models" => json(value!({"object": "list", "data": [
                {"id": "a", "owned_by": owner}]})),
            _ => missing(),
        })
        .await;
        let error = upstream(&single.root()).unload(None).await.unwrap_err();
        assert!(
            matches!(error, UnloadError::NotPossible { .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains("stop the server"), "{error}");
        assert_eq!(orders(&single), [], "nothing was tried");
    }
}

#[tokio::test]
async fn a_server_that_refuses_or_does_not_tell_is_not_taken_for_done() {
    let refusing = Server::start(|asked| match asked.line.as_str() {
        "POST /api/generate" => json_with(500, value!({"error": "busy"})),
        _ => ollama(asked),
    })
    .await;
    let error = upstream(&refusing.root())
        .unload(Some("b:8b"))
        .await
        .unwrap_err();
    assert!(matches!(error, UnloadError::Answer { .. }), "{error:?}");
    assert!(error.to_string().contains("b:8b"));
    let mute = Server::start(|asked| match asked.line.as_str() {
        "GET /api/ps" => missing(),
        _ => ollama(asked),
    })
    .await;
    assert_eq!(
        upstream(&mute.root()).unload(None).await,
        Err(UnloadError::List)
    );
}
