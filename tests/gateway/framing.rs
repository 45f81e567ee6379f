//! Framing, paths and headers as bytes: nothing can be read in two ways, nothing slips through.

use crate::support::chat;
use crate::support::client::{Client, End, request};
use crate::support::fence::{quiet, settled, untouched};
use crate::support::flavour::Flavour;
use crate::support::gateway::Gateway;
use crate::support::refused::{Advice, refused};
use crate::support::script::Script;
use crate::support::upstream::Upstream;
use crate::support::wire::{chunk, find, response};

fn started() -> (Upstream, Gateway) {
    let upstream = Upstream::plain();
    let gateway = quiet(&upstream).start();
    settled(&gateway, &upstream);
    (upstream, gateway)
}

/// The start of a chat, up to its framing.
fn start(gateway: &Gateway) -> String {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n",
        gateway.address()
    )
}

/// Sends the bytes; the connection ends with at most one answer, which is a refusal.
fn at_most_refused(gateway: &Gateway, bytes: &[u8], what: &str) {
    let mut client = gateway.connect();
    let _ = client.try_send(bytes);
    let ended = client.closed();
    assert!(matches!(ended, End::Fin | End::Rst), "{what}");
    let raw = client.raw();
    // An explanation may name the version, but without a status behind it.
    let heads = memchr::memmem::find_iter(&raw, b"HTTP/1.1 ")
        .filter(|at| raw.get(at + 9).is_some_and(u8::is_ascii_digit))
        .count();
    assert!(heads <= 1, "one answer at most for {what}");
    if heads == 1 {
        let status = String::from_utf8_lossy(&raw[9..12]).into_owned();
        assert!(
            matches!(status.as_str(), "400" | "413" | "431"),
            "{what}: {status}"
        );
    }
}

#[test]
fn two_readings_of_a_length_are_refused_and_what_is_smuggled_behind_gets_no_answer() {
    let (upstream, mut gateway) = started();
    let start = start(&gateway);
    let smuggled = format!(
        "GET /api/delete HTTP/1.1\r\nhost: {}\r\nx-smuggled: 1\r\n\r\n",
        gateway.address()
    );
    untouched(&gateway, &upstream, "conflicting framings", || {
        for framing in [
            "content-length: 6\r\ntransfer-encoding: chunked",
            "transfer-encoding: chunked\r\ncontent-length: 6",
            "content-length: 6\r\nTransfer-Encoding: CHUNKED",
            "content-length: 6\r\ntransfer_encoding: chunked",
            "content-length: 6\r\ncontent-length: 7",
            "content-length: 6\r\ncontent-length: 6",
            "content-length: +6",
            "content-length: -1",
            "content-length: 0x6",
            "content-length: 6, 6",
            "content-length: 6 6",
            "content-length: ",
            "content-length: 1e1",
            "content-length: \"6\"",
            "content-length: 123456789012345678901234567890",
            "content-length : 6",
            "content-length:\r\n 6",
            "transfer-encoding: gzip, chunked",
            "transfer-encoding: chunked, chunked",
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
            "transfer-encoding: xchunked",
            "transfer-encoding: ,chunked",
            "transfer-encoding: chunked;a=b",
            "transfer-encoding: identity",
            "transfer-encoding:\x0bchunked",
            "x: 1\ntransfer-encoding: chunked",
            "x: 1\rtransfer-encoding: chunked",
        ] {
            let bytes = format!("{start}{framing}\r\n\r\n0\r\n\r\n{smuggled}");
            at_most_refused(&gateway, bytes.as_bytes(), framing);
        }
        let old = format!(
            "POST /v1/chat/completions HTTP/1.0\r\nhost: {}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}",
            gateway.address()
        );
        at_most_refused(&gateway, old.as_bytes(), "chunks in HTTP/1.0");
    });
    gateway.stands(&upstream);
}

#[test]
fn what_is_no_request_is_refused_and_closed() {
    let (upstream, mut gateway) = started();
    let host = format!("host: {}\r\n", gateway.address());
    untouched(&gateway, &upstream, "odd heads", || {
        for bytes in [
            format!("GET /v1/models HTTP/1.1\n{host}\n"),
            format!("get /v1/models HTTP/1.1\r\n{host}\r\n"),
            format!("GET  /v1/models HTTP/1.1\r\n{host}\r\n"),
            format!("GET /v1/models HTTP/1.1 \r\n{host}\r\n"),
            format!("GET /v1/models HTTP/2.0\r\n{host}\r\n"),
            format!("GET /v1/models\r\n{host}\r\n"),
            format!("TRACE /v1/models HTTP/1.1\r\n{host}\r\n"),
            format!("CONNECT example.org:443 HTTP/1.1\r\n{host}\r\n"),
            format!("GET /v1/models HTTP/1.1\r\n{host}x\0y: 1\r\n\r\n"),
            format!("GET /v1/models HTTP/1.1\r\n{host}x: a\0b\r\n\r\n"),
            format!("GET /v1/models HTTP/1.1\r\n{host}: empty\r\n\r\n"),
            format!("GET /v1/models HTTP/1.1\r\n{host}x: 1\r\n folded\r\n\r\n"),
            format!(
                "GET /v1/models HTTP/1.1\r\n{host}upgrade: websocket\r\nconnection: upgrade\r\n\r\nGET /v1/models HTTP/1.1\r\n{host}\r\n"
            ),
            format!("GET /v1/models HTTP/1.1\r\n{host}upgrade: h2c, websocket\r\n\r\n"),
            "\x16\x03\x01\x02\0\x01\0\x01\u{fc}\x03\x03".to_owned(),
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
            "SSH-2.0-x\r\n".to_owned(),
        ] {
            at_most_refused(&gateway, bytes.as_bytes(), &bytes);
        }
    });
    gateway.stands(&upstream);
}

#[test]
fn an_offer_of_http2_is_passed_over_and_the_connection_stays_in_step() {
    let (upstream, mut gateway) = started();
    let body = chat::whole("from Java").to_string();
    let bytes = gateway.request_with(
        "POST",
        "/v1/chat/completions",
        &[
            ("connection", "Upgrade, HTTP2-Settings"),
            ("upgrade", "h2c"),
            ("http2-settings", "AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA"),
        ],
        body.as_bytes(),
    );
    let mut client = gateway.open(&bytes);
    for _ in 0..2 {
        let answer = client.finish();
        assert_eq!(answer.status(), 200, "plain HTTP/1.1: {}", answer.text());
        assert_eq!(answer.head.get("upgrade"), None);
        client.send(&bytes);
    }
    assert_eq!(client.finish().status(), 200);
    let head = upstream.chats()[0].request.head.clone();
    assert_eq!(head.get("http2-settings"), None);
    assert_eq!(head.get("upgrade"), None);
    gateway.stands(&upstream);
}

#[test]
fn broken_chunks_never_reach_a_handler() {
    let (upstream, mut gateway) = started();
    let head = format!("{}transfer-encoding: chunked\r\n\r\n", start(&gateway));
    let body = chat::whole("x").to_string();
    let size = format!("{:x}", body.len());
    let long = "e".repeat(20_000);
    let trailers = "t: 1\r\n".repeat(20_000 / 6);
    untouched(&gateway, &upstream, "broken chunks", || {
        for (what, bytes) in [
            ("0x size", format!("0x{size}\r\n{body}\r\n0\r\n\r\n")),
            ("no size", format!("\r\n{body}\r\n0\r\n\r\n")),
            ("a space behind", format!("{size} \r\n{body}\r\n0\r\n\r\n")),
            ("a space before", format!(" {size}\r\n{body}\r\n0\r\n\r\n")),
            ("a sign", format!("-{size}\r\n{body}\r\n0\r\n\r\n")),
            ("a plus", format!("+{size}\r\n{body}\r\n0\r\n\r\n")),
            ("17 digits", format!("{size:0>17}\r\n{body}\r\n0\r\n\r\n")),
            (
                "a size of 64 bits",
                format!("ffffffffffffffff\r\n{body}\r\n0\r\n\r\n"),
            ),
            (
                "bare LF behind the size",
                format!("{size}\n{body}\r\n0\r\n\r\n"),
            ),
            (
                "bare LF behind the data",
                format!("{size}\r\n{body}\n0\r\n\r\n"),
            ),
            ("bare LF at the end", format!("{size}\r\n{body}\r\n0\n\n")),
            (
                "a bare CR in an extension",
                format!("{size};a\rb\r\n{body}\r\n0\r\n\r\n"),
            ),
            (
                "20 kB of extensions",
                format!("{size};{long}\r\n{body}\r\n0\r\n\r\n"),
            ),
            (
                "20 kB of trailers",
                format!("{size}\r\n{body}\r\n0\r\n{trailers}\r\n"),
            ),
            (
                "a trailer without a colon",
                format!("{size}\r\n{body}\r\n0\r\nx\r\n\r\n"),
            ),
            (
                "more than its size",
                format!("{size}\r\n{body}xx\r\n0\r\n\r\n"),
            ),
            ("no hex", format!("zz\r\n{body}\r\n0\r\n\r\n")),
        ] {
            // A size that is too large is only waited for: the client leaves then.
            let mut client = gateway.connect();
            let _ = client.try_send(format!("{head}{bytes}").as_bytes());
            client.half_close();
            client.closed();
            let raw = client.raw();
            assert!(!raw.starts_with(b"HTTP/1.1 200"), "{what}");
        }
        // Bytes behind the last chunk are another request, and none.
        let mut client = gateway.open(b"");
        let _ = client.try_send(format!("{head}0\r\n\r\ngarbage\r\n\r\n").as_bytes());
        client.closed();
        assert!(
            client.raw().starts_with(b"HTTP/1.1 400"),
            "an empty body is no chat"
        );
    });
    let good = format!("{head}{size};name=value;q=\"x\"\r\n{body}\r\n0\r\nx-trailer: 1\r\n\r\n");
    assert_eq!(gateway.exchange(good.as_bytes()).status(), 200);
    let seen = upstream.chats().pop().unwrap().request;
    assert_eq!(
        seen.body,
        body.as_bytes(),
        "extensions and trailers are framing"
    );
    assert_eq!(seen.head.get("x-trailer"), None);
    gateway.stands(&upstream);
}

#[test]
fn only_the_exact_listed_path_is_forwarded() {
    let (upstream, mut gateway) = started();
    untouched(&gateway, &upstream, "odd paths", || {
        for path in [
            "/v1/../api/delete",
            "/v1/%2e%2e/api/delete",
            "/v1/%2E%2E/api/delete",
            "/v1/..;a=b/api/delete",
            "/v1;a=b/models",
            "//api/delete",
            "/v1//models",
            "/v1/models%2f..%2f..%2fapi%2fdelete",
            "/v1/models%5c..",
            "/v1/models/%252e%252e/x",
            "\\api\\delete",
            "/V1/models",
            "/v1/Models",
            "/v1/models/",
            "/v1/models%00",
            "/v1/mod%65ls",
            "/v1/models#x",
            "/v1/models/../../api/delete",
            "/v1/models/a/../b",
            "/app/zed/../v1/models",
            "/app//v1/models",
            "/app/a/app/b/v1/models",
            "/app/%2e%2e/v1/models",
            "/v1/models\u{e9}",
            "*",
            "v1/models",
            "?",
        ] {
            let answer = gateway.get(path);
            assert!(
                matches!(answer.status(), 400 | 404),
                "{path}: {} {}",
                answer.status(),
                answer.text()
            );
            assert!(answer.json()["error"]["message"].is_string(), "{path}");
        }
    });
    for query in ["?x=../..", "?key=secret", "?limit=10&x=%2e%2e"] {
        assert_eq!(gateway.get(&format!("/v1/models{query}")).status(), 200);
    }
    let targets: Vec<String> = upstream.look(|state| {
        let log = state.log.iter().map(|seen| seen.request.target.clone());
        log.filter(|target| target.contains('?')).collect()
    });
    assert_eq!(
        targets,
        ["/v1/models?limit=10"],
        "of a query what is documented"
    );
    gateway.stands(&upstream);
}

#[test]
fn nothing_private_or_hop_by_hop_goes_up_and_the_body_goes_as_it_is() {
    let (upstream, mut gateway) = started();
    let body = r#"{"model":"m","seed":12345678901234567890123,"temperature":1.0,"x":{"b":1,"a":[ ]},"messages":[{"role":"user","content":"CANARY-7f3a"}]}"#;
    let extra = [
        ("connection", "x-secret, accept"),
        ("x-secret", "LEAK1"),
        ("accept", "LEAK/9"),
        ("te", "trailers"),
        ("trailer", "LEAK"),
        ("keep-alive", "timeout=5"),
        ("proxy-authorization", "LEAK2"),
        ("cookie", "LEAK3"),
        ("origin", "http://localhost:3000"),
        ("referer", "http://localhost/LEAK4"),
        ("x-forwarded-for", "LEAK5"),
        ("x-forwarded-host", "LEAK5b"),
        ("forwarded", "for=LEAK6"),
        ("accept-encoding", "gzip"),
        ("x-anything", "LEAK7"),
        ("x-oneslot-token", "LEAK8"),
        ("authorization", "Bearer sk-of-the-client"),
    ];
    let chunked = {
        let mut bytes = start(&gateway).into_bytes();
        for (name, value) in extra {
            bytes.extend(format!("{name}: {value}\r\n").bytes());
        }
        bytes.extend(b"transfer-encoding: chunked\r\n\r\n");
        bytes.extend(chunk(&body.as_bytes()[..20]));
        bytes.extend(chunk(&body.as_bytes()[20..]));
        bytes.extend(b"0\r\n\r\n");
        bytes
    };
    let whole = gateway.request_with("POST", "/v1/chat/completions", &extra, body.as_bytes());
    for bytes in [whole, chunked] {
        let answer = gateway.exchange(&bytes);
        assert_eq!(answer.status(), 200, "{}", answer.text());
        let seen = upstream.chats().pop().unwrap().request;
        let head = String::from_utf8_lossy(&seen.raw_head).to_lowercase();
        assert!(!head.contains("leak"), "{head}");
        for name in [
            "origin",
            "referer",
            "cookie",
            "te",
            "trailer",
            "accept-encoding",
            "x-secret",
            "connection",
            "keep-alive",
            "expect",
            "transfer-encoding",
        ] {
            assert_eq!(seen.head.get(name), None, "{name}: {head}");
        }
        let host = upstream.address().to_string();
        assert_eq!(
            seen.head.get("host"),
            Some(host.as_str()),
            "its own authority"
        );
        let length = body.len().to_string();
        assert_eq!(
            seen.head.get("content-length"),
            Some(length.as_str()),
            "one framing"
        );
        assert_eq!(
            seen.head.get("authorization"),
            Some("Bearer sk-of-the-client")
        );
        assert_eq!(seen.body, body.as_bytes(), "byte for byte");
    }
    gateway.stands(&upstream);
}

#[test]
fn a_request_behind_a_request_waits_its_turn_and_a_refused_one_is_the_last() {
    let (upstream, mut gateway) = started();
    let good = gateway.request("GET", "/v1/models", b"");
    let bad = request("GET", "/v1/models", &[("host", "a"), ("host", "b")], b"");
    let mut client = gateway.open(&[&good[..], &good, &bad, &good].concat());
    assert_eq!(client.finish().status(), 200);
    assert_eq!(client.finish().status(), 200);
    refused(&client.finish(), 400, "BAD_REQUEST", Advice::Never);
    client.closed();
    assert!(
        client.raw().is_empty(),
        "nothing behind a refused request is read"
    );
    gateway.stands(&upstream);
}

#[test]
fn a_go_ahead_is_given_only_to_a_body_that_may_come() {
    let (upstream, mut gateway) = started();
    let body = chat::whole("x").to_string();
    let start = start(&gateway);
    let mut client: Client = gateway.open(
        format!(
            "{start}expect: 100-continue\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .as_bytes(),
    );
    client.raw_until(b"HTTP/1.1 100 Continue\r\n\r\n");
    client.send(body.as_bytes());
    assert_eq!(client.finish().status(), 200);
    for (field, status) in [
        (format!("content-length: {}", 64 * 1024 * 1024 + 1), "413"),
        (
            format!(
                "content-length: {}\r\norigin: https://evil.example",
                body.len()
            ),
            "403",
        ),
    ] {
        let bytes = format!("{start}expect: 100-continue\r\n{field}\r\n\r\n");
        let mut client = gateway.open(bytes.as_bytes());
        client.closed();
        let raw = client.raw();
        assert!(find(&raw, b" 100 ").is_none(), "no go-ahead: {field}");
        assert!(
            raw.starts_with(format!("HTTP/1.1 {status}").as_bytes()),
            "{field}"
        );
    }
    gateway.stands(&upstream);
}

#[test]
fn a_body_that_was_cut_to_the_window_goes_up_with_one_length_of_its_own() {
    let upstream = Upstream::start(Flavour::LlamaCpp { window: 2048 });
    let mut gateway = quiet(&upstream).start();
    let body = chat::of(&chat::history(30, 60)).to_string();
    let chunked = {
        let mut bytes = start(&gateway).into_bytes();
        bytes.extend(b"transfer-encoding: chunked\r\nconnection: x-foo\r\nx-foo: 1\r\n\r\n");
        bytes.extend(chunk(body.as_bytes()));
        bytes.extend(b"0\r\n\r\n");
        bytes
    };
    for bytes in [
        gateway.request("POST", "/v1/chat/completions", body.as_bytes()),
        chunked,
    ] {
        let answer = gateway.exchange(&bytes);
        assert_eq!(answer.status(), 200, "{}", answer.text());
        assert!(answer.head.get("x-oneslot-dropped-messages").is_some());
        let seen = upstream.chats().pop().unwrap().request;
        assert!(seen.body.len() < body.len(), "it was cut");
        let length = seen.body.len().to_string();
        assert_eq!(seen.head.get("content-length"), Some(length.as_str()));
        assert_eq!(seen.head.get("transfer-encoding"), None);
        assert_eq!(seen.head.get("x-foo"), None);
        assert!(seen.json().is_object(), "whole JSON");
    }
    gateway.stands(&upstream);
}

#[test]
fn a_configured_key_replaces_the_clients_and_goes_to_no_other_host() {
    let (other, upstream) = (Upstream::plain(), Upstream::plain());
    upstream.demand_key("sk-configured");
    let mut gateway = quiet(&upstream)
        .config("upstream.api_key = \"sk-configured\"")
        .start();
    upstream.next_chat(Script::new().send(&response(
        307,
        &[("location", &format!("{}/v1/chat/completions", other.url()))],
        b"",
    )));
    for _ in 0..2 {
        let body = chat::whole("x").to_string();
        let fields = [("authorization", "Bearer k1"), ("x-api-key", "k2")];
        gateway.exchange(&gateway.request_with(
            "POST",
            "/v1/chat/completions",
            &fields,
            body.as_bytes(),
        ));
        let seen = upstream.chats().pop().unwrap().request;
        assert_eq!(seen.head.get("authorization"), Some("Bearer sk-configured"));
        assert_eq!(seen.head.get("x-api-key"), None);
    }
    assert_eq!(other.connections(), 0, "a redirect is not followed");
    gateway.stands(&upstream);
}
