//! Which model server it is, by proof.
//!
//! A bare 200 proves nothing: each kind is known by an answer of a shape that is its own. Only
//! routes without side effects are asked, one after another, and no more of them than needed: LM
//! Studio writes an error into its log for each path that it does not know.
//!
//! Not here: which ports are looked at ([`super::discover`]).

use std::fmt;
use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use tokio::time::timeout;

use super::client::{Client, Reply};
use super::probe;
use crate::refusal::Outage;

/// What a gateway of our own says on every answer.
pub(super) const OWN_HEADER: &str = "x-oneslot-request-id";

/// The model servers that have something of their own worth asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// llama.cpp's `llama-server`, alone or as a router.
    LlamaCpp,
    /// Ollama.
    Ollama,
    /// LM Studio.
    LmStudio,
    /// Any other server that answers an OpenAI list of models.
    Plain,
}

/// What was proven about a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Which server it is.
    pub kind: Kind,
    /// Its own version, where it tells.
    pub version: Option<String>,
    /// The models it lists, loaded or not.
    pub models: Vec<String>,
}

/// What came of asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identified {
    /// A model server.
    Server(Identity),
    /// A OneSlot: this gateway or another one.
    OneSlot,
    /// Something answers and proves nothing.
    Unproven,
    /// Nothing answers.
    Silent(Outage),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LlamaCpp => "llama.cpp",
            Self::Ollama => "Ollama",
            Self::LmStudio => "LM Studio",
            Self::Plain => "OpenAI-compatible server",
        })
    }
}

/// Asks a server what it is; `limit` bounds all questions together.
pub(super) async fn identify(client: &Client, limit: Duration) -> Identified {
    match timeout(limit, questions(client, limit)).await {
        Ok(found) => found,
        Err(_) => Identified::Silent(Outage::ProbeTimeout),
    }
}

async fn questions(client: &Client, limit: Duration) -> Identified {
    let front = match client.get("/", limit).await {
        Ok(front) => front,
        Err(outage) => return Identified::Silent(outage),
    };
    if front.headers.contains_key(OWN_HEADER) {
        return Identified::OneSlot;
    }
    if is_ollama_front(&front) {
        return Identified::Server(ollama(client, limit).await);
    }
    let list = match client.get("/v1/models", limit).await {
        Ok(list) => list,
        Err(outage) => return Identified::Silent(outage),
    };
    let models = list.good_json().as_ref().map(names).unwrap_or_default();
    let server = |kind, version, models| {
        Identified::Server(Identity {
            kind,
            version,
            models,
        })
    };
    if is_llama_cpp(&front) || is_llama_cpp(&list) {
        let version = match client.get_json("/props", limit).await {
            Some(props) => build_of(&props),
            None => None,
        };
        return server(Kind::LlamaCpp, version, models);
    }
    let openai = list.good_json().as_ref().is_some_and(is_openai_list);
    if openai && is_lm_studio(client, limit).await {
        return server(Kind::LmStudio, None, models);
    }
    if let Some(props) = client.get_json("/props", limit).await
        && is_props(&props)
    {
        return server(Kind::LlamaCpp, build_of(&props), models);
    }
    // An Ollama behind a front page of somebody else's.
    if client
        .get_json("/api/ps", limit)
        .await
        .is_some_and(|ps| ps["models"].is_array())
    {
        let identity = ollama(client, limit).await;
        if identity.version.is_some() {
            return Identified::Server(identity);
        }
    }
    if openai {
        server(Kind::Plain, None, models)
    } else {
        Identified::Unproven
    }
}

fn is_ollama_front(front: &Reply) -> bool {
    front.status.is_success() && front.body.trim_ascii() == b"Ollama is running"
}

async fn ollama(client: &Client, limit: Duration) -> Identity {
    let version = match client.get_json("/api/version", limit).await {
        Some(body) => body["version"].as_str().map(str::to_owned),
        None => None,
    };
    let models = match client.get_json("/v1/models", limit).await {
        Some(body) => names(&body),
        None => Vec::new(),
    };
    Identity {
        kind: Kind::Ollama,
        version,
        models,
    }
}

/// llama.cpp signs every answer, owns its models by name, and says while it loads.
fn is_llama_cpp(reply: &Reply) -> bool {
    if reply
        .header("server")
        .is_some_and(|server| server.starts_with("llama.cpp"))
    {
        return true;
    }
    let Some(body) = reply.json() else {
        return false;
    };
    if reply.status == StatusCode::SERVICE_UNAVAILABLE {
        return probe::says_loading(&body);
    }
    reply.status.is_success()
        && entries(&body).iter().any(|model| {
            model["owned_by"] == "llamacpp"
                || (model["meta"].is_object() && model["meta"]["n_ctx_train"].is_number())
        })
}

async fn is_lm_studio(client: &Client, limit: Duration) -> bool {
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

fn is_props(props: &Value) -> bool {
    props["default_generation_settings"].is_object() && props["total_slots"].is_number()
}

fn build_of(props: &Value) -> Option<String> {
    props["build_info"].as_str().map(str::to_owned)
}

/// Models with ids; an empty list has to say at least that it is one.
fn is_openai_list(body: &Value) -> bool {
    let models = entries(body);
    body["data"].is_array()
        && (body["object"] == "list" || !models.is_empty())
        && models.iter().all(|model| model["id"].is_string())
}

/// The `data` of an OpenAI list.
pub(super) fn entries(body: &Value) -> &[Value] {
    body["data"].as_array().map_or(&[], Vec::as_slice)
}

fn names(body: &Value) -> Vec<String> {
    entries(body)
        .iter()
        .filter_map(|model| model["id"].as_str().map(str::to_owned))
        .collect()
}
