//! CORS headers for a page with an allowed Origin, so that its browser lets it read the response.
//!
//! Exactly one `Access-Control-Allow-Origin`, never `*`, no credentials. The upstream's own CORS
//! headers never pass ([`super::headers`]).
//!
//! Not here: which Origins are allowed ([`super::origin_policy`]).

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::origin_policy::Visitor;

const REQUEST_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-allow-private-network");

/// Response headers a page may read.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "x-oneslot-request-id, x-oneslot-wait-ms, x-oneslot-window, x-oneslot-prompt-tokens, \
     x-oneslot-dropped-messages, x-oneslot-max-tokens, x-oneslot-code, x-should-retry, \
     x-request-id, retry-after",
);

/// Seconds a browser may remember a preflight. Short: the list of Origins is live.
const REMEMBERED: HeaderValue = HeaderValue::from_static("600");

/// Headers for every response, refusals and streams too.
pub fn response_headers(visitor: &Visitor) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(4);
    match visitor {
        Visitor::Page { origin } => {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            headers.insert(VARY, HeaderValue::from_static("Origin"));
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
        Visitor::Program | Visitor::SameOrigin => {}
    }
    headers
}

/// Whether an `OPTIONS` asks on behalf of a page.
pub fn is_preflight(headers: &HeaderMap, visitor: &Visitor) -> bool {
    matches!(visitor, Visitor::Page { .. }) && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Headers of the `204` for a preflight of a route with these methods.
///
/// The names a page asks to send are reflected if they are tokens: the list of upstream headers
/// alone decides which of them pass.
pub fn preflight_headers(
    visitor: &Visitor,
    methods: &'static str,
    request: &HeaderMap,
) -> HeaderMap {
    let mut headers = response_headers(visitor);
    if headers.is_empty() {
        return headers;
    }
    headers.insert(
        ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static(methods),
    );
    headers.insert(ACCESS_CONTROL_MAX_AGE, REMEMBERED);
    if request
        .get(REQUEST_PRIVATE_NETWORK)
        .is_some_and(|asked| asked == "true")
    {
        headers.insert(ALLOW_PRIVATE_NETWORK, HeaderValue::from_static("true"));
    }
    let names: Vec<&str> = request
        .get_all(ACCESS_CONTROL_REQUEST_HEADERS)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|name| *name != "*" && HeaderName::try_from(*name).is_ok())
        .collect();
    if !names.is_empty()
        && let Ok(names) = HeaderValue::try_from(names.join(", "))
    {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names);
    }
    headers
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn page(origin: &'static str) -> Visitor {
        Visitor::Page {
            origin: HeaderValue::from_static(origin),
        }
    }

    #[test]
    fn a_response_names_one_origin_and_what_may_be_read() {
        let headers = response_headers(&page("app://obsidian.md"));
        assert_eq!(headers[ACCESS_CONTROL_ALLOW_ORIGIN], "app://obsidian.md");
        assert_eq!(headers[VARY], "Origin");
        let exposed = headers[ACCESS_CONTROL_EXPOSE_HEADERS].to_str().unwrap();
        for name in [
            "x-oneslot-request-id",
            "x-oneslot-code",
            "x-request-id",
            "retry-after",
        ] {
            assert!(
                exposed.split(", ").any(|own| own == name),
                "{name} can be read"
            );
        }
        assert_eq!(headers.len(), 3, "nothing else is granted");
    }

    #[test]
    fn a_program_gets_no_cors_headers() {
        assert!(response_headers(&Visitor::Program).is_empty());
        assert!(response_headers(&Visitor::SameOrigin).is_empty());
        let request = HeaderMap::new();
        assert!(preflight_headers(&Visitor::Program, "POST", &request).is_empty());
    }

    #[test]
    fn a_preflight_reflects_the_names_of_an_sdk() {
        let mut request = HeaderMap::new();
        request.insert(
            ACCESS_CONTROL_REQUEST_METHOD,
            HeaderValue::from_static("POST"),
        );
        request.insert(
            ACCESS_CONTROL_REQUEST_HEADERS,
            HeaderValue::from_static(
                "authorization,content-type, x-stainless-os,x-stainless-timeout,bad name,*,,a\tb",
            ),
        );
        request.insert(
            "access-control-request-private-network",
            HeaderValue::from_static("true"),
        );
        assert!(is_preflight(&request, &page("http://localhost:3000")));
        assert!(
            !is_preflight(&request, &Visitor::Program),
            "a program has nothing to ask for"
        );
        let headers = preflight_headers(&page("http://localhost:3000"), "POST", &request);
        assert_eq!(
            headers[ACCESS_CONTROL_ALLOW_ORIGIN],
            "http://localhost:3000"
        );
        assert_eq!(headers[ACCESS_CONTROL_ALLOW_METHODS], "POST");
        assert_eq!(
            headers[ACCESS_CONTROL_ALLOW_HEADERS],
            "authorization, content-type, x-stainless-os, x-stainless-timeout",
            "names that are no tokens, and the wildcard, are left out"
        );
        assert!(!headers.contains_key("access-control-allow-credentials"));
        assert_eq!(headers[ALLOW_PRIVATE_NETWORK], "true", "granted when asked");
    }
}
