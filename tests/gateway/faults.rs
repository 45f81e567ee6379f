//! What a broken or strange server can send, and what of it reaches a client: an answer, or an
//! error that says so, within bounded memory and time.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::json;
use socket2::{Domain, Socket, Type};

use crate::support::chat;
use crate::support::client::{Client, End};
use crate::support::flavour::Flavour;
use crate::support::gateway::Setup;
use crate::support::held::hold;
use crate::support::machine;
use crate::support::refused::{Advice, refused, refused_natively};
use crate::support::script::{DONE, Gate, Script, completion, delta, finish};
use crate::support::upstream::Upstream;
use crate::support::wire::{chunk, find, response};

// Answers in another form than was asked for.

#[test]
fn an_answer_compressed_unasked_is_refused_and_none_of_it_is_relayed() {
    let packed = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xab\x56\x4a\xce\xc8\x2f\xce\x4c";
    for (kind, body) in [
        ("application/json", chat::whole("hello")),
        ("text/event-stream", chat::streamed("hello")),
    ] {
        let upstream = Upstream::plain();
        let mut gateway = Setup::before(&upstream).start();
        let fields = [("content-type", kind), ("content-encoding", "gzip")];
        upstream.next_chat(Script::new().send(&response(200, &fields, packed)));
        let answer = gateway.chat(&body);
        refused(&answer, 503, "LLM_UNAVAILABLE", Advice::Later);
        assert!(find(&answer.body, b"\x1f\x8b").is_none());
        // An error as well: what it says cannot be read.
        gateway.control("POST", "/oneslot/check", "");
        upstream.next_chat(Script::new().send(&response(400, &fields, packed)));
        let answer = gateway.chat(&body);
        let error = refused(&answer, 400, "LLM_UPSTREAM", Advice::AsStatusSays);
        let message = error["message"].as_str().unwrap();
        assert!(message.is_ascii(), "no bytes of it: {message:?}");
        gateway.stands(&upstream);
    }
}

#[test]
fn a_list_of_models_compressed_unasked_is_refused_too() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let fields = [
        ("content-type", "application/json"),
        ("content-encoding", "gzip"),
    ];
    let packed = response(200, &fields, b"\x1f\x8b\x08\x00");
    upstream.always("GET", "/v1/models/m", move |_| Script::new().send(&packed));
    let answer = gateway.get("/v1/models/m");
    refused(&answer, 503, "LLM_UNAVAILABLE", Advice::Later);
    gateway.stands(&upstream);
}

#[test]
fn a_204_with_a_body_is_an_error_and_its_connection_is_not_used_again() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).limit("fresh_ms", 60_000).start();
    let body = completion("not asked for").to_string();
    let odd = format!(
        "HTTP/1.1 204 No Content\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    upstream.next_chat(Script::new().send(odd.as_bytes()));
    let answer = gateway.chat(&chat::whole("hello"));
    assert_eq!(answer.status(), 503, "{}", answer.text());
    assert_eq!(answer.code(), Some("LLM_UPSTREAM"));
    gateway.control("POST", "/oneslot/check", "");
    let next = gateway.chat(&chat::whole("next"));
    assert_eq!(next.status(), 200);
    assert!(find(&next.body, b"not asked for").is_none());
    let chats = upstream.chats();
    assert_ne!(chats[0].connection, chats[1].connection, "a new connection");
    gateway.stands(&upstream);
}

#[test]
fn a_redirect_to_another_host_is_an_error_of_the_servers_and_is_not_followed() {
    let elsewhere = Upstream::plain();
    for status in [301, 302, 303, 307, 308] {
        for body in [chat::whole("hello"), chat::streamed("hello")] {
            let upstream = Upstream::plain();
            let mut gateway = Setup::before(&upstream).start();
            let location = format!("{}/v1/chat/completions", elsewhere.url());
            upstream.next_chat(Script::new().send(&response(
                status,
                &[("location", location.as_str())],
                b"",
            )));
            let answer = gateway.chat(&body);
            assert_eq!(answer.status(), 503, "{status}: {}", answer.text());
            assert_eq!(answer.code(), Some("LLM_UPSTREAM"));
            assert_eq!(answer.head.get("location"), None);
            let record = gateway.until_record("failed");
            assert_eq!(record["fault"], "upstream", "{record}");
            gateway.stands(&upstream);
        }
    }
    assert_eq!(elsewhere.connections(), 0, "no connection went there");
}

#[test]
fn what_does_not_speak_http_is_no_death_and_its_request_is_not_banned() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let body = chat::whole("the same each time");
    for _ in 0..3 {
        upstream.next_chat(Script::new().send(b"SSH-2.0-OpenSSH_9.2\r\n\r\n").hang());
        let answer = gateway.chat(&body);
        refused(&answer, 503, "LLM_UNAVAILABLE", Advice::Later);
        gateway.control("POST", "/oneslot/check", "");
    }
    assert_eq!(gateway.chat(&body).status(), 200, "nothing died of it");
    gateway.stands(&upstream);
}

// Servers that do not come up, or go away while they do.

/// A port whose backlog is full.
fn full_listener() -> (Socket, Vec<TcpStream>) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
    socket.bind(&address.into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let mut fill = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
        fill.push(stream);
    }
    (socket, fill)
}

#[test]
fn a_server_that_takes_no_connection_is_unavailable_after_the_connect_limit() {
    let (socket, _fill) = full_listener();
    let port = socket.local_addr().unwrap().as_socket().unwrap().port();
    let gateway = Setup::bare()
        .config(&format!("upstream.base_url = \"http://127.0.0.1:{port}\""))
        .limit("connect_ms", 200)
        .limit("probe_ms", 15_000)
        .start();
    let answer = gateway.chat(&chat::whole("hello"));
    let error = refused(&answer, 503, "LLM_UNAVAILABLE", Advice::Later);
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("did not accept a connection in time"),
        "the connect limit, and not the probe's: {message}"
    );
}

#[test]
fn a_load_that_outlasts_its_budget_at_dispatch_is_loading_and_no_failure() {
    for body in [chat::whole("hello"), chat::streamed("hello")] {
        let upstream = Upstream::start(Flavour::LmStudio {
            loaded: None,
            on_load: 4096,
        });
        let mut gateway = Setup::before(&upstream)
            .config("timeouts.loading_s = 2\ntimeouts.first_byte_s = 1\ntimeouts.total_s = 1\nrelay.commit_after_s = 0")
            .start();
        upstream.next_chat(Script::new().hang());
        let mut body = body;
        body["model"] = json!("qwen2.5-7b");
        let answer = gateway.chat(&body);
        refused(&answer, 503, "LLM_LOADING", Advice::Later);
        let health = gateway.status()["health"].clone();
        assert_eq!(health["consecutive_failures"], 0, "{health}");
        assert_eq!(health["cooldown_ms"], 0, "{health}");
        upstream.until_ended(0);
        gateway.stands(&upstream);
    }
}

#[test]
fn an_ollama_that_goes_away_while_it_loads_is_unavailable() {
    let upstream = Upstream::start(Flavour::Ollama {
        loaded: None,
        on_load: 8192,
    });
    let mut gateway = Setup::before(&upstream).start();
    upstream.next("POST", "/api/generate", Script::new().rst());
    let mut body = chat::whole("hello");
    body["model"] = json!("llama3.2");
    let answer = gateway.chat(&body);
    refused(&answer, 503, "LLM_UNAVAILABLE", Advice::Later);
    assert_eq!(upstream.chats().len(), 0, "the chat stayed here");
    gateway.until_record("failed");
    gateway.stands(&upstream);
}

#[test]
fn an_answer_that_pauses_for_long_is_shown_as_stalled_and_not_as_up() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let held = hold(&gateway, &upstream);
    gateway.until_status("it stalls", |status| status["health"]["state"] == "stalled");
    held.release();
    gateway.stands(&upstream);
}

// Answers without an end.

#[test]
fn interim_heads_without_end_run_into_the_same_limits_as_silence() {
    for body in [chat::whole("hello"), chat::streamed("hello")] {
        let upstream = Upstream::plain();
        let mut gateway = Setup::before(&upstream)
            .config("timeouts.first_byte_s = 1\ntimeouts.total_s = 1\nrelay.commit_after_s = 0")
            .start();
        upstream.next_chat(Script::new().drip(
            b"HTTP/1.1 100 Continue\r\n\r\n",
            Duration::from_millis(1),
            60_000,
        ));
        let answer = gateway.chat(&body);
        refused(&answer, 504, "LLM_TIMEOUT", Advice::Never);
        upstream.until_ended(0);
        gateway.stands(&upstream);
    }
}

#[test]
fn an_event_without_an_end_is_relayed_and_not_collected() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    gateway.chat(&chat::streamed("warm up"));
    let before = machine::peak_kib(gateway.pid());
    let piece = chunk(&[b'x'; 64 * 1024]);
    upstream.next_chat(
        Script::stream()
            .chunk(b"data: ")
            .drip(&piece, Duration::ZERO, 768)
            .last_chunk(),
    );
    let answer = gateway.chat(&chat::streamed("flood"));
    assert!(answer.body.len() > 48 * 1024 * 1024, "all of it came");
    let tail = String::from_utf8_lossy(&answer.body[answer.body.len() - 600..]).into_owned();
    assert!(
        tail.contains("x\n\ndata: {\"error\""),
        "the line ends before the error: {tail}"
    );
    assert!(!tail.contains("[DONE]"));
    let grown = machine::peak_kib(gateway.pid()).saturating_sub(before);
    assert!(grown < 24 * 1024, "48 MiB passed, {grown} KiB were needed");
    gateway.stands(&upstream);
}

#[test]
fn a_large_answer_that_stops_flowing_does_not_keep_the_slot() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("timeouts.total_s = 1")
        .limit("hold_bytes", 1000)
        .start();
    let mut head =
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n"
            .to_vec();
    head.extend_from_slice(&[b' '; 5000]);
    upstream.next_chat(Script::new().send(&head).hang());
    let answer = gateway.chat(&chat::whole("hello"));
    assert_ne!(answer.end, End::Whole, "half an answer never looks whole");
    let record = gateway.until_record("failed");
    assert_eq!(record["code"], "LLM_TIMEOUT", "{record}");
    upstream.until_ended(0);
    gateway.stands(&upstream);
}

#[test]
fn a_stream_that_said_done_is_complete_however_its_connection_ends() {
    let wanted = format!("{}{}{DONE}", delta("one"), finish("stop"));
    let ends: [fn(Script) -> Script; 3] = [Script::rst, Script::fin, Script::hang];
    for end in ends {
        let upstream = Upstream::plain();
        let mut gateway = Setup::before(&upstream)
            .config("timeouts.stall_s = 1")
            .start();
        let seen = Gate::new();
        let script = Script::stream().chunk(wanted.as_bytes()).wait_for(&seen);
        upstream.next_chat(end(script));
        let mut client = gateway.open_chat(&chat::streamed("hello"));
        client.body_until_has("[DONE]");
        seen.open();
        let answer = client.finish();
        assert_eq!(answer.text(), wanted, "nothing is added to a whole answer");
        assert_eq!(answer.end, End::Whole);
        gateway.until_record("done");
        let status = gateway.status();
        assert_eq!(status["health"]["consecutive_failures"], 0, "{status}");
        gateway.stands(&upstream);
    }
}

// One record for each.

#[test]
fn an_upload_that_breaks_off_has_exactly_one_record() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let bytes = gateway.request("POST", "/v1/chat/completions", &[b'x'; 5000]);
    for (at, leave) in [Client::fin, Client::rst].into_iter().enumerate() {
        let client = gateway.open(&bytes[..bytes.len() - 2000]);
        // Long enough for its head to be read; leaving earlier leaves nothing behind.
        std::thread::sleep(Duration::from_millis(200));
        leave(client);
        let records = gateway.until_recent(at + 1);
        assert_eq!(records.len(), at + 1, "one each: {records:#?}");
        assert_ne!(records[0]["outcome"], "done");
        assert_eq!(records[0]["path"], "/v1/chat/completions");
    }
    assert_eq!(upstream.chats().len(), 0);
    gateway.stands(&upstream);
}

// What a server does not have, or would send elsewhere.

#[test]
fn a_route_the_server_does_not_have_names_those_that_do() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    gateway.chat(&chat::whole("so that it is known what it is"));
    for (path, spoken_by) in [
        ("/props", "llama.cpp"),
        ("/api/v0/models", "LM Studio"),
        ("/api/v1/models", "LM Studio"),
    ] {
        let answer = gateway.get(path);
        let error = refused(&answer, 404, "DIALECT_UNSUPPORTED", Advice::Never);
        assert_eq!(error["code"], "DIALECT_UNSUPPORTED");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains(path) && message.contains(spoken_by),
            "{message}"
        );
    }
    for path in ["/api/tags", "/api/ps", "/api/version"] {
        let answer = gateway.get(path);
        let words = refused_natively(&answer, 404, "DIALECT_UNSUPPORTED", Advice::Never);
        assert!(words.contains(path) && words.contains("Ollama"), "{words}");
    }
    // A model that does not exist is another thing.
    let answer = gateway.get("/v1/models/nothing");
    assert_eq!(answer.status(), 404);
    assert_eq!(answer.code(), Some("LLM_UPSTREAM"));
    gateway.stands(&upstream);
}

#[test]
fn a_model_that_runs_elsewhere_is_blocked_where_the_switch_says_so() {
    for blocked in [true, false] {
        let upstream = Upstream::start(Flavour::Ollama {
            loaded: Some(8192),
            on_load: 8192,
        });
        let mut gateway = Setup::before(&upstream)
            .config(&format!("access.block_remote_models = {blocked}"))
            .start();
        let mut body = chat::whole("hello");
        for model in ["x:cloud", "gpt-oss:120b-cloud"] {
            body["model"] = json!(model);
            let answer = gateway.chat(&body);
            if blocked {
                let error = refused(&answer, 403, "REMOTE_MODEL_BLOCKED", Advice::Never);
                assert_eq!(error["code"], "REMOTE_MODEL_BLOCKED");
                assert_eq!(error["type"], "permission_error");
                let message = error["message"].as_str().unwrap();
                assert!(message.contains(model), "{message}");
                assert_eq!(upstream.chats().len(), 0, "nothing of it was sent");
            } else {
                assert_eq!(answer.status(), 200, "off unless asked for");
            }
        }
        body["model"] = json!("llama3.2");
        assert_eq!(gateway.chat(&body).status(), 200, "a local one is served");
        gateway.stands(&upstream);
    }
}
