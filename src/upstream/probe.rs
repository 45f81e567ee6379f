//! The health probe: `GET {root}/v1/models`, and nothing that could wake or load a model.
//!
//! Not here: what a result does to health and cooldown ([`crate::scheduler`]).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::AGE;
use serde_json::Value;
use tokio::time::timeout;

use super::client::{Client, Reply};
use super::detect::OWN_HEADER;
use super::servers::llama_cpp::says_loading;
use super::servers::{Kind, plain};
use crate::refusal::Outage;

/// How long the answer of `/health` is waited for after that of `/v1/models`; both are asked at once.
const HEALTH_GRACE: Duration = Duration::from_millis(250);

/// The result of one probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// It answered.
    Alive {
        /// Whether it can be used as configured.
        access: Access,
        /// The body of `/v1/models` when it was a good one, for the cache; `None` when another
        /// OneSlot answered with a copy of its own, which says nothing of the server behind it.
        models: Option<Bytes>,
    },
    /// It answered that it loads its model.
    Loading,
    /// It is down, or no model server answered.
    Failed(Outage),
}

/// Whether the configured key (or none) is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The list of models was given.
    Open,
    /// 401 or 403: it requires a key that is not configured. A client's own may still work.
    WantsKey,
}

/// Probes one server, and remembers whether it has a useful `/health`.
#[derive(Debug, Default)]
pub(super) struct Prober {
    /// Set by a `/health` that answered neither 200 nor 503.
    no_health: AtomicBool,
}

impl Prober {
    /// Forgets what is known of `/health`: another process may listen now.
    pub(super) fn forget(&self) {
        self.no_health.store(false, Ordering::Relaxed);
    }

    /// One probe; `limit` bounds all of it.
    pub(super) async fn probe(
        &self,
        client: &Client,
        kind: Option<Kind>,
        limit: Duration,
    ) -> Probe {
        let asks_health = match kind {
            Some(Kind::LlamaCpp | Kind::Plain) | None => !self.no_health.load(Ordering::Relaxed),
            // Neither has it, and LM Studio writes an error into its log for each such try.
            Some(Kind::Ollama | Kind::LmStudio) => false,
        };
        if !asks_health {
            return verdict(client.get("/v1/models", limit).await);
        }
        let mut health = std::pin::pin!(self.health_says_loading(client, limit));
        let models = client.get("/v1/models", limit);
        let mut models = std::pin::pin!(models);
        let mut loading = None;
        let list = loop {
            tokio::select! {
                list = &mut models => break list,
                says = &mut health, if loading.is_none() => loading = Some(says),
            }
        };
        let probe = verdict(list);
        if !matches!(probe, Probe::Alive { .. }) {
            return probe;
        }
        let loading = match loading {
            Some(loading) => loading,
            None => timeout(HEALTH_GRACE.min(limit), health)
                .await
                .unwrap_or(false),
        };
        if loading { Probe::Loading } else { probe }
    }

    async fn health_says_loading(&self, client: &Client, limit: Duration) -> bool {
        let Ok(health) = client.get("/health", limit).await else {
            return false;
        };
        if health.status == StatusCode::SERVICE_UNAVAILABLE {
            return health.json().as_ref().is_some_and(says_loading);
        }
        if health.status != StatusCode::OK {
            self.no_health.store(true, Ordering::Relaxed);
        }
        false
    }
}

/// The meaning of an answer to `/v1/models`, or of its absence.
fn verdict(answer: Result<Reply, Outage>) -> Probe {
    let reply = match answer {
        Ok(reply) => reply,
        Err(outage) => return Probe::Failed(outage),
    };
    if super::says_loop(reply.status, &reply.headers) {
        return Probe::Failed(Outage::Loop);
    }
    match reply.status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Probe::Alive {
            access: Access::WantsKey,
            models: None,
        },
        StatusCode::NOT_FOUND => Probe::Failed(Outage::WrongBaseUrl),
        StatusCode::BAD_REQUEST if wants_https(&reply.body) => Probe::Failed(Outage::WantsHttps),
        status if status.is_redirection() => Probe::Failed(Outage::Redirected),
        StatusCode::SERVICE_UNAVAILABLE if reply.json().as_ref().is_some_and(says_loading) => {
            Probe::Loading
        }
        status if status.is_success() && reply.json().as_ref().is_some_and(is_list) => {
            Probe::Alive {
                access: Access::Open,
                models: (!is_copy(&reply)).then_some(reply.body),
            }
        }
        _ => Probe::Failed(Outage::ProbeFailed),
    }
}

/// Whether a 400 is a TLS server's answer to plain HTTP (nginx, Go and others word it like this).
fn wants_https(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body).to_ascii_lowercase();
    text.contains("plain http request was sent to https port")
        || text.contains("sent an http request to an https server")
}

/// Another OneSlot's copy of an earlier answer.
fn is_copy(reply: &Reply) -> bool {
    reply.headers.contains_key(OWN_HEADER) && reply.headers.contains_key(AGE)
}

/// A 200 with an error in it, or an HTML page, is no list of models.
fn is_list(body: &Value) -> bool {
    body.is_array() || body["models"].is_array() || body["data"].is_array() || plain::is_list(body)
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    fn answer(status: u16, body: &str) -> Probe {
        verdict(Ok(Reply {
            status: StatusCode::from_u16(status).unwrap_or_default(),
            headers: HeaderMap::new(),
            body: Bytes::copy_from_slice(body.as_bytes()),
        }))
    }

    #[test]
    fn the_copy_of_another_oneslot_is_a_sign_of_life_and_no_list() {
        let mut headers = HeaderMap::new();
        headers.insert("x-oneslot-request-id", http::HeaderValue::from_static("1"));
        headers.insert(AGE, http::HeaderValue::from_static("7"));
        let copy = verdict(Ok(Reply {
            status: StatusCode::OK,
            headers,
            body: Bytes::from_static(br#"{"object":"list","data":[]}"#),
        }));
        let without_models = Probe::Alive {
            access: Access::Open,
            models: None,
        };
        assert_eq!(copy, without_models);
    }

    #[test]
    fn each_answer_to_the_probe_has_one_meaning() {
        let wants_key = Probe::Alive {
            access: Access::WantsKey,
            models: None,
        };
        assert_eq!(answer(401, ""), wants_key);
        assert_eq!(answer(403, "<html>"), wants_key);
        let list = r#"{"object":"list","data":[]}"#;
        assert_eq!(
            answer(200, list),
            Probe::Alive {
                access: Access::Open,
                models: Some(Bytes::from_static(list.as_bytes())),
            },
        );
        let loading =
            r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#;
        for (status, body, meaning) in [
            (
                404,
                "404 page not found",
                Probe::Failed(Outage::WrongBaseUrl),
            ),
            (503, loading, Probe::Loading),
            (503, r#"{"status":"loading model"}"#, Probe::Loading),
            (503, "down for repair", Probe::Failed(Outage::ProbeFailed)),
            (500, loading, Probe::Failed(Outage::ProbeFailed)),
            (502, "<html>", Probe::Failed(Outage::ProbeFailed)),
            (302, "", Probe::Failed(Outage::Redirected)),
            (
                400,
                "Client sent an HTTP request to an HTTPS server.\n",
                Probe::Failed(Outage::WantsHttps),
            ),
            (204, "", Probe::Failed(Outage::ProbeFailed)),
            (
                200,
                "<html>Loading</html>",
                Probe::Failed(Outage::ProbeFailed),
            ),
            (
                200,
                r#"{"error":"Unexpected endpoint or method. (GET /v1/models)"}"#,
                Probe::Failed(Outage::ProbeFailed),
            ),
        ] {
            assert_eq!(answer(status, body), meaning, "{status} {body}");
        }
    }
}
