//! The entry of every inference route: admission, body, then the proxy.
//!
//! A full queue is answered before the body is read, since it may be megabytes. Not here: the
//! queue, the plan and the upstream ([`crate::proxy`]).

use std::sync::Arc;

use http::Response;

use crate::context::Context;
use crate::http::admission::AdmittedRequest;
use crate::http::body::{Received, RequestBody};
use crate::http::security::upstream_headers::upstream_headers;
use crate::proxy::body::ResponseBody;
use crate::proxy::{self, Call};
use crate::refusal::Refusal;
use crate::telemetry;

/// Answers `POST /v1/chat/completions`.
///
/// # Errors
/// The refusal; its outcome has been recorded.
///
/// # Cancel safety
/// Dropping the future (or the response body) ends the request as "left".
pub(crate) async fn chat(
    context: &Arc<Context>,
    request: AdmittedRequest,
    body: &mut RequestBody,
) -> Result<Response<ResponseBody>, Refusal> {
    let call = Call {
        context: Arc::clone(context),
        id: request.id,
        upward: upstream_headers(context, &request)?,
        app: request.app,
        arrived: request.arrived,
        path: proxy::PATH,
    };
    // Recorded before the body is read: a client may disconnect in the middle of it.
    let open = proxy::open(&call);
    let received = match receive(context, &call.app, body).await {
        Ok(received) => received,
        Err(refusal) => {
            open.end(telemetry::Ending::Refused(&refusal));
            return Err(refusal);
        }
    };
    proxy::chat(call, open, received.bytes, received.permit).await
}

async fn receive(
    context: &Context,
    app: &str,
    body: &mut RequestBody,
) -> Result<Received, Refusal> {
    if let Some(refusal) = context.scheduler.check_admission(app) {
        return Err(refusal);
    }
    let received = body.receive(&context.limits, &context.bodies).await?;
    if received.bytes.trim_ascii().is_empty() {
        return Err(Refusal::BadRequest {
            message: "The body is empty; send a JSON object".to_owned(),
            param: None,
        });
    }
    Ok(received)
}
