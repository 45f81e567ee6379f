//! Unloading, by each server's own means.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

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

/// What a scripted server has loaded; an order takes effect as a server's own would.
#[derive(Clone)]
struct Loaded(Arc<Mutex<Vec<&'static str>>>);

impl Loaded {
    fn of(names: &[&'static str]) -> Self {
        Self(Arc::new(Mutex::new(names.to_vec())))
    }

    fn drop_named(&self, member: &str, asked: &Asked) {
        let body: Value = serde_json::from_str(&asked.body).unwrap();
        self.0.lock().unwrap().retain(|name| body[member] != *name);
    }

    fn ollama(&self, asked: &Asked) -> Answer {
        match asked.line.as_str() {
            "GET /" => Answer::Full(200, "", "Ollama is running".into()),
            "GET /api/ps" => {
                let names = self.0.lock().unwrap();
                let models = names
                    .iter()
                    .map(|name| value!({"name": name, "model": name}));
                json(value!({"models": models.collect::<Vec<_>>()}))
            }
            "POST /api/generate" => {
                self.drop_named("model", asked);
                json(value!({"done": true, "done_reason": "unload"}))
            }
            _ => missing(),
        }
    }

    fn lm_studio(&self, asked: &Asked) -> Answer {
        match asked.line.as_str() {
            "GET /v1/models" => json(value!({"object": "list", "data": [{"id": "q"}]})),
            "GET /api/v1/models" => {
                let names = self.0.lock().unwrap();
                let instances = names.iter().map(|name| value!({"id": name, "config": {}}));
                let instances: Vec<Value> = instances.collect();
                json(value!({"models": [{"key": "q", "loaded_instances": instances}]}))
            }
            "POST /api/v1/models/unload" => {
                self.drop_named("instance_id", asked);
                json(value!({"instance_id": "q"}))
            }
            _ => json(value!({"error": "Unexpected endpoint or method."})),
        }
    }
}

#[tokio::test]
async fn ollama_is_asked_to_keep_nothing_alive() {
    let loaded = Loaded::of(&["a:latest", "b:8b", "c:1b"]);
    let server = Server::start(move |asked| loaded.ollama(asked)).await;
    let upstream = upstream(&server.root());
    assert_eq!(upstream.unload(Some("a")).await.unwrap(), ["a:latest"]);
    let none: [&str; 0] = [];
    assert_eq!(
        upstream.unload(Some("a")).await.unwrap(),
        none,
        "nothing to free"
    );
    assert_eq!(upstream.unload(None).await.unwrap(), ["b:8b", "c:1b"]);
    let one = |model: &str| {
        (
            "POST /api/generate".to_owned(),
            value!({"model": model, "keep_alive": 0}),
        )
    };
    assert_eq!(orders(&server), [one("a:latest"), one("b:8b"), one("c:1b")]);
}

#[tokio::test]
async fn lm_studio_unloads_by_instance() {
    let loaded = Loaded::of(&["q", "q:2", "q:3"]);
    let server = Server::start(move |asked| loaded.lm_studio(asked)).await;
    let upstream = upstream(&server.root());
    assert_eq!(upstream.unload(Some("q:2")).await.unwrap(), ["q:2"]);
    assert_eq!(upstream.unload(Some("q")).await.unwrap(), ["q", "q:3"]);
    assert_eq!(orders(&server)[0].1, value!({"instance_id": "q:2"}));
}

#[tokio::test]
async fn a_router_unloads_and_a_single_llama_cpp_says_what_to_do_instead() {
    let loaded = Loaded::of(&["a"]);
    let router = Server::start(move |asked| match asked.line.as_str() {
        "GET /v1/models" => {
            let is_there = loaded.0.lock().unwrap().contains(&"a");
            let a = if is_there { "loaded" } else { "unloaded" };
            json(value!({"object": "list", "data": [
                {"id": "a", "owned_by": "llamacpp", "status": {"value": a}},
                {"id": "b", "owned_by": "llamacpp", "status": {"value": "unloaded"}}]}))
        }
        "POST /models/unload" => {
            loaded.drop_named("model", asked);
            json(value!({"success": true}))
        }
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
    let two = Loaded::of(&["a:latest", "b:8b"]);
    let loaded = two.clone();
    let refusing = Server::start(move |asked| match asked.line.as_str() {
        "POST /api/generate" => json_with(500, value!({"error": "busy"})),
        _ => loaded.ollama(asked),
    })
    .await;
    let error = upstream(&refusing.root())
        .unload(Some("b:8b"))
        .await
        .unwrap_err();
    assert!(matches!(error, UnloadError::Answer { .. }), "{error:?}");
    assert!(error.to_string().contains("b:8b"));
    let mute = Server::start(move |asked| match asked.line.as_str() {
        "GET /api/ps" => missing(),
        _ => two.ollama(asked),
    })
    .await;
    assert_eq!(
        upstream(&mute.root()).unload(None).await,
        Err(UnloadError::List)
    );
}

#[tokio::test]
async fn a_server_that_agrees_and_keeps_the_model_is_not_believed() {
    for yes in [
        json(value!({"done": true})),
        Answer::Full(200, "content-type: text/html\r\n", "<html>".into()),
    ] {
        let yes = Mutex::new(Some(yes));
        let loaded = Loaded::of(&["a:latest"]);
        let liar = Server::start(move |asked| match asked.line.as_str() {
            "POST /api/generate" => yes.lock().unwrap().take().unwrap(),
            _ => loaded.ollama(asked),
        })
        .await;
        let error = upstream(&liar.root()).unload(None).await.unwrap_err();
        assert!(matches!(error, UnloadError::Kept { .. }), "{error:?}");
        assert!(error.to_string().contains("still has a:latest"), "{error}");
    }
    let loaded = Loaded::of(&["q"]);
    let liar = Server::start(move |asked| match asked.line.as_str() {
        "POST /api/v1/models/unload" => json(value!({"instance_id": "q"})),
        _ => loaded.lm_studio(asked),
    })
    .await;
    let error = upstream(&liar.root()).unload(None).await.unwrap_err();
    assert!(matches!(error, UnloadError::Kept { .. }), "{error:?}");
}

#[tokio::test]
async fn a_model_that_takes_a_moment_to_go_is_waited_for() {
    let looks = AtomicU32::new(0);
    let loaded = Loaded::of(&["a:latest"]);
    let slow = Server::start(move |asked| match asked.line.as_str() {
        "POST /api/generate" => json(value!({"done": true})),
        "GET /api/ps" if looks.fetch_add(1, Ordering::Relaxed) >= 3 => json(value!({"models": []})),
        _ => loaded.ollama(asked),
    })
    .await;
    assert_eq!(
        upstream(&slow.root()).unload(None).await.unwrap(),
        ["a:latest"]
    );
}

#[tokio::test]
async fn one_look_without_an_answer_proves_nothing() {
    let looks = AtomicU32::new(0);
    let loaded = Loaded::of(&["a:latest"]);
    let slow = Server::start(move |asked| match asked.line.as_str() {
        "GET /api/ps" if looks.fetch_add(1, Ordering::Relaxed) == 1 => missing(),
        _ => loaded.ollama(asked),
    })
    .await;
    assert_eq!(
        upstream(&slow.root()).unload(None).await.unwrap(),
        ["a:latest"]
    );
}

#[tokio::test]
async fn a_server_that_falls_silent_after_the_order_is_not_taken_for_done() {
    let asked_once = AtomicU32::new(0);
    let loaded = Loaded::of(&["a:latest"]);
    let mute = Server::start(move |asked| match asked.line.as_str() {
        "GET /api/ps" if asked_once.fetch_add(1, Ordering::Relaxed) >= 1 => missing(),
        _ => loaded.ollama(asked),
    })
    .await;
    let error = upstream(&mute.root()).unload(None).await.unwrap_err();
    assert!(matches!(error, UnloadError::Unsure { .. }), "{error:?}");
}
