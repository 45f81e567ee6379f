//! Headers for the upstream and for the client, built from lists of what may pass.
//!
//! Everything that is not listed is dropped: hop-by-hop headers and what `Connection` names,
//! cookies, Origin and Referer, forwarding headers, `Accept-Encoding` (the end of a compressed
//! stream cannot be recognised), and downward `Set-Cookie`, `Server` and the upstream's CORS headers.
//!
//! Not here: `Host` and framing, which hyper writes, and our own `x-oneslot-*`.

use http::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, RETRY_AFTER, USER_AGENT,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::api_keys::{self, Key, X_API_KEY};
use super::origin_policy::is_json;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
/// Keeps a response from being embedded in another site's page.
pub const CORP: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Names of either direction that pass by their first letters.
const FAMILIES: [&str; 2] = ["anthropic-", "openai-"];

/// Which credential the upstream gets.
#[derive(Debug, Clone, Copy)]
pub enum Credential<'a> {
    /// The configured `upstream.api_key`, which replaces the client's.
    Configured(&'a HeaderValue),
    /// The client's own.
    Clients,
}

/// Which content type the upstream gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyType {
    /// It was read as JSON, whatever the client called it (`curl -d` calls it a form).
    Json,
    /// What the client said.
    AsSent,
}

/// Headers for the upstream, from a client's; without those in which one of the gateway's own
/// `secrets` stands.
pub fn upward(
    client: &HeaderMap,
    secrets: &[Key],
    credential: Credential<'_>,
    body_type: BodyType,
) -> HeaderMap {
    let named = named_by_connection(client);
    let is_ours = |name: &HeaderName| {
        let mut values = client.get_all(name).iter();
        values.any(|value| api_keys::is_own(value, secrets))
    };
    let mut headers = pass(client, |name| {
        let listed = if [CONTENT_TYPE, ACCEPT, USER_AGENT].contains(name) {
            // Hashing costs time, and their words are short; a key is not.
            !(client.get_all(name).iter().any(has_long_word) && is_ours(name))
        } else {
            (*name == X_REQUEST_ID || is_family(name)) && !is_ours(name)
        };
        listed && !named.contains(name)
    });
    if body_type == BodyType::Json && !headers.get(CONTENT_TYPE).is_some_and(is_json) {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    match credential {
        Credential::Configured(value) => {
            headers.insert(AUTHORIZATION, sensitive(value));
        }
        Credential::Clients => {
            for name in [AUTHORIZATION, X_API_KEY] {
                // One of several could be ours while another is judged: then none passes.
                let mut values = client.get_all(&name).iter();
                if let (Some(value), None) = (values.next(), values.next())
                    && !api_keys::is_own(value, secrets)
                    && !named.contains(&name)
                {
                    headers.insert(name, sensitive(value));
                }
            }
        }
    }
    headers
}

/// Whether a word of the value is as long as keys are.
fn has_long_word(value: &HeaderValue) -> bool {
    let words = value.as_bytes().split(|byte| b" ;,\"'=:()".contains(byte));
    words.map(<[u8]>::len).any(|length| length >= 16)
}

/// Headers for the client, from a response of the upstream with this status.
pub fn downward(status: StatusCode, upstream: &HeaderMap) -> HeaderMap {
    let named = named_by_connection(upstream);
    let failed = status.is_client_error() || status.is_server_error();
    let mut headers = pass(upstream, |name| {
        let listed = [CONTENT_TYPE, CACHE_CONTROL, X_REQUEST_ID, REQUEST_ID].contains(name)
            || (failed && *name == RETRY_AFTER);
        (listed || is_family(name)) && !named.contains(name)
    });
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CORP, HeaderValue::from_static("same-origin"));
    headers
}

/// Every header that passes; of a listed one its first value, since two could be read either way.
fn pass(from: &HeaderMap, passes: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(8);
    for name in from.keys().filter(|name| passes(name)) {
        let values = if is_family(name) { usize::MAX } else { 1 };
        for value in from.get_all(name).iter().take(values) {
            headers.append(name.clone(), value.clone());
        }
    }
    headers
}

/// What `Connection` names belongs to that connection alone.
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::try_from(name.trim()).ok())
        .collect()
}

fn is_family(name: &HeaderName) -> bool {
    FAMILIES
        .iter()
        .any(|family| name.as_str().starts_with(family))
}

/// A value that debug output does not show.
fn sensitive(value: &HeaderValue) -> HeaderValue {
    let mut value = value.clone();
    value.set_sensitive(true);
    value
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
