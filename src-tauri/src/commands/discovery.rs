//! Looking for model servers, and proving the one in use with a short prompt.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use oneslot::control_client::Response;
use oneslot::upstream::{PORTS, discover};
use serde::Serialize;
use serde_json::{Value, json};
use tauri::State;
use tokio::time::{Instant, timeout};

use crate::gateway_link::{Fault, GatewayLink};

/// Tokens of the test prompt's answer: enough to see it flow.
const TOKENS: u64 = 24;
/// A server that loads a large model may take minutes.
const PATIENCE: Duration = Duration::from_secs(330);
/// Bytes of an answer to a few tokens.
const LONGEST: usize = 1 << 20;

/// A model server that was found.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Found {
    base_url: String,
    kind: String,
    models: Vec<String>,
    in_use: bool,
}

/// What came of a test prompt sent through the gateway itself.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(untagged)]
pub enum Proof {
    /// It was answered.
    Answered {
        /// Always true.
        #[cfg_attr(test, ts(type = "true"))]
        ok: bool,
        /// Which model answered.
        model: String,
        /// To the first piece of the answer.
        first_token_ms: u64,
        /// To its end.
        total_ms: u64,
        /// The answer.
        text: String,
    },
    /// It was not.
    Refused {
        /// Always false.
        #[cfg_attr(test, ts(type = "false"))]
        ok: bool,
        /// The refusal's code.
        code: String,
        /// What happened, in a sentence.
        message: String,
    },
}

#[tauri::command]
pub(super) async fn find(link: State<'_, Arc<GatewayLink>>) -> Result<Vec<Found>, Fault> {
    let (own, used) = {
        let shown = link.shown();
        let snapshot = &shown.borrow().snapshot;
        let own: Vec<_> = snapshot.listen.iter().flat_map(|one| one.parse()).collect();
        (own, snapshot.upstream.base_url.clone())
    };
    let found = discover(&PORTS, &own).await;
    let found = found.map_err(|error| Fault::failed(&error))?;
    let server = |one: oneslot::upstream::Found| {
        let base_url = one.root.to_string();
        Found {
            in_use: used.as_deref() == Some(base_url.as_str()),
            kind: one.identity.kind.to_string(),
            models: one.identity.models,
            base_url,
        }
    };
    Ok(found.into_iter().map(server).collect())
}

#[tauri::command]
pub(super) async fn prove(link: State<'_, Arc<GatewayLink>>) -> Result<Proof, Fault> {
    let model = {
        let shown = link.shown();
        let shown = shown.borrow();
        shown.snapshot.upstream.model.clone()
    };
    match timeout(PATIENCE, ask(&link, model)).await {
        Ok(proof) => proof,
        Err(_) => Ok(Proof::Refused {
            ok: false,
            code: "LLM_TIMEOUT".to_owned(),
            message: format!("no answer within {} s", PATIENCE.as_secs()),
        }),
    }
}

/// An answer, read to its end or far enough.
struct Heard {
    status: StatusCode,
    bytes: Vec<u8>,
    first_ms: Option<u64>,
    total_ms: u64,
}

async fn ask(link: &GatewayLink, model: Option<String>) -> Result<Proof, Fault> {
    let began = Instant::now();
    let mut body = json!({
        "messages": [{"role": "user", "content": "Say hello in one short sentence."}],
        "max_tokens": TOKENS,
        "stream": true,
    });
    if let Some(model) = &model {
        body["model"] = json!(model);
    }
    let response = link.post("/app/OneSlot/v1/chat/completions", &body).await?;
    Ok(proof_in(&hear(response, began).await?, model))
}

async fn hear(mut response: Response, began: Instant) -> Result<Heard, Fault> {
    let ms = || u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (mut bytes, mut first_ms) = (Vec::new(), None);
    let status = response.status();
    while let Some(data) = response.chunk().await? {
        bytes.extend_from_slice(&data);
        if first_ms.is_none() && !data.starts_with(b":") {
            first_ms = Some(ms());
        }
        if bytes.len() > LONGEST {
            break;
        }
    }
    Ok(Heard {
        status,
        bytes,
        first_ms,
        total_ms: ms(),
    })
}

fn proof_in(heard: &Heard, model: Option<String>) -> Proof {
    let text = String::from_utf8_lossy(&heard.bytes);
    let events = text.lines().filter_map(|line| line.strip_prefix("data:"));
    let mut events: Vec<Value> = events
        .filter_map(|event| serde_json::from_str(event).ok())
        .collect();
    if !heard.status.is_success() {
        events.extend(serde_json::from_str(&text));
    }
    if let Some(error) = events.iter().find_map(|event| event.get("error")) {
        let part = |name| error.get(name).and_then(Value::as_str);
        return Proof::Refused {
            ok: false,
            code: part("code").unwrap_or(heard.status.as_str()).to_owned(),
            message: part("message").unwrap_or("without a reason").to_owned(),
        };
    }
    let named = events.iter().find_map(|event| event["model"].as_str());
    let named = named.map(str::to_owned);
    Proof::Answered {
        ok: true,
        model: model.or(named).unwrap_or_default(),
        first_token_ms: heard.first_ms.unwrap_or(heard.total_ms),
        total_ms: heard.total_ms,
        text: pieces(&events),
    }
}

/// What the model said; of one that thinks first, at least that.
fn pieces(events: &[Value]) -> String {
    let part = |name: &str| {
        let delta = |event: &Value| {
            let text = event.pointer(&format!("/choices/0/delta/{name}"))?;
            Some(text.as_str()?.to_owned())
        };
        events.iter().filter_map(delta).collect::<String>()
    };
    let said = part("content");
    if said.trim().is_empty() {
        part("reasoning_content")
    } else {
        said
    }
}
