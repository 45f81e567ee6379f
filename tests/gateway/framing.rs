//! Requests that can be read in two ways, as bytes on a socket: the upstream never sees one that
//! the client did not plainly send, and never two.

use std::time::{Duration, Instant};

use crate::support::chat;
use crate::support::client::{Client, request};
use crate::support::flavour::Flavour;
use crate::support::gateway::Gateway;
use crate::support::refused::{Advice, refused};
use crate::support::script::Script;
use crate::support::untouched::{quiet, settled, untouched};
use crate::support::upstream::Upstream;
use crate::support::wire::{chunk, find, response};

fn started() -> (Upstream, Gateway) {
    let upstream = Upstream::plain();
    let gateway = quiet(&upstream).config("queue.max_waiting = 100").start();
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

/// What the upstream may see of a case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum May {
    /// Nothing at all.
    Nothing,
    /// At most the first request, byte for byte as it was written.
    Plain,
    /// Both: the second one is plainly a request of its own, in every reading.
    Both,
}

/// Bytes that can be read in two ways.
struct Case {
    what: String,
    bytes: Vec<u8>,
    may: May,
}

/// Cases of one gateway: each has a chat of its own in front, and one behind it.
struct Cases {
    start: String,
    all: Vec<Case>,
}

impl Cases {
    fn of(gateway: &Gateway) -> Self {
        Self {
            start: start(gateway),
            all: Vec::new(),
        }
    }

    /// The body that the next case sends plainly.
    fn plain(&self) -> String {
        chat::whole(&format!("PLAIN-{}-", self.all.len())).to_string()
    }

    /// A whole request that the next case hides behind or in the body of its first.
    fn tail(&self) -> String {
        let body = chat::whole(&format!("TAIL-{}-", self.all.len())).to_string();
        let length = body.len();
        format!("{}content-length: {length}\r\n\r\n{body}", self.start)
    }

    fn add(&mut self, what: &str, may: May, bytes: impl Into<Vec<u8>>) {
        self.all.push(Case {
            what: what.to_owned(),
            bytes: bytes.into(),
            may,
        });
    }

    /// Sends all of them at once, waits until each was answered or closed, and checks what the
    /// upstream has seen.
    fn check(self, gateway: &Gateway, upstream: &Upstream) {
        let mut clients: Vec<Client> = self
            .all
            .iter()
            .map(|case| {
                let mut client = gateway.connect();
                let _ = client.try_send(&case.bytes);
                client
            })
            .collect();
        for client in &mut clients {
            client.is_silent_for(Duration::from_millis(200));
        }
        crate::support::eventually("nothing is in flight any more", || {
            let queue = gateway.status()["queue"].clone();
            (queue["running"] == 0 && queue["waiting"] == 0).then_some(())
        });
        let seen: Vec<String> = upstream
            .chats()
            .iter()
            .map(|seen| String::from_utf8_lossy(&seen.request.body).into_owned())
            .collect();
        for (at, case) in self.all.iter().enumerate() {
            let count = |word: &str| {
                let word = format!("{word}-{at}-");
                seen.iter().filter(|body| body.contains(&word)).count()
            };
            let (most_plain, most_tail) = match case.may {
                May::Nothing => (0, 0),
                May::Plain => (1, 0),
                May::Both => (1, 1),
            };
            let (plain, tail) = (count("PLAIN"), count("TAIL"));
            assert!(
                plain <= most_plain && tail <= most_tail,
                "{}: the upstream saw {plain} and {tail} behind it",
                case.what
            );
        }
        for (body, seen) in seen.iter().zip(upstream.chats()) {
            assert!(
                serde_json::from_str::<serde_json::Value>(body).is_ok(),
                "whole JSON: {body}"
            );
            let head = &seen.request.head;
            assert_eq!(head.get("transfer-encoding"), None, "one framing");
            assert_eq!(head.all("content-length").len(), 1, "one framing");
        }
        println!(
            "{} ambiguous requests, {} chats reached the upstream",
            self.all.len(),
            seen.len()
        );
    }
}

/// Framings with two readings; `{n}` is a length. With what the upstream may see where the body is
/// as long as `{n}` says and another request follows.
const FRAMINGS: [(&str, May); 30] = [
    (
        "content-length: {n}\r\ntransfer-encoding: chunked",
        May::Nothing,
    ),
    (
        "transfer-encoding: chunked\r\ncontent-length: {n}",
        May::Nothing,
    ),
    (
        "content-length: {n}\r\nTransfer-Encoding: CHUNKED",
        May::Nothing,
    ),
    (
        "content-length: {n}\r\ntransfer_encoding: chunked",
        May::Both,
    ),
    ("content-length: {n}\r\ncontent-length: 7", May::Nothing),
    ("content-length: {n}\r\ncontent-length: {n}", May::Both),
    ("content-length: +{n}", May::Nothing),
    ("content-length: -{n}", May::Nothing),
    ("content-length: 0x{n}", May::Nothing),
    ("content-length: {n}, {n}", May::Nothing),
    ("content-length: {n} {n}", May::Nothing),
    ("content-length: ", May::Nothing),
    ("content-length: 1e1", May::Nothing),
    ("content-length: \"{n}\"", May::Nothing),
    (
        "content-length: 123456789012345678901234567890",
        May::Nothing,
    ),
    ("content-length : {n}", May::Nothing),
    ("content-length:\r\n {n}", May::Nothing),
    ("transfer-encoding: gzip, chunked", May::Nothing),
    ("transfer-encoding: chunked, chunked", May::Nothing),
    (
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
        May::Nothing,
    ),
    ("transfer-encoding: xchunked", May::Nothing),
    ("transfer-encoding: ,chunked", May::Nothing),
    ("transfer-encoding: chunked;a=b", May::Nothing),
    ("transfer-encoding: identity", May::Nothing),
    ("transfer-encoding: chunked, identity", May::Nothing),
    ("transfer-encoding:\x0bchunked", May::Nothing),
    (
        "transfer-encoding: chunked\r\ncontent-length: {n}\r\ncontent-length: {n}",
        May::Nothing,
    ),
    ("transfer-encoding: chunked\r\n folded: 1", May::Nothing),
    ("x: 1\rtransfer-encoding: chunked", May::Nothing),
    (
        "content-length: {n}\r\nx: 1\0transfer-encoding: chunked",
        May::Nothing,
    ),
];

#[test]
fn a_length_with_two_readings_smuggles_nothing() {
    let (upstream, mut gateway) = started();
    let mut cases = Cases::of(&gateway);
    for (framing, may) in FRAMINGS {
        let framed = |n: usize| framing.replace("{n}", &n.to_string());
        // Chunks that end at once: a reader of the length reads on.
        let (start, tail) = (cases.start.clone(), cases.tail());
        let bytes = format!("{start}{}\r\n\r\n0\r\n\r\n{tail}", framed(5));
        cases.add(&format!("empty chunks: {framing}"), may, bytes);
        // A length that covers the hidden request: a reader of chunks reads it.
        let tail = cases.tail();
        let body = format!("0\r\n\r\n{tail}");
        let bytes = format!("{start}{}\r\n\r\n{body}", framed(body.len()));
        cases.add(&format!("covered: {framing}"), May::Nothing, bytes);
        // Chunks that hold a chat, and a length that ends inside it.
        let (plain, tail) = (cases.plain(), cases.tail());
        let body = format!("{:x}\r\n{plain}\r\n0\r\n\r\n{tail}", plain.len());
        let bytes = format!("{start}{}\r\n\r\n{body}", framed(3));
        cases.add(&format!("chunks: {framing}"), May::Plain, bytes);
    }
    assert!(cases.all.len() >= 80);
    cases.check(&gateway, &upstream);
    gateway.stands(&upstream);
}

#[test]
fn an_odd_header_smuggles_nothing() {
    let (upstream, mut gateway) = started();
    let own = gateway.address();
    let mut cases = Cases::of(&gateway);
    let host = format!("host: {own}\r\n");
    let lines = [
        (
            "POST /v1/chat/completions HTTP/1.1\n{host}{length}\n",
            May::Plain,
        ),
        (
            "POST /v1/chat/completions HTTP/1.1\r\n{host}x: 1\n{length}\r\n",
            May::Plain,
        ),
        (
            "post /v1/chat/completions HTTP/1.1\r\n{host}{length}\r\n",
            May::Nothing,
        ),
        (
            "POST  /v1/chat/completions HTTP/1.1\r\n{host}{length}\r\n",
            May::Nothing,
        ),
        (
            "POST /v1/chat/completions HTTP/1.1 \r\n{host}{length}\r\n",
            May::Nothing,
        ),
        (
            "POST /v1/chat/completions HTTP/2.0\r\n{host}{length}\r\n",
            May::Nothing,
        ),
        (
            "POST /v1/chat/completions HTTP/1.2\r\n{host}{length}\r\n",
            May::Nothing,
        ),
        (
            "POST /v1/chat/completions\r\n{host}{length}\r\n",
            May::Nothing,
        ),
        (
            "TRACE /v1/chat/completions HTTP/1.1\r\n{host}{length}\r\n",
            May::Nothing,
        ),
        (
            "CONNECT example.org:443 HTTP/1.1\r\n{host}{length}\r\n",
            May::Nothing,
        ),
        (
            "POST http://{own}/v1/chat/completions HTTP/1.1\r\n{host}{length}\r\n",
            May::Nothing,
        ),
        (
            "POST http://evil.example/v1/chat/completions HTTP/1.1\r\n{host}{length}\r\n",
            May::Nothing,
        ),
        (
            "POST /v1/chat/completions HTTP/1.1\r\n{host}host: evil.example\r\n{length}\r\n",
            May::Nothing,
        ),
        (
            "POST /v1/chat/completions HTTP/1.1\r\n{host}x\0y: 1\r\n{length}\r\n",
            May::Nothing,
        ),
        (
            "POST /v1/chat/completions HTTP/1.1\r\n{host}x: a\0b\r\n{length}\r\n",
            May::Nothing,
        ),
        (
            "POST /v1/chat/completions HTTP/1.1\r\n{host}: empty\r\n{length}\r\n",
            May::Nothing,
        ),
        (
            "POST /v1/chat/completions HTTP/1.1\r\n{host}x: 1\r\n folded\r\n{length}\r\n",
            May::Nothing,
        ),
        (
            "POST /v1/chat/completions HTTP/1.1\r\n{length}\r\n",
            May::Nothing,
        ),
    ];
    for (line, may) in lines {
        let plain = cases.plain();
        let head = line
            .replace("{host}", &host)
            .replace("{own}", &own.to_string())
            .replace("{length}", &format!("content-length: {}\r\n", plain.len()));
        cases.add(line, may, format!("{head}{plain}"));
    }
    for bytes in [
        "\x16\x03\x01\x02\0\x01\0\x01\u{fc}\x03\x03",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "SSH-2.0-x\r\n",
    ] {
        cases.add(bytes, May::Nothing, bytes);
    }
    let plain = cases.plain();
    let old = format!(
        "POST /v1/chat/completions HTTP/1.0\r\n{host}transfer-encoding: chunked\r\n\r\n{:x}\r\n{plain}\r\n0\r\n\r\n",
        plain.len()
    );
    cases.add("chunks in HTTP/1.0", May::Nothing, old);
    cases.check(&gateway, &upstream);
    gateway.stands(&upstream);
}

#[test]
fn an_offer_of_http2_is_ignored() {
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
fn broken_chunks_reach_no_upstream_and_good_ones_are_framed_again() {
    let (upstream, mut gateway) = started();
    let mut cases = Cases::of(&gateway);
    let head = format!("{}transfer-encoding: chunked\r\n\r\n", cases.start);
    let (long, trailers) = ("e".repeat(20_000), "t: 1\r\n".repeat(20_000 / 6));
    // `{s}` is the size in hex, `{b}` the body.
    for chunks in [
        "0x{s}\r\n{b}\r\n0\r\n\r\n",
        "\r\n{b}\r\n0\r\n\r\n",
        " {s}\r\n{b}\r\n0\r\n\r\n",
        "-{s}\r\n{b}\r\n0\r\n\r\n",
        "+{s}\r\n{b}\r\n0\r\n\r\n",
        "ffffffffffffffff\r\n{b}\r\n0\r\n\r\n",
        "fffffffffffffffff\r\n{b}\r\n0\r\n\r\n",
        "{s}\n{b}\r\n0\r\n\r\n",
        "{s}\r\n{b}\n0\r\n\r\n",
        "{s}\r\n{b}\r\n0\n\n",
        "{s};a\rb\r\n{b}\r\n0\r\n\r\n",
        "{s};{long}\r\n{b}\r\n0\r\n\r\n",
        "{s}\r\n{b}\r\n0\r\n{trailers}\r\n",
        "{s}\r\n{b}xx\r\n0\r\n\r\n",
        "zz\r\n{b}\r\n0\r\n\r\n",
    ] {
        let plain = cases.plain();
        let chunks = chunks
            .replace("{s}", &format!("{:x}", plain.len()))
            .replace("{long}", &long)
            .replace("{trailers}", &trailers)
            .replace("{b}", &plain);
        let what: String = chunks.chars().take(40).collect();
        cases.add(&what, May::Nothing, format!("{head}{chunks}"));
    }
    cases.check(&gateway, &upstream);
    let body = chat::whole("x").to_string();
    let size = format!("{:x}", body.len());
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
            "/v1/models/../../api/delete",
            "/v1/models/a/../b",
            "/app/zed/../v1/models",
            "/app//v1/models",
            "/app/a/app/b/v1/models",
            "/app/%2e%2e/v1/models",
            "/v1/models\u{e9}",
            "/v1/models/a%2f..%2f..%2fapi%2fdelete",
            "/v1/models/..%2fapi%2fdelete",
            "/v1/models/%00",
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
            // What hyper does not parse it answers by itself, without a body.
            assert!(answer.body.is_empty() || answer.code().is_some(), "{path}");
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
fn an_encoded_model_id_is_passed_on_as_it_was_sent() {
    let (upstream, mut gateway) = started();
    let ids = [
        "qwen%2Fqwen3-4b",
        "my%20model",
        "qw%65n:7b",
        "org/model%3Alatest",
    ];
    for id in ids {
        gateway.get(&format!("/v1/models/{id}"));
        gateway.get(&format!("/app/zed/v1/models/{id}"));
    }
    let targets: Vec<String> = upstream.look(|state| {
        let log = state.log.iter().map(|seen| seen.request.target.clone());
        log.filter(|target| target.starts_with("/v1/models/"))
            .collect()
    });
    for id in ids {
        let target = format!("/v1/models/{id}");
        let count = targets.iter().filter(|seen| **seen == target).count();
        assert_eq!(count, 2, "{target}: {targets:?}");
    }
    gateway.stands(&upstream);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let (upstream, mut gateway) = started();
    let good = gateway.request("GET", "/v1/models", b"");
    let bad = request("GET", "/v1/models", &[("host", "a"), ("host", "b")], b"");
    let mut client = gateway.open(&[&good[..], &good, &bad].concat());
    assert_eq!(client.finish().status(), 200);
    assert_eq!(client.finish().status(), 200);
    refused(&client.finish(), 400, "BAD_REQUEST", Advice::Never);
    // Two chats on one connection: the second is sent once the first is answered.
    let chats = ["first", "second"].map(|text| {
        let body = chat::whole(text).to_string();
        gateway.request("POST", "/v1/chat/completions", body.as_bytes())
    });
    let before = upstream.chats().len();
    let mut client = gateway.open(&chats.concat());
    assert_eq!(client.finish().status(), 200);
    assert_eq!(client.finish().status(), 200);
    assert_eq!(upstream.chats().len() - before, 2);
    assert_eq!(upstream.most_in_flight(), 1, "never two at once");
    gateway.stands(&upstream);
}

#[test]
fn an_early_refusal_reaches_a_client_that_is_still_sending() {
    let (upstream, mut gateway) = started();
    let own = gateway.address().to_string();
    // Small: read, and the connection is kept. Large: answered, drained and closed.
    for (bytes, is_kept) in [(60 * 1024, true), (20 * 1024 * 1024, false)] {
        let began = Instant::now();
        let body = vec![b'x'; bytes];
        let fields = [
            ("host", "evil.example"),
            ("content-type", "application/json"),
        ];
        let mut client = gateway.open(&request("POST", "/v1/chat/completions", &fields, &body));
        let answer = client.finish();
        refused(&answer, 403, "FORBIDDEN_HOST", Advice::Never);
        let closes = answer.head.get("connection") == Some("close");
        assert_eq!(closes, !is_kept, "{bytes} bytes");
        if is_kept {
            client.send(&request("GET", "/healthz", &[("host", &own)], b""));
            assert_eq!(client.finish().status(), 200);
        } else {
            client.closed();
        }
        println!(
            "a refusal before {bytes} bytes of body took {:?}",
            began.elapsed()
        );
    }
    gateway.stands(&upstream);
}

#[test]
fn only_an_admitted_body_is_asked_for() {
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
        assert!(find(&raw, b" 100 ").is_none(), "no 100 Continue: {field}");
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
