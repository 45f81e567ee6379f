//! The kinds of model server the scripted upstream can play, as far as a gateway can see them.
//!
//! Shapes and texts are those the real servers send. Tokens are counted by one rule for all:
//! whitespace-separated words of every text, eight for each message, and the words of the tools.

use serde_json::{Value, json};

use super::script::Script;
use super::upstream::Request;
use super::wire::response;

/// Which server it plays.
#[derive(Debug, Clone)]
pub(crate) enum Flavour {
    /// Lists a model, answers chats, knows nothing else.
    Plain,
    /// llama.cpp's own server with this window.
    LlamaCpp { window: u64 },
    /// Ollama: the window of the loaded model, if one is loaded, and the one a load gives.
    Ollama { loaded: Option<u64>, on_load: u64 },
    /// LM Studio, which loads on demand.
    LmStudio { loaded: Option<u64>, on_load: u64 },
}

impl Flavour {
    /// What this server says to a request nobody wrote a script for.
    pub(crate) fn answer(&mut self, request: &Request, busy: bool) -> Script {
        if request.method == "HEAD" {
            let mut get = request.clone();
            get.method = "GET".to_owned();
            return without_body(self.answer(&get, busy));
        }
        match self {
            Self::Plain => plain(request),
            Self::LlamaCpp { window } => llama_cpp(request, *window, busy),
            Self::Ollama { loaded, on_load } => ollama(request, loaded, *on_load),
            Self::LmStudio { loaded, on_load } => lm_studio(request, loaded, *on_load),
        }
    }
}

/// The answer to a HEAD request: the head alone, with the length the body would have.
fn without_body(mut script: Script) -> Script {
    if let Some(super::script::Step::Send(bytes)) = script.steps.first_mut()
        && let Some(end) = super::wire::find(bytes, b"\r\n\r\n")
    {
        bytes.truncate(end + 4);
    }
    script
}

/// Tokens of a chat, by the rule above.
pub(crate) fn tokens(body: &Value) -> u64 {
    let messages = body["messages"].as_array().into_iter().flatten();
    let spoken: u64 = messages
        .map(|message| 8 + text_tokens(&message["content"]))
        .sum();
    spoken + tools_tokens(&body["tools"])
}

fn text_tokens(content: &Value) -> u64 {
    match content {
        Value::String(text) => text.split_whitespace().count() as u64,
        Value::Array(parts) => parts.iter().map(|part| text_tokens(&part["text"])).sum(),
        _ => 0,
    }
}

fn tools_tokens(tools: &Value) -> u64 {
    if tools.is_null() {
        return 0;
    }
    tools.to_string().split([' ', ',', ':']).count() as u64
}

/// The usual answer to a chat: three words, streamed or not as it was asked.
pub(crate) fn chat(request: &Request) -> Script {
    if request.json()["stream"] == json!(true) {
        Script::streamed("one two three")
    } else {
        Script::answer("one two three")
    }
}

fn plain(request: &Request) -> Script {
    match (request.method.as_str(), request.path()) {
        ("GET", "/v1/models") => models(&json!({"id": "m", "object": "model", "owned_by": "me"})),
        ("POST", "/v1/chat/completions") => chat(request),
        _ => not_found(),
    }
}

fn models(model: &Value) -> Script {
    Script::json(200, &json!({"object": "list", "data": [model]}))
}

fn not_found() -> Script {
    Script::json(
        404,
        &json!({"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}}),
    )
}

fn llama_cpp(request: &Request, window: u64, busy: bool) -> Script {
    let script = match (request.method.as_str(), request.path()) {
        ("GET", "/health") => Script::json(200, &json!({"status": "ok"})),
        ("GET", "/v1/models" | "/models") => models(&json!({
            "id": "smollm2", "object": "model", "created": 1, "owned_by": "llamacpp",
            "meta": {"vocab_type": 2, "n_vocab": 49152, "n_ctx": window, "n_ctx_train": 8192,
                "n_embd": 576, "n_params": 134_515_008, "size": 91_721_088},
        })),
        ("GET", "/props") => Script::json(
            200,
            &json!({
                "default_generation_settings": {"id": 0, "n_ctx": window, "params": {}},
                "total_slots": 1, "model_path": "/models/smollm2.gguf",
                "build_info": "b7000-abcdef", "is_sleeping": false,
            }),
        ),
        ("GET", "/slots") => Script::json(
            200,
            &json!([{"id": 0, "n_ctx": window, "speculative": false, "is_processing": busy}]),
        ),
        ("POST", "/v1/chat/completions/input_tokens") => Script::json(
            200,
            &json!({"object": "response.input_tokens", "input_tokens": tokens(&request.json())}),
        ),
        ("POST", "/tokenize") => Script::json(200, &json!({"tokens": [1, 2, 3]})),
        ("POST", "/v1/chat/completions") => {
            let needed = tokens(&request.json());
            if needed > window {
                llama_overflow(needed, window)
            } else {
                chat(request)
            }
        }
        _ => not_found(),
    };
    with_llama_headers(script)
}

/// llama.cpp's refusal of a prompt that is too long, as measured.
pub(crate) fn llama_overflow(needed: u64, window: u64) -> Script {
    Script::json(
        400,
        &json!({"error": {
            "code": 400,
            "message": format!("request ({needed} tokens) exceeds the available context size ({window} tokens), try increasing it"),
            "type": "exceed_context_size_error",
            "n_prompt_tokens": needed,
            "n_ctx": window,
        }}),
    )
}

/// Every answer of llama.cpp's server closes, and carries an empty CORS header.
fn with_llama_headers(mut script: Script) -> Script {
    if let Some(super::script::Step::Send(bytes)) = script.steps.first_mut()
        && let Some(end) = super::wire::find(bytes, b"\r\n")
    {
        let extra = b"\r\nServer: llama.cpp\r\nConnection: close\r\nAccess-Control-Allow-Origin: ";
        bytes.splice(end..end, extra.iter().copied());
    }
    script
}

fn ollama(request: &Request, loaded: &mut Option<u64>, on_load: u64) -> Script {
    let body = request.json();
    match (request.method.as_str(), request.path()) {
        ("GET", "/") => Script::whole(200, "text/plain; charset=utf-8", b"Ollama is running"),
        ("GET", "/api/version") => Script::json(200, &json!({"version": "0.14.2"})),
        ("GET", "/v1/models") => models(&json!({
            "id": "llama3.2:latest", "object": "model", "created": 1, "owned_by": "library"})),
        ("GET", "/api/tags") => Script::json(200, &json!({"models": [ollama_model()]})),
        ("GET", "/api/ps") => Script::json(200, &json!({"models": ollama_loaded(*loaded)})),
        ("POST", "/api/show") => Script::json(
            200,
            &json!({"details": {"family": "llama"}, "capabilities": ["completion", "tools"],
                "model_info": {"general.architecture": "llama", "llama.context_length": 262_144}}),
        ),
        ("POST", "/api/generate") => {
            let unload = body["keep_alive"] == json!(0);
            *loaded = (!unload).then_some(loaded.unwrap_or(on_load));
            let reason = if unload { "unload" } else { "load" };
            Script::json(
                200,
                &json!({"model": body["model"], "created_at": "2026-01-01T00:00:00Z",
                    "response": "", "done": true, "done_reason": reason}),
            )
        }
        ("POST", "/v1/chat/completions") => {
            *loaded = Some(loaded.unwrap_or(on_load));
            chat(request)
        }
        _ => Script::whole(404, "text/plain", b"404 page not found"),
    }
}

fn ollama_model() -> Value {
    json!({"name": "llama3.2:latest", "model": "llama3.2:latest", "size": 2_019_393_189_u64,
        "modified_at": "2026-01-01T00:00:00Z", "digest": "a80c4f17acd5",
        "details": {"format": "gguf", "family": "llama", "parameter_size": "3.2B"}})
}

fn ollama_loaded(window: Option<u64>) -> Vec<Value> {
    window
        .map(|window| {
            let mut model = ollama_model();
            model["size_vram"] = json!(2_019_393_189_u64);
            model["expires_at"] = json!("2036-01-01T00:00:00Z");
            model["context_length"] = json!(window);
            model
        })
        .into_iter()
        .collect()
}

fn lm_studio(request: &Request, loaded: &mut Option<u64>, on_load: u64) -> Script {
    match (request.method.as_str(), request.path()) {
        ("GET", "/v1/models") => models(&json!({
            "id": "qwen2.5-7b", "object": "model", "owned_by": "organization_owner"})),
        ("GET", "/api/v1/models") => Script::json(
            200,
            &json!({"models": [{"type": "llm", "publisher": "qwen", "key": "qwen2.5-7b",
                "display_name": "Qwen2.5 7B", "max_context_length": 32_768,
                "loaded_instances": loaded.iter().map(|window| json!({"id": "qwen2.5-7b",
                    "config": {"context_length": window, "parallel": 4}})).collect::<Vec<_>>()}]}),
        ),
        ("GET", "/api/v0/models") => {
            let mut model = json!({"id": "qwen2.5-7b", "object": "model", "type": "llm",
                "publisher": "qwen", "state": "not-loaded", "max_context_length": 32_768});
            if let Some(window) = loaded {
                model["state"] = json!("loaded");
                model["loaded_context_length"] = json!(window);
            }
            models(&model)
        }
        ("POST", "/api/v1/models/unload") => {
            *loaded = None;
            Script::json(200, &json!({"instance_id": "qwen2.5-7b"}))
        }
        ("POST", "/v1/chat/completions") => {
            let window = *loaded.get_or_insert(on_load);
            let needed = tokens(&request.json());
            if needed > window {
                lm_studio_overflow(needed, window)
            } else {
                chat(request)
            }
        }
        (method, path) => Script::json(
            200,
            &json!({"error": format!("Unexpected endpoint or method. ({method} {path})")}),
        ),
    }
}

/// LM Studio's refusal of a prompt that is too long: prose, with the error as a bare string.
pub(crate) fn lm_studio_overflow(needed: u64, window: u64) -> Script {
    let text = format!(
        "Trying to keep the first {needed} tokens when context the overflows. However, the model is loaded with context length of only {window} tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input"
    );
    Script::new().send(&response(
        400,
        &[("content-type", "application/json; charset=utf-8")],
        json!({"error": text}).to_string().as_bytes(),
    ))
}
