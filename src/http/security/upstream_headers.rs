//! The headers of an admitted request on its way to the model server.
//!
//! Not here: the lists of what may pass ([`super::headers`]).

use http::{HeaderMap, HeaderValue};

use crate::context::Context;
use crate::http::admission::{AdmittedRequest, own_keys};
use crate::http::router::Route;
use crate::refusal::Refusal;

use super::api_keys::Key;
use super::headers::{BodyType, Credential, upward};
use super::loop_detection::HOP;

/// The headers for the upstream.
///
/// # Errors
/// `Internal` if the configured key cannot be a header.
pub(crate) fn upstream_headers(
    context: &Context,
    request: &AdmittedRequest,
) -> Result<HeaderMap, Refusal> {
    let mut secrets = own_keys(&request.settings);
    // The control token stays secret also where it came in the wrong header.
    secrets.push(Key {
        name: "control".to_owned(),
        sha256: context.token.sha256(),
    });
    let configured = match &request.settings.upstream.api_key {
        Some(key) => Some(
            HeaderValue::try_from(format!("Bearer {}", key.expose()))
                .map_err(|_| Refusal::Internal)?,
        ),
        None => None,
    };
    let credential = match &configured {
        Some(value) => Credential::Configured(value),
        None => Credential::Clients,
    };
    let body_type = match request.routed.route {
        Route::Chat => BodyType::Json,
        Route::Root | Route::Passthrough { .. } | Route::Own(_) | Route::Options { .. } => {
            BodyType::AsSent
        }
    };
    let client = &request.parts.headers;
    let mut headers = upward(client, &secrets, credential, body_type);
    headers.insert(HOP, context.hop.onward(client));
    Ok(headers)
}
