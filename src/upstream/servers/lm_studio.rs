//! LM Studio: `/api/v1/models` (0.4 and later), else `/api/v0/models`.
//!
//! It writes an error into its log for each path that it does not know.

use std::time::Duration;

use serde_json::{Value, json};

use super::plain::entries;
use super::{LoadedModel, WindowReading, WindowSource, reading, tokens};
use crate::upstream::client::Client;

/// The route that unloads one instance.
pub(in crate::upstream) const UNLOAD: &str = "/api/v1/models/unload";

/// The body that unloads one instance.
pub(in crate::upstream) fn unload_order(model: &LoadedModel) -> Value {
    json!({ "instance_id": model.instance })
}

/// Whether the server is LM Studio.
pub(in crate::upstream) async fn is_here(client: &Client, limit: Duration) -> bool {
    if let Some(body) = client.get_json("/api/v1/models", limit).await
        && let Some(models) = body["models"].as_array()
    {
        return models
            .iter()
            .all(|model| model["key"].is_string() && model["loaded_instances"].is_array());
    }
    let Some(body) = client.get_json("/api/v0/models", limit).await else {
        return false;
    };
    let models = entries(&body);
    !models.is_empty()
        && models
            .iter()
            .all(|model| model["state"].is_string() && model["id"].is_string())
}

/// The window of `model`.
pub(in crate::upstream) async fn window(
    client: &Client,
    model: Option<&str>,
    limit: Duration,
) -> WindowReading {
    if let Some(body) = client.get_json("/api/v1/models", limit).await
        && body["models"].is_array()
    {
        return window_v1(&body, model);
    }
    match client.get_json("/api/v0/models", limit).await {
        Some(body) => window_v0(&body, model),
        None => WindowReading::Unknown,
    }
}

/// Every instance in memory; `None` without an answer.
pub(in crate::upstream) async fn models(
    client: &Client,
    limit: Duration,
) -> Option<Vec<LoadedModel>> {
    if let Some(body) = client.get_json("/api/v1/models", limit).await
        && body["models"].is_array()
    {
        return Some(models_v1(&body));
    }
    let body = client.get_json("/api/v0/models", limit).await?;
    body["data"].is_array().then(|| models_v0(&body))
}

/// The window of `model` from the body of `/api/v1/models`.
fn window_v1(body: &Value, model: Option<&str>) -> WindowReading {
    let listed = body["models"].as_array().map_or(&[][..], Vec::as_slice);
    let known = listed.iter().filter_map(|entry| entry["key"].as_str());
    pick(&models_v1(body), model, known, WindowSource::LmStudioV1)
}

/// The window of `model` from the body of `/api/v0/models`.
fn window_v0(body: &Value, model: Option<&str>) -> WindowReading {
    let known = entries(body)
        .iter()
        .filter_map(|entry| entry["id"].as_str());
    pick(&models_v0(body), model, known, WindowSource::LmStudioV0)
}

/// Every instance in the body of `/api/v1/models`.
fn models_v1(body: &Value) -> Vec<LoadedModel> {
    let mut found = Vec::new();
    for entry in body["models"].as_array().into_iter().flatten() {
        let Some(key) = entry["key"].as_str() else {
            continue;
        };
        for instance in entry["loaded_instances"].as_array().into_iter().flatten() {
            found.push(LoadedModel {
                name: key.to_owned(),
                instance: instance["id"].as_str().unwrap_or(key).to_owned(),
                window: tokens(&instance["config"]["context_length"]),
                bytes: entry["size_bytes"].as_u64(),
                video_bytes: None,
            });
        }
    }
    found
}

/// Every loaded model in the body of `/api/v0/models`.
fn models_v0(body: &Value) -> Vec<LoadedModel> {
    entries(body)
        .iter()
        .filter(|entry| entry["state"] == "loaded")
        .filter_map(|entry| {
            let name = entry["id"].as_str()?;
            Some(LoadedModel {
                name: name.to_owned(),
                instance: name.to_owned(),
                window: tokens(&entry["loaded_context_length"]),
                bytes: None,
                video_bytes: None,
            })
        })
        .collect()
}

/// A model asked for by key may have several instances: any may answer, so the smallest counts.
/// A name that LM Studio does not know is answered by the only loaded model.
fn pick<'a>(
    loaded: &[LoadedModel],
    model: Option<&str>,
    mut known: impl Iterator<Item = &'a str>,
    source: WindowSource,
) -> WindowReading {
    if loaded.is_empty() {
        return WindowReading::NotLoaded;
    }
    if let Some(model) = model {
        if let Some(instance) = loaded.iter().find(|entry| entry.instance == model) {
            return reading(instance.window, source);
        }
        let instances: Vec<_> = loaded.iter().filter(|entry| entry.name == model).collect();
        if !instances.is_empty() {
            return reading(
                instances.iter().filter_map(|entry| entry.window).min(),
                source,
            );
        }
        if known.any(|name| name == model) {
            return WindowReading::NotLoaded;
        }
    }
    match loaded {
        [only] => reading(only.window, source),
        _ => WindowReading::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn v1() -> Value {
        json!({"models": [
            {"type": "llm", "key": "qwen/qwen3-4b", "max_context_length": 262_144,
             "loaded_instances": [
                {"id": "qwen/qwen3-4b", "config": {"context_length": 8192, "parallel": 1}},
                {"id": "qwen/qwen3-4b:2", "config": {"context_length": 4096}}]},
            {"type": "llm", "key": "google/gemma-3-1b", "max_context_length": 32_768,
             "loaded_instances": []}]})
    }

    #[test]
    fn an_instance_has_its_own_window() {
        let loaded = |tokens| WindowReading::Loaded {
            tokens,
            source: WindowSource::LmStudioV1,
        };
        assert_eq!(window_v1(&v1(), Some("qwen/qwen3-4b:2")), loaded(4096));
        assert_eq!(window_v1(&v1(), Some("qwen/qwen3-4b")), loaded(8192));
        assert_eq!(
            window_v1(&v1(), Some("google/gemma-3-1b")),
            WindowReading::NotLoaded,
            "the largest possible window is not a loaded one"
        );
        assert_eq!(window_v1(&v1(), None), WindowReading::Unknown);
        assert_eq!(models_v1(&v1())[1].instance, "qwen/qwen3-4b:2");
    }

    #[test]
    fn an_unknown_name_is_answered_by_the_only_loaded_model() {
        let one = json!({"models": [{"key": "a", "loaded_instances": [
            {"id": "a", "config": {"context_length": 2048}}]}]});
        let loaded = WindowReading::Loaded {
            tokens: 2048,
            source: WindowSource::LmStudioV1,
        };
        assert_eq!(window_v1(&one, Some("gpt-4")), loaded);
        assert_eq!(window_v1(&one, None), loaded);
        let none = json!({"models": [{"key": "a", "loaded_instances": []}]});
        assert_eq!(window_v1(&none, Some("gpt-4")), WindowReading::NotLoaded);
    }

    #[test]
    fn the_older_list_tells_state_and_loaded_window() {
        let body = json!({"object": "list", "data": [
            {"id": "a", "state": "loaded", "max_context_length": 131_072,
             "loaded_context_length": 4096},
            {"id": "b", "state": "not-loaded", "max_context_length": 8192},
            {"id": "c", "state": "loaded", "max_context_length": 8192}]});
        assert_eq!(
            window_v0(&body, Some("a")),
            WindowReading::Loaded {
                tokens: 4096,
                source: WindowSource::LmStudioV0
            }
        );
        assert_eq!(window_v0(&body, Some("b")), WindowReading::NotLoaded);
        assert_eq!(
            window_v0(&body, Some("c")),
            WindowReading::Unknown,
            "loaded, but this version does not say with how much"
        );
    }
}
