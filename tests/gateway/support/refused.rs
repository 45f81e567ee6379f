//! What every refusal has in common, and the goldens of those whose text is fixed.

use std::path::PathBuf;

use serde_json::Value;

use super::client::{End, Response};

/// What a refusal says about trying again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Advice {
    /// `x-should-retry: true` and a Retry-After.
    Later,
    /// `x-should-retry: false`, no Retry-After.
    Never,
    /// `x-should-retry: false` with a Retry-After for people.
    NotByItself,
    /// Neither.
    AsStatusSays,
}

/// Checks status, code and advice, and everything that holds for any refusal; returns its error.
pub(crate) fn refused(response: &Response, status: u16, code: &str, advice: Advice) -> Value {
    let said = refused_head(response, status, code, advice);
    error_shape(&response.json(), &said)
}

/// The same on one of Ollama's own routes, whose clients read a string; returns it.
pub(crate) fn refused_natively(
    response: &Response,
    status: u16,
    code: &str,
    advice: Advice,
) -> String {
    let said = refused_head(response, status, code, advice);
    let body = response.json();
    let members = body.as_object().map_or(0, serde_json::Map::len);
    assert_eq!(members, 1, "an Ollama error has one member: {said}");
    let words = body["error"].as_str().unwrap_or_default();
    assert!(!words.is_empty(), "and it is a string: {said}");
    words.to_owned()
}

fn refused_head(response: &Response, status: u16, code: &str, advice: Advice) -> String {
    let said = format!("{:?} {}", response.head, response.text());
    assert_eq!(response.status(), status, "the status of {code}: {said}");
    assert_eq!(response.code(), Some(code), "x-oneslot-code: {said}");
    assert_eq!(
        response.end,
        End::Whole,
        "a refusal is a whole answer: {said}"
    );
    assert_eq!(
        response.head.get("content-type"),
        Some("application/json"),
        "a refusal is never HTML or a bare string: {said}"
    );
    let id = response
        .head
        .get("x-oneslot-request-id")
        .unwrap_or_default();
    assert!(!id.is_empty(), "every response has a request id: {said}");
    check_advice(response, advice, &said);
    said
}

fn check_advice(response: &Response, advice: Advice, said: &str) {
    let should = response.head.get("x-should-retry");
    let after = response.head.get("retry-after");
    if let Some(after) = after {
        let seconds: u64 = after.parse().expect("Retry-After is whole seconds");
        assert!(
            (1..=60).contains(&seconds),
            "Retry-After is 1 to 60: {said}"
        );
    }
    let found = match (should, after) {
        (Some("true"), Some(_)) => Advice::Later,
        (Some("false"), None) => Advice::Never,
        (Some("false"), Some(_)) => Advice::NotByItself,
        (None, None) => Advice::AsStatusSays,
        other => panic!("advice no client can follow: {other:?} in {said}"),
    };
    assert_eq!(found, advice, "retry advice: {said}");
}

/// `{"error":{"message","type","param","code"}}`, nothing more and nothing less.
pub(crate) fn error_shape(body: &Value, said: &str) -> Value {
    let members: Vec<&String> = body
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        members,
        ["error"],
        "the OpenAI error body has one member: {said}"
    );
    let error = &body["error"];
    let mut members: Vec<&str> = error
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect();
    members.sort_unstable();
    assert_eq!(
        members,
        ["code", "message", "param", "type"],
        "the error's members: {said}"
    );
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|message| !message.is_empty()),
        "an error says what happened: {said}"
    );
    assert!(error["type"].is_string(), "SDKs read error.type: {said}");
    error.clone()
}

/// Compares the body byte for byte with `golden/NAME.json`.
pub(crate) fn golden(response: &Response, name: &str) {
    golden_bytes(&response.body, &format!("{name}.json"));
}

/// Compares bytes with a golden file; a golden never writes itself.
pub(crate) fn golden_bytes(bytes: &[u8], file: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/gateway/golden")
        .join(file);
    let wanted = std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{} can be read: {error}", path.display()));
    // An editor may end a file with a line end; the wire has none.
    let wanted = wanted.strip_suffix(b"\n").unwrap_or(&wanted);
    let got = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    assert_eq!(
        String::from_utf8_lossy(got),
        String::from_utf8_lossy(wanted),
        "{file} is what goes over the wire, byte for byte"
    );
}

/// The error event at the end of a stream: its error, after checking that nothing follows it.
pub(crate) fn error_event(body: &[u8], code: &str) -> Value {
    let text = String::from_utf8_lossy(body).into_owned();
    let events = events(&text);
    let last = events
        .last()
        .unwrap_or_else(|| panic!("no event at all: {text}"));
    let data = last
        .strip_prefix("data: ")
        .unwrap_or_else(|| panic!("the last event is no data event: {text}"));
    let body: Value = serde_json::from_str(data)
        .unwrap_or_else(|error| panic!("the last event is not JSON ({error}): {text}"));
    let error = error_shape(&body, &text);
    assert_eq!(error["code"], code, "the in-stream code: {text}");
    assert!(
        !text.contains("[DONE]"),
        "no [DONE] after or before an error: {text}"
    );
    let errors = events
        .iter()
        .filter(|event| event.contains("\"error\":{"))
        .count();
    assert_eq!(errors, 1, "one failure, one event: {text}");
    assert!(text.ends_with("\n\n"), "the event is complete: {text}");
    error
}

/// The events of an SSE body, comments and empty blocks left out.
pub(crate) fn events(text: &str) -> Vec<String> {
    text.split("\n\n")
        .flat_map(|block| block.split('\n'))
        .map(str::trim_end)
        .filter(|line| !line.is_empty() && !line.starts_with(':'))
        .map(str::to_owned)
        .collect()
}

/// Checks a refusal in the shape that the clients of `path` read.
pub(crate) fn refused_on(path: &str, response: &Response, status: u16, code: &str, advice: Advice) {
    let native =
        path.starts_with("/api/") && !path.starts_with("/api/v0/") && !path.starts_with("/api/v1/");
    if native {
        refused_natively(response, status, code, advice);
    } else if path.starts_with("/v1/messages") {
        let said = refused_head(response, status, code, advice);
        assert_eq!(
            response.json()["type"],
            "error",
            "Anthropic's shape: {said}"
        );
    } else {
        refused(response, status, code, advice);
    }
}
