//! Servers that do not tell the truth, or give away what they were told, and base URLs that lead
//! back: what is said then is what was seen.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::chat;
use crate::support::client::Response;
use crate::support::flavour::Flavour;
use crate::support::gateway::{Gateway, Setup};
use crate::support::refused::{Advice, refused};
use crate::support::script::{Gate, Script, delta};
use crate::support::upstream::Upstream;
use crate::support::wire::{find, response};

// A key that comes back.

#[test]
fn a_server_that_repeats_its_key_gives_it_to_no_client() {
    const KEY: &str = "sk-UPSTREAMKEY-1234";
    for status in [401, 400, 500, 200] {
        for body in [chat::whole("hello"), chat::streamed("hello")] {
            let upstream = Upstream::plain();
            let mut gateway = Setup::before(&upstream)
                .config(&format!("upstream.api_key = {KEY:?}"))
                .config("health.cooldown_ms = 0")
                .limit("cooldown_max_ms", 0)
                .start();
            let said = json!({"error": {"message": format!("Incorrect API key provided: {KEY}."),
                "type": KEY, "code": KEY, "param": KEY}});
            upstream.next_chat(Script::json(status, &said));
            keyless(&gateway.chat(&body));
            let text = format!("Wrong key: {KEY}");
            upstream.next_chat(Script::whole(status, "text/plain", text.as_bytes()));
            keyless(&gateway.chat(&body));
            upstream.always("GET", "/v1/models/m", move |_| Script::json(403, &said));
            keyless(&gateway.get("/v1/models/m"));
            gateway.stands(&upstream);
        }
    }
}

#[test]
fn a_server_that_repeats_its_key_inside_a_stream_gives_it_to_nobody() {
    for key in ["sk-UPSTREAMKEY-1234", "local-pass"] {
        let upstream = Upstream::plain();
        let mut gateway = Setup::before(&upstream)
            .config(&format!("upstream.api_key = {key:?}"))
            .config("health.cooldown_ms = 0")
            .limit("cooldown_max_ms", 0)
            .start();
        let error = json!({"error": {"message": format!("Wrong key: {key}."),
            "type": "server_error", "code": key}});
        for said in [
            format!("data: {error}\n\n"),
            format!("event: error\ndata: {error}\n\n"),
            format!("error: {error}\n\n"),
        ] {
            let gate = Gate::new();
            let script = Script::stream().delta("one").wait_for(&gate);
            upstream.next_chat(script.chunk(said.as_bytes()).last_chunk());
            let mut client = gateway.open_chat(&chat::streamed("hello"));
            client.body_until_has("one");
            gate.open();
            let answer = client.finish();
            let text = answer.text();
            assert!(
                !text.contains(key),
                "the key is the server's secret: {text}"
            );
            assert_eq!(text, delta("one") + &said.replace(key, "[key]"));
        }
        if key.len() > 16 {
            let (said, at) = (format!("data: {error}\n\n"), error.to_string().len() - 5);
            let (one, two) = said.as_bytes().split_at(at);
            let script = Script::stream().delta("one").chunk(one);
            upstream.next_chat(script.chunk(two).last_chunk());
            let text = gateway.chat(&chat::streamed("hello")).text();
            assert_eq!(text, delta("one") + &said.replace(key, "[key]"));
        }
        let seen = gateway.status().to_string() + &gateway.said();
        assert!(!seen.contains(key), "nor is it recorded: {seen}");
        gateway.stands(&upstream);
    }
}

fn keyless(answer: &Response) {
    assert_eq!(answer.code(), Some("LLM_UPSTREAM"), "{}", answer.text());
    let all = format!("{:?} {}", answer.head, answer.text());
    for part in ["sk-UPSTR", "AMKEY-1234"] {
        assert!(!all.contains(part), "the key is the server's secret: {all}");
    }
    assert!(
        all.contains("[key]"),
        "and that it was there is said: {all}"
    );
}

// A yes that is none.

#[test]
fn an_unload_that_left_the_model_where_it_was_is_not_called_one() {
    let yes = json!({"done": true, "done_reason": "unload"}).to_string();
    for (kind, said) in [("application/json", yes.as_str()), ("text/html", "<html>")] {
        let upstream = Upstream::start(Flavour::Ollama {
            loaded: Some(4096),
            on_load: 4096,
        });
        let (kind, said) = (kind.to_owned(), said.as_bytes().to_vec());
        upstream.always("POST", "/api/generate", move |_| {
            Script::whole(200, &kind, &said)
        });
        not_unloaded(&upstream, "llama3.2:latest");
    }
    let upstream = Upstream::start(Flavour::LmStudio {
        loaded: Some(4096),
        on_load: 4096,
    });
    upstream.always("POST", "/api/v1/models/unload", |_| {
        Script::json(200, &json!({"instance_id": "qwen2.5-7b"}))
    });
    not_unloaded(&upstream, "qwen2.5-7b");
}

#[test]
fn an_unload_that_nobody_saw_is_not_said_to_have_done_nothing() {
    let upstream = Upstream::start(Flavour::Ollama {
        loaded: Some(4096),
        on_load: 4096,
    });
    let gateway = Setup::before(&upstream).start();
    gateway.cli_ok(&["check"]);
    for args in [&["unload"][..], &["pause", "--unload"]] {
        let told = Gate::new();
        let is_told = told.clone();
        upstream.always("POST", "/api/generate", move |_| {
            Script::json(200, &json!({"done": true})).open(&is_told)
        });
        upstream.always("GET", "/api/ps", move |_| match told.is_open() {
            true => Script::json(500, &json!({"error": "busy"})),
            false => Script::json(200, &json!({"models": [{"name": "llama3.2:latest"}]})),
        });
        let output = gateway.cli(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{args:?} is not known to be done");
        assert!(
            said.contains("does not say whether it went"),
            "what is known is said: {said}"
        );
        assert!(!said.contains("nothing"), "and no more than that: {said}");
    }
}

fn not_unloaded(upstream: &Upstream, model: &str) {
    let gateway = Setup::before(upstream).start();
    for args in [&["unload"][..], &["pause", "--unload"]] {
        let output = gateway.cli(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{args:?} did not do it: {said}");
        assert!(said.contains(model), "what is left is named: {said}");
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!out.contains("unloaded"), "{out}");
    }
}

// Answers that are none.

#[test]
fn an_answer_framed_twice_is_an_error_and_its_connection_is_not_used_again() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).limit("fresh_ms", 60_000).start();
    let twice = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 14\r\n\
        transfer-encoding: chunked\r\n\r\ne\r\n{\"choices\":[]}\r\n0\r\n\r\n";
    for body in [chat::whole("hello"), chat::streamed("hello")] {
        upstream.next_chat(Script::new().send(twice));
        let answer = gateway.chat(&body);
        refused(&answer, 503, "LLM_UNAVAILABLE", Advice::Later);
        gateway.control("POST", "/oneslot/check", "");
        assert_eq!(gateway.chat(&chat::whole("next")).status(), 200);
        let chats = upstream.chats();
        let [.., framed, next] = &chats[..] else {
            panic!("two chats");
        };
        assert_ne!(framed.connection, next.connection, "a new connection");
    }
    upstream.always("GET", "/v1/models/m", |_| Script::new().send(twice));
    let answer = gateway.get("/v1/models/m");
    refused(&answer, 503, "LLM_UNAVAILABLE", Advice::Later);
    gateway.stands(&upstream);
}

#[test]
fn a_success_that_is_no_answer_is_told_as_what_it_was() {
    let json = "application/json";
    for (status, kind, body, says) in [
        (
            200,
            json,
            "{}",
            "answered 200, but not with an answer: JSON",
        ),
        (
            200,
            json,
            "[]",
            "answered 200, but not with an answer: JSON",
        ),
        (
            200,
            json,
            "",
            "answered 200, but not with an answer: an empty body",
        ),
        (
            200,
            json,
            "{\"id\":",
            "answered 200, but not with an answer: not JSON",
        ),
        (
            200,
            "text/html",
            "<html><title>Hi</title>",
            "answered 200, but not with an answer: an HTML page, \"Hi\"",
        ),
        (
            204,
            json,
            "",
            "answered 204, but not with an answer: an empty body",
        ),
        (
            200,
            json,
            "{\"error\":\"boom\"}",
            "answered 200, but not with an answer: boom",
        ),
    ] {
        let upstream = Upstream::plain();
        let mut gateway = Setup::before(&upstream).start();
        let fields = [("content-type", kind)];
        upstream.next_chat(Script::new().send(&response(status, &fields, body.as_bytes())));
        let answer = gateway.chat(&chat::whole("hello"));
        let error = refused(&answer, 503, "LLM_UPSTREAM", Advice::AsStatusSays);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(says), "{status} {body:?}: {message}");
        gateway.control("POST", "/oneslot/check", "");
        gateway.stands(&upstream);
    }
}

#[test]
fn a_limit_spelled_with_a_zero_fraction_is_the_number_it_is() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let body = br#"{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":16.0}"#;
    let answer = gateway.exchange(&gateway.request("POST", "/v1/chat/completions", body));
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let seen = upstream.chats().pop().unwrap().request;
    assert!(
        find(&seen.body, b"\"max_tokens\":16.0}").is_some(),
        "as it was spelled"
    );
    gateway.stands(&upstream);
}

// Base URLs that lead back.

fn descriptors(gateway: &Gateway) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", gateway.pid()))
        .unwrap()
        .count()
}

fn behind(url: &str) -> String {
    format!("upstream.base_url = {url:?}\nhealth.cooldown_ms = 200\nhealth.idle_interval_s = 1\n")
}

fn has_notice(status: &Value, code: &str) -> bool {
    let notices = status["notices"].as_array().unwrap();
    notices.iter().any(|notice| notice["code"] == code)
}

#[test]
fn a_reload_that_names_the_gateways_own_picked_port_changes_nothing() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    for host in ["127.0.0.1", "localhost", "127.0.0.2"] {
        let own = format!("http://{host}:{}/v1", gateway.port());
        gateway.rewrite_config(&behind(&own));
        let status = gateway.until_status("the fault is told", |status| {
            has_notice(status, "configuration_invalid")
        });
        assert_eq!(status["upstream"]["base_url"], upstream.url(), "{status}");
        assert_eq!(gateway.chat(&chat::whole("x")).status(), 200);
        gateway.rewrite_config(&behind(&upstream.url()));
        gateway.until_status("it is mended", |status| {
            !has_notice(status, "configuration_invalid")
        });
    }
    gateway.stands(&upstream);
}

#[cfg(target_os = "linux")]
#[test]
fn one_oneslot_behind_another_serves_and_two_in_a_circle_refuse_at_once() {
    let upstream = Upstream::plain();
    let start = |url: &str| {
        let setup = Setup::bare().config(&behind(url));
        setup.limit("cooldown_max_ms", 200).start()
    };
    let inner = start(&upstream.url());
    let outer = start(&inner.url());
    assert_eq!(outer.chat(&chat::whole("x")).status(), 200, "a row");
    let streamed = outer.chat(&chat::streamed("x"));
    assert_eq!(streamed.status(), 200, "{}", streamed.text());
    assert_eq!(outer.get("/v1/models").status(), 200);

    inner.rewrite_config(&behind(&outer.url()));
    inner.until_status("the circle is seen", |status| {
        status["upstream"]["base_url"] == outer.url() && has_notice(status, "loop")
    });
    let lines = || inner.said().lines().count() + outer.said().lines().count();
    let (before, since) = (lines(), Instant::now());
    for gateway in [&inner, &outer, &inner, &outer] {
        let answer = gateway.chat(&chat::whole("round and round"));
        assert!((500..600).contains(&answer.status()), "{}", answer.text());
        assert!(
            answer.text().contains("leads back"),
            "it says what is wrong: {}",
            answer.text()
        );
        std::thread::sleep(Duration::from_millis(500));
    }
    for gateway in [&inner, &outer] {
        let open = descriptors(gateway);
        assert!(open < 100, "{open} descriptors: it goes round");
    }
    let took = since.elapsed().as_secs() as usize + 1;
    let said = lines() - before;
    assert!(
        said < 200 * took,
        "{said} lines in {took} s at the loudest level"
    );

    outer.until_status("the other one sees it too", |status| {
        has_notice(status, "loop")
    });
    inner.rewrite_config(&behind(&upstream.url()));
    for (gateway, what) in [(&inner, "it is mended"), (&outer, "also for the other")] {
        gateway.until_status(what, |status| {
            status["health"]["state"] == "ready" && !has_notice(status, "loop")
        });
    }
    assert_eq!(outer.chat(&chat::whole("x")).status(), 200, "and serves");
}

// Files that are being written.

#[test]
fn a_file_emptied_or_half_written_opens_no_door() {
    let upstream = Upstream::plain();
    let locked = format!(
        "upstream.base_url = {:?}\n[access]\nrequire_key = true\nkeys = [{{ name = \"a\", sha256 = \"{}\" }}]\n",
        upstream.url(),
        "ab".repeat(32)
    );
    let setup = Setup::bare();
    std::fs::write(setup.config_path(), &locked).unwrap();
    let gateway = setup.start_as_is();
    assert_eq!(gateway.get("/v1/models").status(), 401);
    let notices = || gateway.control("GET", "/oneslot/status", "").json();
    for half in ["", "# soon\n", locked.split('[').next().unwrap()] {
        std::fs::write(gateway.config_path(), half).unwrap();
        crate::support::within(Duration::from_secs(10), "it is told", || {
            has_notice(&notices(), "configuration_invalid").then_some(())
        });
        assert_eq!(gateway.get("/v1/models").status(), 401, "{half:?}");
        std::fs::write(gateway.config_path(), &locked).unwrap();
        crate::support::within(Duration::from_secs(10), "it is over", || {
            (!has_notice(&notices(), "configuration_invalid")).then_some(())
        });
    }
    gateway.rewrite_config(&format!(
        "upstream.base_url = {:?}\naccess.require_key = false\n",
        upstream.url()
    ));
    crate::support::within(Duration::from_secs(10), "said, it is done", || {
        (gateway.get("/v1/models").status() == 200).then_some(())
    });
}

#[cfg(unix)]
#[test]
fn a_first_start_with_a_faulty_file_that_asks_for_a_key_serves_nobody_until_it_is_mended() {
    let upstream = Upstream::plain();
    let faulty = format!(
        "upstream.base_url = {:?}\nqueue.max_waiting = \"four\"\naccess.require_key = true\n",
        upstream.url()
    );
    let setup = Setup::bare();
    std::fs::write(setup.config_path(), &faulty).unwrap();
    let mut gateway = setup.start_as_is();
    let answer = gateway.chat(&chat::whole("x"));
    assert_eq!(answer.code(), Some("UNAUTHORIZED"), "{}", answer.text());
    let status = gateway.control("GET", "/oneslot/status", "").json();
    assert!(has_notice(&status, "configuration_locked"), "{status}");
    let told = status["notices"].to_string();
    assert!(told.contains(":2"), "the place: {told}");
    gateway.rewrite_config(&format!("upstream.base_url = {:?}\n", upstream.url()));
    crate::support::within(Duration::from_secs(10), "mended, it serves", || {
        (gateway.get("/v1/models").status() == 200).then_some(())
    });
    gateway.stands(&upstream);
}
