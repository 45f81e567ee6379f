//! Tests of `doctor`: each name is what it promises.

use std::collections::HashMap;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::config::{BaseUrl, Sources};
use crate::telemetry::snapshot::{RefusedKind, RefusedOrigin};

/// A server that answers fixed bodies by path, and 404 else.
async fn server(routes: &[(&'static str, u16, &'static str)]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes: HashMap<&str, (u16, &str)> = routes
        .iter()
        .map(|(path, status, body)| (*path, (*status, *body)))
        .collect();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            let mut piece = [0; 4096];
            while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut piece).await {
                    Ok(0) | Err(_) => break,
                    Ok(read) => head.extend_from_slice(&piece[..read]),
                }
            }
            let text = String::from_utf8_lossy(&head).into_owned();
            let path = text.split(' ').nth(1).unwrap_or("/");
            let (status, body) = routes.get(path).copied().unwrap_or((404, "{}"));
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    address
}

const CHAT: (&str, u16, &str) = (
    "/v1/chat/completions",
    200,
    r#"{"choices":[{"message":{"content":"ANSWER-CANARY"}}],"usage":{"completion_tokens":3}}"#,
);

/// Settings with this `base_url` and an unused listen address.
fn loaded(base_url: &str) -> (tempfile::TempDir, Loaded, StateDir) {
    let temp = tempfile::tempdir().unwrap();
    let sources = Sources {
        file: temp.path().join("config.toml"),
        ..Sources::default()
    };
    let mut loaded = sources.load().unwrap();
    loaded.settings.upstream.base_url = BaseUrl::parse(base_url).unwrap();
    loaded.settings.listen = vec!["127.0.0.1:0".parse().unwrap()];
    let state = StateDir::open(temp.path().join("state")).unwrap();
    (temp, loaded, state)
}

async fn examined(base_url: &str) -> String {
    let (_temp, loaded, state) = loaded(base_url);
    let patient = Patient {
        loaded: &loaded,
        state: &state,
        running: None,
        snapshot: None,
    };
    text(&patient).await
}

async fn text(patient: &Patient<'_>) -> String {
    let mut reported = Vec::new();
    let report = examine(patient, &mut |finding| reported.push(finding.clone())).await;
    assert_eq!(
        report.findings, reported,
        "each finding is reported when it is made"
    );
    reported
        .iter()
        .map(|finding| format!("{finding}\n"))
        .collect()
}

#[tokio::test]
async fn a_healthy_server_is_found_named_and_asked() {
    let address = server(&[
        (
            "/v1/models",
            200,
            r#"{"object":"list","data":[{"id":"smollm2","owned_by":"llamacpp","meta":{"n_ctx":2048,"n_ctx_train":8192}}]}"#,
        ),
        ("/props", 200, r#"{"default_generation_settings":{"n_ctx":2048},"total_slots":1,"build_info":"b1"}"#),
        CHAT,
    ])
    .await;
    let text = examined(&format!("http://{address}/v1")).await;
    assert!(
        text.contains(&format!("ok    llama.cpp b1 at http://{address}")),
        "{text}"
    );
    assert!(
        text.contains("smollm2 is loaded with a window of 2048 tokens, which is small"),
        "{text}"
    );
    assert!(
        text.contains("note  no OneSlot is running\n       → oneslotd serve"),
        "{text}"
    );
    assert!(
        text.contains("answered directly, past OneSlot,"),
        "it says which way: {text}"
    );
    assert!(
        text.contains("3 tokens") && !text.contains("CANARY"),
        "the answer is not shown: {text}"
    );
    assert!(!text.contains("fix  "), "nothing is wrong: {text}");
}

#[tokio::test]
async fn a_missing_server_is_reported_with_a_fix() {
    let text = examined("http://127.0.0.1:9").await;
    assert!(
        text.contains("fix   http://127.0.0.1:9 does not answer"),
        "{text}"
    );
    assert!(
        !text.contains("test prompt"),
        "no server to send it to: {text}"
    );
}

#[tokio::test]
async fn a_server_that_requires_a_key_is_reported() {
    let address = server(&[("/v1/models", 401, r#"{"error":{"message":"no key"}}"#)]).await;
    let text = examined(&format!("http://{address}")).await;
    assert!(
        text.contains("requires a key\n       → put it into upstream.api_key"),
        "{text}"
    );
}

#[tokio::test]
async fn a_list_without_models_is_a_server_without_a_model() {
    for body in [
        r#"{"object":"list","data":null}"#,
        "\u{feff}{\"object\":\"list\",\"data\":[]}",
    ] {
        let address = server(&[("/v1/models", 200, body)]).await;
        let text = examined(&format!("http://{address}")).await;
        assert!(text.contains("the server has no model"), "{text}");
    }
}

#[tokio::test]
async fn another_program_is_no_model_server() {
    let address = server(&[("/", 200, "<html>hello</html>")]).await;
    let text = examined(&format!("http://{address}")).await;
    assert!(text.contains("and is no model server"), "{text}");
    assert!(
        text.contains(&std::process::id().to_string()),
        "its process is named: {text}"
    );
}

#[tokio::test]
async fn an_unknown_model_is_reported_with_those_listed() {
    let list = r#"{"object":"list","data":[{"id":"a"},{"id":"b"}]}"#;
    let address = server(&[("/v1/models", 200, list), CHAT]).await;
    let (_temp, mut loaded, state) = loaded(&format!("http://{address}"));
    loaded.settings.upstream.model = Some("c".to_owned());
    let patient = Patient {
        loaded: &loaded,
        state: &state,
        running: None,
        snapshot: None,
    };
    let text = text(&patient).await;
    assert!(
        text.contains(
            "upstream.model is c, which the server does not list\n       → use one it has (a, b)"
        ),
        "{text}"
    );
}

#[tokio::test]
async fn a_refused_test_prompt_is_reported_in_the_servers_words() {
    let list = r#"{"object":"list","data":[{"id":"a"}]}"#;
    let refused = r#"{"error":{"message":"out of memory","code":"oom"}}"#;
    let address = server(&[
        ("/v1/models", 200, list),
        ("/v1/chat/completions", 500, refused),
    ])
    .await;
    let text = examined(&format!("http://{address}")).await;
    assert!(text.contains(": 500 oom\n       → out of memory"), "{text}");
}

#[tokio::test]
async fn a_stranger_at_our_port_is_named() {
    let stranger = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = stranger.local_addr().unwrap();
    let (_temp, mut loaded, state) = loaded("http://127.0.0.1:9");
    loaded.settings.listen = vec![address];
    let patient = Patient {
        loaded: &loaded,
        state: &state,
        running: None,
        snapshot: None,
    };
    let text = text(&patient).await;
    let pid = std::process::id();
    assert!(
        text.contains(&format!(
            "(pid {pid}) listens on {address}, where OneSlot should"
        )),
        "{text}"
    );
}

#[tokio::test]
async fn a_running_gateway_is_named_and_those_it_turned_away() {
    let (_temp, loaded, state) = loaded("http://127.0.0.1:9");
    let _lock = state::Lock::acquire(&state, "oneslotd").unwrap();
    let running = state::read_running(&state).unwrap();
    let snapshot = Snapshot {
        refused_origins: vec![RefusedOrigin {
            kind: RefusedKind::Origin,
            value: "https://chat.example".to_owned(),
            count: 3,
            last_ms: 0,
        }],
        ..Snapshot::default()
    };
    let patient = Patient {
        loaded: &loaded,
        state: &state,
        running: running.as_ref(),
        snapshot: Some(snapshot),
    };
    let text = text(&patient).await;
    assert!(
        text.contains(&format!("ok    oneslotd {}", env!("CARGO_PKG_VERSION"))),
        "{text}"
    );
    assert!(text.contains("the web origin https://chat.example was refused (3 times)\n       → if it is yours, add it to access.allowed_origins"), "{text}");
}

#[cfg(unix)]
#[tokio::test]
async fn open_files_and_faulty_settings_are_to_be_fixed() {
    use std::os::unix::fs::PermissionsExt as _;
    let (temp, _, state) = loaded("http://127.0.0.1:9");
    let file = temp.path().join("config.toml");
    std::fs::write(
        &file,
        "[upstream]\nbase_url = \"http://127.0.0.1:9\"\nslots = 0\n",
    )
    .unwrap();
    std::fs::set_permissions(state.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut loaded = Sources {
        file,
        ..Sources::default()
    }
    .load()
    .unwrap();
    loaded.settings.upstream.base_url = BaseUrl::parse("http://127.0.0.1:9").unwrap();
    let patient = Patient {
        loaded: &loaded,
        state: &state,
        running: None,
        snapshot: None,
    };
    let text = text(&patient).await;
    assert!(
        text.contains("the default settings are in use, because: "),
        "{text}"
    );
    assert!(
        text.contains(":3: upstream.slots: found 0, expected a whole number from 1 to 64"),
        "{text}"
    );
    assert!(
        text.contains("can be read by others (mode 0755)\n       → chmod 700"),
        "{text}"
    );
}
