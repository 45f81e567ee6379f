//! The window: chats that fit go as they are, others are cut by a rule one can explain.

use serde_json::{Value, json};

use crate::support::chat;
use crate::support::client::Response;
use crate::support::flavour::{Flavour, tokens};
use crate::support::gateway::{Gateway, Setup};
use crate::support::held::hold;
use crate::support::refused::{Advice, refused};
use crate::support::script::{DONE, Gate, Script, completion, finish};
use crate::support::upstream::Upstream;
use crate::support::wire::{find, json_response};

fn llama(window: u64) -> Upstream {
    Upstream::start(Flavour::LlamaCpp { window })
}

fn dropped(answer: &Response) -> u64 {
    answer
        .head
        .get("x-oneslot-dropped-messages")
        .map_or(0, |count| count.parse().expect("a number of messages"))
}

/// What the upstream got last, after checking the shape of what was kept.
fn kept(upstream: &Upstream, sent: &Value) -> Value {
    let kept = upstream.chat_bodies().pop().expect("a chat was sent");
    let (all, left) = (
        sent["messages"].as_array().unwrap(),
        kept["messages"].as_array().unwrap(),
    );
    let mut rest = all.iter();
    for message in left {
        assert!(
            rest.any(|original| original == message),
            "kept messages keep order and bytes: {message}"
        );
    }
    let is_system = |message: &Value| message["role"] == "system" || message["role"] == "developer";
    let systems = |messages: &[Value]| messages.iter().filter(|m| is_system(m)).count();
    assert_eq!(systems(all), systems(left), "every system message is there");
    let first = left
        .iter()
        .find(|message| !is_system(message))
        .expect("something was asked");
    assert_eq!(first["role"], "user", "the first other message is a user's");
    assert_eq!(left.last(), all.last(), "the last message is there");
    kept
}

fn post(gateway: &Gateway, body: &[u8]) -> Response {
    gateway.exchange(&gateway.request("POST", "/v1/chat/completions", body))
}

// What fits.

#[test]
fn a_chat_that_fits_is_forwarded_byte_for_byte() {
    for upstream in [Upstream::plain(), llama(4096)] {
        let mut gateway = Setup::before(&upstream).start();
        let odd = br#"{ "stream" : false,
            "temperature": 1.0, "seed": 12345678901234567890123, "top_p":1e0,
            "chat_template_kwargs":{"enable_thinking":false}, "keep_alive": null,
            "options":{"num_ctx":8192}, "x":1, "x":2, "stop":["\u0041"],
            "messages":[{"content":"h\u00e9llo","role":"user","name":"n"}],"model":"m" , "n":1}"#;
        let answer = post(&gateway, odd);
        assert_eq!(answer.status(), 200, "{}", answer.text());
        let seen = upstream.chats().pop().unwrap().request.body;
        assert_eq!(String::from_utf8_lossy(&seen), String::from_utf8_lossy(odd));
        assert_eq!(dropped(&answer), 0);
        gateway.stands(&upstream);
    }
}

#[test]
fn a_chunked_upload_is_forwarded_with_the_same_body() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let body = chat::whole("in three pieces").to_string();
    let host = gateway.address().to_string();
    let mut bytes = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    .into_bytes();
    for piece in body.as_bytes().chunks(20) {
        bytes.extend(crate::support::wire::chunk(piece));
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    assert_eq!(gateway.exchange(&bytes).status(), 200);
    assert_eq!(upstream.chats()[0].request.body, body.as_bytes());
    gateway.stands(&upstream);
}

#[test]
fn characters_that_exceed_the_window_do_not_matter_when_the_tokens_fit() {
    let upstream = llama(1000);
    let mut gateway = Setup::before(&upstream).start();
    let mut messages = chat::history(5, 50);
    messages.push(chat::message("assistant", "The last word."));
    messages.push(chat::message("user", &chat::words("extraordinarily", 60)));
    let body = chat::of(&messages);
    assert!(body.to_string().len() > 2000 && tokens(&body) < 700);
    let answer = gateway.chat(&body);
    assert_eq!(answer.status(), 200);
    assert_eq!(upstream.chats().len(), 1, "at the first try");
    assert_eq!(
        upstream.chats()[0].request.body,
        body.to_string().as_bytes(),
        "and whole"
    );
    assert_eq!(
        answer.head.get("x-oneslot-prompt-tokens"),
        Some(tokens(&body).to_string().as_str())
    );
    assert_eq!(answer.head.get("x-oneslot-window"), Some("1000"));
    gateway.stands(&upstream);
}

// What does not.

#[test]
fn an_over_long_chat_is_cut_and_says_so() {
    for stream in [false, true] {
        let upstream = llama(1000);
        let mut gateway = Setup::before(&upstream).start();
        let mut body = chat::of(&chat::history(40, 20));
        body["stream"] = json!(stream);
        assert!(tokens(&body) > 2000);
        let answer = gateway.chat(&body);
        assert_eq!(answer.status(), 200, "{}", answer.text());
        assert_eq!(
            upstream.chats().len(),
            1,
            "no overflow was needed to find out"
        );
        let kept = kept(&upstream, &body);
        // Reserve is a quarter of the window; 32 are kept free.
        assert!(
            tokens(&kept) <= 1000 - 250 - 32,
            "within the budget: {}",
            tokens(&kept)
        );
        let gone =
            body["messages"].as_array().unwrap().len() - kept["messages"].as_array().unwrap().len();
        assert!(gone > 0);
        assert_eq!(dropped(&answer), gone as u64, "what was dropped is said");
        let record = gateway.until_record("done");
        assert_eq!(record["dropped"], gone as u64, "and recorded: {record}");
        assert!(record["prompt_before"].as_u64() > record["prompt_after"].as_u64());
        assert_eq!(record["budget"], 1000 - 250 - 32);
        gateway.stands(&upstream);
    }
}

#[test]
fn a_growing_chat_never_overflows_and_its_cut_stays_put() {
    let upstream = llama(1000);
    let mut gateway = Setup::before(&upstream).start();
    let mut messages = vec![chat::message("system", "Short answers.")];
    let mut starts = Vec::new();
    for turn in 0..60 {
        messages.push(chat::message("user", &chat::words(&format!("q{turn}"), 15)));
        let body = chat::of(&messages);
        let answer = gateway.chat(&body);
        assert_eq!(answer.status(), 200, "turn {turn}: {}", answer.text());
        let kept = kept(&upstream, &body);
        assert!(tokens(&kept) <= 1000 - 32, "turn {turn}");
        starts.push(kept["messages"][1].clone());
        messages.push(chat::message(
            "assistant",
            &chat::words(&format!("a{turn}"), 15),
        ));
    }
    let moves = starts.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(moves > 0, "it had to be cut at some time");
    assert!(
        moves <= 20,
        "coarse steps keep the server's cache: {moves} cuts in 60 turns"
    );
    assert_eq!(upstream.chats().len(), 60, "no try was wasted");
    gateway.stands(&upstream);
}

#[test]
fn an_impossible_prompt_is_refused_at_once_also_while_the_slot_is_busy() {
    let upstream = llama(1000);
    let mut gateway = Setup::before(&upstream).start();
    assert_eq!(
        gateway
            .chat(&chat::whole("so that the window is known"))
            .status(),
        200
    );
    let held = hold(&gateway, &upstream);
    let answer = gateway.chat(&chat::whole(&chat::words("w", 3000)));
    let error = refused(&answer, 400, "CONTEXT_OVERFLOW", Advice::Never);
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("3008") && message.contains("1000"),
        "both numbers: {message}"
    );
    assert_eq!(
        gateway.status()["queue"]["running"],
        1,
        "the long answer still runs"
    );
    held.release();
    assert_eq!(upstream.chats().len(), 2);
    gateway.stands(&upstream);
}

#[test]
fn a_cut_changes_only_the_messages() {
    let upstream = llama(1000);
    let mut gateway = Setup::before(&upstream).start();
    let messages: Vec<String> = chat::history(40, 20)
        .iter()
        .map(ToString::to_string)
        .collect();
    let body = format!(
        r#"{{"zeta":{{"b":1.0,"a":null}}, "temperature":1.0,"seed":12345678901234567890123,"messages":[{}],"model":"m", "stop":null,"logit_bias":{{"50256":-100}}}}"#,
        messages.join(", ")
    );
    let answer = post(&gateway, body.as_bytes());
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert!(dropped(&answer) > 0);
    let seen = upstream.chats().pop().unwrap().request;
    let text = String::from_utf8_lossy(&seen.body).into_owned();
    assert!(text.starts_with(r#"{"zeta":{"b":1.0,"a":null}, "temperature":1.0,"seed":12345678901234567890123,"messages":["#), "{}", &text[..120]);
    assert!(text.ends_with(r#"],"model":"m", "stop":null,"logit_bias":{"50256":-100}}"#));
    assert_eq!(
        seen.head.get("content-length"),
        Some(seen.body.len().to_string().as_str()),
        "the length is the new body's"
    );
    gateway.stands(&upstream);
}

#[test]
fn trim_off_refuses_what_does_not_fit_and_cuts_nothing() {
    let upstream = llama(1000);
    let mut gateway = Setup::before(&upstream)
        .config("window.trim = \"off\"")
        .start();
    let answer = gateway.chat(&chat::of(&chat::history(40, 20)));
    assert_eq!(answer.status(), 400, "{}", answer.text());
    assert_eq!(answer.code(), Some("CONTEXT_OVERFLOW"));
    gateway.stands(&upstream);
}

#[test]
fn minimal_cuts_the_least() {
    let upstream = llama(1000);
    let mut gateway = Setup::before(&upstream)
        .config("window.trim = \"minimal\"")
        .start();
    let body = chat::of(&chat::history(40, 20));
    assert_eq!(gateway.chat(&body).status(), 200);
    let kept = kept(&upstream, &body);
    let budget = 1000 - 250 - 32;
    let exchange = 2 * 28;
    assert!(
        tokens(&kept) <= budget && tokens(&kept) > budget - exchange,
        "{}",
        tokens(&kept)
    );
    gateway.stands(&upstream);
}

#[test]
fn a_window_in_the_configuration_wins() {
    let upstream = llama(100_000);
    let mut gateway = Setup::before(&upstream)
        .config("window.context = 1000")
        .start();
    let body = chat::of(&chat::history(40, 20));
    let answer = gateway.chat(&body);
    assert_eq!(answer.head.get("x-oneslot-window"), Some("1000"));
    assert!(dropped(&answer) > 0);
    assert_eq!(gateway.status()["window"]["size"], 1000);
    gateway.stands(&upstream);
}

// Tool calls.

fn call(ids: &[&str]) -> Value {
    let calls: Vec<Value> = ids
        .iter()
        .map(|id| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}))
        .collect();
    json!({"role": "assistant", "content": null, "tool_calls": calls})
}

fn result(id: &str, size: usize) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": chat::words(id, size)})
}

/// Every result has its call before it and every call all its results.
fn paired(body: &Value) {
    let messages = body["messages"].as_array().unwrap();
    let mut open: Vec<String> = Vec::new();
    for message in messages {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap();
            let at = open.iter().position(|call| call == id);
            assert!(at.is_some(), "a result without its call: {body}");
            open.remove(at.unwrap());
            continue;
        }
        assert!(open.is_empty(), "a call without its results: {body}");
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            open.push(call["id"].as_str().unwrap().to_owned());
        }
    }
    assert!(open.is_empty(), "a call without its results: {body}");
}

#[test]
fn a_history_that_ends_in_a_tool_result_keeps_its_question_and_its_last_pair() {
    let upstream = llama(600);
    let mut gateway = Setup::before(&upstream).start();
    let body = chat::of(&[
        chat::message("system", "Use tools."),
        chat::message("user", &chat::words("question", 100)),
        call(&["c1"]),
        result("c1", 300),
        call(&["c2"]),
        result("c2", 20),
    ]);
    let answer = gateway.chat(&body);
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let sent = upstream.chat_bodies().pop().unwrap();
    paired(&sent);
    let roles: Vec<&str> = sent["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(
        roles,
        ["system", "user", "assistant", "tool"],
        "the old pair goes together"
    );
    assert_eq!(sent["messages"][3]["tool_call_id"], "c2");
    gateway.stands(&upstream);
}

#[test]
fn parallel_calls_and_their_results_stay_together_at_every_cut() {
    let body = chat::of(&[
        chat::message("system", "Use tools."),
        chat::message("user", &chat::words("first", 60)),
        call(&["c1", "c2"]),
        result("c1", 60),
        result("c2", 60),
        chat::message("assistant", &chat::words("reply", 60)),
        chat::message("user", &chat::words("second", 60)),
        call(&["c3", "c4"]),
        result("c3", 30),
        result("c4", 30),
        chat::message("user", "And now?"),
    ]);
    for window in (200..700).step_by(50) {
        let upstream = llama(window);
        let mut gateway = Setup::before(&upstream).start();
        let answer = gateway.chat(&body);
        if answer.status() == 200 {
            let sent = kept(&upstream, &body);
            paired(&sent);
            assert!(tokens(&sent) <= window, "window {window}");
        } else {
            refused(&answer, 400, "CONTEXT_OVERFLOW", Advice::Never);
        }
        gateway.stands(&upstream);
    }
}

#[test]
fn tool_schemas_count_and_are_never_cut() {
    let tools: Vec<Value> = (0..20)
        .map(|at| {
            json!({"type": "function", "function": {"name": format!("tool{at}"),
                "description": chat::words("word", 20),
                "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}})
        })
        .collect();
    let upstream = llama(2000);
    let mut gateway = Setup::before(&upstream).start();
    let mut body = chat::of(&chat::history(20, 25));
    body["tools"] = json!(tools);
    let answer = gateway.chat(&body);
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert_eq!(
        upstream.chats().len(),
        1,
        "counted before, not learned from an overflow"
    );
    let sent = kept(&upstream, &body);
    assert_eq!(sent["tools"], body["tools"]);
    assert!(tokens(&sent) + 32 <= 2000);
    gateway.stands(&upstream);

    let upstream = llama(300);
    let mut gateway = Setup::before(&upstream).start();
    body["messages"] = json!([chat::message("user", "hello")]);
    let answer = gateway.chat(&body);
    refused(&answer, 400, "CONTEXT_OVERFLOW", Advice::Never);
    gateway.stands(&upstream);
}

#[test]
fn odd_contents_are_counted_somehow_and_break_nothing() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("window.context = 4096")
        .start();
    for content in [
        json!(null),
        json!(17),
        json!({"nested": {"object": []}}),
        json!([]),
        json!(["bare string"]),
        json!([{"type": "unheard_of", "x": 1}]),
        json!([{"type": "text"}]),
        json!([{"type": "text", "text": 5}]),
        json!([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]),
    ] {
        let body = json!({"model": "m", "messages": [
            {"role": "user", "content": content}, {"role": "user"},
            {"role": "user", "content": "and?"}]});
        let answer = gateway.chat(&body);
        assert!(
            matches!(answer.status(), 200 | 400),
            "{content}: {}",
            answer.text()
        );
        if answer.status() == 400 {
            assert_eq!(answer.code(), Some("BAD_REQUEST"));
        }
    }
    gateway.stands(&upstream);
}

#[test]
fn an_attachment_is_never_counted_by_the_length_of_its_base64() {
    let data = "A".repeat(1024 * 1024);
    for part in [
        json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{data}")}}),
        json!({"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}),
        json!({"type": "file", "file": {"file_data": format!("data:application/pdf;base64,{data}")}}),
        json!({"type": "input_image", "image_url": format!("data:image/png;base64,{data}")}),
    ] {
        let upstream = Upstream::plain();
        let mut gateway = Setup::before(&upstream)
            .config("window.context = 4096")
            .start();
        let kind = part["type"].clone();
        let body = json!({"model": "m", "messages": [
            chat::message("user", "an old question"), chat::message("assistant", "an old answer"),
            {"role": "user", "content": [{"type": "text", "text": "What is this?"}, part]}]});
        let answer = gateway.chat(&body);
        assert_eq!(answer.status(), 200, "{kind}: {}", answer.text());
        assert_eq!(dropped(&answer), 0, "{kind}: the history stays");
        assert_eq!(
            upstream.chats()[0].request.body,
            body.to_string().as_bytes()
        );
        gateway.stands(&upstream);
    }
}

#[test]
fn text_in_parts_is_summed() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("window.context = 4096")
        .start();
    let long = "x".repeat(20_000);
    let body = json!({"model": "m", "messages": [
        {"role": "user", "content": [{"type": "text", "text": long},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
        chat::message("assistant", "ok"), chat::message("user", "short")]});
    let answer = gateway.chat(&body);
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert_eq!(
        dropped(&answer),
        2,
        "20,000 characters do not fit in 4,096 tokens"
    );
    gateway.stands(&upstream);
}

// Each kind of server.

#[test]
fn an_ollama_with_nothing_loaded_is_loaded_first_and_served_whole() {
    let upstream = Upstream::start(Flavour::Ollama {
        loaded: None,
        on_load: 32_768,
    });
    let mut gateway = Setup::before(&upstream).start();
    let mut body = chat::of(&chat::history(20, 300));
    body["model"] = json!("llama3.2");
    assert!(tokens(&body) > 12_000);
    let answer = gateway.chat(&body);
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert_eq!(upstream.chats().len(), 1, "at the first try");
    assert_eq!(
        upstream.chat_bodies()[0]["messages"],
        body["messages"],
        "and whole"
    );
    assert_eq!(dropped(&answer), 0);
    assert_eq!(
        answer.head.get("x-oneslot-window"),
        Some("32768"),
        "the loaded one, not the model's own 262144"
    );
    let load = upstream.look(|state| {
        state
            .log
            .iter()
            .find(|seen| seen.request.path() == "/api/generate")
            .map(|seen| seen.request.json())
    });
    let load = load.expect("Ollama cuts silently, so the model is loaded first");
    assert_eq!(load["model"], "llama3.2");
    let extra: Vec<&String> = load
        .as_object()
        .unwrap()
        .keys()
        .filter(|name| {
            !["model", "stream", "keep_alive", "options", "prompt"].contains(&name.as_str())
        })
        .collect();
    assert!(extra.is_empty(), "the model alone: {load}");
    assert!(
        load["options"].is_null(),
        "no private context field is ever added: {load}"
    );
    gateway.stands(&upstream);
}

#[test]
fn an_ollama_with_a_small_loaded_window_is_trimmed_for() {
    let upstream = Upstream::start(Flavour::Ollama {
        loaded: Some(4096),
        on_load: 4096,
    });
    let mut gateway = Setup::before(&upstream).start();
    let mut body = chat::of(&chat::history(20, 150));
    body["model"] = json!("llama3.2");
    let answer = gateway.chat(&body);
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert!(dropped(&answer) > 0, "Ollama would have cut it silently");
    let sent = kept(&upstream, &body);
    assert!(tokens(&sent) < 4096);
    assert!(
        sent["options"].is_null() && sent["num_ctx"].is_null(),
        "never a private field: {sent}"
    );
    assert_eq!(gateway.status()["window"]["size"], 4096);
    assert_eq!(gateway.status()["window"]["source"], "loaded");
    gateway.stands(&upstream);
}

#[test]
fn a_server_that_cut_silently_is_found_out() {
    let upstream = Upstream::start(Flavour::Ollama {
        loaded: Some(32_768),
        on_load: 32_768,
    });
    let mut gateway = Setup::before(&upstream)
        .config("log.level = \"warn\"")
        .start();
    let mut reply = completion("hello");
    reply["usage"] = json!({"prompt_tokens": 2050, "completion_tokens": 2, "total_tokens": 2052});
    upstream.next_chat(Script::json(200, &reply));
    let mut body = chat::of(&chat::history(20, 300));
    body["model"] = json!("llama3.2");
    assert_eq!(gateway.chat(&body).status(), 200);
    crate::support::eventually("a warning about it", || {
        gateway
            .said()
            .to_lowercase()
            .contains("truncated")
            .then_some(())
    });
    gateway.stands(&upstream);
}

#[test]
fn a_plain_server_that_names_no_window_gets_the_chat_whole() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let body = chat::of(&chat::history(20, 300));
    assert!(tokens(&body) > 12_000);
    let answer = gateway.chat(&body);
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert_eq!(upstream.chats().len(), 1, "at the first try");
    assert_eq!(
        upstream.chats()[0].request.body,
        body.to_string().as_bytes(),
        "nothing is cut on a guess"
    );
    gateway.stands(&upstream);
}

#[test]
fn a_plain_server_that_names_its_window_in_the_list_is_believed() {
    let upstream = Upstream::plain();
    upstream.always("GET", "/v1/models", |_| {
        Script::json(
            200,
            &json!({"object": "list", "data": [{"id": "m", "object": "model",
                "owned_by": "vllm", "max_model_len": 2000}]}),
        )
    });
    let gateway = Setup::before(&upstream).start();
    let answer = gateway.chat(&chat::of(&chat::history(40, 20)));
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.head.get("x-oneslot-window"), Some("2000"));
    assert!(dropped(&answer) > 0);
}

#[test]
fn an_lm_studio_that_loads_on_demand_is_trimmed_for_at_the_second_try() {
    for stream in [false, true] {
        let upstream = Upstream::start(Flavour::LmStudio {
            loaded: None,
            on_load: 4096,
        });
        let mut gateway = Setup::before(&upstream).start();
        let mut body = chat::of(&chat::history(20, 300));
        body["model"] = json!("qwen2.5-7b");
        body["stream"] = json!(stream);
        let answer = gateway.chat(&body);
        assert_eq!(answer.status(), 200, "no error is seen: {}", answer.text());
        assert_eq!(
            upstream.chats().len(),
            2,
            "sent whole, learned from, sent once more"
        );
        assert_eq!(
            upstream.chats()[0].request.body,
            body.to_string().as_bytes()
        );
        let sent = kept(&upstream, &body);
        assert!(tokens(&sent) <= 4096);
        assert!(dropped(&answer) > 0);
        gateway.stands(&upstream);
    }
}

#[test]
fn an_overflow_nobody_foresaw_is_learned_from_and_sent_once_more() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    upstream.chats_always(|request| {
        let needed = tokens(&request.json());
        if needed > 1000 {
            crate::support::flavour::llama_overflow(needed, 1000)
        } else {
            Script::answer("fits")
        }
    });
    let body = chat::of(&chat::history(40, 20));
    let answer = gateway.chat(&body);
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert_eq!(upstream.chats().len(), 2);
    kept(&upstream, &body);
    let status = gateway.status();
    assert_eq!(status["health"]["consecutive_failures"], 0);
    // The second chat of that size needs no second try.
    assert_eq!(gateway.chat(&body).status(), 200);
    assert_eq!(upstream.chats().len(), 3, "what was learned is kept");
    assert_eq!(status["window"]["size"], 1000, "learned: {status}");
    gateway.stands(&upstream);
}

#[test]
fn an_overflow_that_stays_one_is_refused_after_one_more_try() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    upstream.chats_always(|_| crate::support::flavour::llama_overflow(9000, 1000));
    let answer = gateway.chat(&chat::of(&chat::history(40, 20)));
    refused(&answer, 400, "CONTEXT_OVERFLOW", Advice::Never);
    assert!(upstream.chats().len() <= 2, "once more, not for ever");
    gateway.stands(&upstream);
}

#[test]
fn a_token_count_that_hangs_falls_back_and_delays_nothing() {
    let upstream = llama(1000);
    let mut gateway = Setup::before(&upstream).start();
    upstream.always("POST", "/v1/chat/completions/input_tokens", |_| {
        Script::new().hang()
    });
    let answer = gateway.chat(&chat::whole("hello"));
    assert_eq!(answer.status(), 200, "{}", answer.text());
    upstream.always("POST", "/v1/chat/completions/input_tokens", |_| {
        Script::json(404, &json!({"error": {"message": "File Not Found"}}))
    });
    let answer = gateway.chat(&chat::whole("hello"));
    assert_eq!(answer.status(), 200, "{}", answer.text());
    gateway.stands(&upstream);
}

// Limits on the answer.

/// Two chats behind a held one: the first is dispatched while the second waits.
fn dispatched_while_one_waits(
    upstream: &Upstream,
    gateway: &Gateway,
    body: &Value,
) -> (Response, Value) {
    let held = hold(gateway, upstream);
    let mut first = gateway.open_chat(body);
    gateway.until_queue(1, 1);
    let gate = Gate::new();
    upstream.next_chat(
        Script::new()
            .wait_for(&gate)
            .send(&json_response(200, &completion("short"))),
    );
    let mut second = gateway.open_chat(&chat::whole("waits"));
    gateway.until_queue(1, 2);
    let before = upstream.chats().len();
    held.release();
    let sent = upstream.until_chats(before + 1)[before].request.json();
    gate.open();
    let answer = first.finish();
    assert_eq!(second.finish().status(), 200);
    (answer, sent)
}

#[test]
fn while_somebody_waits_a_limit_is_lowered_and_said() {
    let upstream = llama(2048);
    let mut gateway = Setup::before(&upstream).start();
    let mut body = chat::whole("a long answer, please");
    body["max_tokens"] = json!(1500);
    let (answer, sent) = dispatched_while_one_waits(&upstream, &gateway, &body);
    assert_eq!(sent["max_tokens"], 512, "a quarter of the window");
    assert_eq!(
        answer.head.get("x-oneslot-max-tokens"),
        Some("512; asked=1500; reason=waiting"),
        "a changed limit is always disclosed"
    );
    let recent = gateway.status()["recent"].to_string();
    assert!(
        recent.contains("\"asked\":1500") && recent.contains("\"granted\":512"),
        "{recent}"
    );
    // Alone it gets what it asked for.
    let answer = gateway.chat(&body);
    assert_eq!(upstream.chat_bodies().pop().unwrap()["max_tokens"], 1500);
    assert_eq!(answer.head.get("x-oneslot-max-tokens"), None);
    gateway.stands(&upstream);
}

#[test]
fn the_member_the_client_used_is_the_one_that_changes() {
    let upstream = llama(2048);
    let mut gateway = Setup::before(&upstream).start();
    let mut body = chat::whole("a long answer, please");
    body["max_completion_tokens"] = json!(1500);
    let (_, sent) = dispatched_while_one_waits(&upstream, &gateway, &body);
    assert_eq!(sent["max_completion_tokens"], 512);
    let mut small = chat::whole("short");
    small["max_tokens"] = json!(100);
    let (answer, sent) = dispatched_while_one_waits(&upstream, &gateway, &small);
    assert_eq!(sent["max_tokens"], 100, "never raised");
    assert_eq!(answer.head.get("x-oneslot-max-tokens"), None);
    gateway.stands(&upstream);
}

#[test]
fn a_request_with_tools_is_not_shortened_because_somebody_waits() {
    let upstream = llama(2048);
    let mut gateway = Setup::before(&upstream).start();
    let mut body = chat::whole("call a tool");
    body["max_tokens"] = json!(1500);
    body["tools"] = json!([{"type": "function", "function": {"name": "f", "parameters": {}}}]);
    let (answer, sent) = dispatched_while_one_waits(&upstream, &gateway, &body);
    assert_eq!(
        sent["max_tokens"], 1500,
        "a cut tool call is worse than a wait"
    );
    assert_eq!(answer.head.get("x-oneslot-max-tokens"), None);
    gateway.stands(&upstream);
}

#[test]
fn the_ladder_can_be_switched_off() {
    let upstream = llama(2048);
    let mut gateway = Setup::before(&upstream)
        .config("degrade.ladder = false")
        .start();
    let mut body = chat::whole("a long answer, please");
    body["max_tokens"] = json!(1500);
    let (_, sent) = dispatched_while_one_waits(&upstream, &gateway, &body);
    assert_eq!(sent["max_tokens"], 1500);
    gateway.stands(&upstream);
}

#[test]
fn an_answer_cut_by_the_lowered_limit_keeps_its_finish_reason() {
    let upstream = llama(2048);
    let mut gateway = Setup::before(&upstream).start();
    let held = hold(&gateway, &upstream);
    let mut body = chat::streamed("a long answer, please");
    body["max_tokens"] = json!(1500);
    let mut first = gateway.open_chat(&body);
    gateway.until_queue(1, 1);
    let wanted = format!("{}{DONE}", finish("length"));
    upstream.next_chat(
        Script::stream()
            .delta("cut")
            .chunk(wanted.as_bytes())
            .last_chunk(),
    );
    let mut second = gateway.open_chat(&chat::whole("waits"));
    gateway.until_queue(1, 2);
    held.release();
    let answer = first.finish();
    assert!(
        answer.text().contains("\"finish_reason\":\"length\""),
        "{}",
        answer.text()
    );
    assert!(
        answer
            .head
            .get("x-oneslot-max-tokens")
            .is_some_and(|said| said.contains("asked=1500"))
    );
    assert_eq!(second.finish().status(), 200);
    gateway.stands(&upstream);
}

#[test]
fn what_a_committed_stream_cannot_say_in_its_head_is_one_comment() {
    let upstream = llama(2048);
    let mut gateway = Setup::before(&upstream)
        .config("relay.commit_after_s = 1")
        .start();
    let held = hold(&gateway, &upstream);
    let mut body = chat::streamed("a long answer, please");
    body["max_tokens"] = json!(1500);
    let mut first = gateway.open_chat(&body);
    gateway.until_queue(1, 1);
    first.body_until_has(": ping");
    let mut second = gateway.open_chat(&chat::whole("waits"));
    gateway.until_queue(1, 2);
    held.release();
    let answer = first.finish();
    let text = answer.text();
    assert_eq!(text.matches(": oneslot ").count(), 1, "{text}");
    assert!(
        text.contains("max-tokens=512") && text.contains("asked=1500"),
        "{text}"
    );
    let comment = find(&answer.body, b": oneslot ").unwrap();
    let data = find(&answer.body, b"data: ").unwrap();
    assert!(comment < data, "before the first byte of the answer");
    assert_eq!(second.finish().status(), 200);
    gateway.stands(&upstream);
}

#[test]
fn a_configured_model_is_put_into_requests_that_name_none_and_only_those() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("upstream.model = \"the-default\"")
        .start();
    let unnamed = br#"{"messages":[{"role":"user","content":"hello"}]}"#;
    assert_eq!(post(&gateway, unnamed).status(), 200);
    assert_eq!(upstream.chat_bodies()[0]["model"], "the-default");
    assert_eq!(gateway.chat(&chat::whole("named")).status(), 200);
    assert_eq!(upstream.chat_bodies()[1]["model"], "m");
    gateway.stands(&upstream);
}
