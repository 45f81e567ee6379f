//! What is loaded, and the window a request will really get.
//!
//! The window is the one that is *loaded*, per slot, never what the model could do. Only routes
//! that load nothing are asked. Not here: a number from the configuration or the request's own
//! `num_ctx`, which take precedence, and learning from an overflow.

use std::time::Duration;

use super::client::Client;
use super::servers::{Kind, LoadedModel, WindowReading, llama_cpp, lm_studio, ollama, plain};

/// The window `model` has on this server; `limit` is for each question.
pub(super) async fn window(
    client: &Client,
    kind: Kind,
    model: Option<&str>,
    limit: Duration,
) -> WindowReading {
    match kind {
        Kind::LlamaCpp => llama_cpp::window(client, model, limit).await,
        Kind::Ollama => ollama::window(client, model, limit).await,
        Kind::LmStudio => lm_studio::window(client, model, limit).await,
        Kind::Plain => plain::window(client, model, limit).await,
    }
}

/// Every model in the server's memory; `None` where the server does not tell, or did not answer.
pub(super) async fn models(
    client: &Client,
    kind: Kind,
    limit: Duration,
) -> Option<Vec<LoadedModel>> {
    match kind {
        Kind::LlamaCpp => llama_cpp::models(client, limit).await,
        Kind::Ollama => ollama::models(client, limit).await,
        Kind::LmStudio => lm_studio::models(client, limit).await,
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
        Kind::Ollama => ollama::is_loaded(client, model, limit).await,
        Kind::LlamaCpp | Kind::LmStudio | Kind::Plain => {
            match window(client, kind, model, limit).await {
                WindowReading::Loaded { .. } => Some(true),
                WindowReading::NotLoaded => Some(false),
                WindowReading::Unknown => None,
            }
        }
    }
}
