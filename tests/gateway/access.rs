//! Who may talk, in which framing, and to which paths.

use std::time::Duration;

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::support::chat;
use crate::support::client::{Response, request};
use crate::support::flavour::Flavour;
use crate::support::gateway::{Gateway, Setup};
use crate::support::refused::{Advice, refused};
use crate::support::script::Script;
use crate::support::upstream::Upstream;
use crate::support::wire::{find, response};

fn started() -> (Upstream, Gateway) {
    let upstream = Upstream::plain();
    let gateway = Setup::before(&upstream).start();
    (upstream, gateway)
}

fn no_cors(answer: &Response) {
    for (name, value) in &answer.head.fields {
        assert!(
            !name.to_ascii_lowercase().starts_with("access-control"),
            "no CORS header for a stranger: {name}: {value}"
        );
    }
}

// Host.

#[test]
fn a_foreign_host_gets_nothing_on_any_route() {
    let (upstream, mut gateway) = started();
    let port = gateway.port();
    for host in [
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
        format!("user@localhost:{port}"),
        "host.docker.internal".to_owned(),
        String::new(),
    ] {
        for (method, path) in [
            ("GET", "/v1/models"),
            ("GET", "/healthz"),
            ("GET", "/oneslot/status"),
            ("GET", "/nothing"),
            ("POST", "/v1/chat/completions"),
            ("OPTIONS", "/v1/chat/completions"),
        ] {
            let body = if method == "POST" {
                chat::whole("x").to_string()
            } else {
                String::new()
            };
            let fields = [
                ("host", host.as_str()),
                ("content-type", "application/json"),
            ];
            let answer = gateway.exchange(&request(method, path, &fields, body.as_bytes()));
            assert!(
                matches!(answer.status(), 400 | 403),
                "{method} {path} for {host:?}: {} {}",
                answer.status(),
                answer.text()
            );
            no_cors(&answer);
        }
        let head = gateway
            .open(&request(
                "HEAD",
                "/v1/models",
                &[("host", host.as_str())],
                b"",
            ))
            .finish_bodiless();
        assert!(matches!(head.status(), 400 | 403), "HEAD for {host:?}");
    }
    assert_eq!(upstream.chats().len(), 0, "nothing reached the upstream");
    gateway.stands(&upstream);
}

#[test]
fn a_missing_or_double_host_is_a_bad_request() {
    let (upstream, mut gateway) = started();
    let own = gateway.address().to_string();
    for bytes in [
        "GET /v1/models HTTP/1.1\r\n\r\n".to_owned(),
        format!("GET /v1/models HTTP/1.1\r\nhost: {own}\r\nhost: evil\r\n\r\n"),
        format!("GET /v1/models HTTP/1.1\r\nhost: {own}\r\nhost: {own}\r\n\r\n"),
    ] {
        let mut client = gateway.open(bytes.as_bytes());
        let answer = client.finish();
        assert_eq!(answer.status(), 400, "{bytes:?}: {}", answer.text());
    }
    let answer = gateway.exchange(b"GET /v1/models HTTP/1.0\r\n\r\n");
    assert_eq!(answer.status(), 400, "{}", answer.text());
    gateway.stands(&upstream);
}

#[test]
fn a_foreign_absolute_target_is_refused_whatever_the_host_says() {
    let (upstream, mut gateway) = started();
    let own = gateway.address().to_string();
    for target in [
        "http://evil.example/v1/models",
        "https://127.0.0.1/v1/models",
    ] {
        let answer = gateway.exchange(&request("GET", target, &[("host", &own)], b""));
        assert!(
            (400..405).contains(&answer.status()),
            "{target}: {}",
            answer.status()
        );
    }
    gateway.stands(&upstream);
}

#[test]
fn loopback_names_are_good_hosts_in_any_case() {
    let (upstream, mut gateway) = started();
    let port = gateway.port();
    for host in [
        "127.0.0.1",
        "localhost",
        "LOCALHOST",
        "127.3.2.1",
        "tauri.localhost",
    ]
    .map(|name| format!("{name}:{port}"))
    .into_iter()
    // Forwarded ports are common, and the name is what stops rebinding.
    .chain(["localhost:3000", "localhost", "[::1]"].map(str::to_owned))
    {
        let answer = gateway.exchange(&request("GET", "/v1/models", &[("host", &host)], b""));
        assert_eq!(answer.status(), 200, "{host}: {}", answer.text());
    }
    gateway.stands(&upstream);
}

#[test]
fn a_configured_host_is_good_as_well() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("access.allowed_hosts = [\"host.docker.internal\"]")
        .start();
    let host = format!("host.docker.internal:{}", gateway.port());
    let answer = gateway.exchange(&request("GET", "/v1/models", &[("host", &host)], b""));
    assert_eq!(answer.status(), 200, "{}", answer.text());
    gateway.stands(&upstream);
}

// Origin.

const STRANGERS: [&str; 12] = [
    "https://evil.example",
    "null",
    "chrome-extension://x",
    "http://localhost.evil.example",
    "https://localhost@evil.example",
    "http://localhost.evil",
    "http://127.0.0.1.evil.example",
    "",
    "localhost",
    "app://a b",
    "tauri://",
    "file://evil.example",
];

const FRIENDS: [&str; 11] = [
    "http://localhost:3000",
    "http://127.0.0.1:5173",
    "https://localhost",
    "tauri://localhost",
    "http://tauri.localhost",
    "capacitor://localhost",
    "ionic://localhost",
    "wails://wails",
    "app://obsidian.md",
    "vscode-webview://abc",
    "vscode-file://vscode-app",
];

#[test]
fn a_foreign_page_gets_nothing_on_any_method() {
    let (upstream, mut gateway) = started();
    let body = chat::whole("x").to_string();
    for origin in STRANGERS {
        for (method, path, body) in [
            ("GET", "/v1/models", ""),
            ("GET", "/", ""),
            ("POST", "/v1/chat/completions", body.as_str()),
            ("OPTIONS", "/v1/chat/completions", ""),
        ] {
            let fields = [
                ("origin", origin),
                ("access-control-request-method", "POST"),
            ];
            let answer =
                gateway.exchange(&gateway.request_with(method, path, &fields, body.as_bytes()));
            assert_eq!(
                answer.status(),
                403,
                "{method} {path} from {origin:?}: {}",
                answer.text()
            );
            no_cors(&answer);
        }
    }
    assert_eq!(upstream.chats().len(), 0);
    gateway.stands(&upstream);
}

#[test]
fn local_pages_and_desktop_shells_are_served_and_echoed() {
    let (upstream, mut gateway) = started();
    // What the upstream says of CORS goes nowhere.
    upstream.always("GET", "/v1/models", |_| {
        Script::new().send(&response(
            200,
            &[
                ("content-type", "application/json"),
                ("access-control-allow-origin", "*"),
                ("access-control-allow-credentials", "true"),
                ("set-cookie", "a=b"),
                ("server", "llama.cpp"),
            ],
            br#"{"object":"list","data":[{"id":"m","object":"model"}]}"#,
        ))
    });
    for origin in FRIENDS {
        let models = gateway.exchange(&gateway.request_with(
            "GET",
            "/v1/models",
            &[("origin", origin)],
            b"",
        ));
        let body = chat::streamed("x").to_string();
        let chat = gateway.exchange(&gateway.request_with(
            "POST",
            "/v1/chat/completions",
            &[("origin", origin)],
            body.as_bytes(),
        ));
        let wrong = gateway.exchange(&gateway.request_with(
            "POST",
            "/v1/chat/completions",
            &[("origin", origin)],
            b"{",
        ));
        for (answer, status) in [(models, 200), (chat, 200), (wrong, 400)] {
            assert_eq!(answer.status(), status, "{origin}: {}", answer.text());
            assert_eq!(
                answer.head.all("access-control-allow-origin"),
                [origin],
                "that origin, once, on answers and errors"
            );
            assert!(
                answer
                    .head
                    .all("vary")
                    .iter()
                    .any(|vary| vary.to_lowercase().contains("origin")),
                "{:?}",
                answer.head
            );
            assert_eq!(answer.head.get("access-control-allow-credentials"), None);
        }
    }
    gateway.stands(&upstream);
}

#[test]
fn a_configured_origin_is_exact() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("access.allowed_origins = [\"https://chat.example\"]")
        .start();
    let from = |origin: &str| {
        gateway
            .exchange(&gateway.request_with("GET", "/v1/models", &[("origin", origin)], b""))
            .status()
    };
    assert_eq!(from("https://chat.example"), 200);
    for near in [
        "http://chat.example",
        "https://chat.example:8443",
        "https://x.chat.example",
    ] {
        assert_eq!(from(near), 403, "{near} is another origin");
    }
    gateway.stands(&upstream);
}

#[test]
fn fetch_metadata_of_a_foreign_site_is_refused_and_of_a_program_is_not() {
    let (upstream, mut gateway) = started();
    for (fields, status) in [
        (&[("sec-fetch-site", "cross-site")][..], 403),
        (&[("sec-fetch-site", "same-site")], 403),
        (&[("sec-fetch-site", "none")], 200),
        (&[("sec-fetch-site", "same-origin")], 200),
        // Node's fetch sends this alone.
        (&[("sec-fetch-mode", "cors")], 200),
        (&[], 200),
    ] {
        let answer = gateway.exchange(&gateway.request_with("GET", "/v1/models", fields, b""));
        assert_eq!(answer.status(), status, "{fields:?}: {}", answer.text());
    }
    gateway.stands(&upstream);
}

#[test]
fn a_simple_post_from_a_page_is_refused_and_plain_curl_is_served() {
    let (upstream, mut gateway) = started();
    let host = gateway.address().to_string();
    let body = chat::whole("x").to_string();
    let send = |extra: &[(&str, &str)]| {
        let mut fields = vec![("host", host.as_str())];
        fields.extend_from_slice(extra);
        gateway.exchange(&request(
            "POST",
            "/v1/chat/completions",
            &fields,
            body.as_bytes(),
        ))
    };
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "",
    ] {
        for who in [
            ("origin", "http://localhost:3000"),
            ("sec-fetch-site", "same-origin"),
        ] {
            let mut fields = vec![who];
            if !kind.is_empty() {
                fields.push(("content-type", kind));
            }
            let answer = send(&fields);
            assert_eq!(
                answer.status(),
                415,
                "{kind:?} with {who:?}: {}",
                answer.text()
            );
            assert_eq!(answer.code(), Some("UNSUPPORTED_MEDIA_TYPE"));
        }
    }
    assert_eq!(upstream.chats().len(), 0, "untouched");
    for kind in [
        "application/x-www-form-urlencoded",
        "application/json; charset=utf-8",
        "",
    ] {
        let fields = if kind.is_empty() {
            vec![]
        } else {
            vec![("content-type", kind)]
        };
        assert_eq!(send(&fields).status(), 200, "a program may say {kind:?}");
    }
    gateway.stands(&upstream);
}

#[test]
fn a_preflight_is_answered_by_the_gateway_and_never_forwarded() {
    let (upstream, mut gateway) = started();
    let before = upstream.requests();
    let ask = |origin: &str| {
        gateway.exchange(&gateway.request_with(
            "OPTIONS",
            "/v1/chat/completions",
            &[
                ("origin", origin),
                ("access-control-request-method", "POST"),
                (
                    "access-control-request-headers",
                    "authorization,content-type,x-stainless-os,x-stainless-timeout",
                ),
                ("access-control-request-private-network", "true"),
            ],
            b"",
        ))
    };
    let good = ask("app://obsidian.md");
    assert_eq!(good.status(), 204);
    assert_eq!(
        good.head.get("access-control-allow-origin"),
        Some("app://obsidian.md")
    );
    let methods = good
        .head
        .get("access-control-allow-methods")
        .unwrap_or_default();
    assert!(methods.contains("POST"), "{methods}");
    let names = good
        .head
        .get("access-control-allow-headers")
        .unwrap_or_default()
        .to_lowercase();
    for name in [
        "authorization",
        "content-type",
        "x-stainless-os",
        "x-stainless-timeout",
    ] {
        assert!(names.contains(name), "{names}");
    }
    assert_eq!(good.head.get("access-control-allow-credentials"), None);
    assert_eq!(
        good.head.get("access-control-allow-private-network"),
        Some("true"),
        "granted when asked"
    );
    let bad = ask("https://evil.example");
    assert_eq!(bad.status(), 403);
    no_cors(&bad);
    let options = upstream.look(|state| {
        state.log[before..]
            .iter()
            .filter(|seen| seen.request.method == "OPTIONS")
            .count()
    });
    assert_eq!(options, 0, "never forwarded");
    gateway.stands(&upstream);
}

#[test]
fn no_page_reads_the_gateways_own_state() {
    let (upstream, mut gateway) = started();
    for path in ["/oneslot/status", "/metrics", "/oneslot/events"] {
        for field in [
            ("origin", "http://localhost:3000"),
            ("origin", "https://evil.example"),
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-site", "cross-site"),
        ] {
            let answer = gateway.exchange(&gateway.request_with("GET", path, &[field], b""));
            assert_eq!(
                answer.status(),
                403,
                "{path} with {field:?}: {}",
                answer.text()
            );
            no_cors(&answer);
        }
    }
    no_cors(&gateway.get("/oneslot/status"));
    gateway.stands(&upstream);
}

// Keys.

#[test]
fn with_keys_every_route_wants_one_and_it_never_leaves_the_gateway() {
    let digest = Sha256::digest(b"sk-gateway-key");
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let upstream = Upstream::plain();
    let gateway = Setup::before(&upstream)
        .config(&format!(
            "access.require_key = true\naccess.keys = [{{ name = \"zed\", sha256 = \"{hex}\" }}]"
        ))
        .start();
    let body = chat::whole("x").to_string();
    for path in [
        "/v1/models",
        "/",
        "/metrics",
        "/oneslot/status",
        "/api/tags",
        "/nothing",
    ] {
        let answer = gateway.get(path);
        assert_eq!(answer.status(), 401, "{path}: {}", answer.text());
    }
    assert_eq!(
        gateway.get("/healthz").status(),
        200,
        "liveness says nothing else"
    );
    for (field, status) in [
        (("authorization", "Bearer sk-gateway-key"), 200),
        (("authorization", "bearer sk-gateway-key"), 200),
        (("x-api-key", "sk-gateway-key"), 200),
        (("authorization", "Bearer sk-gateway-ke"), 401),
        (("authorization", "Bearer sk-gateway-key2"), 401),
        (("cookie", "key=sk-gateway-key"), 401),
    ] {
        let answer = gateway.exchange(&gateway.request_with(
            "POST",
            "/v1/chat/completions",
            &[field],
            body.as_bytes(),
        ));
        assert_eq!(answer.status(), status, "{field:?}: {}", answer.text());
    }
    let seen = upstream.look(|state| {
        state
            .log
            .iter()
            .flat_map(|seen| seen.request.raw_head.clone())
            .collect::<Vec<u8>>()
    });
    assert!(
        find(&seen, b"sk-gateway-key").is_none(),
        "the gateway's own key never leaves it"
    );
}

#[test]
fn a_key_or_token_of_the_gateway_is_not_passed_on() {
    let digest = Sha256::digest(b"sk-gateway-key");
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config(&format!(
            "access.keys = [{{ name = \"zed\", sha256 = \"{hex}\" }}]"
        ))
        .start();
    let token = gateway.token();
    let ours = [
        ("authorization", "Bearer \"sk-gateway-key\"".to_owned()),
        ("authorization", "Token token=\"sk-gateway-key\"".to_owned()),
        (
            "authorization",
            "Bearer x, Bearer sk-gateway-key".to_owned(),
        ),
        ("authorization", format!("Bearer {token}")),
        ("x-api-key", token.clone()),
        ("x-api-key", "Bearer sk-gateway-key".to_owned()),
        ("openai-organization", "sk-gateway-key".to_owned()),
    ];
    for (name, value) in &ours {
        let before = upstream.chats().len();
        let fields = [(*name, value.as_str()), ("x-api-key", "sk-gateway-key")];
        // Beside a good key in its own place as well.
        for fields in [&fields[..1], &fields[..]] {
            let body = chat::whole("x").to_string();
            let path = "/v1/chat/completions";
            let ask = gateway.request_with("POST", path, fields, body.as_bytes());
            let answer = gateway.exchange(&ask);
            assert_eq!(answer.status(), 200, "{fields:?}: {}", answer.text());
        }
        for seen in &upstream.chats()[before..] {
            for gone in ["authorization", "x-api-key", "openai-organization"] {
                let passed = seen.request.head.get(gone);
                assert_eq!(passed, None, "{name}: {value} left as {gone}");
            }
        }
    }
    let theirs = [("authorization", "Basic dXNlcjpwYXNz")];
    let ask = gateway.request_with("GET", "/v1/models", &theirs, b"");
    assert_eq!(gateway.exchange(&ask).status(), 200);
    let passed = upstream.look(|state| {
        let last = state.log.last()?;
        last.request.head.get("authorization").map(str::to_owned)
    });
    assert_eq!(
        passed.as_deref(),
        Some("Basic dXNlcjpwYXNz"),
        "a client's own credential passes"
    );
    gateway.stands(&upstream);
}

// Paths.

#[test]
fn paths_are_matched_and_never_repaired() {
    let (upstream, mut gateway) = started();
    for path in [
        "/v1/../api/delete",
        "/v1/%2e%2e/api/delete",
        "/v1/..;a=b/api/delete",
        "//api/delete",
        "/v1//models",
        "/v1/models%2f..%2f..%2fapi%2fdelete",
        "\\api\\delete",
        "/V1/models",
        "/v1/models/",
        "/v1/models%00",
        "/v1/./models",
        "/v1/mod%65ls",
        "/app/../v1/models",
        "/app//v1/models",
        "/v1/models/../../api/delete",
        "/debug/pprof/heap",
    ] {
        let answer = gateway.get(path);
        assert!(
            matches!(answer.status(), 400 | 403 | 404 | 405),
            "{path}: {} {}",
            answer.status(),
            answer.text()
        );
        // What hyper does not parse it answers by itself, without a body.
        assert!(answer.body.is_empty() || answer.code().is_some(), "{path}");
    }
    for path in ["v1/models", "*", "?"] {
        let answer = gateway.get(path);
        assert!(
            matches!(answer.status(), 400 | 404),
            "{path}: {}",
            answer.status()
        );
    }
    let odd = upstream.look(|state| {
        state
            .log
            .iter()
            .map(|seen| seen.request.target.clone())
            .filter(|target| target != "/v1/models")
            .filter(|target| target.contains("delete") || target.contains(".."))
            .collect::<Vec<_>>()
    });
    assert!(
        odd.is_empty(),
        "only the exact listed path is forwarded: {odd:?}"
    );
    gateway.stands(&upstream);
}

#[test]
fn dangerous_endpoints_are_never_reached() {
    let (upstream, mut gateway) = started();
    for path in [
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
        "/slots/0?action=erase",
        "/lora-adapters",
        "/models/load",
        "/models/unload",
        "/api/v1/models/load",
        "/api/v1/models/unload",
        "/app/zed/api/delete",
    ] {
        for method in ["POST", "DELETE", "PUT", "PATCH"] {
            for extra in [
                &[][..],
                &[
                    ("x-http-method-override", "GET"),
                    ("authorization", "Bearer k"),
                ],
            ] {
                let answer = gateway.exchange(&gateway.request_with(method, path, extra, b"{}"));
                assert!(
                    matches!(answer.status(), 403..=405),
                    "{method} {path}: {} {}",
                    answer.status(),
                    answer.text()
                );
            }
        }
    }
    let reached: Vec<String> = upstream.look(|state| {
        state
            .log
            .iter()
            .filter(|seen| seen.request.method != "GET")
            .map(|seen| format!("{} {}", seen.request.method, seen.request.target))
            .collect()
    });
    assert!(reached.is_empty(), "{reached:?}");
    gateway.stands(&upstream);
}

#[test]
fn the_root_says_what_it_is_and_ollama_where_there_is_one() {
    let (upstream, mut gateway) = started();
    let root = gateway.get("/");
    assert_eq!(root.status(), 200);
    assert!(root.text().contains("OneSlot"), "{}", root.text());
    gateway.stands(&upstream);
    let ollama = Upstream::start(Flavour::Ollama {
        loaded: Some(4096),
        on_load: 4096,
    });
    let mut gateway = Setup::before(&ollama).start();
    gateway.until_status("it is known what it is", |status| {
        status["upstream"]["kind"]
            .as_str()
            .is_some_and(|kind| kind.to_lowercase() == "ollama")
    });
    assert_eq!(gateway.get("/").text(), "Ollama is running");
    for path in ["/api/tags", "/api/ps", "/api/version"] {
        assert_eq!(gateway.get(path).status(), 200, "{path} is relayed");
    }
    gateway.stands(&ollama);
}

#[test]
fn a_head_request_has_the_same_head_and_no_body() {
    let (upstream, mut gateway) = started();
    let mut client = gateway.open(&gateway.request("HEAD", "/v1/models", b""));
    let head = client.finish_bodiless();
    assert_eq!(head.status(), 200);
    client.send(&gateway.request("GET", "/v1/models", b""));
    assert_eq!(client.finish().status(), 200, "the connection is in step");
    gateway.stands(&upstream);
}

#[test]
fn an_app_prefix_or_user_agent_names_the_app() {
    let (upstream, mut gateway) = started();
    let body = chat::whole("x").to_string();
    let send = |target: &str, extra: &[(&str, &str)]| {
        let answer =
            gateway.exchange(&gateway.request_with("POST", target, extra, body.as_bytes()));
        assert_eq!(answer.status(), 200, "{target}: {}", answer.text());
    };
    send(
        "/app/zed/v1/chat/completions",
        &[("user-agent", "OpenAI/Python 3.57")],
    );
    send(
        "/v1/chat/completions",
        &[("user-agent", "Continue/1.2 (x)")],
    );
    let recent = gateway.until_recent(2);
    let apps: Vec<&str> = recent
        .iter()
        .filter_map(|record| record["app"].as_str())
        .collect();
    assert!(apps.contains(&"zed"), "{apps:?}");
    assert!(
        apps.iter().any(|app| app.starts_with("Continue")),
        "{apps:?}"
    );
    let targets: Vec<String> = upstream
        .chats()
        .iter()
        .map(|seen| seen.request.target.clone())
        .collect();
    assert_eq!(targets, ["/v1/chat/completions", "/v1/chat/completions"]);
    let models = gateway.get("/app/zed/v1/models");
    assert_eq!(models.status(), 200);
    gateway.stands(&upstream);
}

#[test]
fn a_refused_request_keeps_its_app_and_path() {
    let (upstream, mut gateway) = started();
    for (method, target) in [
        ("GET", "/app/zed/v1/chat/completions"),
        ("POST", "/app/zed/api/pull"),
        ("GET", "/app/zed/v1/modelz"),
    ] {
        gateway.exchange(&gateway.request_with(method, target, &[], b"{}"));
    }
    let recent = gateway.until_recent(3);
    for (path, code) in [
        ("/v1/chat/completions", "METHOD_NOT_ALLOWED"),
        ("/api/pull", "ADMIN_BLOCKED"),
        ("unlisted", "NOT_FOUND"),
    ] {
        let record = recent.iter().find(|record| record["code"] == code);
        let record = record.unwrap_or_else(|| panic!("{code} is recorded: {recent:?}"));
        assert_eq!(
            (&record["path"], &record["app"]),
            (&path.into(), &"zed".into())
        );
    }
    let pull = gateway.exchange(&gateway.request("POST", "/app/zed/api/pull", b"{}"));
    assert!(
        !pull.text().contains("/app/zed"),
        "named as the upstream knows it: {}",
        pull.text()
    );
    let named = gateway.get("/app/My%20App/v1/models");
    refused(&named, 400, "BAD_REQUEST", Advice::Never);
    assert!(named.text().contains("letters, digits"), "{}", named.text());
    gateway.stands(&upstream);
}

#[test]
fn an_empty_body_is_called_empty() {
    let (upstream, mut gateway) = started();
    for body in [&b""[..], b" \r\n"] {
        let ask = gateway.request("POST", "/v1/chat/completions", body);
        let answer = gateway.exchange(&ask);
        refused(&answer, 400, "BAD_REQUEST", Advice::Never);
        assert!(answer.text().contains("body is empty"), "{}", answer.text());
    }
    gateway.stands(&upstream);
}

#[test]
fn an_event_stream_is_not_buffered_or_kept() {
    let (upstream, mut gateway) = started();
    let chat = gateway.chat(&chat::streamed("x"));
    let mut client = gateway.open(&gateway.request("GET", "/oneslot/events", b""));
    for head in [chat.head, client.head()] {
        assert_eq!(head.get("x-accel-buffering"), Some("no"));
        assert_eq!(head.get("cache-control"), Some("no-cache"));
        assert_eq!(head.get("connection"), None);
    }
    drop(client);
    gateway.stands(&upstream);
}

#[test]
fn a_stream_that_begins_after_its_listener_closed_does_not_say_close() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .listen("")
        .config("listen = [\"127.0.0.1:0\"]")
        .start();
    let held = crate::support::held::hold(&gateway, &upstream);
    let mut queued = gateway.open_chat(&chat::streamed("begins later"));
    gateway.until_queue(1, 1);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let next = free.local_addr().unwrap();
    drop(free);
    let url = upstream.url();
    gateway.rewrite_config(&format!(
        "upstream.base_url = {url:?}\nlisten = [\"{next}\"]\n"
    ));
    crate::support::eventually("it serves the new address", || {
        std::net::TcpStream::connect(next).is_ok().then_some(())
    });
    let first = held.release();
    let answer = queued.finish();
    for answer in [&first, &answer] {
        assert_eq!(answer.head.get("connection"), None, "{:?}", answer.head);
        assert!(
            answer.text().ends_with("data: [DONE]\n\n"),
            "{}",
            answer.text()
        );
    }
    queued.closed();
    assert!(gateway.is_alive());
}

// Headers.

#[test]
fn nothing_hop_by_hop_or_private_reaches_the_upstream() {
    let (upstream, mut gateway) = started();
    let body = chat::whole("x").to_string();
    let fields = [
        ("connection", "x-secret"),
        ("x-secret", "LEAK1"),
        ("te", "trailers"),
        ("proxy-authorization", "LEAK2"),
        ("cookie", "LEAK3"),
        ("origin", "http://localhost:3000"),
        ("referer", "http://localhost/LEAK4"),
        ("x-forwarded-for", "LEAK5"),
        ("forwarded", "for=LEAK6"),
        ("accept-encoding", "gzip"),
        ("x-anything", "LEAK7"),
        ("x-oneslot-token", "LEAK8"),
    ];
    let answer = gateway.exchange(&gateway.request_with(
        "POST",
        "/v1/chat/completions",
        &fields,
        body.as_bytes(),
    ));
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let head = upstream.chats()[0].request.head.clone();
    let text = format!("{head:?}").to_lowercase();
    assert!(!text.contains("leak"), "{text}");
    for name in [
        "origin",
        "referer",
        "cookie",
        "te",
        "accept-encoding",
        "x-secret",
    ] {
        assert_eq!(head.get(name), None, "{name}");
    }
    gateway.stands(&upstream);
}

#[test]
fn what_an_upstream_says_about_itself_stays_behind() {
    let (upstream, mut gateway) = started();
    upstream.next_chat(Script::new().send(&response(
        200,
        &[
            ("content-type", "application/json"),
            ("access-control-allow-origin", "*"),
            ("set-cookie", "a=b"),
            ("server", "llama.cpp"),
            ("x-powered-by", "magic"),
            ("x-request-id", "req-upstream"),
            ("openai-processing-ms", "12"),
        ],
        br#"{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}"#,
    )));
    let answer = gateway.chat(&chat::whole("x"));
    for name in [
        "access-control-allow-origin",
        "set-cookie",
        "server",
        "x-powered-by",
    ] {
        assert_eq!(answer.head.get(name), None, "{name}");
    }
    assert_eq!(answer.head.get("openai-processing-ms"), Some("12"));
    gateway.stands(&upstream);
}

// Limits.

#[test]
fn the_body_limit_holds_for_lengths_and_for_chunks() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .http_limits("body_bytes=4096")
        .start();
    let text = |bytes: usize| {
        let empty = chat::whole("").to_string().len();
        chat::whole(&"x".repeat(bytes - empty)).to_string()
    };
    let fits =
        gateway.exchange(&gateway.request("POST", "/v1/chat/completions", text(4096).as_bytes()));
    assert_eq!(fits.status(), 200, "the limit itself fits: {}", fits.text());
    let over =
        gateway.exchange(&gateway.request("POST", "/v1/chat/completions", text(4097).as_bytes()));
    refused(&over, 413, "TOO_LARGE", Advice::Never);
    let host = gateway.address().to_string();
    let mut bytes = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    .into_bytes();
    for piece in text(20_000).as_bytes().chunks(1000) {
        bytes.extend(crate::support::wire::chunk(piece));
    }
    let mut client = gateway.connect();
    let _ = client.try_send(&bytes);
    refused(&client.finish(), 413, "TOO_LARGE", Advice::Never);
    assert_eq!(upstream.chats().len(), 1);
    gateway.stands(&upstream);
}

#[test]
fn bodies_of_tens_of_megabytes_are_served() {
    let (upstream, mut gateway) = started();
    for bytes in [2_010_000, 2_100_000, 20_000_000] {
        let data = format!("data:image/png;base64,{}", "A".repeat(bytes));
        let body = json!({"model": "m", "messages": [{"role": "user", "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": data}}]}]});
        let answer = gateway.chat(&body);
        assert_eq!(answer.status(), 200, "{bytes} bytes: {}", answer.text());
    }
    gateway.stands(&upstream);
}

#[test]
fn all_bodies_that_wait_together_are_capped() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .limit("max_queued_bytes", 1_048_576)
        .start();
    let held = crate::support::held::hold(&gateway, &upstream);
    let big = "x".repeat(700_000);
    let mut waiting = gateway.open_chat(&chat::whole(&big));
    gateway.until_queue(1, 1);
    let answer = gateway.chat(&chat::whole(&big));
    refused(&answer, 503, "LLM_OVERLOADED", Advice::Later);
    held.release();
    assert_eq!(waiting.finish().status(), 200);
    gateway.stands(&upstream);
}

#[test]
fn a_header_that_never_ends_is_closed() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .http_limits("header_ms=1000")
        .start();
    let slow: Vec<_> = (0..50)
        .map(|_| gateway.open(b"POST /v1/chat/com"))
        .collect();
    let silent = gateway.connect();
    assert_eq!(
        gateway.chat(&chat::whole("x")).status(),
        200,
        "they delay no one else"
    );
    for mut client in slow {
        client.closed();
    }
    drop(silent);
    gateway.stands(&upstream);
}

#[test]
fn an_upload_that_stops_is_given_up() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .http_limits("body_idle_ms=1000")
        .start();
    let body = chat::whole("x").to_string();
    let bytes = gateway.request("POST", "/v1/chat/completions", body.as_bytes());
    let mut client = gateway.open(&bytes[..bytes.len() - 4]);
    client.closed();
    assert_eq!(upstream.chats().len(), 0);
    gateway.stands(&upstream);
}

#[test]
fn more_connections_than_the_limit_wait_and_nothing_breaks() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .http_limits("connections=8 header_ms=2000")
        .start();
    let idle: Vec<_> = (0..40).map(|_| gateway.connect()).collect();
    drop(idle);
    let answer = crate::support::within(Duration::from_secs(20), "service after release", || {
        let answer = gateway.chat(&chat::whole("x"));
        (answer.status() == 200).then_some(answer)
    });
    assert_eq!(answer.status(), 200);
    gateway.stands(&upstream);
}
