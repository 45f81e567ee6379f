//! The entry of every inference route: admission, body, then the proxy.
//!
//! A full queue is answered before the body is read, since it may be megabytes. Not here: the
//! queue, the plan and the upstream ([`crate::exchange`]).

use std::sync::Arc;

use http::Response;

use crate::desk::Event;
use crate::exchange::{self, Call};
use crate::gateway::Gateway;
use crate::http::body::{Received, RequestBody};
use crate::http::security::upstream_headers::upstream_headers;
use crate::http::service::AdmittedRequest;
use crate::record;
use crate::refusal::Refusal;
use crate::relay::ResponseBody;

/// Answers `POST /v1/chat/completions`.
///
/// # Errors
/// The refusal; its outcome has been recorded.
///
/// # Cancel safety
/// Dropping the future (or the response body) ends the request as "left".
pub(crate) async fn chat(
    gateway: &Arc<Gateway>,
    request: AdmittedRequest,
    body: &mut RequestBody,
) -> Result<Response<ResponseBody>, Refusal> {
    let call = Call {
        gateway: Arc::clone(gateway),
        id: request.id,
        upward: upstream_headers(gateway, &request)?,
        app: request.app,
        arrived: request.arrived,
        path: exchange::PATH,
    };
    // Recorded before the body is read: a client may disconnect in the middle of it.
    let open = exchange::open(&call);
    let received = match receive(gateway, body).await {
        Ok(received) => received,
        Err(refusal) => {
            open.end(record::Ending::Refused(&refusal));
            return Err(refusal);
        }
    };
    exchange::chat(call, open, received.bytes, received.permit).await
}

async fn receive(gateway: &Gateway, body: &mut RequestBody) -> Result<Received, Refusal> {
    if let Some(refusal) = gateway.owner.would_refuse() {
        gateway.owner.feed(Event::Asked);
        return Err(refusal);
    }
    let received = body.receive(&gateway.limits, &gateway.bodies).await?;
    if received.bytes.trim_ascii().is_empty() {
        return Err(Refusal::BadRequest {
            message: "The body is empty; send a JSON object".to_owned(),
            param: None,
        });
    }
    Ok(received)
}
