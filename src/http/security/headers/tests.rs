//! What passes up and down, and what stays behind.

use sha2::{Digest, Sha256};

use super::*;

fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, HeaderValue::try_from(*value).unwrap());
    }
    headers
}

fn own() -> Vec<Key> {
    vec![Key {
        name: "zed".to_owned(),
        sha256: Sha256::digest("own-key").into(),
    }]
}

fn names(headers: &HeaderMap) -> Vec<&str> {
    let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    names
}

#[test]
fn only_listed_headers_go_upward() {
    let client = headers(&[
        ("host", "localhost:11411"),
        ("content-type", "application/json"),
        ("content-length", "12"),
        ("transfer-encoding", "chunked"),
        ("accept", "text/event-stream"),
        ("accept-encoding", "gzip"),
        ("user-agent", "OpenAI/Python 1.51.0"),
        ("x-request-id", "r-1"),
        ("x-stainless-os", "Linux"),
        ("anthropic-version", "2023-06-01"),
        ("openai-organization", "o"),
        ("authorization", "Bearer sk-client"),
        ("connection", "x-secret, openai-beta"),
        ("x-secret", "1"),
        ("openai-beta", "1"),
        ("te", "trailers"),
        ("proxy-authorization", "Basic x"),
        ("keep-alive", "timeout=5"),
        ("cookie", "a=b"),
        ("origin", "app://obsidian.md"),
        ("referer", "http://localhost/"),
        ("forwarded", "for=1.2.3.4"),
        ("x-forwarded-for", "1.2.3.4"),
        ("expect", "100-continue"),
        ("x-http-method-override", "DELETE"),
    ]);
    let up = upward(&client, &own(), Credential::Clients, BodyType::AsSent);
    assert_eq!(
        names(&up),
        [
            "accept",
            "anthropic-version",
            "authorization",
            "content-type",
            "openai-organization",
            "user-agent",
            "x-request-id",
        ],
        "an allow-list, and nothing that Connection names"
    );
    assert_eq!(
        up[AUTHORIZATION], "Bearer sk-client",
        "the client's credential passes"
    );
}

#[test]
fn a_list_in_several_lines_stays_whole_and_a_type_given_twice_does_not() {
    let client = headers(&[
        ("anthropic-beta", "a"),
        ("anthropic-beta", "b"),
        ("content-type", "application/json"),
        ("content-type", "text/plain"),
    ]);
    let up = upward(&client, &[], Credential::Clients, BodyType::AsSent);
    assert_eq!(up.get_all("anthropic-beta").iter().count(), 2);
    assert_eq!(up.get_all(CONTENT_TYPE).iter().count(), 1);
}

#[test]
fn the_configured_key_replaces_the_clients() {
    let client = headers(&[
        ("authorization", "Bearer sk-client"),
        ("x-api-key", "sk-client"),
    ]);
    let configured = HeaderValue::from_static("Bearer sk-configured");
    let up = upward(
        &client,
        &[],
        Credential::Configured(&configured),
        BodyType::AsSent,
    );
    assert_eq!(names(&up), ["authorization"]);
    assert_eq!(up[AUTHORIZATION], "Bearer sk-configured");
    assert!(
        !format!("{up:?}").contains("sk-configured"),
        "no key in debug output"
    );
}

#[test]
fn a_key_of_the_gateway_never_leaves_it() {
    for (name, value) in [
        ("authorization", "Bearer own-key"),
        ("authorization", "bearer own-key"),
        ("authorization", "Basic own-key"),
        ("x-api-key", "own-key"),
        ("authorization", "Bearer \"own-key\""),
        ("authorization", "Token token=\"own-key\""),
        ("openai-organization", "own-key"),
        ("anthropic-beta", "a, own-key"),
        ("x-request-id", "own-key"),
    ] {
        let up = upward(
            &headers(&[(name, value)]),
            &own(),
            Credential::Clients,
            BodyType::AsSent,
        );
        assert!(up.is_empty(), "{name}: {value}");
    }
    let beside = headers(&[("authorization", "Bearer sk-up"), ("x-api-key", "own-key")]);
    let up = upward(&beside, &own(), Credential::Clients, BodyType::AsSent);
    assert_eq!(
        names(&up),
        ["authorization"],
        "the other service's key still passes"
    );
    let twice = headers(&[("x-api-key", "sk-up"), ("x-api-key", "own-key")]);
    assert!(
        upward(&twice, &own(), Credential::Clients, BodyType::AsSent).is_empty(),
        "one of two is ours"
    );
}

#[test]
fn only_listed_headers_go_downward() {
    let upstream = headers(&[
        ("content-type", "application/json"),
        ("content-length", "12"),
        ("transfer-encoding", "chunked"),
        ("connection", "close"),
        ("keep-alive", "timeout=5"),
        ("access-control-allow-origin", "*"),
        ("access-control-allow-origin", ""),
        ("access-control-allow-credentials", "true"),
        ("set-cookie", "a=b"),
        ("server", "x"),
        ("content-encoding", "gzip"),
        ("location", "http://evil.example/"),
        ("x-request-id", "u-1"),
        ("request-id", "u-2"),
        ("openai-processing-ms", "7"),
        ("retry-after", "7"),
        ("x-powered-by", "y"),
    ]);
    let down = downward(StatusCode::OK, &upstream);
    assert_eq!(
        names(&down),
        [
            "cache-control",
            "content-type",
            "cross-origin-resource-policy",
            "openai-processing-ms",
            "request-id",
            "x-content-type-options",
            "x-request-id",
        ]
    );
    assert_eq!(down[CACHE_CONTROL], "no-store", "responses are not kept");
    let failed = downward(StatusCode::TOO_MANY_REQUESTS, &upstream);
    assert_eq!(failed[RETRY_AFTER], "7", "advice belongs to an error");
}

#[test]
fn the_upstreams_own_cache_control_passes() {
    let upstream = headers(&[("cache-control", "no-cache")]);
    assert_eq!(
        downward(StatusCode::OK, &upstream)[CACHE_CONTROL],
        "no-cache"
    );
}

#[test]
fn a_chat_is_sent_as_json_whatever_the_client_called_it() {
    for sent in ["application/x-www-form-urlencoded", "text/plain"] {
        let client = headers(&[("content-type", sent)]);
        let up = upward(&client, &[], Credential::Clients, BodyType::Json);
        assert_eq!(up.get(CONTENT_TYPE).unwrap(), "application/json", "{sent}");
    }
    let none = upward(&HeaderMap::new(), &[], Credential::Clients, BodyType::Json);
    assert_eq!(none.get(CONTENT_TYPE).unwrap(), "application/json");
    let own = headers(&[("content-type", "application/json; charset=utf-8")]);
    let up = upward(&own, &[], Credential::Clients, BodyType::Json);
    assert_eq!(
        up.get(CONTENT_TYPE),
        own.get(CONTENT_TYPE),
        "its own words stay"
    );
}
