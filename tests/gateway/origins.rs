//! Who may talk: hosts, pages, keys and routes, each refusal leaving the upstream untouched.

use sha2::{Digest, Sha256};

use crate::support::chat;
use crate::support::client::{Client, Response, request};
use crate::support::gateway::{Gateway, Setup};
use crate::support::refused::{Advice, refused, refused_on};
use crate::support::script::Script;
use crate::support::untouched::{quiet, settled, untouched};
use crate::support::upstream::Upstream;
use crate::support::wire::{Head, find, response};

/// Every route of the allow-list, management left out.
const ROUTES: [(&str, &str); 27] = [
    ("POST", "/v1/chat/completions"),
    ("GET", "/"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/m"),
    ("GET", "/models"),
    ("GET", "/api/tags"),
    ("GET", "/api/ps"),
    ("GET", "/api/version"),
    ("GET", "/api/v0/models"),
    ("GET", "/api/v1/models"),
    ("GET", "/props"),
    ("GET", "/health"),
    ("POST", "/api/show"),
    ("POST", "/tokenize"),
    ("POST", "/detokenize"),
    ("POST", "/apply-template"),
    ("POST", "/v1/messages/count_tokens"),
    ("POST", "/v1/chat/completions/input_tokens"),
    ("POST", "/v1/responses/input_tokens"),
    ("GET", "/oneslot/status"),
    ("GET", "/oneslot/events"),
    ("GET", "/metrics"),
    ("POST", "/oneslot/pause"),
    ("POST", "/oneslot/resume"),
    ("POST", "/oneslot/check"),
    ("POST", "/oneslot/unload"),
    ("DELETE", "/oneslot/requests/x"),
];

const MANAGEMENT: [&str; 14] = [
    "/api/delete",
    "/api/pull",
    "/api/push",
    "/api/create",
    "/api/copy",
    "/api/blobs/sha256:x",
    "/api/signout",
    "/api/user/keys/x",
    "/debug/pprof/heap",
    "/props",
    "/slots",
    "/lora-adapters",
    "/models/load",
    "/models/unload",
];

fn started() -> (Upstream, Gateway) {
    let upstream = Upstream::plain();
    let gateway = quiet(&upstream).start();
    settled(&gateway, &upstream);
    (upstream, gateway)
}

fn no_cors(head: &Head) {
    for (name, value) in &head.fields {
        assert!(
            !name.to_ascii_lowercase().starts_with("access-control"),
            "no CORS header for a stranger: {name}: {value}"
        );
    }
}

/// What the configuration holds of `sk-gateway-key`.
fn hash() -> String {
    let digest = Sha256::digest(b"sk-gateway-key");
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One request with the body its method wants.
fn ask(gateway: &Gateway, method: &str, path: &str, extra: &[(&str, &str)]) -> Response {
    let body = if method == "POST" {
        chat::whole("CANARY-7f3a").to_string()
    } else {
        String::new()
    };
    let bytes = gateway.request_with(method, path, extra, body.as_bytes());
    if method == "HEAD" {
        let mut client = gateway.open(&bytes);
        let head = client.finish_bodiless();
        return Response {
            head,
            body: Vec::new(),
            end: crate::support::client::End::Whole,
        };
    }
    gateway.exchange(&bytes)
}

#[test]
fn a_foreign_host_is_refused_on_every_route_and_leaves_the_upstream_untouched() {
    let (upstream, mut gateway) = started();
    let port = gateway.port();
    let hosts = [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("127.0.0.1.evil.example:{port}"),
        format!("localhost.evil.example:{port}"),
        format!("foo.local:{port}"),
        format!("foo.internal:{port}"),
        format!("a..localhost:{port}"),
        format!("192.168.1.5:{port}"),
        format!("0.0.0.0:{port}"),
        format!("[::]:{port}"),
        format!(":{port}"),
        format!("localhost.:{port}"),
    ];
    untouched(&gateway, &upstream, "foreign hosts", || {
        for host in &hosts {
            let mut wanted: Vec<(&str, &str)> = ROUTES.to_vec();
            wanted.extend([
                ("OPTIONS", "/v1/chat/completions"),
                ("GET", "/healthz"),
                ("GET", "/index.html"),
                ("PUT", "/nothing"),
            ]);
            for (method, path) in wanted {
                let fields = [
                    ("host", host.as_str()),
                    ("content-type", "application/json"),
                ];
                let answer = gateway.exchange(&request(method, path, &fields, b"{}"));
                refused_on(path, &answer, 403, "FORBIDDEN_HOST", Advice::Never);
                no_cors(&answer.head);
            }
            let bytes = request("HEAD", "/v1/models", &[("host", host)], b"");
            let head = gateway.open(&bytes).finish_bodiless();
            assert_eq!(head.status(), 403, "HEAD for {host:?}");
        }
    });
    // The status shows them, and doctor what to do about each.
    let seen = gateway.status()["refused_origins"].clone();
    let names: Vec<&str> = seen
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| one["value"].as_str())
        .collect();
    assert!(names.contains(&"evil.example"), "{seen}");
    let doctor = gateway.cli(&["doctor"]);
    let told = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(
        told.contains("evil.example") && told.contains("access.allowed_hosts"),
        "{told}"
    );
    gateway.stands(&upstream);
}

#[test]
fn no_host_and_two_hosts_are_bad_requests() {
    let (upstream, mut gateway) = started();
    let own = gateway.address().to_string();
    untouched(&gateway, &upstream, "missing and double hosts", || {
        for (bytes, status) in [
            ("GET /v1/models HTTP/1.1\r\n\r\n".to_owned(), 400),
            (
                format!("GET /v1/models HTTP/1.1\r\nhost: {own}\r\nhost: evil.example\r\n\r\n"),
                400,
            ),
            (
                format!("GET /v1/models HTTP/1.1\r\nhost: evil.example\r\nHost: {own}\r\n\r\n"),
                400,
            ),
            ("GET /v1/models HTTP/1.0\r\n\r\n".to_owned(), 400),
            (
                format!("GET http://evil.example/v1/models HTTP/1.1\r\nhost: {own}\r\n\r\n"),
                400,
            ),
            (
                format!("GET http://{own}/v1/models HTTP/1.1\r\nhost: {own}\r\n\r\n"),
                400,
            ),
        ] {
            let mut client = gateway.open(bytes.as_bytes());
            let answer = client.finish();
            assert_eq!(answer.status(), status, "{bytes:?}: {}", answer.text());
            assert!(answer.code().is_some());
        }
        let mut odd = format!("GET /v1/models HTTP/1.1\r\nhost: {own}").into_bytes();
        odd.extend_from_slice(b"\xff\r\n\r\n");
        assert_eq!(gateway.exchange(&odd).status(), 403, "a byte no host has");
    });
    gateway.stands(&upstream);
}

#[test]
fn both_loopback_addresses_and_localhost_are_good_hosts() {
    let upstream = Upstream::plain();
    let mut gateway = quiet(&upstream).arg("--listen").arg("[::1]:0").start();
    let port = gateway.port();
    for host in ["127.0.0.1", "localhost", "LOCALHOST"] {
        let host = format!("{host}:{port}");
        let answer = gateway.exchange(&request("GET", "/v1/models", &[("host", &host)], b""));
        assert_eq!(answer.status(), 200, "{host}: {}", answer.text());
    }
    let six = std::net::SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, port));
    let host = format!("[::1]:{port}");
    let mut client = crate::support::client::Client::connect(six);
    client.send(&request("GET", "/v1/models", &[("host", &host)], b""));
    assert_eq!(client.finish().status(), 200, "{host}, on its own listener");
    gateway.stands(&upstream);
}

const STRANGERS: [&str; 12] = [
    "https://evil.example",
    "null",
    "chrome-extension://x",
    "http://localhost.evil.example",
    "https://localhost@evil.example",
    "http://127.0.0.1.evil.example",
    "http://[::1].evil.example",
    "http://localhost:80:80",
    "HTTPS://EVIL.EXAMPLE",
    "http://0.0.0.0",
    "http://192.168.1.5",
    "file",
];

#[test]
fn a_foreign_page_is_refused_on_every_method_and_leaves_the_upstream_untouched() {
    let (upstream, mut gateway) = started();
    let port = gateway.port();
    let near = format!("http://localhost:{port}.evil");
    untouched(&gateway, &upstream, "foreign origins", || {
        for origin in STRANGERS.into_iter().chain([near.as_str()]) {
            for (method, path) in [
                ("GET", "/v1/models"),
                ("HEAD", "/v1/models"),
                ("GET", "/"),
                ("GET", "/health"),
                ("GET", "/nothing"),
                ("POST", "/v1/chat/completions"),
                ("OPTIONS", "/v1/chat/completions"),
                ("DELETE", "/api/delete"),
            ] {
                let answer = ask(&gateway, method, path, &[("origin", origin)]);
                assert_eq!(answer.status(), 403, "{method} {path} from {origin}");
                assert_eq!(answer.code(), Some("FORBIDDEN_ORIGIN"), "{origin}");
                no_cors(&answer.head);
            }
        }
        // Two Origins could be read either way.
        let twice = [
            ("origin", "http://localhost:1"),
            ("origin", "https://evil.example"),
        ];
        assert_eq!(ask(&gateway, "GET", "/v1/models", &twice).status(), 403);
    });
    let doctor = gateway.cli(&["doctor"]);
    let told = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(
        told.contains("https://evil.example") && told.contains("access.allowed_origins"),
        "the hint how to allow it: {told}"
    );
    gateway.stands(&upstream);
}

#[test]
fn desktop_shells_and_local_pages_are_served_with_one_exact_origin_on_errors_and_streams_too() {
    let (upstream, mut gateway) = started();
    upstream.chats_always(|request| {
        let stream = request.json()["stream"] == true;
        let script = if stream {
            Script::streamed("x")
        } else {
            Script::answer("x")
        };
        let _ = script;
        Script::new().send(&response(
            200,
            &[
                ("content-type", "application/json"),
                ("access-control-allow-origin", ""),
                ("access-control-allow-credentials", "true"),
            ],
            br#"{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}"#,
        ))
    });
    for origin in [
        "http://localhost:3000",
        "http://127.0.0.1:5173",
        "http://[::1]:8080",
        "http://tauri.localhost",
        "tauri://localhost",
        "app://obsidian.md",
        "file://",
        "vscode-webview://abc",
        "vscode-file://vscode-app",
    ] {
        for (method, path, status) in [
            ("POST", "/v1/chat/completions", 200),
            ("GET", "/v1/models", 200),
            ("GET", "/nothing", 404),
            ("DELETE", "/v1/models", 405),
            ("POST", "/api/pull", 403),
        ] {
            let answer = ask(&gateway, method, path, &[("origin", origin)]);
            assert_eq!(
                answer.status(),
                status,
                "{method} {path}: {}",
                answer.text()
            );
            assert_eq!(answer.head.all("access-control-allow-origin"), [origin]);
            assert_eq!(answer.head.get("access-control-allow-credentials"), None);
            assert!(
                answer
                    .head
                    .get("vary")
                    .is_some_and(|vary| vary.contains("Origin")),
                "{:?}",
                answer.head
            );
            let exposed = answer
                .head
                .get("access-control-expose-headers")
                .unwrap_or_default();
            for name in ["retry-after", "x-request-id", "x-oneslot-code"] {
                assert!(exposed.contains(name), "{exposed}");
            }
        }
    }
    gateway.stands(&upstream);
}

#[test]
fn fetch_metadata_is_judged_by_its_site_alone() {
    let (upstream, mut gateway) = started();
    for (fields, status) in [
        (&[("sec-fetch-site", "cross-site")][..], 403),
        (&[("sec-fetch-site", "same-site")], 403),
        (&[("sec-fetch-site", "CROSS-SITE")], 403),
        (
            &[("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")],
            403,
        ),
        (&[("sec-fetch-site", "none")], 200),
        (&[("sec-fetch-site", "same-origin")], 200),
        (&[("sec-fetch-mode", "cors")], 200),
        (
            &[("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")],
            200,
        ),
        (&[], 200),
    ] {
        for path in ["/v1/models", "/"] {
            let answer = ask(&gateway, "GET", path, fields);
            assert_eq!(
                answer.status(),
                status,
                "{path} {fields:?}: {}",
                answer.text()
            );
        }
    }
    gateway.stands(&upstream);
}

#[test]
fn a_blind_post_of_a_page_is_refused_before_its_body_and_curl_is_read_as_json() {
    let (upstream, mut gateway) = started();
    let host = gateway.address().to_string();
    let body = chat::whole("CANARY-7f3a").to_string();
    let send = |extra: &[(&str, &str)]| {
        let mut fields = vec![("host", host.as_str())];
        fields.extend_from_slice(extra);
        let bytes = request("POST", "/v1/chat/completions", &fields, body.as_bytes());
        gateway.exchange(&bytes)
    };
    let kinds = [
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
        Some("multipart/form-data; boundary=x"),
        Some("text/json"),
        Some("application/jsonp"),
        None,
    ];
    untouched(&gateway, &upstream, "simple posts", || {
        for kind in kinds {
            for (who, status) in [
                (("origin", "https://evil.example"), 403),
                (("origin", "http://localhost:3000"), 415),
                (("sec-fetch-site", "same-origin"), 415),
                (("sec-fetch-site", "cross-site"), 403),
            ] {
                let mut fields = vec![who];
                fields.extend(kind.map(|kind| ("content-type", kind)));
                let answer = send(&fields);
                assert_eq!(
                    answer.status(),
                    status,
                    "{kind:?} {who:?}: {}",
                    answer.text()
                );
            }
        }
    });
    for kind in kinds
        .into_iter()
        .chain([Some("application/json; charset=utf-8")])
    {
        let fields: Vec<_> = kind
            .map(|kind| ("content-type", kind))
            .into_iter()
            .collect();
        let answer = send(&fields);
        assert_eq!(
            answer.status(),
            200,
            "a program may say {kind:?}: {}",
            answer.text()
        );
    }
    for seen in upstream.chats() {
        let told = seen.request.head.get("content-type").unwrap_or_default();
        assert!(
            told.starts_with("application/json"),
            "the upstream got {told:?}"
        );
        assert_eq!(seen.request.body, body.as_bytes());
    }
    gateway.stands(&upstream);
}

#[test]
fn a_preflight_needs_no_key_and_no_slot_and_other_options_are_not_allowed() {
    let upstream = Upstream::plain();
    let hash = hash();
    let mut gateway = quiet(&upstream)
        .config(&format!(
            "access.require_key = true\naccess.keys = [{{ name = \"zed\", sha256 = \"{hash}\" }}]"
        ))
        .start();
    let key = ("authorization", "Bearer sk-gateway-key");
    let ask = |fields: &[(&str, &str)]| {
        gateway.exchange(&gateway.request_with("OPTIONS", "/v1/chat/completions", fields, b""))
    };
    let wants = [
        ("access-control-request-method", "POST"),
        (
            "access-control-request-headers",
            "authorization,content-type,x-stainless-os,x-stainless-timeout",
        ),
        ("access-control-request-private-network", "true"),
    ];
    let from = |origin: &'static str| {
        let mut fields = vec![("origin", origin)];
        fields.extend(wants);
        ask(&fields)
    };
    let before = upstream.requests();
    let good = from("http://localhost:3000");
    assert_eq!(good.status(), 204, "no key: {}", good.text());
    assert_eq!(
        good.head.all("access-control-allow-origin"),
        ["http://localhost:3000"]
    );
    let names = good
        .head
        .get("access-control-allow-headers")
        .unwrap_or_default();
    for name in wants[1].1.split(',') {
        assert!(names.contains(name), "{names}");
    }
    assert_eq!(good.head.get("access-control-allow-credentials"), None);
    assert_eq!(
        good.head.get("access-control-allow-private-network"),
        Some("true")
    );
    let bad = from("https://evil.example");
    refused(&bad, 403, "FORBIDDEN_ORIGIN", Advice::Never);
    no_cors(&bad.head);
    // What asks for nothing is no preflight.
    let plain = ask(&[key]);
    refused(&plain, 405, "METHOD_NOT_ALLOWED", Advice::Never);
    assert_eq!(plain.head.get("allow"), Some("POST"));
    let page = ask(&[key, ("origin", "http://localhost:3000")]);
    assert_eq!(page.status(), 405);
    assert_eq!(ask(&[]).status(), 401, "and tells nothing without a key");
    assert_eq!(ask(&wants).status(), 401, "a program has no preflight");
    let forwarded = upstream.look(|state| {
        state.log[before..]
            .iter()
            .any(|seen| seen.request.method == "OPTIONS")
    });
    assert!(!forwarded, "never forwarded");
    assert_eq!(gateway.cli(&["status"]).status.code(), Some(0));
    let _ = gateway.is_alive();
}

#[test]
fn without_a_key_every_route_and_every_guess_says_401_and_costs_no_place() {
    let upstream = Upstream::plain();
    let hash = hash();
    let gateway = quiet(&upstream)
        .config(&format!(
            "access.require_key = true\nqueue.max_waiting = 0\naccess.keys = [{{ name = \"zed\", sha256 = \"{hash}\" }}]"
        ))
        .start();
    crate::support::eventually("the first probes are over", || {
        let before = upstream.requests();
        std::thread::sleep(std::time::Duration::from_millis(300));
        (before > 0 && before == upstream.requests()).then_some(())
    });
    let unknown = [
        "/index.html",
        "/v1",
        "/v1/",
        "/v2/models",
        "/api",
        "/api/",
        "/admin",
        "/.env",
        "/login",
        "/favicon.ico",
        "/robots.txt",
        "/oneslot",
        "/oneslot/",
        "/oneslot/config",
        "/metrics/x",
        "/app/zed/v1/models",
        "/app/zed/nothing",
        "/debug/vars",
        "/v1/files",
        "/x?y=z",
    ];
    let wrong: [&[(&str, &str)]; 9] = [
        &[],
        &[("authorization", "Bearer sk-gateway-kex")],
        &[("authorization", "Bearer sk-gateway")],
        &[("authorization", "Bearer sk-gateway-key2")],
        &[("authorization", "Basic c2stZ2F0ZXdheS1rZXk=")],
        &[("authorization", "sk-gateway-key")],
        &[("x-api-key", "SK-GATEWAY-KEY")],
        &[("cookie", "key=sk-gateway-key")],
        &[("x-oneslot-token", "0000000000000000")],
    ];
    let before = (upstream.connections(), upstream.requests());
    for fields in wrong {
        for (method, path) in ROUTES
            .into_iter()
            .chain(unknown.map(|path| ("GET", path)))
            .chain(MANAGEMENT.map(|path| ("POST", path)))
            .chain([
                ("OPTIONS", "/v1/models"),
                ("GET", "/v1/models?key=sk-gateway-key"),
            ])
        {
            let answer = ask(&gateway, method, path, fields);
            refused_on(path, &answer, 401, "UNAUTHORIZED", Advice::Never);
        }
    }
    let nul = b"GET /v1/models HTTP/1.1\r\nauthorization: Bearer sk-gateway-key\0\r\n";
    let own = gateway.address().to_string();
    let bytes = [&nul[..], format!("host: {own}\r\n\r\n").as_bytes()].concat();
    assert_eq!(
        gateway.exchange(&bytes).status(),
        400,
        "a NUL is in no header"
    );
    assert_eq!(
        (upstream.connections(), upstream.requests()),
        before,
        "without a key nothing is reached"
    );
    for good in [
        ("authorization", "Bearer sk-gateway-key"),
        ("authorization", "BEARER sk-gateway-key"),
        ("authorization", "bearer sk-gateway-key"),
        ("x-api-key", "sk-gateway-key"),
    ] {
        let answer = ask(&gateway, "POST", "/v1/chat/completions", &[good]);
        assert_eq!(answer.status(), 200, "{good:?}: {}", answer.text());
    }
    let alive = gateway.get("/healthz");
    assert_eq!(
        (alive.status(), alive.text().as_str()),
        (200, r#"{"ok":true}"#)
    );
    let seen: Vec<u8> = upstream.look(|state| {
        let heads = state
            .log
            .iter()
            .flat_map(|seen| seen.request.raw_head.clone());
        heads.collect()
    });
    assert!(
        find(&seen, b"gateway-key").is_none(),
        "its own key never leaves"
    );
}

#[test]
fn nothing_beyond_loopback_is_served_without_a_key_not_even_after_a_reload() {
    let upstream = Upstream::plain();
    let output = Setup::before(&upstream)
        .config("listen = [\"0.0.0.0:0\"]")
        .arg("--listen")
        .arg("0.0.0.0:0")
        .start_refused();
    assert!(!output.status.success());
    // The file alone says where it serves, so that a change of it would act.
    let gateway = quiet(&upstream)
        .listen("")
        .config("listen = [\"127.0.0.1:0\"]")
        .start();
    let url = upstream.url();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let wide = format!("upstream.base_url = {url:?}\nlisten = [\"0.0.0.0:{port}\"]\n");
    gateway.rewrite_config(&wide);
    let status = gateway.until_status("a notice says why not", |status| {
        status["notices"].to_string().contains("require_key")
    });
    assert!(!listens_everywhere(port), "{status}");
    assert_eq!(gateway.chat(&chat::whole("x")).status(), 200);
    let hash = hash();
    gateway.rewrite_config(&format!(
        "{wide}access.require_key = true\naccess.keys = [{{ name = \"zed\", sha256 = \"{hash}\" }}]\n"
    ));
    crate::support::eventually("with a key it is opened", || {
        listens_everywhere(port).then_some(())
    });
    let asked = || {
        let mut client = Client::connect(([127, 0, 0, 1], port).into());
        let host = format!("127.0.0.1:{port}");
        client.send(&request("GET", "/v1/models", &[("host", &host)], b""));
        client.finish().status()
    };
    assert_eq!(asked(), 401, "and it is asked for");
    // Taking the key away again leaves no open listener behind.
    let told = || gateway.said().matches("other machines can reach").count();
    let before = told();
    gateway.rewrite_config(&wide);
    crate::support::eventually("it is logged again", || (told() > before).then_some(()));
    assert_eq!(asked(), 401, "what was in force stays in force");
}

fn listens_everywhere(port: u16) -> bool {
    std::fs::read_to_string("/proc/net/tcp")
        .unwrap_or_default()
        .lines()
        .any(|line| line.contains(&format!(" 00000000:{port:04X} ")))
}

/// An address of this machine beyond loopback; 192.0.2.1 is reserved, and nothing is sent to it.
fn beyond_loopback() -> Option<std::net::IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback()).then_some(address)
}

#[test]
fn what_is_open_to_others_asks_for_a_key_even_where_closing_it_failed() {
    let upstream = Upstream::plain();
    let Some(here) = beyond_loopback() else {
        println!("this machine has no address beyond loopback: only loopback is tried");
        return;
    };
    let (hash, url) = (hash(), upstream.url());
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let guarded = format!(
        "listen = [\"0.0.0.0:{port}\"]\naccess.require_key = true\naccess.keys = [{{ name = \"zed\", sha256 = \"{hash}\" }}]\n"
    );
    let gateway = quiet(&upstream).listen("").config(&guarded).start();
    let asked = |key: &[(&str, &str)]| {
        let mut client = Client::connect((here, port).into());
        let host = format!("localhost:{port}");
        let mut fields = vec![("host", host.as_str())];
        fields.extend(key);
        client.send(&request("GET", "/v1/models", &fields, b""));
        client.finish().status()
    };
    assert_eq!(asked(&[]), 401);
    assert_eq!(asked(&[("x-api-key", "sk-gateway-key")]), 200);
    // The new address is taken, so the old one is still open, while no key is wanted any more.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let held = taken.local_addr().unwrap();
    let narrow = |listen: &str| {
        format!(
            "upstream.base_url = {url:?}\nlisten = [\"{listen}\"]\naccess.require_key = false\n"
        )
    };
    gateway.rewrite_config(&narrow(&held.to_string()));
    crate::support::eventually("it is logged", || {
        gateway
            .said()
            .contains("listen addresses not changed")
            .then_some(())
    });
    assert_eq!(asked(&[]), 401, "others still need a key");
    // The same port on loopback alone: what was in the way goes first.
    gateway.rewrite_config(&narrow(&format!("127.0.0.1:{port}")));
    crate::support::eventually("other machines are refused", || {
        std::net::TcpStream::connect((here, port))
            .is_err()
            .then_some(())
    });
    crate::support::eventually("loopback is served", || {
        std::net::TcpStream::connect(("127.0.0.1", port))
            .is_ok()
            .then_some(())
    });
    // And wide again.
    gateway.rewrite_config(&format!("upstream.base_url = {url:?}\n{guarded}"));
    crate::support::eventually("other machines are served with a key", || {
        std::net::TcpStream::connect((here, port))
            .is_ok()
            .then_some(())
    });
    assert_eq!(asked(&[]), 401);
}

#[test]
fn model_management_is_never_reached_whatever_the_method_says() {
    let (upstream, mut gateway) = started();
    untouched(&gateway, &upstream, "management", || {
        for path in MANAGEMENT {
            for method in ["POST", "DELETE", "PUT", "PATCH"] {
                for extra in [
                    &[][..],
                    &[
                        ("x-http-method-override", "GET"),
                        ("authorization", "Bearer k"),
                    ],
                    &[("x-http-method", "DELETE"), ("x-method-override", "POST")],
                ] {
                    let answer = ask(&gateway, method, path, extra);
                    assert!(
                        matches!(answer.status(), 403..=405),
                        "{method} {path}: {} {}",
                        answer.status(),
                        answer.text()
                    );
                    assert!(answer.code().is_some());
                }
            }
        }
    });
    gateway.stands(&upstream);
}

#[test]
fn every_answer_says_that_it_is_not_to_be_guessed_kept_or_embedded() {
    let (upstream, mut gateway) = started();
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/v1/models"),
        ("GET", "/healthz"),
        ("GET", "/oneslot/status"),
        ("GET", "/metrics"),
        ("GET", "/nothing"),
        ("POST", "/v1/chat/completions"),
        ("POST", "/api/pull"),
    ] {
        let answer = ask(&gateway, method, path, &[]);
        let head = &answer.head;
        assert_eq!(
            head.get("x-content-type-options"),
            Some("nosniff"),
            "{path}"
        );
        assert_eq!(
            head.get("cross-origin-resource-policy"),
            Some("same-origin")
        );
        assert!(head.get("cache-control").is_some(), "{path}: {head:?}");
        assert_eq!(head.get("server"), None);
        assert!(head.get("x-oneslot-request-id").is_some());
        assert!(
            !head
                .get("content-type")
                .unwrap_or_default()
                .contains("html"),
            "nothing is ever HTML"
        );
    }
    gateway.stands(&upstream);
}
