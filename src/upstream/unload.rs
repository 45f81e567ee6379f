//! Freeing the memory a model takes, where the server can.
//!
//! Not here: waiting for the slot; an unload takes its turn like a request.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Limits;
use super::client::Client;
use super::servers::{Kind, LoadedModel, llama_cpp, lm_studio, ollama};
use super::window;
use crate::refusal::Outage;

/// A server may agree before the model is gone: looked at so often …
const LOOKS: u32 = 15;
/// … and so far apart.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
/// The look without an answer that ends it: a server that frees memory may be slow for a moment.
const UNANSWERED: u32 = 3;

/// Why an unload was not done, or not all of it, or was not seen to be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnloadError {
    /// This server has no way to do it; the sentence says what does.
    #[error("{sentence}")]
    NotPossible {
        /// What the server is and what to do instead.
        sentence: &'static str,
    },
    /// The server did not tell what is loaded.
    #[error("the model server does not say which models are loaded")]
    List,
    /// The server could not be reached, or broke off.
    #[error("the model server did not answer the unload")]
    Reach(Outage),
    /// The server agreed, and lists the models as loaded all the same.
    #[error("the model server agreed to the unload, but still has {} loaded", models.join(", "))]
    Kept {
        /// What it kept.
        models: Vec<String>,
    },
    /// The server agreed, and no longer says what is loaded.
    #[error("the model server agreed to the unload of {}, but does not say whether it went", models.join(", "))]
    Unsure {
        /// The models it was asked to unload.
        models: Vec<String>,
    },
    /// The server refused.
    #[error("the model server answered {status} to the unload of {model}")]
    Answer {
        /// Its status.
        status: StatusCode,
        /// The model it kept.
        model: String,
    },
}

/// Unloads `model`, or every loaded model; gives the names of those that are seen to be gone.
///
/// Nothing loaded is no error: there is nothing to free.
pub(super) async fn unload(
    client: &Client,
    kind: Kind,
    model: Option<&str>,
    limits: Limits,
) -> Result<Vec<String>, UnloadError> {
    let limit = limits.unload;
    let path = match kind {
        Kind::Ollama => ollama::GENERATE,
        Kind::LmStudio => lm_studio::UNLOAD,
        Kind::LlamaCpp if llama_cpp::routes(client, limit).await => "/models/unload",
        Kind::LlamaCpp => {
            return Err(UnloadError::NotPossible {
                sentence: "This llama.cpp keeps its one model for as long as it runs: stop the server to free the memory",
            });
        }
        Kind::Plain => {
            return Err(UnloadError::NotPossible {
                sentence: "This server has no known way to unload a model: stop the server to free the memory",
            });
        }
    };
    let loaded = window::models(client, kind, limit)
        .await
        .ok_or(UnloadError::List)?;
    let mut ordered = Vec::new();
    for entry in loaded.iter().filter(|entry| is_meant(kind, entry, model)) {
        let body = Bytes::from(order(kind, entry).to_string());
        let reply = client
            .post(path, body, limit)
            .await
            .map_err(UnloadError::Reach)?;
        if kind == Kind::LmStudio && reply.status == StatusCode::NOT_FOUND {
            return Err(UnloadError::NotPossible {
                sentence: "This LM Studio is too old to unload a model on request: update it to 0.4, or eject the model there",
            });
        }
        // LM Studio answers 200 with an error to a path that it does not know.
        let refused = reply.json().is_some_and(|body| !body["error"].is_null());
        if !reply.status.is_success() || refused {
            return Err(UnloadError::Answer {
                status: reply.status,
                model: entry.name.clone(),
            });
        }
        ordered.push(entry.instance.clone());
    }
    until_gone(client, kind, ordered, limits.question).await
}

/// Reads the loaded models until all of `ordered` are gone, or for long enough: an answer alone
/// proves nothing.
async fn until_gone(
    client: &Client,
    kind: Kind,
    ordered: Vec<String>,
    limit: Duration,
) -> Result<Vec<String>, UnloadError> {
    if ordered.is_empty() {
        return Ok(ordered);
    }
    let mut unanswered = 0;
    // What the last look showed, if it was answered.
    let mut kept = None;
    for look in 0..LOOKS {
        if look > 0 {
            sleep(BETWEEN_LOOKS).await;
        }
        kept = window::models(client, kind, limit).await.map(|loaded| {
            let is_loaded = |model: &&String| loaded.iter().any(|entry| entry.instance == **model);
            ordered
                .iter()
                .filter(is_loaded)
                .cloned()
                .collect::<Vec<_>>()
        });
        unanswered += u32::from(kept.is_none());
        if unanswered == UNANSWERED || kept.as_ref().is_some_and(Vec::is_empty) {
            break;
        }
    }
    match kept {
        None => Err(UnloadError::Unsure { models: ordered }),
        Some(kept) if kept.is_empty() => Ok(ordered),
        Some(kept) => Err(UnloadError::Kept { models: kept }),
    }
}

fn is_meant(kind: Kind, entry: &LoadedModel, model: Option<&str>) -> bool {
    let Some(model) = model else {
        return true;
    };
    match kind {
        Kind::Ollama => ollama::is_same_ollama_model(&entry.name, model),
        Kind::LmStudio | Kind::LlamaCpp | Kind::Plain => {
            entry.name == model || entry.instance == model
        }
    }
}

fn order(kind: Kind, entry: &LoadedModel) -> Value {
    match kind {
        Kind::Ollama => ollama::unload_order(entry),
        Kind::LmStudio => lm_studio::unload_order(entry),
        Kind::LlamaCpp | Kind::Plain => json!({ "model": entry.name }),
    }
}
