//! Every route, and the ways not to reach one.

use super::*;

fn find(method: &str, path: &str) -> Result<Route, Refusal> {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let routed = Target::of(path).resolve(&method, None, Admin::Blocked);
    routed.map(|routed| routed.route)
}

fn area(path: &str) -> Area {
    Target::of(path).area()
}

fn passthrough(path: &str, cacheable: bool) -> Result<Route, Refusal> {
    Ok(Route::Passthrough {
        path: path.to_owned(),
        cacheable,
    })
}

#[test]
fn the_chat_has_one_method_and_one_path() {
    assert_eq!(find("POST", "/v1/chat/completions"), Ok(Route::Chat));
    for method in ["GET", "HEAD", "PUT", "DELETE", "PATCH"] {
        let refused = Err(Refusal::MethodNotAllowed { allow: "POST" });
        assert_eq!(find(method, "/v1/chat/completions"), refused, "{method}");
    }
}

#[test]
fn reads_go_beside_the_slot() {
    for path in [
        "/v1/models",
        "/v1/models/llama3.2:latest",
        "/v1/models/llama3.2%3Alatest",
        "/v1/models/org/model@main+x",
        "/v1/models/qwen%2Fqwen3-4b",
        "/v1/models/my%20model",
        "/v1/models/caf%C3%A9",
        "/v1/models/qw%65n",
        "/models",
        "/api/tags",
        "/api/ps",
        "/api/version",
        "/api/v0/models",
        "/api/v1/models",
        "/props",
    ] {
        assert_eq!(find("GET", path), passthrough(path, true), "GET {path}");
        assert_eq!(find("HEAD", path), passthrough(path, false), "HEAD {path}");
        assert_eq!(
            find("DELETE", path),
            Err(Refusal::MethodNotAllowed { allow: "GET, HEAD" }),
            "DELETE {path}"
        );
    }
    assert_eq!(
        find("GET", "/health"),
        passthrough("/health", false),
        "a copy of it would be wrong"
    );
    assert_eq!(find("GET", "/"), Ok(Route::Root));
    assert_eq!(find("HEAD", "/"), Ok(Route::Root));
    for path in [
        "/api/show",
        "/tokenize",
        "/detokenize",
        "/apply-template",
        "/v1/messages/count_tokens",
        "/v1/chat/completions/input_tokens",
        "/v1/responses/input_tokens",
    ] {
        assert_eq!(find("POST", path), passthrough(path, false), "POST {path}");
        let refused = Err(Refusal::MethodNotAllowed { allow: "POST" });
        assert_eq!(find("GET", path), refused, "GET {path}");
    }
}

#[test]
fn own_paths_say_what_they_need() {
    let cases = [
        (
            "GET",
            "/oneslot/status",
            Own::Status,
            Needs::KeyWhereKeysAre,
        ),
        (
            "GET",
            "/oneslot/events",
            Own::Events,
            Needs::KeyWhereKeysAre,
        ),
        ("GET", "/metrics", Own::Metrics, Needs::KeyWhereKeysAre),
        ("GET", "/healthz", Own::Alive, Needs::Nothing),
        ("POST", "/oneslot/pause", Own::Pause, Needs::Token),
        ("POST", "/oneslot/resume", Own::Resume, Needs::Token),
        ("POST", "/oneslot/unload", Own::Unload, Needs::Token),
        ("POST", "/oneslot/check", Own::Check, Needs::Token),
        ("DELETE", "/oneslot/requests/r-1", Own::Cancel, Needs::Token),
    ];
    for (method, path, own, needs) in cases {
        assert_eq!(own.needs(), needs, "{path}");
        assert_eq!(find(method, path), Ok(Route::Own(own)), "{method} {path}");
        assert_eq!(area(path), Area::Own, "{path} is read by no page");
        assert_eq!(
            area(&format!("/app/zed{path}")),
            Area::Own,
            "under a prefix too"
        );
        assert!(find("OPTIONS", path).is_err(), "no preflight for {path}");
        assert!(find("PUT", path).is_err(), "PUT {path}");
    }
    for path in ["/oneslot", "/oneslot/", "/oneslot/other", "/metrics/x"] {
        assert_eq!(area(path), Area::Own, "{path}: a page learns nothing");
        assert!(
            matches!(find("GET", path), Err(Refusal::NotFound { .. })),
            "{path}"
        );
    }
    assert_eq!(area("/v1/models"), Area::Relayed);
    assert_eq!(area("/oneslots"), Area::Relayed);
    for id in ["", "a/b", "..%2f", "a b", &"x".repeat(65)] {
        assert!(
            find("DELETE", &format!("/oneslot/requests/{id}")).is_err(),
            "{id:?}"
        );
    }
}

#[test]
fn paths_are_matched_and_never_repaired() {
    for path in [
        "",
        "/v1",
        "/v1/",
        "/V1/models",
        "/v1/Models",
        "/v1/models/",
        "/v1//models",
        "//v1/models",
        "//api/delete",
        "/v1/models//x",
        "/v1/models/x/",
        "/v1/models/.",
        "/v1/models/..",
        "/v1/models/a/../b",
        "/v1/../api/delete",
        "/v1/%2e%2e/api/delete",
        "/v1/..;a=b/api/delete",
        "/v1/models%2f..%2f..%2fapi%2fdelete",
        "/v1/models/a%2f..%2f..%2fapi%2fdelete",
        "/v1/models/%2e%2e/api/delete",
        "/v1/models/a%2f%2fb",
        "/v1/models/%252e%252e",
        "/v1/models/a%5cb",
        "/v1/models/a%0ab",
        "/v1/models/a%ff",
        "/v1/models/a%",
        "/v1/models/a%00",
        "/v1/models%00",
        "/v1/models/a;b",
        "/v1/models/caf\u{e9}",
        "\\api\\delete",
        "/v1/chat/completions/",
        "/v1/chat/completions/../completions",
        "/v1/chat/completionsx",
        "/v1/completions",
        "/v1/embeddings",
        "/v1/responses",
        "/v1/messages",
        "/api/chat",
        "/api/generate",
        "/completion",
        "/chat/completions",
        "/debug/pprof/heap",
        "/api/signout",
        "/api/user/keys/x",
        "/oneslot-refused",
        "/favicon.ico",
    ] {
        for method in ["GET", "POST", "DELETE", "PUT", "OPTIONS", "HEAD"] {
            let found = find(method, path);
            assert!(
                matches!(found, Err(Refusal::NotFound { .. })),
                "{method} {path}: {found:?}"
            );
        }
    }
    let long = format!("/{}", "x".repeat(4000));
    match find("GET", &long) {
        Err(Refusal::NotFound { path }) => assert_eq!(path.len(), SHOWN, "it is shortened"),
        other => assert!(other.is_err(), "unknown"),
    }
    assert!(
        find("GET", &format!("/v1/models/{}", "x".repeat(257))).is_err(),
        "too long an id"
    );
}

#[test]
fn model_management_is_blocked() {
    for path in [
        "/api/delete",
        "/api/pull",
        "/api/push",
        "/api/create",
        "/api/copy",
        "/api/blobs/sha256:0123abcd",
        "/slots",
        "/slots/0",
        "/lora-adapters",
        "/models/load",
        "/models/unload",
        "/api/v1/models/load",
        "/api/v1/models/unload",
        "/api/v1/models/download",
        "/api/v1/models/download/status/job-1",
    ] {
        for method in ["POST", "DELETE", "PUT", "GET", "OPTIONS"] {
            let refused = Err(Refusal::AdminBlocked {
                path: path.to_owned(),
            });
            assert_eq!(find(method, path), refused, "{method} {path}");
        }
    }
    assert!(matches!(
        find("POST", "/props"),
        Err(Refusal::AdminBlocked { .. })
    ));
    assert!(matches!(
        find("PUT", "/props"),
        Err(Refusal::MethodNotAllowed { .. })
    ));
}

#[test]
fn model_management_is_relayed_on_request_with_exact_methods() {
    let find = |method: Method, path: &str| {
        let routed = Target::of(path).resolve(&method, None, Admin::Relayed);
        routed.map(|routed| routed.route)
    };
    for (method, path) in [
        (Method::DELETE, "/api/delete"),
        (Method::POST, "/api/pull"),
        (Method::POST, "/models/load"),
        (Method::POST, "/props"),
        (Method::GET, "/lora-adapters"),
        (Method::POST, "/api/blobs/sha256:0123abcd"),
    ] {
        assert_eq!(find(method, path), passthrough(path, false), "{path}");
    }
    assert_eq!(
        find(Method::POST, "/api/delete"),
        Err(Refusal::MethodNotAllowed { allow: "DELETE" })
    );
    for path in [
        "/api/signout",
        "/api/user/keys/x",
        "/debug/pprof/heap",
        "/api/blobs/../delete",
    ] {
        assert!(
            matches!(find(Method::POST, path), Err(Refusal::NotFound { .. })),
            "{path}"
        );
    }
}

#[test]
fn options_names_the_methods_of_a_relayed_route() {
    let options = |methods| Ok(Route::Options { methods });
    assert_eq!(find("OPTIONS", "/v1/chat/completions"), options("POST"));
    assert_eq!(find("OPTIONS", "/v1/models"), options("GET, HEAD"));
    assert_eq!(
        find("OPTIONS", "/app/zed/v1/chat/completions"),
        options("POST")
    );
}

#[test]
fn a_prefix_names_the_app_and_is_removed() {
    for (path, app, rest) in [
        (
            "/app/zed/v1/chat/completions",
            "zed",
            "/v1/chat/completions",
        ),
        ("/app/My_App-1.2/api/tags", "My_App-1.2", "/api/tags"),
        ("/app/zed/", "zed", "/"),
    ] {
        let target = Target::of(path);
        assert_eq!((target.app, target.path), (Some(app), rest));
        assert_eq!(target.name(), rest);
    }
    assert_eq!(
        find("POST", "/app/zed/v1/chat/completions"),
        Ok(Route::Chat)
    );
    assert_eq!(find("GET", "/app/zed/"), Ok(Route::Root));
    for path in [
        "/app/zed",
        "/app/a/app/b/v1/models",
        "/App/zed/v1/models",
        "/app/zed//v1/models",
    ] {
        let found = find("GET", path);
        assert!(matches!(found, Err(Refusal::NotFound { .. })), "{path}");
    }
    let blocked = Err(Refusal::AdminBlocked {
        path: "/api/pull".to_owned(),
    });
    assert_eq!(
        find("POST", "/app/zed/api/pull"),
        blocked,
        "named without its prefix"
    );
}

#[test]
fn an_app_name_that_is_not_allowed_says_which_are() {
    for path in [
        "/app//v1/models",
        "/app/a b/v1/models",
        "/app/a%20b/v1/models",
        "/app/../v1/models",
        &format!("/app/{}/v1/models", "x".repeat(65)),
    ] {
        match find("GET", path) {
            Err(Refusal::BadRequest { message, .. }) => {
                assert!(message.contains("1 to 64 letters, digits"), "{message}");
            }
            found => panic!("{path}: {found:?}"),
        }
    }
}

#[test]
fn records_have_the_list_s_spelling() {
    for (path, name) in [
        ("/v1/models/org/secret", "/v1/models/{id}"),
        ("/app/zed/oneslot/requests/r-1", "/oneslot/requests/{id}"),
        ("/slots/3", "/slots/{id}"),
        ("/nothing", "unlisted"),
    ] {
        assert_eq!(Target::of(path).name(), name);
    }
}

#[test]
fn a_query_is_passed_only_where_it_is_documented() {
    let query = |path: &str, query: &str| {
        let routed = Target::of(path).resolve(&Method::GET, Some(query), Admin::Blocked);
        routed.unwrap().query
    };
    assert_eq!(query("/v1/models", "x=../.."), None);
    assert_eq!(
        query("/v1/models", "limit=3&x=1&after_id=m").as_deref(),
        Some("limit=3&after_id=m")
    );
    let props = query("/props", "model=org%2Fm&autoload=false&key=SECRET");
    assert_eq!(props.as_deref(), Some("model=org%2Fm&autoload=false"));
    assert_eq!(
        query("/props", "model=a&model=b").as_deref(),
        Some("model=a"),
        "one meaning"
    );
    assert_eq!(query("/props", "model"), None);
    assert_eq!(query("/props", "model=a[]"), None);
    assert_eq!(query("/api/tags", "model=a"), None);
    assert_eq!(query("/", ""), None);
}
