//! Ollama: `/api/ps`, loading, unloading, and models that run elsewhere.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::plain::names;
use super::{LoadedModel, WindowReading, WindowSource, reading, tokens};
use crate::refusal::{Outage, UpstreamError};
use crate::upstream::client::{Client, Reply};
use crate::upstream::errors;

/// The route that loads a model, and unloads it.
pub(in crate::upstream) const GENERATE: &str = "/api/generate";

/// The body that unloads a model.
pub(in crate::upstream) fn unload_order(model: &LoadedModel) -> Value {
    json!({ "model": model.name, "keep_alive": 0 })
}

/// Whether this is the answer to `GET /`.
pub(in crate::upstream) fn is_front(front: &Reply) -> bool {
    front.status.is_success() && front.body.trim_ascii() == b"Ollama is running"
}

/// Its version and the models it lists.
pub(in crate::upstream) async fn describe(
    client: &Client,
    limit: Duration,
) -> (Option<String>, Vec<String>) {
    let version = match client.get_json("/api/version", limit).await {
        Some(body) => body["version"].as_str().map(str::to_owned),
        None => None,
    };
    let models = match client.get_json("/v1/models", limit).await {
        Some(body) => names(&body),
        None => Vec::new(),
    };
    (version, models)
}

/// Whether it answers `/api/ps`, behind whatever front page.
pub(in crate::upstream) async fn is_here(client: &Client, limit: Duration) -> bool {
    models(client, limit).await.is_some()
}

/// A loaded model among the server's, seen from one request.
#[derive(Debug, PartialEq, Eq)]
enum Match<'a> {
    /// This one will answer.
    One(&'a LoadedModel),
    /// It is not loaded.
    Absent,
    /// Several are loaded and the request names none.
    Unclear,
}

/// The window of `model`.
pub(in crate::upstream) async fn window(
    client: &Client,
    model: Option<&str>,
    limit: Duration,
) -> WindowReading {
    // A cloud model is never loaded here; "not loaded" would start a load for nothing.
    if model.is_some_and(runs_elsewhere) {
        return WindowReading::Unknown;
    }
    match client.get_json("/api/ps", limit).await {
        Some(ps) => window_in(&ps, model),
        None => WindowReading::Unknown,
    }
}

/// Every model in memory; `None` without an answer.
pub(in crate::upstream) async fn models(
    client: &Client,
    limit: Duration,
) -> Option<Vec<LoadedModel>> {
    let ps = client.get_json("/api/ps", limit).await?;
    ps["models"].is_array().then(|| models_in(&ps))
}

/// Whether `model` is in memory; `None` where it is unclear.
pub(in crate::upstream) async fn is_loaded(
    client: &Client,
    model: Option<&str>,
    limit: Duration,
) -> Option<bool> {
    if model.is_some_and(runs_elsewhere) {
        return None;
    }
    let ps = client.get_json("/api/ps", limit).await?;
    match find(&models_in(&ps), model) {
        Match::One(_) => Some(true),
        Match::Absent => Some(false),
        Match::Unclear => None,
    }
}

/// Whether two names mean the same model: `llama3.2` is `llama3.2:latest`.
pub fn is_same_ollama_model(one: &str, other: &str) -> bool {
    full_name(one) == full_name(other)
}

/// Whether the model runs on another machine, through Ollama's cloud: its tag is `cloud` or ends in
/// `-cloud`.
pub fn runs_elsewhere(model: &str) -> bool {
    // A colon before the last slash belongs to a registry's port.
    let name = model.rsplit('/').next().unwrap_or(model);
    let Some((_, tag)) = name.rsplit_once(':') else {
        return false;
    };
    let tag = tag.to_ascii_lowercase();
    tag == "cloud" || tag.ends_with("-cloud")
}

/// The load that a request would cause: its model, with its own `options` and `keep_alive`, so that
/// nothing is loaded twice. Ollama cuts a chat silently to a window that only a loaded model has.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Preload<'a> {
    /// The model's name.
    pub model: &'a str,
    /// The request's own `options`, untouched: a `num_ctx` in them decides the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<&'a RawValue>,
    /// The request's own `keep_alive`, untouched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_alive: Option<&'a RawValue>,
}

/// Why a model was not loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PreloadError {
    /// The server is no Ollama: it loads at the request itself.
    #[error("only Ollama is asked to load a model beforehand")]
    NotOllama,
    /// The model runs on another machine.
    #[error("a cloud model is not loaded here")]
    Elsewhere,
    /// The loading budget ran out.
    #[error("the model was not loaded within {} s", .0.as_secs())]
    Budget(Duration),
    /// The server could not be reached, or broke off.
    #[error("the server went away while it loaded the model")]
    Reach(Outage),
    /// The server refused to load it.
    #[error("the server answered {} to the load", .0.status.as_u16())]
    Answer(Box<UpstreamError>),
}

/// Loads a model, within the loading budget.
pub(in crate::upstream) async fn preload(
    client: &Client,
    request: Preload<'_>,
    budget: Duration,
) -> Result<(), PreloadError> {
    let body = serde_json::to_vec(&request).unwrap_or_default();
    let reply = match client.post(GENERATE, Bytes::from(body), budget).await {
        Ok(reply) => reply,
        Err(Outage::ProbeTimeout) => return Err(PreloadError::Budget(budget)),
        Err(outage) => return Err(PreloadError::Reach(outage)),
    };
    // The headers may be sent before the load fails; the error is then in the body.
    let failed_late =
        reply.status == StatusCode::OK && reply.json().is_some_and(|body| !body["error"].is_null());
    if reply.status.is_success() && !failed_late {
        return Ok(());
    }
    let error = errors::error_of(reply.status, &reply.headers, &reply.body);
    Err(PreloadError::Answer(Box::new(error)))
}

/// The window of `model` from the body of `/api/ps`.
fn window_in(ps: &Value, model: Option<&str>) -> WindowReading {
    let models = models_in(ps);
    match find(&models, model) {
        // Older versions list the model without its window.
        Match::One(model) => reading(model.window, WindowSource::OllamaPs),
        Match::Absent => WindowReading::NotLoaded,
        Match::Unclear => WindowReading::Unknown,
    }
}

/// Every model in the body of `/api/ps`.
fn models_in(ps: &Value) -> Vec<LoadedModel> {
    let Some(listed) = ps["models"].as_array() else {
        return Vec::new();
    };
    listed
        .iter()
        .filter_map(|entry| {
            let name = entry["model"].as_str().or_else(|| entry["name"].as_str())?;
            Some(LoadedModel {
                name: name.to_owned(),
                instance: name.to_owned(),
                window: tokens(&entry["context_length"]),
                bytes: entry["size"].as_u64(),
                video_bytes: entry["size_vram"].as_u64(),
            })
        })
        .collect()
}

/// The loaded model that a request for `model` meets.
fn find<'a>(loaded: &'a [LoadedModel], model: Option<&str>) -> Match<'a> {
    let Some(model) = model else {
        return match loaded {
            [] => Match::Absent,
            [only] => Match::One(only),
            _ => Match::Unclear,
        };
    };
    let wanted = full_name(model);
    match loaded.iter().find(|entry| full_name(&entry.name) == wanted) {
        Some(entry) => Match::One(entry),
        None => Match::Absent,
    }
}

/// `llama3.2` is `llama3.2:latest`, and the default registry and library may be left out.
fn full_name(model: &str) -> String {
    let name = model.trim().to_ascii_lowercase();
    let name = name.strip_prefix("registry.ollama.ai/").unwrap_or(&name);
    let name = name.strip_prefix("library/").unwrap_or(name);
    let last = name.rsplit('/').next().unwrap_or(name);
    if last.contains(':') {
        name.to_owned()
    } else {
        format!("{name}:latest")
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_without_a_tag_is_the_latest_one() {
        for (one, other) in [
            ("llama3.2", "llama3.2:latest"),
            ("Llama3.2", "llama3.2:latest"),
            (
                "library/llama3.2",
                "registry.ollama.ai/library/llama3.2:latest",
            ),
            ("hf.co/a/B:Q4_K_M", "hf.co/a/b:q4_k_m"),
        ] {
            assert_eq!(full_name(one), full_name(other), "{one} is {other}");
        }
        assert_ne!(full_name("llama3.2:1b"), full_name("llama3.2"));
        assert_ne!(full_name("me/llama3.2"), full_name("llama3.2"));
    }

    #[test]
    fn the_loaded_window_counts_and_not_the_declared_one() {
        let ps = json!({"models": [
            {"name": "llama3.2:latest", "model": "llama3.2:latest", "size": 9, "size_vram": 4,
             "context_length": 4096, "details": {"context_length": 262_144}},
            {"name": "qwen3:8b", "model": "qwen3:8b", "context_length": 32_768}]});
        let loaded = |tokens| WindowReading::Loaded {
            tokens,
            source: WindowSource::OllamaPs,
        };
        assert_eq!(window_in(&ps, Some("llama3.2")), loaded(4096));
        assert_eq!(window_in(&ps, Some("qwen3:8b")), loaded(32_768));
        assert_eq!(window_in(&ps, Some("qwen3:1b")), WindowReading::NotLoaded);
        assert_eq!(
            window_in(&ps, None),
            WindowReading::Unknown,
            "two are loaded and none is named"
        );
        assert_eq!(models_in(&ps)[0].video_bytes, Some(4));
    }

    #[test]
    fn nothing_loaded_differs_from_an_unnamed_window() {
        let empty = json!({"models": []});
        assert_eq!(window_in(&empty, Some("x")), WindowReading::NotLoaded);
        assert_eq!(window_in(&empty, None), WindowReading::NotLoaded);
        let old = json!({"models": [{"name": "x:latest"}]});
        assert_eq!(window_in(&old, Some("x")), WindowReading::Unknown);
        assert!(matches!(find(&models_in(&old), Some("x")), Match::One(_)));
    }

    #[test]
    fn the_tag_alone_tells_where_a_model_runs() {
        for model in ["glm-4.6:cloud", "gpt-oss:120b-cloud", "me/x:480B-Cloud"] {
            assert!(runs_elsewhere(model), "{model} is forwarded");
        }
        for model in [
            "llama3.2",
            "cloud",
            "my-cloud",
            "cloud:latest",
            "x:cloudy",
            "host:5000/my-cloud",
            "",
        ] {
            assert!(!runs_elsewhere(model), "{model} runs here");
        }
    }

    #[test]
    fn the_load_carries_the_requests_own_words_and_nothing_else() {
        let options: Box<RawValue> =
            serde_json::from_str(r#"{"num_ctx":  8192, "temperature": 1.0}"#).unwrap();
        let bare = Preload {
            model: "llama3.2",
            options: None,
            keep_alive: None,
        };
        assert_eq!(
            serde_json::to_string(&bare).unwrap(),
            r#"{"model":"llama3.2"}"#
        );
        let full = Preload {
            options: Some(&options),
            ..bare
        };
        assert_eq!(
            serde_json::to_string(&full).unwrap(),
            r#"{"model":"llama3.2","options":{"num_ctx":  8192, "temperature": 1.0}}"#,
            "another spelling of num_ctx could load the model a second time"
        );
    }
}
