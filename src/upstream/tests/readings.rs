//! Windows, slots and loads, read from servers of each kind.

use http::StatusCode;
use serde_json::{Value, json as value};

use super::server::{Answer, Asked, Server, json, json_with, missing};
use super::{LONG, SHORT, upstream};
use crate::refusal::Outage;
use crate::upstream::{BusySlots, Preload, PreloadError, WindowReading, WindowSource};

fn loaded(tokens: u64, source: WindowSource) -> WindowReading {
    WindowReading::Loaded { tokens, source }
}

fn llama_list(meta: &Value) -> Answer {
    json(value!({"object": "list", "data": [
        {"id": "smollm2", "owned_by": "llamacpp", "meta": meta}]}))
}

/// What one route answers.
type Route = fn() -> Answer;

async fn llama_cpp(props: Route, slots: Route, models: Route) -> Server {
    Server::start(move |asked| match asked.line.split('?').next().unwrap() {
        "GET /v1/models" => models(),
        "GET /props" => props(),
        "GET /slots" => slots(),
        _ => missing(),
    })
    .await
}

fn off() -> Answer {
    json_with(
        501,
        value!({"error": {"code": 501, "type": "not_supported_error"}}),
    )
}

#[tokio::test]
async fn llama_cpp_names_the_window_of_a_slot_in_several_places() {
    let new = || json(value!({"default_generation_settings": {"n_ctx": 2048}, "total_slots": 1}));
    let total = || json(value!({"default_generation_settings": {"n_ctx": 8192}, "total_slots": 4}));
    let quarter = || json(value!([{"id": 0, "n_ctx": 2048, "is_processing": false}]));
    let with_meta = || llama_list(&value!({"n_ctx": 2048, "n_ctx_train": 8192}));
    let without = || llama_list(&value!({"n_ctx_train": 8192}));
    let table: [(Route, Route, Route, WindowReading); 6] = [
        (new, off, without, loaded(2048, WindowSource::Props)),
        (off, off, with_meta, loaded(2048, WindowSource::Models)),
        (off, quarter, without, loaded(2048, WindowSource::Slots)),
        (off, off, without, WindowReading::Unknown),
        // Older builds: the total of all slots in /props, the share of one elsewhere.
        (total, quarter, without, loaded(2048, WindowSource::Slots)),
        (total, off, with_meta, loaded(2048, WindowSource::Models)),
    ];
    for (props, slots, models, window) in table {
        let server = llama_cpp(props, slots, models).await;
        assert_eq!(
            upstream(&server.root()).window(Some("smollm2")).await,
            window
        );
    }
}

#[tokio::test]
async fn several_slots_with_no_second_opinion_keep_the_figure_of_props() {
    let server = llama_cpp(
        || json(value!({"default_generation_settings": {"n_ctx": 8192}, "total_slots": 4})),
        off,
        || llama_list(&value!({"n_ctx_train": 8192})),
    )
    .await;
    let window = upstream(&server.root()).window(None).await;
    assert_eq!(window, loaded(8192, WindowSource::Props));
}

#[tokio::test]
async fn a_build_that_can_sleep_is_never_woken_by_a_look_at_its_window() {
    let server = llama_cpp(
        || {
            json(
                value!({"default_generation_settings": {"n_ctx": 2048}, "total_slots": 4,
                         "is_sleeping": true}),
            )
        },
        || json(value!([{"n_ctx": 1024}])),
        || llama_list(&value!({"n_ctx_train": 8192})),
    )
    .await;
    let upstream = upstream(&server.root());
    let window = upstream.window(Some("smollm2")).await;
    assert_eq!(window, loaded(2048, WindowSource::Props));
    upstream.probe(LONG).await;
    upstream.loaded_models().await;
    let lines = server.lines();
    assert!(
        lines.iter().all(|line| !line.contains("/slots")),
        "{lines:?}"
    );
}

fn router(asked: &Asked) -> Answer {
    match asked.line.as_str() {
        "GET /v1/models" => json(value!({"object": "list", "data": [
            {"id": "a", "owned_by": "llamacpp", "status": {"value": "loaded"}},
            {"id": "b", "owned_by": "llamacpp", "status": {"value": "unloaded"}}]})),
        "GET /props" => json(value!({"role": "router",
            "default_generation_settings": {"n_ctx": 0}})),
        "GET /props?model=a&autoload=false" => json(value!({
            "default_generation_settings": {"n_ctx": 4096}, "total_slots": 1})),
        _ => missing(),
    }
}

#[tokio::test]
async fn a_router_is_asked_about_a_model_without_loading_it() {
    let server = Server::start(router).await;
    let upstream = upstream(&server.root());
    assert_eq!(
        upstream.window(Some("a")).await,
        loaded(4096, WindowSource::Props)
    );
    assert_eq!(upstream.window(Some("b")).await, WindowReading::NotLoaded);
    assert_eq!(
        upstream.window(None).await,
        loaded(4096, WindowSource::Props)
    );
    assert_eq!(upstream.is_loaded(Some("b")).await, Some(false));
    let names: Vec<_> = upstream.loaded_models().await.unwrap();
    assert_eq!(names.len(), 1);
    for line in server.lines().iter().filter(|line| line.contains("model=")) {
        assert!(line.contains("autoload=false"), "{line} would load");
    }
}

async fn ollama(ps: Value) -> Server {
    Server::start(move |asked| match asked.line.as_str() {
        "GET /" => Answer::Full(200, "", "Ollama is running".into()),
        "GET /api/ps" => json(ps.clone()),
        "POST /api/generate" => json(value!({"done": true, "done_reason": "load"})),
        _ => missing(),
    })
    .await
}

#[tokio::test]
async fn ollama_tells_what_is_loaded_and_a_cloud_model_never_is() {
    let server = ollama(value!({"models": [
        {"name": "llama3.2:latest", "model": "llama3.2:latest", "context_length": 4096}]}))
    .await;
    let upstream = upstream(&server.root());
    assert_eq!(
        upstream.window(Some("llama3.2")).await,
        loaded(4096, WindowSource::OllamaPs)
    );
    assert_eq!(
        upstream.window(Some("qwen3")).await,
        WindowReading::NotLoaded
    );
    assert_eq!(
        upstream.window(Some("gpt-oss:120b-cloud")).await,
        WindowReading::Unknown,
        "it is not ours to load"
    );
    assert_eq!(upstream.is_loaded(Some("llama3.2")).await, Some(true));
    assert_eq!(upstream.is_loaded(Some("gpt-oss:120b-cloud")).await, None);
    assert!(
        server.lines().iter().all(|line| line.starts_with("GET ")),
        "reading keeps no model awake"
    );
}

#[tokio::test]
async fn a_preload_is_bounded_by_its_budget_and_tells_refusal_from_silence() {
    let request = Preload {
        model: "llama3.2",
        options: None,
        keep_alive: None,
    };
    let server = ollama(value!({"models": []})).await;
    let good = upstream(&server.root());
    assert_eq!(good.preload(request, LONG).await, Ok(()));
    assert_eq!(
        server.asked().last().unwrap().body,
        r#"{"model":"llama3.2"}"#
    );

    let cloud = Preload {
        model: "gpt-oss:120b-cloud",
        ..request
    };
    assert_eq!(
        good.preload(cloud, LONG).await,
        Err(PreloadError::Elsewhere)
    );

    let front = |rest: fn() -> Answer| {
        move |asked: &Asked| match asked.line.as_str() {
            "GET /" => Answer::Full(200, "", "Ollama is running".into()),
            "POST /api/generate" => rest(),
            _ => missing(),
        }
    };
    let slow = Server::start(front(|| Answer::Silence)).await;
    let error = upstream(&slow.root()).preload(request, SHORT).await;
    assert_eq!(error, Err(PreloadError::Budget(SHORT)));
    let late = Server::start(front(|| {
        json(value!({"error": "llama runner process has terminated"}))
    }))
    .await;
    let Err(PreloadError::Answer(error)) = upstream(&late.root()).preload(request, LONG).await
    else {
        panic!("an error in a 200 is an error");
    };
    assert_eq!(error.status, StatusCode::INTERNAL_SERVER_ERROR);
    let gone = Server::start(front(|| Answer::Raw(b""))).await;
    let error = upstream(&gone.root()).preload(request, LONG).await;
    assert_eq!(error, Err(PreloadError::Reach(Outage::Reset)));
    let other = llama_cpp(off, off, || llama_list(&value!({}))).await;
    let error = upstream(&other.root()).preload(request, LONG).await;
    assert_eq!(error, Err(PreloadError::NotOllama));
}

#[tokio::test]
async fn slots_show_work_and_hidden_slots_are_asked_for_once() {
    let server = llama_cpp(
        off,
        || json(value!([{"id": 0, "is_processing": true, "n_prompt_tokens_processed": 5}])),
        || llama_list(&value!({})),
    )
    .await;
    let open = upstream(&server.root());
    assert_eq!(open.busy_slots(None).await, BusySlots::Count(1));
    assert_eq!(open.activity(None).await.unwrap().busy, 1);

    let server = llama_cpp(off, off, || llama_list(&value!({}))).await;
    let hidden = upstream(&server.root());
    assert_eq!(hidden.busy_slots(None).await, BusySlots::NotShown);
    assert_eq!(hidden.busy_slots(None).await, BusySlots::NotShown);
    let asked = server
        .lines()
        .iter()
        .filter(|line| line.contains("/slots"))
        .count();
    assert_eq!(asked, 1);
}

#[tokio::test]
async fn a_server_on_this_machine_has_a_process() {
    let server = ollama(value!({"models": []})).await;
    let process = upstream(&server.root()).process().await.unwrap();
    assert_eq!(process.pid, std::process::id());
    assert_eq!(upstream("http://192.0.2.1:80").process().await, None);
}
