//! Every route, and the ways not to reach one.

use super::*;

fn find(method: &str, path: &str) -> Result<Route, Refusal> {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    resolve(&method, path, None, Admin::Blocked).map(|routed| routed.route)
}

fn beside(path: &str, cacheable: bool) -> Result<Route, Refusal> {
    Ok(Route::Beside {
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
        "/models",
        "/api/tags",
        "/api/ps",
        "/api/version",
        "/api/v0/models",
        "/api/v1/models",
        "/props",
    ] {
        assert_eq!(find("GET", path), beside(path, true), "GET {path}");
        assert_eq!(find("HEAD", path), beside(path, false), "HEAD {path}");
        assert_eq!(
            find("DELETE", path),
            Err(Refusal::MethodNotAllowed { allow: "GET, HEAD" }),
            "DELETE {path}"
        );
    }
    assert_eq!(
        find("GET", "/health"),
        beside("/health", false),
        "a copied health is a lie"
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
        assert_eq!(find("POST", path), beside(path, false), "POST {path}");
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
        (
            "DELETE",
            "/oneslot/requests/r-1",
            Own::Cancel {
                id: "r-1".to_owned(),
            },
            Needs::Token,
        ),
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
        "/v1/models/a%2fb",
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
        resolve(&method, path, None, Admin::Relayed).map(|routed| routed.route)
    };
    for (method, path) in [
        (Method::DELETE, "/api/delete"),
        (Method::POST, "/api/pull"),
        (Method::POST, "/models/load"),
        (Method::POST, "/props"),
        (Method::GET, "/lora-adapters"),
        (Method::POST, "/api/blobs/sha256:0123abcd"),
    ] {
        assert_eq!(find(method, path), beside(path, false), "{path}");
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
fn a_prefix_names_the_app_and_is_cut_off() {
    let found = resolve(
        &Method::POST,
        "/app/zed/v1/chat/completions",
        None,
        Admin::Blocked,
    );
    let found = found.unwrap();
    assert_eq!(
        (found.route, found.app.as_deref()),
        (Route::Chat, Some("zed"))
    );
    let found = resolve(
        &Method::GET,
        "/app/My_App-1.2/api/tags",
        None,
        Admin::Blocked,
    )
    .unwrap();
    assert_eq!(found.app.as_deref(), Some("My_App-1.2"));
    assert_eq!(
        found.route,
        beside("/api/tags", true).unwrap(),
        "the upstream sees no prefix"
    );
    assert_eq!(find("GET", "/app/zed/"), Ok(Route::Root));
    for path in [
        "/app/zed",
        "/app//v1/models",
        "/app/a b/v1/models",
        "/app/a%20b/v1/models",
        "/app/a/app/b/v1/models",
        "/App/zed/v1/models",
        "/app/zed//v1/models",
        &format!("/app/{}/v1/models", "x".repeat(65)),
    ] {
        assert!(
            matches!(find("GET", path), Err(Refusal::NotFound { .. })),
            "{path}"
        );
    }
    assert!(
        matches!(
            find("POST", "/app/zed/api/pull"),
            Err(Refusal::AdminBlocked { .. })
        ),
        "a prefix opens nothing"
    );
}

#[test]
fn a_query_is_passed_only_where_it_is_documented() {
    let query = |path: &str, query: &str| {
        resolve(&Method::GET, path, Some(query), Admin::Blocked)
            .unwrap()
            .query
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
