//! Errors in every shape that servers send, and whose fault they are.

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::refusal::UpstreamError;
use crate::upstream::{Fault5xx, Kind, error_of, fault_of, overflow};

fn read(status: u16, body: &str) -> UpstreamError {
    error_of(
        StatusCode::from_u16(status).unwrap(),
        &HeaderMap::new(),
        body.as_bytes(),
    )
}

#[test]
fn an_error_object_keeps_its_names_and_its_text() {
    let error = read(
        404,
        r#"{"error":{"message":"no such model","type":"invalid_request_error","param":"model","code":"model_not_found"}}"#,
    );
    assert_eq!(error.status, StatusCode::NOT_FOUND);
    assert_eq!(error.kind.as_deref(), Some("invalid_request_error"));
    assert_eq!(error.code.as_deref(), Some("model_not_found"));
    assert_eq!(error.param.as_deref(), Some("model"));
    assert_eq!(error.excerpt, "no such model");
    assert_eq!(error.retry_after, None);
}

#[test]
fn strings_text_pages_and_nothing_become_an_excerpt() {
    for (body, excerpt) in [
        (r#"{"error":"model 'x' not found"}"#, "model 'x' not found"),
        (r#""bare""#, "bare"),
        ("404 page not found\n", "404 page not found"),
        (r#"{"error":{},"message":"outside"}"#, "outside"),
        (r#"{"detail":"Not Found"}"#, "Not Found"),
        (r#"{"message":"lost","type":"x"}"#, "lost"),
        (
            r#"{"error":"{\"error\":{\"message\":\"inner\"}}"}"#,
            "inner",
        ),
        (
            "<!DOCTYPE html><html><head><title>502 Bad Gateway</title>",
            "an HTML page, \"502 Bad Gateway\"",
        ),
        ("<html><body>hi</body>", "an HTML page"),
        ("", ""),
        ("[1,2]", "[1,2]"),
        (r#"{"x":1}"#, r#"{"x":1}"#),
        (
            r#"{"detail":[{"loc":["body","messages",0],"msg":"Field required","type":"missing"}]}"#,
            "body.messages.0: Field required",
        ),
        (r#"{"detail":{"msg":"busy","type":"x"}}"#, "busy"),
        (r#"{"detail":{"error":"busy"}}"#, "busy"),
        (r#"{"detail":{"error":{"message":"busy"}}}"#, "busy"),
        (r#"{"errors":[{"message":"one"},"two"]}"#, "one; two"),
        (r#"{"error":["one"]}"#, "one"),
        (r#"{"code":500,"msg":"broken"}"#, "broken"),
        ("a\u{0}b\r\nc", "a b  c"),
    ] {
        let error = read(502, body);
        assert_eq!(error.excerpt, excerpt, "{body}");
        assert_eq!(error.length, body.len(), "the log keeps the length");
    }
}

#[test]
fn a_code_that_repeats_the_status_is_no_code() {
    assert_eq!(
        read(400, r#"{"error":{"code":400,"message":"m"}}"#).code,
        None
    );
    let other = read(400, r#"{"error":{"code":1210,"message":"m"}}"#);
    assert_eq!(other.code.as_deref(), Some("1210"), "another number is one");
    assert_eq!(
        read(400, r#"{"error":{"code":null,"message":"m"}}"#).code,
        None
    );
    assert_eq!(
        read(400, r#"{"error":{"code":"","type":"","message":"m"}}"#).code,
        None
    );
}

#[test]
fn long_texts_are_cut_between_characters() {
    let long = "é".repeat(500);
    let body = serde_json::json!({"error": {"message": long, "type": long, "code": long}});
    let error = read(500, &body.to_string());
    assert_eq!(error.excerpt.chars().count(), 200);
    assert_eq!(error.kind.unwrap().chars().count(), 64);
    assert_eq!(error.code.unwrap().chars().count(), 64);
}

#[test]
fn an_error_inside_a_stream_has_the_status_it_would_have_had() {
    for (body, status) in [
        (r#"{"error":{"code":400,"message":"m","type":"x"}}"#, 400),
        (r#"{"error":{"code":"503","message":"m"}}"#, 503),
        (
            r#"{"error":{"message":"m","type":"invalid_request_error"}}"#,
            400,
        ),
        (r#"{"error":{"message":"m"}}"#, 500),
        (r#"{"error":"plain string"}"#, 500),
        (r#"{"error":{"code":200,"message":"m"}}"#, 500),
        (r#"{"error":null}"#, 500),
    ] {
        assert_eq!(read(200, body).status.as_u16(), status, "{body}");
    }
}

#[test]
fn a_usable_retry_after_is_handed_on() {
    let mut headers = HeaderMap::new();
    for (sent, kept) in [
        ("7", Some(7)),
        (" 3 ", Some(3)),
        ("-1", None),
        ("soon", None),
    ] {
        headers.insert(RETRY_AFTER, HeaderValue::from_str(sent).unwrap());
        let error = error_of(StatusCode::SERVICE_UNAVAILABLE, &headers, b"");
        assert_eq!(error.retry_after, kept, "{sent}");
    }
}

#[test]
fn only_the_servers_own_faults_start_a_cooldown() {
    use Fault5xx::{Request, Server};
    use Kind::{LlamaCpp, LmStudio, Ollama, Plain};
    for (kind, status, body, fault) in [
        (
            LlamaCpp,
            500,
            r#"{"error":{"code":500,"message":"input is too large to process. increase the physical batch size","type":"server_error"}}"#,
            Request,
        ),
        (
            LlamaCpp,
            500,
            r#"{"error":{"code":500,"message":"the request exceeds the available context size","type":"server_error"}}"#,
            Request,
        ),
        (
            LlamaCpp,
            501,
            r#"{"error":{"message":"not supported","type":"not_supported_error"}}"#,
            Request,
        ),
        (
            LlamaCpp,
            503,
            r#"{"error":{"code":503,"message":"no slot available","type":"unavailable_error"}}"#,
            Request,
        ),
        (
            LlamaCpp,
            400,
            r#"{"error":{"message":"model 'x' not found","type":"invalid_request_error"}}"#,
            Request,
        ),
        (
            LlamaCpp,
            500,
            r#"{"error":{"code":500,"message":"Failed to parse grammar","type":"server_error"}}"#,
            Request,
        ),
        (
            LlamaCpp,
            500,
            r#"{"error":{"code":500,"message":"proxy error: Could not establish connection","type":"server_error"}}"#,
            Server,
        ),
        (LlamaCpp, 500, "", Server),
        (
            Ollama,
            500,
            r#"{"error":"model runner has unexpectedly stopped, this may be due to resource limitations or an internal error"}"#,
            Server,
        ),
        (
            Ollama,
            500,
            r#"{"error":{"message":"llama runner process has terminated: exit status 2: error loading model: unknown model architecture","type":"api_error"}}"#,
            Server,
        ),
        (
            Ollama,
            500,
            r#"{"error":"model requires more system memory (9.1 GiB) than is available (4.2 GiB)"}"#,
            Request,
        ),
        (
            Ollama,
            400,
            r#"{"error":"\"x\" does not support tools"}"#,
            Request,
        ),
        (Ollama, 500, r#"{"error":"something else"}"#, Server),
        (LmStudio, 500, r#"{"error":"grammar"}"#, Server),
        (Plain, 502, "<html>", Server),
        (Plain, 429, "", Request),
    ] {
        let seen = fault_of(
            Some(kind),
            StatusCode::from_u16(status).unwrap(),
            body.as_bytes(),
        );
        assert_eq!(seen, fault, "{kind} {status} {body}");
    }
}

#[test]
fn an_error_inside_a_stream_is_judged_by_what_it_says() {
    let too_long =
        br#"{"error":{"code":400,"message":"too long","type":"exceed_context_size_error"}}"#;
    assert_eq!(fault_of(None, StatusCode::OK, too_long), Fault5xx::Request);
    let broken = br#"{"error":"plain string"}"#;
    assert_eq!(fault_of(None, StatusCode::OK, broken), Fault5xx::Server);
}

proptest::proptest! {
    #[test]
    fn no_bytes_from_an_upstream_can_upset_the_reading(
        status in 200_u16..600,
        junk in proptest::collection::vec(proptest::num::u8::ANY, 0..200),
        text in "\\PC{0,40}",
        number in "[0-9]{0,30}",
    ) {
        let status = StatusCode::from_u16(status).unwrap();
        let quoted = serde_json::to_string(&format!(
            "{text} İ maximum context length is {number} tokens {number} in the messages {text}"
        ))
        .unwrap();
        for body in [
            junk,
            text.clone().into_bytes(),
            format!("<html>{text}<TITLE>{text}</title>").into_bytes(),
            format!(r#"{{"error":{{"message":{quoted},"code":{quoted}}}}}"#).into_bytes(),
            format!(r#"{{"error":{quoted}}}"#).into_bytes(),
        ] {
            let error = error_of(status, &HeaderMap::new(), &body);
            proptest::prop_assert!(error.excerpt.chars().count() <= 200);
            proptest::prop_assert!(!error.excerpt.contains(char::is_control));
            overflow(status, &body);
            fault_of(None, status, &body);
        }
    }
}
