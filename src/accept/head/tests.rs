//! Every reading of a head that two programs could disagree on.

use super::*;

fn judged(head: &[u8]) -> Result<HeadFacts, Refusal> {
    judge(head, &HeadLimits::default())
}

/// A `POST` with these further fields, each with its line end.
fn with(fields: &str) -> Vec<u8> {
    format!("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost:1\r\n{fields}\r\n").into_bytes()
}

fn target(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: localhost:1\r\n\r\n").into_bytes()
}

fn is_bad(head: &[u8]) -> bool {
    let limits = HeadLimits::default();
    let early = matches!(
        find_end(head, &limits),
        Progress::Refused(Refusal::BadRequest { .. })
    );
    early || matches!(judged(head), Err(Refusal::BadRequest { .. }))
}

#[test]
fn a_plain_head_tells_its_framing() {
    let cases = [
        ("", BodyFraming::None),
        ("Content-Length: 0\r\n", BodyFraming::None),
        ("Content-Length: 6\r\n", BodyFraming::Length(6)),
        ("content-length:\t7 \r\n", BodyFraming::Length(7)),
        ("Transfer-Encoding: chunked\r\n", BodyFraming::Chunked),
        ("transfer-encoding: Chunked\r\n", BodyFraming::Chunked),
        ("X-Name: caf\u{e9} \r\n", BodyFraming::None),
    ];
    for (fields, framing) in cases {
        let facts = judged(&with(fields)).unwrap();
        assert_eq!(facts.framing, framing, "{fields:?} frames the body so");
        assert_eq!(facts.version, Version::Http11);
    }
    let facts = judged(&with("Expect: 100-Continue\r\nContent-Length: 9\r\n")).unwrap();
    assert!(facts.expect_continue, "the client waits for a go-ahead");
}

#[test]
fn contradicting_or_odd_framings_are_refused() {
    let cases = [
        "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n",
        "Content-Length: 6\r\nContent-Length: 7\r\n",
        "Content-Length: 6\r\nContent-Length: 6\r\n",
        "Content-Length: +6\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 0x6\r\n",
        "Content-Length: 6, 6\r\n",
        "Content-Length: \r\n",
        "Content-Length: 1e1\r\n",
        "Content-Length: 6 6\r\n",
        "Content-Length: 111111111111111111111111111111\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: ,chunked\r\n",
        "Transfer-Encoding: chunked,\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding:\r\n",
        "Transfer-Encoding: \"chunked\"\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: \u{b}chunked\r\n",
    ];
    for fields in cases {
        assert!(is_bad(&with(fields)), "{fields:?} has two readings");
    }
    let old = b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert!(is_bad(old), "HTTP/1.0 knows no chunks");
}

#[test]
fn host_must_be_there_once_and_be_plain() {
    let none = b"GET / HTTP/1.1\r\nAccept: */*\r\n\r\n";
    assert!(is_bad(none), "HTTP/1.1 without a Host");
    for fields in [
        "Host: evil\r\n",
        "Host: localhost:1\r\n",
        "hOST: localhost:1\r\n",
    ] {
        assert!(is_bad(&with(fields)), "a second Host, {fields:?}");
    }
    for host in [
        &b"loc\xffalhost"[..],
        b"a b",
        b"a/b",
        b"u@localhost",
        b"a,b",
        b"a\x00",
    ] {
        let mut head = b"GET / HTTP/1.1\r\nHost: ".to_vec();
        head.extend_from_slice(host);
        head.extend_from_slice(b"\r\n\r\n");
        assert!(is_bad(&head), "{host:?} is no host");
    }
    let old = judged(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(
        old.version,
        Version::Http10,
        "HTTP/1.0 without a Host is well formed; the Host gate says no to it"
    );
    let twice = b"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n";
    assert!(is_bad(twice), "two Hosts in HTTP/1.0");
}

#[test]
fn broken_lines_and_names_are_refused() {
    let cases: [&[u8]; 15] = [
        b"X-A: 1\n",
        b"X-A: 1\rX-B: 2\r\n",
        b"X-A: 1\r\n folded\r\n",
        b"X-A: 1\r\n\tfolded\r\n",
        b"X-A : 1\r\n",
        b" X-A: 1\r\n",
        b": 1\r\n",
        b"X-A\r\n",
        b"X A: 1\r\n",
        b"X-\xc3\xa9: 1\r\n",
        b"X-A: a\x00b\r\n",
        b"X-A: a\x1bb\r\n",
        b"X-A: a\x7fb\r\n",
        b"X-A: \x0ca\r\n",
        b"X(A): 1\r\n",
    ];
    for fields in cases {
        let mut head = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
        head.extend_from_slice(fields);
        head.extend_from_slice(b"\r\n");
        assert!(is_bad(&head), "{:?}", String::from_utf8_lossy(fields));
    }
    assert!(is_bad(b"GET / HTTP/1.1\nHost: a\n\n"), "bare line feeds");
    assert!(
        is_bad(b"GET / HTTP/1.1\r\nHost: a\n\n"),
        "a bare line feed at the end"
    );
}

#[test]
fn names_that_imitate_known_ones_are_refused() {
    for name in [
        "Content_Length",
        "transfer_encoding",
        "X_API_KEY",
        "content_type",
    ] {
        assert!(is_bad(&with(&format!("{name}: 1\r\n"))), "{name} shadows");
    }
    let own = judged(&with("my_header: 1\r\n"));
    assert!(own.is_ok(), "a name of one's own may have an underscore");
}

#[test]
fn methods_and_versions_are_a_closed_set() {
    for line in [
        "CONNECT localhost:1 HTTP/1.1",
        "TRACE / HTTP/1.1",
        "get / HTTP/1.1",
        "Get / HTTP/1.1",
        "BREW / HTTP/1.1",
        "PROPFIND / HTTP/1.1",
        "GET / HTTP/1.2",
        "GET / HTTP/2.0",
        "GET / HTTP/0.9",
        "GET / http/1.1",
        "GET /",
        "GET / x HTTP/1.1",
        "GET  / HTTP/1.1",
        "GET\t/ HTTP/1.1",
        "GET / HTTP/1.1 ",
        " GET / HTTP/1.1",
        "PRI * HTTP/2.0",
    ] {
        let head = format!("{line}\r\nHost: localhost:1\r\n\r\n");
        assert!(is_bad(head.as_bytes()), "{line:?}");
    }
    for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let head = format!("{method} / HTTP/1.1\r\nHost: localhost:1\r\n\r\n");
        assert!(judged(head.as_bytes()).is_ok(), "{method} may be routed");
    }
    assert!(is_bad(&with("Upgrade: websocket\r\n")), "no other protocol");
    assert!(
        is_bad(&with("Upgrade: h2c, websocket\r\n")),
        "nor one beside h2c"
    );
    assert!(
        !is_bad(&with(
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        )),
        "an offer of HTTP/2 is passed over"
    );
}

#[test]
fn targets_with_a_second_reading_are_refused() {
    for path in [
        "/v1/../api/delete",
        "/v1/%2e%2e/api/delete",
        "/v1/%2E./api/delete",
        "/v1/..;a=b/api/delete",
        "//api/delete",
        "/v1//models",
        "/v1/models%2f..%2f..%2fapi%2fdelete",
        "\\api\\delete",
        "/api\\delete",
        "/v1%5cmodels",
        "/v1/models%00",
        "/v1/./models",
        "/v1/models/..",
        "/v1/models/.",
        "/..",
        "/v1/models;x",
        "/v1/m\u{e9}",
        "/v1/models#top",
        "/a\tb",
        "*",
        "http://evil.example/v1/models",
        "http://localhost:1/v1/models",
        "localhost:1",
        "",
        "/v1/models?x=a\u{e9}",
        "/v1/models?x=a\"b",
    ] {
        assert!(is_bad(&target(path)), "{path:?} may not be routed");
    }
    for path in [
        "/",
        "/v1/models",
        "/v1/models/",
        "/V1/models",
        "/v1/models?x=../..",
        "/v1/models/org/model:7b@main",
        "/app/zed/v1/models?limit=3&a[]=%2e;",
    ] {
        assert!(
            judged(&target(path)).is_ok(),
            "{path:?} is for the routes to judge"
        );
    }
}

#[test]
fn sizes_have_their_own_refusals() {
    let part = |head: &[u8]| match find_end(head, &HeadLimits::default()) {
        Progress::Ends(length) => match judged(&head[..length]) {
            Err(Refusal::TooLarge { part, .. }) => Some(part),
            _ => None,
        },
        Progress::Refused(Refusal::TooLarge { part, .. }) => Some(part),
        Progress::Refused(_) | Progress::More => None,
    };
    let long = |bytes: usize| with(&format!("X-A: {}\r\n", "a".repeat(bytes)));
    assert_eq!(part(&long(33 * 1024)), Some(Part::Head), "a 33 KiB field");
    assert_eq!(part(&long(31 * 1024)), None, "31 KiB fit");
    let fields = |count: usize| with(&"X-A: 1\r\n".repeat(count - 1));
    assert_eq!(part(&fields(65)), Some(Part::Fields), "65 fields");
    assert_eq!(part(&fields(64)), None, "64 fields fit");
    let uri = |bytes: usize| target(&format!("/{}", "a".repeat(bytes - 1)));
    assert_eq!(part(&uri(9 * 1024)), Some(Part::Uri), "a 9 KiB target");
    assert_eq!(part(&uri(40 * 1024)), Some(Part::Uri), "a 40 KiB target");
    assert_eq!(part(&uri(8 * 1024)), None, "8 KiB fit");
    assert_eq!(
        part(&uri(9 * 1024)[..8300]),
        Some(Part::Uri),
        "a target is too long before its line has ended"
    );
}

#[test]
fn what_cannot_become_a_request_is_refused_before_its_end() {
    for start in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"\x00",
        b"GARBAGEGARBAGE",
        b"GET /\r\n",
        b"GET / HTTP/1.1\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ] {
        assert!(
            matches!(
                find_end(start, &HeadLimits::default()),
                Progress::Refused(_)
            ),
            "{start:?} must not be waited on"
        );
    }
    for start in [
        &b"G"[..],
        b"OPTIONS",
        b"GET / HTTP/1.1\r",
        b"GET / HTTP/1.1\r\nHost: a\r\n",
    ] {
        assert_eq!(
            find_end(start, &HeadLimits::default()),
            Progress::More,
            "{start:?} may still become a request"
        );
    }
}

#[test]
fn the_end_is_the_first_empty_line() {
    let mut bytes = with("Content-Length: 4\r\n");
    let length = bytes.len();
    bytes.extend_from_slice(b"\r\n\r\nGET / HTTP/1.1\r\n\r\n");
    assert_eq!(
        find_end(&bytes, &HeadLimits::default()),
        Progress::Ends(length),
        "what follows belongs to the body"
    );
}
