//! "Too long" as each server says it.

use http::StatusCode;

use crate::upstream::{Overflow, overflow};

fn read(status: u16, body: &str) -> Option<Overflow> {
    overflow(StatusCode::from_u16(status).unwrap(), body.as_bytes())
}

fn numbers(prompt: u64, window: u64) -> Option<Overflow> {
    Some(Overflow {
        prompt: Some(prompt),
        window: Some(window),
        excess: None,
    })
}

#[test]
fn every_recorded_form_of_too_long_is_recognised_with_its_numbers() {
    let bare = Some(Overflow::default());
    let table = [
        // llama.cpp: as measured; an older code; older texts; inside a stream.
        (
            400,
            r#"{"error":{"code":400,"message":"request (4031 tokens) exceeds the available context size (2048 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":4031,"n_ctx":2048}}"#,
            numbers(4031, 2048),
        ),
        (
            500,
            r#"{"error":{"code":500,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"server_error"}}"#,
            bare,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"request (4031 tokens) exceeds the available context size (2048 tokens)","type":"invalid_request_error"}}"#,
            numbers(4031, 2048),
        ),
        (
            200,
            r#"{"error":{"code":400,"message":"too long","type":"exceed_context_size_error"}}"#,
            bare,
        ),
        // Ollama: the runner's JSON as a string, native and on /v1; its own sentences; cloud.
        (
            400,
            r#"{"error":"{\"error\":{\"code\":400,\"message\":\"request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it\",\"type\":\"exceed_context_size_error\",\"n_prompt_tokens\":9000,\"n_ctx\":4096}}"}"#,
            numbers(9000, 4096),
        ),
        (
            400,
            r#"{"error":{"message":"{\"error\":{\"code\":400,\"message\":\"x\",\"type\":\"exceed_context_size_error\",\"n_prompt_tokens\":9000,\"n_ctx\":4096}}","type":"invalid_request_error","param":null,"code":null}}"#,
            numbers(9000, 4096),
        ),
        (
            500,
            r#"{"error":"runner said: {\"error\":{\"type\":\"exceed_context_size_error\",\"message\":\"x\",\"n_prompt_tokens\":9,\"n_ctx\":8}}"}"#,
            numbers(9, 8),
        ),
        (
            400,
            r#"{"error":"the prompt is longer than the context length currently available to the model"}"#,
            bare,
        ),
        (
            400,
            r#"{"error":"the input length exceeds the context length"}"#,
            bare,
        ),
        (
            400,
            r#"{"error":"input length (5000 tokens) exceeds the model's maximum context length (4096 tokens)"}"#,
            numbers(5000, 4096),
        ),
        (
            400,
            r#"{"error":"prompt too long; exceeded max context length by 1234 tokens"}"#,
            Some(Overflow {
                excess: Some(1234),
                ..Overflow::default()
            }),
        ),
        // LM Studio: prose, also as a bare string, and MLX.
        (
            400,
            r#"{"error":"Trying to keep the first 5120 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."}"#,
            numbers(5120, 4096),
        ),
        (
            400,
            r#"{"error":{"message":"The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 5120>= n_ctx: 4096)."}}"#,
            numbers(5120, 4096),
        ),
        (400, r#"{"error":"Context size has been exceeded."}"#, bare),
        (
            200,
            r#"{"error":{"message":"Context size has been exceeded."},"message":"x"}"#,
            bare,
        ),
        // OpenAI, vLLM in two generations, llama-cpp-python, Anthropic.
        (
            400,
            r#"{"error":{"message":"This model's maximum context length is 4096 tokens. However, your messages resulted in 5001 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
            numbers(5001, 4096),
        ),
        (
            400,
            r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5100 tokens (5000 in the messages, 100 in the completion).","type":"BadRequestError","code":400}"#,
            numbers(5000, 4096),
        ),
        (
            400,
            r#"{"error":{"message":"This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens.","code":400}}"#,
            numbers(5000, 4096),
        ),
        (
            400,
            r#"{"error":{"message":"Requested tokens (5000) exceed context window of 4096","type":"invalid_request_error"}}"#,
            numbers(5000, 4096),
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210,000 tokens > 200000 maximum"}}"#,
            numbers(210_000, 200_000),
        ),
        // SGLang, TabbyAPI, TGI.
        (
            400,
            r#"{"message":"The input (5000 tokens) is longer than the model's context length (4096 tokens)."}"#,
            numbers(5000, 4096),
        ),
        (
            400,
            r#"{"detail":"Prompt length 5000 is greater than max_seq_len 4096"}"#,
            numbers(5000, 4096),
        ),
        (
            422,
            r#"{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 20 `max_new_tokens`"}"#,
            numbers(5000, 4096),
        ),
        (
            413,
            "maximum context length is 4096 tokens",
            Some(Overflow {
                window: Some(4096),
                ..Overflow::default()
            }),
        ),
    ];
    for (status, body, found) in table {
        assert_eq!(read(status, body), found, "{status} {body}");
    }
}

#[test]
fn other_errors_are_not_taken_for_too_long() {
    for (status, body) in [
        (
            400,
            r#"{"error":{"message":"'messages' is required","type":"invalid_request_error"}}"#,
        ),
        (404, r#"{"error":"maximum context length is 4096 tokens"}"#),
        (429, "maximum context length is 4096 tokens"),
        (
            413,
            "<html><title>413 Request Entity Too Large</title></html>",
        ),
        (
            500,
            r#"{"error":{"code":500,"message":"input is too large to process. increase the physical batch size","type":"server_error"}}"#,
        ),
        (
            500,
            r#"{"error":"failed to create context with context size 8192"}"#,
        ),
        (
            200,
            r#"{"choices":[{"delta":{"content":"maximum context length is 4096"}}]}"#,
        ),
        (200, "the prompt is too long"),
        (400, ""),
        (400, "null"),
        (400, r#"{"error":null}"#),
    ] {
        assert_eq!(read(status, body), None, "{status} {body}");
    }
}

#[test]
fn prompt_and_answer_together_too_long_keeps_the_prompts_own_number() {
    let body = r#"{"error":{"message":"'max_tokens' or 'max_completion_tokens' is too large: 5000. This model's maximum context length is 4096 tokens and your request has 100 input tokens (5000 > 4096 - 100)."}}"#;
    assert_eq!(read(400, body), numbers(100, 4096));
}

#[test]
fn numbers_that_no_machine_has_do_no_harm() {
    let huge = r#"{"error":"request (99999999999999999999999 tokens) exceeds the available context size (2048 tokens)"}"#;
    assert_eq!(
        read(400, huge),
        Some(Overflow::default()),
        "with one number gone the other has no known meaning"
    );
}
