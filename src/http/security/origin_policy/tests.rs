//! Hosts, Origins, Fetch metadata and types of bodies, row by row.

use std::sync::LazyLock;

use super::*;

static HOSTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    ["host.docker.internal", "gw.example:8443"]
        .map(str::to_owned)
        .to_vec()
});
static ORIGINS: LazyLock<Vec<String>> =
    LazyLock::new(|| vec!["https://chat.example:444".to_owned()]);

fn policy() -> OriginPolicy<'static> {
    OriginPolicy {
        allowed_hosts: &HOSTS,
        allowed_origins: &ORIGINS,
    }
}

fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, HeaderValue::try_from(*value).unwrap());
    }
    headers
}

fn host(value: &str) -> Result<(), Refusal> {
    policy().check_host(&headers(&[("host", value)]))
}

fn visit(fields: &[(&'static str, &str)]) -> Result<Visitor, Refusal> {
    policy().visitor(&headers(fields), Area::Relayed)
}

fn is_forbidden<T>(result: &Result<T, Refusal>) -> bool {
    matches!(result, Err(Refusal::ForbiddenOrigin { .. }))
}

#[test]
fn foreign_hosts_are_refused() {
    for value in [
        "evil.example",
        "evil.example:11411",
        "127.0.0.1.evil.example:11411",
        "localhost.evil.example:11411",
        "foo.local:11411",
        "foo.internal:11411",
        "a..localhost:11411",
        ".localhost:11411",
        "a b.localhost:11411",
        "192.168.1.5:11411",
        "0.0.0.0:11411",
        "[::]:11411",
        "localhost.:11411",
        "localhost.",
        "",
        ":11411",
        "localhost:011411",
        "localhost:+11411",
        "localhost:11411:11411",
        "localhost:",
        "127.1:11411",
        "2130706433:11411",
        "128.0.0.1:11411",
        "::1:11411",
        "[::1]x:11411",
        "[0:0:0:0:0:0:0:1]:11411",
        "evil.example@localhost:11411",
        "host.docker.internal.evil:11411",
        "gw.example",
        "gw.example:11411",
        "user@localhost:11411",
    ] {
        let refused = Err(Refusal::ForbiddenHost {
            host: value.to_owned(),
        });
        assert_eq!(host(value), refused, "{value:?} is not ours");
    }
    let long = "a".repeat(5000);
    match host(&long) {
        Err(Refusal::ForbiddenHost { host }) => assert_eq!(host.len(), SHOWN, "it is shortened"),
        other => assert!(other.is_err(), "a long Host is refused as a Host"),
    }
}

#[test]
fn loopback_and_configured_hosts_are_served() {
    for value in [
        "127.0.0.1:11411",
        "127.0.0.1",
        "127.8.9.1:5",
        "localhost",
        "localhost:80",
        "LOCALHOST:11411",
        "LocalHost:11411",
        "tauri.localhost",
        "a.b-c.localhost:3000",
        "[::1]:11411",
        "[::1]",
        "host.docker.internal:11411",
        "HOST.docker.internal",
        "gw.example:8443",
    ] {
        assert_eq!(host(value), Ok(()), "{value:?} is ours");
    }
}

#[test]
fn no_host_and_two_hosts_are_bad_requests() {
    let two = headers(&[("host", "localhost:11411"), ("host", "localhost:11411")]);
    for map in [HeaderMap::new(), two] {
        let checked = policy().check_host(&map);
        assert!(
            matches!(checked, Err(Refusal::BadRequest { .. })),
            "{map:?}"
        );
    }
}

#[test]
fn foreign_origins_are_refused() {
    for origin in [
        "https://evil.example",
        "null",
        "chrome-extension://x",
        "http://localhost:11411.evil",
        "http://localhost.evil.example",
        "https://localhost@evil.example",
        "http://127.0.0.1.evil.example",
        "http://localhost:3000/",
        "http://localhost:",
        "http://localhost:3000:1",
        "http://localhost:123456",
        "http://a..localhost:3000",
        "http://0.0.0.0:3000",
        "capacitor://other",
        "ionic://localhost:1",
        "wails://evil",
        "http://[::]:3000",
        "http://",
        "ws://localhost:3000",
        "localhost:3000",
        "",
        "*",
        "https://chat.example",
        "https://chat.example:443",
        "http://chat.example:444",
        "https://chat.example:4444",
        "http://localhost:3000 https://evil.example",
        "http://localhost:3000, https://evil.example",
        "app://",
        "app://a b",
        "app://obsidian.md/",
        "app://obsidian.md@evil.example",
        "app://:80",
        "tauri://localhost:port",
        "file://evil.example",
        "file:///etc/passwd",
        "APP://obsidian.md",
    ] {
        let refused = visit(&[("origin", origin)]);
        assert_eq!(
            refused,
            Err(Refusal::ForbiddenOrigin {
                origin: origin.to_owned()
            }),
            "the panel shows {origin:?} as it was sent"
        );
    }
    let two = [
        ("origin", "http://localhost:3000"),
        ("origin", "https://evil.example"),
    ];
    assert!(is_forbidden(&visit(&two)), "two Origins");
    let bytes = {
        let mut map = HeaderMap::new();
        map.insert(ORIGIN, HeaderValue::from_bytes(b"app://\xff").unwrap());
        map
    };
    assert!(
        is_forbidden(&policy().visitor(&bytes, Area::Relayed)),
        "odd bytes"
    );
}

#[test]
fn loopback_app_and_configured_origins_are_served() {
    for origin in [
        "http://localhost:3000",
        "http://localhost",
        "https://localhost:8443",
        "http://127.0.0.1:5173",
        "http://[::1]:5173",
        "http://tauri.localhost",
        "http://127.5.5.5:1",
        "tauri://localhost",
        "app://obsidian.md",
        "capacitor://localhost",
        "ionic://localhost",
        "wails://wails",
        "file://",
        "vscode-webview://abc",
        "vscode-file://vscode-app",
        "https://chat.example:444",
    ] {
        // A listed page is judged by its Origin; what Fetch metadata says of it is the browser's.
        for site in ["cross-site", "same-site", "same-origin"] {
            let visitor = visit(&[("origin", origin), ("sec-fetch-site", site)]);
            let page = Visitor::Page {
                origin: HeaderValue::try_from(origin).unwrap(),
            };
            assert_eq!(visitor, Ok(page), "{origin:?} is echoed");
        }
    }
}

#[test]
fn fetch_metadata_is_judged_without_an_origin() {
    let site = |value: &str| visit(&[("sec-fetch-site", value)]);
    assert!(
        is_forbidden(&site("cross-site")),
        "an image on a foreign page"
    );
    assert!(
        is_forbidden(&site("same-site")),
        "another port of the same machine"
    );
    assert!(
        is_forbidden(&site("something-new")),
        "an unknown relation is not a good one"
    );
    assert_eq!(
        site("none"),
        Ok(Visitor::Program),
        "typed into the address bar"
    );
    assert_eq!(site("same-origin"), Ok(Visitor::SameOrigin));
    assert_eq!(visit(&[]), Ok(Visitor::Program), "an ordinary program");
    let both = [("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")];
    assert!(is_forbidden(&visit(&both)), "one bad value is enough");
}

#[test]
fn node_is_not_taken_for_a_browser() {
    let node = visit(&[("sec-fetch-mode", "cors")]);
    assert_eq!(node, Ok(Visitor::Program), "Sec-Fetch-Mode is never judged");
}

#[test]
fn no_page_reads_the_gateways_own_paths() {
    let own = |fields: &[(&'static str, &str)]| policy().visitor(&headers(fields), Area::Own);
    for origin in [
        "http://localhost:3000",
        "tauri://localhost",
        "https://chat.example:444",
    ] {
        assert!(is_forbidden(&own(&[("origin", origin)])), "{origin:?}");
    }
    for site in ["cross-site", "same-site", "same-origin", "odd"] {
        assert!(is_forbidden(&own(&[("sec-fetch-site", site)])), "{site:?}");
    }
    assert_eq!(own(&[("sec-fetch-site", "none")]), Ok(Visitor::Program));
    assert_eq!(own(&[]), Ok(Visitor::Program));
}

#[test]
fn a_browsers_body_must_be_json() {
    let page = Visitor::Page {
        origin: HeaderValue::from_static("http://localhost:3000"),
    };
    let types = [
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
        Some("multipart/form-data; boundary=x"),
        Some("application/jsonp"),
        Some("text/plain; application/json"),
        None,
    ];
    for sent in types {
        let map = sent.map_or_else(HeaderMap::new, |sent| headers(&[("content-type", sent)]));
        for browser in [&page, &Visitor::SameOrigin] {
            let judged = check_body_type(&Method::POST, &map, browser);
            assert!(
                matches!(judged, Err(Refusal::UnsupportedMediaType { .. })),
                "{sent:?} from {browser:?}"
            );
            assert_eq!(
                check_body_type(&Method::GET, &map, browser),
                Ok(()),
                "a GET has no body"
            );
        }
        let judged = check_body_type(&Method::POST, &map, &Visitor::Program);
        assert_eq!(judged, Ok(()), "plain curl -d may send {sent:?}");
    }
    let twice = headers(&[
        ("content-type", "application/json"),
        ("content-type", "text/plain"),
    ]);
    assert!(
        check_body_type(&Method::POST, &twice, &page).is_err(),
        "two types"
    );
    for sent in [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON",
    ] {
        let map = headers(&[("content-type", sent)]);
        assert_eq!(
            check_body_type(&Method::POST, &map, &page),
            Ok(()),
            "{sent:?}"
        );
    }
}

#[test]
fn compressed_bodies_are_always_refused() {
    for sent in ["gzip", "zstd", "br", "identity, gzip", ""] {
        let map = headers(&[("content-encoding", sent)]);
        let judged = check_body_type(&Method::POST, &map, &Visitor::Program);
        assert!(
            matches!(judged, Err(Refusal::UnsupportedMediaType { .. })),
            "{sent:?}"
        );
    }
    let map = headers(&[("content-encoding", "Identity")]);
    assert_eq!(
        check_body_type(&Method::POST, &map, &Visitor::Program),
        Ok(())
    );
}
