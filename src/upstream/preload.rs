//! Loading a model into Ollama before the plan for its first request is made.
//!
//! Ollama cuts a chat silently to a window that only a loaded model has. The load is the one the
//! request would cause anyway: the model alone, with the request's own `options` and
//! `keep_alive`, so that nothing is loaded twice. Not here: when to do it.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde::Serialize;
use serde_json::value::RawValue;

use super::client::Client;
use super::errors;
use crate::refusal::{Outage, UpstreamError};

/// What the request says about its model, word for word.
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
    /// The model runs on somebody else's machine.
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

pub(super) async fn preload(
    client: &Client,
    request: Preload<'_>,
    budget: Duration,
) -> Result<(), PreloadError> {
    let body = serde_json::to_vec(&request).unwrap_or_default();
    let reply = match client
        .post("/api/generate", Bytes::from(body), budget)
        .await
    {
        Ok(reply) => reply,
        Err(Outage::ProbeTimeout) => return Err(PreloadError::Budget(budget)),
        Err(outage) => return Err(PreloadError::Reach(outage)),
    };
    // The head may be out before the load fails; the error is then in the line.
    let failed_late =
        reply.status == StatusCode::OK && reply.json().is_some_and(|body| !body["error"].is_null());
    if reply.status.is_success() && !failed_late {
        return Ok(());
    }
    let error = errors::error_of(reply.status, &reply.headers, &reply.body);
    Err(PreloadError::Answer(Box::new(error)))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

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
