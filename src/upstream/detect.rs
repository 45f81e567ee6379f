//! Which model server it is, by proof.
//!
//! A bare 200 proves nothing: each kind is known by an answer of a shape that is its own. Only
//! routes without side effects are asked, one after another, and no more of them than needed.
//!
//! Not here: which ports are tried ([`super::discover`]).

use std::time::Duration;

use tokio::time::timeout;

use super::client::Client;
use super::servers::{Kind, llama_cpp, lm_studio, ollama, plain};
use crate::refusal::Outage;

/// The header of every OneSlot answer.
pub(super) const OWN_HEADER: &str = "x-oneslot-request-id";

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

/// The result of identification.
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
    let server = |kind, version, models| {
        Identified::Server(Identity {
            kind,
            version,
            models,
        })
    };
    if ollama::is_front(&front) {
        let (version, models) = ollama::describe(client, limit).await;
        return server(Kind::Ollama, version, models);
    }
    let list = match client.get("/v1/models", limit).await {
        Ok(list) => list,
        Err(outage) => return Identified::Silent(outage),
    };
    let listed = list.good_json().filter(plain::is_list);
    let models = listed.as_ref().map(plain::names).unwrap_or_default();
    if llama_cpp::is_signed(&front) || llama_cpp::is_signed(&list) {
        let props = client.get_json("/props", limit).await;
        let version = props.as_ref().and_then(llama_cpp::build_of);
        return server(Kind::LlamaCpp, version, models);
    }
    if listed.is_some() && lm_studio::is_here(client, limit).await {
        return server(Kind::LmStudio, None, models);
    }
    if let Some(props) = client.get_json("/props", limit).await
        && llama_cpp::is_props(&props)
    {
        return server(Kind::LlamaCpp, llama_cpp::build_of(&props), models);
    }
    // Ollama behind another front page.
    if ollama::is_here(client, limit).await
        && let (Some(version), models) = ollama::describe(client, limit).await
    {
        return server(Kind::Ollama, Some(version), models);
    }
    if listed.is_some() {
        server(Kind::Plain, None, models)
    } else {
        Identified::Unproven
    }
}
