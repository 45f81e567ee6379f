//! Tests of the observation of answers.

use proptest::prelude::*;

use super::*;

const ROLE: &str = r#"data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"finish_reason":null,"delta":{"role":"assistant","content":null}}]}"#;
const HELLO: &str = r#"data: {"choices":[{"index":0,"finish_reason":null,"delta":{"content":"Hello 가🙂é"}}],"usage":null}"#;
const THINK: &str =
    r#"data: {"choices":[{"index":0,"finish_reason":null,"delta":{"reasoning_content":"hm"}}]}"#;
const STOP: &str = r#"data: {"choices":[{"index":0,"finish_reason":"stop","delta":{}}]}"#;
const USAGE: &str = r#"data: {"choices":[],"usage":{"prompt_tokens":31,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":7}},"timings":{"cache_n":7,"prompt_n":24,"prompt_ms":11.5,"predicted_n":2,"predicted_ms":40.25}}"#;
const DONE: &str = "data: [DONE]";
const OVERFLOW: &str = r#"data: {"error":{"code":400,"message":"too long","type":"exceed_context_size_error","n_prompt_tokens":4031,"n_ctx":2048}}"#;

fn stream(events: &[&str]) -> Vec<u8> {
    events
        .iter()
        .flat_map(|event| format!("{event}\n\n").into_bytes())
        .collect()
}

fn observe(bytes: &[u8]) -> (StreamEnd, Observed) {
    let mut observer = StreamObserver::default();
    observer.feed(bytes);
    (observer.end(), observer.observed().clone())
}

fn error_of(bytes: &[u8]) -> ReportedError {
    match observe(bytes).0 {
        StreamEnd::Error(error) => error,
        StreamEnd::Complete | StreamEnd::NoFinish => {
            panic!("no error seen in {}", String::from_utf8_lossy(bytes))
        }
    }
}

#[test]
fn a_complete_stream_tells_finish_usage_timings_and_chunks() {
    let (end, seen) = observe(&stream(&[ROLE, THINK, HELLO, HELLO, STOP, USAGE, DONE]));
    assert_eq!(end, StreamEnd::Complete, "finish and [DONE] were there");
    assert_eq!(seen.finish, Some(Finish::Stop), "the reason is kept");
    assert!(seen.done, "[DONE] was there");
    assert_eq!(
        seen.content_chunks, 3,
        "the role chunk and the finish chunk carry nothing"
    );
    assert!(seen.reasoning, "one of the chunks was reasoning");
    let usage = seen.usage.unwrap_or_default();
    assert_eq!(
        (
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.cached_tokens
        ),
        (Some(31), Some(2), Some(7)),
        "usage comes in a chunk without choices"
    );
    let timings = seen.timings.unwrap_or_default();
    assert_eq!(
        (timings.cache_n, timings.prompt_ms),
        (Some(7), Some(11.5)),
        "llama.cpp's timings come with it"
    );
}

#[test]
fn a_stream_that_ends_politely_but_early_is_not_complete() {
    assert_eq!(
        observe(&stream(&[ROLE, HELLO, HELLO])).0,
        StreamEnd::NoFinish,
        "nearly every client would take it for the whole answer"
    );
    let empty_delta =
        r#"data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":null}]}"#;
    assert_eq!(
        observe(&stream(&[ROLE, HELLO, empty_delta])).0,
        StreamEnd::NoFinish,
        "Ollama ends so after an error of its own"
    );
    assert_eq!(observe(b"").0, StreamEnd::NoFinish, "so is an empty one");
}

#[test]
fn a_finish_or_the_done_marker_alone_is_enough() {
    assert_eq!(
        observe(&stream(&[HELLO, STOP])).0,
        StreamEnd::Complete,
        "some servers never send [DONE]"
    );
    assert_eq!(
        observe(&stream(&[HELLO, DONE])).0,
        StreamEnd::Complete,
        "some never send a reason"
    );
    assert_eq!(
        observe(b"data: {\"choices\":[{\"finish_reason\" : \"length\"}]}").0,
        StreamEnd::Complete,
        "also without a last line end, and with spaces"
    );
}

#[test]
fn a_finish_cut_in_the_middle_is_no_finish() {
    let (end, _) = observe(b"data: {\"choices\":[{\"index\":0,\"finish_reason\":\"stop\",\"del");
    assert_eq!(end, StreamEnd::NoFinish, "half a chunk proves nothing");
}

#[test]
fn what_people_and_models_write_cannot_pass_for_a_marker() {
    let written = r#"{"finish_reason":"stop","error":{"message":"x"},"usage":{"prompt_tokens":1}} data: [DONE]\n\nevent: error [DONE]"#;
    let content = serde_json::json!({"choices":[{"index":0,"finish_reason":null,"delta":{"content":written}}]});
    let args = serde_json::json!({"choices":[{"index":0,"finish_reason":null,"delta":{"tool_calls":[{"function":{"arguments":written}}]}}]});
    let nested = r#"data: {"choices":[{"index":0,"finish_reason":null,"delta":{"content":"error"},"error":null,"logprobs":{"error":{"message":"x"},"finish_reason":"stop","usage":{"prompt_tokens":1}}}]}"#;
    let (end, seen) = observe(&stream(&[
        &format!("data: {content}"),
        &format!("data: {args}"),
        nested,
        ": data: [DONE]",
    ]));
    assert_eq!(end, StreamEnd::NoFinish, "only the right member counts");
    assert_eq!(
        (seen.usage, seen.error, seen.finish, seen.content_chunks),
        (None, None, None, 3),
        "nothing was read from text"
    );
}

#[test]
fn an_error_object_inside_a_stream_is_found_with_its_numbers() {
    let error = error_of(&stream(&[ROLE, OVERFLOW]));
    assert_eq!(
        error.status,
        Some(http::StatusCode::BAD_REQUEST),
        "llama.cpp's code is the status"
    );
    assert_eq!(
        error.kind.as_deref(),
        Some("exceed_context_size_error"),
        "its type"
    );
    assert_eq!(
        (error.prompt_tokens, error.window),
        (Some(4031), Some(2048)),
        "both numbers are there to be learnt from"
    );
    assert_eq!(
        error.to_upstream_error(http::StatusCode::OK).status,
        400,
        "so the caller is at fault"
    );
}

#[test]
fn errors_come_in_many_shapes_and_each_is_one() {
    for (said, message) in [
        (r#"data: {"error":"plain string"}"#, "plain string"),
        (r#"data: {"error":{"message":"m"}}"#, "m"),
        (r#"data: {"error":null}"#, ""),
        (r#"data: {"error":{}}"#, ""),
        (r#"data: {"error":""}"#, ""),
        (r#"data: {"error":true}"#, "true"),
        (r#"data: {"error":["a","b"]}"#, "a; b"),
        (
            r#"error: {"code":500,"message":"m","type":"server_error"}"#,
            "m",
        ),
        ("error: it broke", "it broke"),
        ("error:", ""),
        ("event: error\ndata: {\"error\":{\"message\":\"m\"}}", "m"),
        ("event: error\ndata: {\"message\":\"m\"}", "m"),
        ("event: error\ndata: it broke", "it broke"),
        ("event: error", ""),
        (r#"data: {"type":"error","error":{"message":"m"}}"#, "m"),
        (r#"data: {"object":"error","message":"m","code":400}"#, "m"),
        (
            r#"data: {"error":{"message":"m"},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}"#,
            "m",
        ),
        (
            r#"data: {"choices":[{"delta":{},"finish_reason":"error"}]}"#,
            "",
        ),
    ] {
        let error = error_of(&stream(&[HELLO, said]));
        assert_eq!(error.message, message, "as said by {said}");
    }
}

#[test]
fn an_error_stays_one_when_done_follows_and_an_empty_one_does_not() {
    assert!(
        matches!(observe(&stream(&[OVERFLOW, DONE])).0, StreamEnd::Error(_)),
        "some servers end every stream with [DONE]"
    );
    let empty =
        r#"data: {"error":null,"choices":[{"delta":{"content":"x"},"finish_reason":null}]}"#;
    assert_eq!(
        observe(&stream(&[empty, r#"data: {"error":null}"#, STOP, DONE])).0,
        StreamEnd::Complete,
        "a member that is always there and empty says nothing"
    );
    assert_eq!(
        observe(&stream(&[STOP, DONE, OVERFLOW])).0,
        StreamEnd::Complete,
        "no client reads behind [DONE]"
    );
}

#[test]
fn an_error_body_quoted_as_a_string_is_read_through() {
    let inner = r#"{"error":{"code":400,"message":"request (9 tokens) exceeds","type":"exceed_context_size_error","n_prompt_tokens":9,"n_ctx":8}}"#;
    let outer = serde_json::json!({"error": {"message": inner, "type": "api_error", "param": null, "code": null}});
    let error = ReportedError::read(outer.to_string().as_bytes());
    assert_eq!(
        (error.prompt_tokens, error.window),
        (Some(9), Some(8)),
        "Ollama wraps so"
    );
    assert_eq!(
        error.kind.as_deref(),
        Some("exceed_context_size_error"),
        "the innermost type is the most specific"
    );
}

#[test]
fn debug_output_of_an_error_has_none_of_its_text() {
    let error = ReportedError::read(
        br#"{"error":{"message":"CANARY","type":"a CANARY said","code":"see: CANARY","param":"CAN ARY"}}"#,
    );
    let shown = format!("{error:?}");
    assert!(!shown.contains("CAN"), "{shown}");
    let relayed = error.to_upstream_error(http::StatusCode::OK);
    assert_eq!(relayed.excerpt, "CANARY", "the client gets it");
}

#[test]
fn an_empty_finish_reason_counts_as_null() {
    let empty = r#"data: {"choices":[{"delta":{"content":"x"},"finish_reason":""}]}"#;
    let (end, seen) = observe(&stream(&[HELLO, empty]));
    assert_eq!((end, seen.finish), (StreamEnd::NoFinish, None));
}

#[test]
fn an_unterminated_last_event_still_gives_finish_and_usage() {
    let last = r#"data: {"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":3}}"#;
    for end in ["", "\n"] {
        let (verdict, seen) = observe(format!("{HELLO}\n\n{last}{end}").as_bytes());
        assert_eq!(verdict, StreamEnd::Complete);
        assert_eq!(seen.finish, Some(Finish::Stop));
        assert_eq!(seen.usage.and_then(|usage| usage.prompt_tokens), Some(3));
    }
}

#[test]
fn a_whole_answer_tells_the_same_as_a_stream() {
    let body = br#" {"choices":[{"finish_reason":"length","message":{"content":"hi","reasoning_content":"hm"}}],"usage":{"prompt_tokens":3,"completion_tokens":1},"usage":{"prompt_tokens":4,"completion_tokens":1}} "#;
    let (end, seen) = observe_whole(body);
    assert_eq!(end, WholeEnd::Complete, "it is whole");
    assert_eq!(seen.finish, Some(Finish::Length), "its reason");
    assert_eq!(
        seen.usage.and_then(|usage| usage.prompt_tokens),
        Some(4),
        "a member given twice is no reason to stop reading"
    );
    assert!(seen.reasoning, "its reasoning");
}

#[test]
fn a_success_status_with_an_error_inside_is_an_error() {
    for body in [
        r#"{"error":{"message":"m"}}"#,
        r#"{"error":"Unexpected endpoint or method. (POST /x)"}"#,
        r#"{"error":null}"#,
        r#"{"object":"error","message":"m"}"#,
    ] {
        assert!(
            matches!(observe_whole(body.as_bytes()).0, WholeEnd::Error(_)),
            "a client would take {body} for an answer"
        );
    }
    assert_eq!(
        observe_whole(br#"{"choices":[],"error":null}"#).0,
        WholeEnd::Complete,
        "an empty member beside an answer says nothing"
    );
}

#[test]
fn what_is_no_answer_is_garbled() {
    for (body, what) in [
        ("", Garbled::Empty),
        (" \r\n", Garbled::Empty),
        ("<!doctype html><p>hi", Garbled::Html),
        ("404 page not found", Garbled::NotJson),
        ("{\"choices\":[", Garbled::NotJson),
        ("true", Garbled::NotJson),
        ("[]", Garbled::NoAnswer),
        ("{}", Garbled::NoAnswer),
        ("[{\"choices\":[]}]", Garbled::NoAnswer),
        ("{\"choices\":null,\"id\":\"x\"}", Garbled::NoAnswer),
        ("{\"usage\":{}}", Garbled::NoAnswer),
    ] {
        assert_eq!(
            observe_whole(body.as_bytes()).0,
            WholeEnd::Garbled(what),
            "{body:?} is no answer"
        );
    }
}

#[test]
fn broken_utf8_in_a_string_does_not_hide_the_finish() {
    let mut bytes =
        b"data: {\"x\":\"\xff\",\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n".to_vec();
    bytes.extend_from_slice(b"\xff\xfe\n\n");
    assert_eq!(
        observe(&bytes).0,
        StreamEnd::Complete,
        "the bytes are the server's affair"
    );
}

#[test]
fn an_oversized_event_does_not_stop_observation() {
    let mut bytes = stream(&[HELLO]);
    bytes.extend_from_slice(b"data: {\"choices\":[{\"delta\":{\"content\":\"");
    bytes.resize(bytes.len() + 3_000_000, b'x');
    bytes.extend_from_slice(b"\"}}]}\n\n");
    bytes.extend(stream(&[STOP, DONE]));
    let (end, seen) = observe(&bytes);
    assert_eq!(end, StreamEnd::Complete, "what follows is read");
    assert_eq!(seen.finish, Some(Finish::Stop), "and its reason");
}

fn streams() -> impl Strategy<Value = Vec<u8>> {
    let event = prop_oneof![
        Just(ROLE.to_owned()),
        Just(HELLO.to_owned()),
        Just(THINK.to_owned()),
        Just(STOP.to_owned()),
        Just(USAGE.to_owned()),
        Just(OVERFLOW.to_owned()),
        Just(": ping".to_owned()),
        Just("event: error\ndata: \"x".to_owned()),
        Just("data: {\"error\":null}".to_owned()),
        Just("data: {\ndata: \"choices\":[{\"finish_reason\":\"length\"}]}".to_owned()),
        any::<String>().prop_map(|text| {
            let delta = serde_json::json!({"choices":[{"delta":{"content": text}}]});
            format!("data: {delta}")
        }),
    ];
    let end = prop_oneof![Just("\n\n"), Just("\r\n\r\n"), Just("\r\r")];
    let done = prop_oneof![Just(""), Just("data: [DONE]\n\n"), Just("data: {\"cho")];
    (proptest::collection::vec((event, end), 0..8), done).prop_map(|(events, done)| {
        let events: String = events.into_iter().map(|(event, end)| event + end).collect();
        (events + done).into_bytes()
    })
}

proptest! {
    #[test]
    fn any_cutting_of_the_same_bytes_is_observed_alike(
        bytes in streams(),
        cuts in proptest::collection::vec(any::<usize>(), 0..8),
    ) {
        let whole = observe(&bytes);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let mut cut = StreamObserver::default();
        for pair in cuts.windows(2) {
            cut.feed(&bytes[pair[0]..pair[1]]);
        }
        prop_assert_eq!((cut.end(), cut.observed().clone()), whole.clone(), "cut at random");
        let mut one = StreamObserver::default();
        for byte in bytes.chunks(1) {
            one.feed(byte);
        }
        prop_assert_eq!((one.end(), one.observed().clone()), whole, "one byte at a time");
    }

    #[test]
    fn no_text_in_a_delta_is_ever_taken_for_more(text in ".{0,60}(\"error\"|finish_reason|\\[DONE\\]|\"usage\":)?.{0,20}") {
        let chunk = serde_json::json!({"choices":[{"delta":{"content": text},"finish_reason":null}]});
        let (end, seen) = observe(format!("data: {chunk}\n\n").as_bytes());
        prop_assert_eq!(end, StreamEnd::NoFinish, "it is only text");
        prop_assert_eq!(seen.content_chunks, u64::from(!text.is_empty()), "and counted as such");
    }

    #[test]
    fn no_bytes_at_all_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = observe(&bytes);
        let _ = observe_whole(&bytes);
        let _ = ReportedError::read(&bytes);
    }
}
