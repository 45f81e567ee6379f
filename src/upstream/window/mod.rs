//! What is loaded, and the window a request will really get.
//!
//! The window is what the server *loaded*, per slot, never what the model could do. Only routes
//! that load nothing are asked. Not here: a number from the configuration or the request's own
//! `num_ctx`, which go before any reading, and learning from an overflow.

pub(super) mod llama_cpp;
mod lm_studio;
mod ollama;

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::client::Client;
use crate::upstream::cloud_models;
use crate::upstream::detect::{self, Kind};

/// The window for one model, in tokens for prompt and answer together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowReading {
    /// The server named it.
    Loaded {
        /// Tokens, at least 1.
        tokens: u64,
        /// Where it was read.
        source: WindowSource,
    },
    /// The model is not loaded (or still loads): the request that loads it will set the window.
    NotLoaded,
    /// The server does not name it, or did not answer.
    Unknown,
}

/// Where a window was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowSource {
    /// llama.cpp's `/props`.
    Props,
    /// llama.cpp's `/slots`.
    Slots,
    /// `meta.n_ctx` in llama.cpp's `/v1/models`.
    Models,
    /// Ollama's `/api/ps`.
    OllamaPs,
    /// LM Studio's `/api/v1/models`.
    LmStudioV1,
    /// LM Studio's older `/api/v0/models`.
    LmStudioV0,
    /// `max_model_len` in a plain `/v1/models`.
    MaxModelLen,
    /// What the server said when a chat was too long for it.
    Overflow,
}

/// A model in the server's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedModel {
    /// The name requests use.
    pub name: String,
    /// What unloads it, where that is another name (LM Studio's instances).
    pub instance: String,
    /// Its window in tokens, where the server names it.
    pub window: Option<u64>,
    /// Bytes it takes in all, where the server names them.
    pub bytes: Option<u64>,
    /// Bytes of them in video memory, where the server names them.
    pub video_bytes: Option<u64>,
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

impl fmt::Display for WindowSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Props => "/props",
            Self::Slots => "/slots",
            Self::Models => "/v1/models",
            Self::OllamaPs => "/api/ps",
            Self::LmStudioV1 => "/api/v1/models",
            Self::LmStudioV0 => "/api/v0/models",
            Self::MaxModelLen => "max_model_len",
            Self::Overflow => "what the server said of a chat that was too long",
        })
    }
}

/// The window `model` has on this server; `limit` is for each question.
pub(super) async fn window(
    client: &Client,
    kind: Kind,
    model: Option<&str>,
    limit: Duration,
) -> WindowReading {
    match kind {
        Kind::LlamaCpp => llama_cpp::window(client, model, limit).await,
        Kind::Ollama => {
            // It is nobody's to load here, so "not loaded" would start a load for nothing.
            if model.is_some_and(cloud_models::runs_elsewhere) {
                return WindowReading::Unknown;
            }
            match client.get_json("/api/ps", limit).await {
                Some(ps) => ollama::window(&ps, model),
                None => WindowReading::Unknown,
            }
        }
        Kind::LmStudio => {
            if let Some(body) = client.get_json("/api/v1/models", limit).await
                && body["models"].is_array()
            {
                return lm_studio::window_v1(&body, model);
            }
            match client.get_json("/api/v0/models", limit).await {
                Some(body) => lm_studio::window_v0(&body, model),
                None => WindowReading::Unknown,
            }
        }
        Kind::Plain => match client.get_json("/v1/models", limit).await {
            Some(body) => max_model_len(&body, model),
            None => WindowReading::Unknown,
        },
    }
}

/// Whether two names mean the same model to Ollama: `llama3.2` is `llama3.2:latest`.
pub fn is_same_ollama_model(one: &str, other: &str) -> bool {
    ollama::full_name(one) == ollama::full_name(other)
}

/// Every model in the server's memory; `None` where the server does not tell, or did not answer.
pub(super) async fn models(
    client: &Client,
    kind: Kind,
    limit: Duration,
) -> Option<Vec<LoadedModel>> {
    match kind {
        Kind::LlamaCpp => llama_cpp::models(client, limit).await,
        Kind::Ollama => {
            let ps = client.get_json("/api/ps", limit).await?;
            ps["models"].is_array().then(|| ollama::models(&ps))
        }
        Kind::LmStudio => {
            if let Some(body) = client.get_json("/api/v1/models", limit).await
                && body["models"].is_array()
            {
                return Some(lm_studio::models_v1(&body));
            }
            let body = client.get_json("/api/v0/models", limit).await?;
            body["data"].is_array().then(|| lm_studio::models_v0(&body))
        }
        Kind::Plain => None,
    }
}

/// Whether the model a request names is in memory; `None` where the server does not tell.
pub(super) async fn is_loaded(
    client: &Client,
    kind: Kind,
    model: Option<&str>,
    limit: Duration,
) -> Option<bool> {
    match kind {
        Kind::Ollama => {
            if model.is_some_and(cloud_models::runs_elsewhere) {
                return None;
            }
            let ps = client.get_json("/api/ps", limit).await?;
            let models = ollama::models(&ps);
            match ollama::find(&models, model) {
                Match::One(_) => Some(true),
                Match::Absent => Some(false),
                Match::Unclear => None,
            }
        }
        Kind::LlamaCpp | Kind::LmStudio | Kind::Plain => {
            match window(client, kind, model, limit).await {
                WindowReading::Loaded { .. } => Some(true),
                WindowReading::NotLoaded => Some(false),
                WindowReading::Unknown => None,
            }
        }
    }
}

/// vLLM and its kin name the window beside the model.
fn max_model_len(body: &Value, model: Option<&str>) -> WindowReading {
    let entries = detect::entries(body);
    let named = entries
        .iter()
        .find(|entry| model.is_some() && entry["id"].as_str() == model);
    let entry = match (named, entries) {
        (Some(entry), _) => entry,
        (None, [only]) => only,
        (None, _) => return WindowReading::Unknown,
    };
    reading(tokens(&entry["max_model_len"]), WindowSource::MaxModelLen)
}

/// A number of tokens that can be meant: 0 is how servers say "no model".
fn tokens(value: &Value) -> Option<u64> {
    value.as_u64().filter(|tokens| *tokens > 0)
}

fn reading(tokens: Option<u64>, source: WindowSource) -> WindowReading {
    match tokens {
        Some(tokens) => WindowReading::Loaded { tokens, source },
        None => WindowReading::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plain_server_names_its_window_per_model() {
        let two = json!({"object": "list", "data": [
            {"id": "a", "max_model_len": 8192}, {"id": "b", "max_model_len": 1024}]});
        let loaded = |tokens| WindowReading::Loaded {
            tokens,
            source: WindowSource::MaxModelLen,
        };
        assert_eq!(max_model_len(&two, Some("b")), loaded(1024));
        assert_eq!(
            max_model_len(&two, Some("c")),
            WindowReading::Unknown,
            "a window of another model is a guess"
        );
        let one = json!({"data": [{"id": "a", "max_model_len": 8192}]});
        assert_eq!(max_model_len(&one, None), loaded(8192));
        let silent = json!({"data": [{"id": "a"}]});
        assert_eq!(max_model_len(&silent, Some("a")), WindowReading::Unknown);
    }
}
