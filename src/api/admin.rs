//! The gateway's own paths: its state, and control for the holder of the token.
//!
//! No page reaches them ([`crate::http::security::origin_policy`]). Not here: what a pause or a
//! cancellation does ([`crate::scheduler`]), and the event stream ([`super::events`]).

use std::sync::Arc;

use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use serde::Deserialize;

use crate::context::Context;
use crate::http::admission::AdmittedRequest;
use crate::http::body::RequestBody;
use crate::http::router::Own;
use crate::monitor;
use crate::proxy::body::{ResponseBody, full};
use crate::refusal::Refusal;
use crate::scheduler::pause::{Pause, Running};
use crate::scheduler::queue::RequestId;
use crate::telemetry::metrics;

use super::events;

/// The body of `POST /oneslot/pause`; no body pauses until resumed.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PauseRequest {
    /// Unix milliseconds; `null`: until resumed.
    until_ms: Option<i64>,
    /// Stop the answers in flight as well.
    stop: bool,
    /// Unload the model as well.
    unload: bool,
}

/// Answers one of the gateway's own paths.
pub(crate) async fn own(
    context: &Arc<Context>,
    request: AdmittedRequest,
    body: &mut RequestBody,
    own: Own,
) -> Result<Response<ResponseBody>, Refusal> {
    match own {
        Own::Alive => Ok(json(StatusCode::OK, &serde_json::json!({ "ok": true }))),
        Own::Status => {
            monitor::memory::read(context);
            Ok(json(StatusCode::OK, &context.snapshot()))
        }
        Own::Events => events::stream(context, request.parts.uri.query().unwrap_or_default()),
        Own::Metrics => {
            monitor::memory::read(context);
            let text = metrics::render(&context.snapshot(), &context.recorder.counts());
            let mut response = Response::new(full(text.into()));
            let kind = HeaderValue::from_static(metrics::CONTENT_TYPE);
            response.headers_mut().insert(CONTENT_TYPE, kind);
            Ok(response)
        }
        Own::Pause => pause(context, body).await,
        Own::Resume => {
            let resumed = monitor::pause::resume(context).await;
            let mut shown = serde_json::to_value(context.snapshot()).unwrap_or_default();
            shown["resumed"] = resumed.into();
            Ok(json(StatusCode::OK, &shown))
        }
        Own::Check => {
            context.check().await;
            Ok(json(StatusCode::OK, &context.snapshot()))
        }
        Own::Cancel => {
            let path = request.parts.uri.path();
            cancel(context, path.rsplit('/').next().unwrap_or_default())
        }
        Own::Unload => unload(context, request.id).await,
    }
}

fn parse_pause(body: &[u8]) -> Result<PauseRequest, serde_json::Error> {
    match body.trim_ascii_start().first() {
        None => Ok(PauseRequest::default()),
        Some(b'{') => serde_json::from_slice(body),
        // A list would set the members by their position.
        Some(_) => Err(serde::de::Error::custom("it is not an object")),
    }
}

async fn pause(
    context: &Arc<Context>,
    body: &mut RequestBody,
) -> Result<Response<ResponseBody>, Refusal> {
    let received = body.receive(&context.limits, &context.bodies).await?;
    let asked = parse_pause(&received.bytes).map_err(|error| Refusal::BadRequest {
        message: format!(
            "Send {{\"until_ms\": number or null, \"stop\": bool, \"unload\": bool}}: {error}"
        ),
        param: Some("until_ms"),
    })?;
    let until_ms = asked.until_ms;
    if until_ms.is_some_and(|until| until <= crate::clock::unix_ms()) {
        return Err(Refusal::BadRequest {
            message:
                "until_ms has passed already: give a time to come, or null to pause until resumed"
                    .to_owned(),
            param: Some("until_ms"),
        });
    }
    let running = if asked.stop {
        Running::Stop
    } else {
        Running::Finish
    };
    monitor::pause::pause(context, Pause { until_ms }, running).await;
    let unloaded = if asked.unload {
        Some(context.free().await)
    } else {
        None
    };
    let mut shown = serde_json::to_value(context.snapshot()).unwrap_or_default();
    if let Some(unloaded) = unloaded {
        shown["unloaded"] = match unloaded {
            Ok((models, freed)) => serde_json::json!({ "models": models, "freed": freed }),
            Err(error) => serde_json::json!({ "error": error.to_string() }),
        };
    }
    Ok(json(StatusCode::OK, &shown))
}

fn cancel(context: &Context, id: &str) -> Result<Response<ResponseBody>, Refusal> {
    if context.cancel(id).is_none() {
        return Err(Refusal::NotFound {
            path: format!("/oneslot/requests/{id}"),
        });
    }
    Ok(json(
        StatusCode::OK,
        &serde_json::json!({ "cancelled": id }),
    ))
}

async fn unload(context: &Arc<Context>, id: RequestId) -> Result<Response<ResponseBody>, Refusal> {
    match context.unload(id).await? {
        Ok((models, freed)) => Ok(json(
            StatusCode::OK,
            &serde_json::json!({ "unloaded": models, "freed": freed }),
        )),
        Err(error) => Err(Refusal::BadRequest {
            message: error.to_string(),
            param: None,
        }),
    }
}

fn json<T: serde::Serialize>(status: StatusCode, value: &T) -> Response<ResponseBody> {
    let body = serde_json::to_vec(value).unwrap_or_default();
    let mut response = Response::new(full(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
