//! The headers of a request on its way to the model server.
//!
//! Not here: the lists of what may pass ([`crate::admit::headers`]).

use http::{HeaderMap, HeaderValue};

use crate::admit::headers::{Credential, Spoken, upward};
use crate::admit::hop::HOP;
use crate::admit::keys::Key;
use crate::admit::route::Route;
use crate::refusal::Refusal;

use super::Gateway;
use super::service::{AdmittedRequest, own_keys};

/// The headers that go to the upstream.
pub(super) fn upward_headers(
    gateway: &Gateway,
    passed: &AdmittedRequest,
) -> Result<HeaderMap, Refusal> {
    let mut secrets = own_keys(&passed.settings);
    // The token of this run is no less a secret for having come in the wrong header.
    secrets.push(Key {
        name: "control".to_owned(),
        sha256: gateway.token.sha256(),
    });
    let configured = match &passed.settings.upstream.api_key {
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
    let spoken = match passed.routed.route {
        Route::Chat => Spoken::Json,
        Route::Root | Route::Beside { .. } | Route::Own(_) | Route::Options { .. } => {
            Spoken::AsSent
        }
    };
    let client = &passed.parts.headers;
    let mut headers = upward(client, &secrets, credential, spoken);
    headers.insert(HOP, gateway.hop.onward(client));
    Ok(headers)
}
