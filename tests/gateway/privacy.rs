//! Nothing the user wrote, no answer and no key is logged, stored or shown.

use std::path::Path;

use serde_json::json;

use crate::support::chat;
use crate::support::gateway::{Gateway, Setup};
use crate::support::script::Script;
use crate::support::upstream::Upstream;

const PROMPT: &str = "CANARY-7f3a-prompt";
const ANSWER: &str = "CANARY-91bc-answer";
const CLIENT_KEY: &str = "sk-CANARY-client-5d2e";
const UPSTREAM_KEY: &str = "sk-CANARY-upstream-08aa";
const QUERY: &str = "CANARY-query-77";

fn base64(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    // Whole groups only: a shorter tail would depend on what comes behind it.
    for group in text.as_bytes().chunks_exact(3) {
        let bits = u32::from(group[0]) << 16 | u32::from(group[1]) << 8 | u32::from(group[2]);
        for shift in [18, 12, 6, 0] {
            out.push(char::from(LETTERS[(bits >> shift & 63) as usize]));
        }
    }
    out
}

fn url_encoded(text: &str) -> String {
    text.replace('-', "%2D")
}

fn files_under(dir: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files_under(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Looks everywhere the gateway may have written.
fn nowhere(gateway: &Gateway) {
    let mut places = vec![
        ("what it said".to_owned(), gateway.said()),
        ("the status".to_owned(), gateway.status().to_string()),
        ("the metrics".to_owned(), gateway.get("/metrics").text()),
    ];
    let mut files = Vec::new();
    files_under(gateway.home(), &mut files);
    for file in files {
        let bytes = std::fs::read(&file).unwrap_or_default();
        places.push((
            file.display().to_string(),
            String::from_utf8_lossy(&bytes).into_owned(),
        ));
    }
    assert!(places.len() > 3, "there is something to look at");
    let config = gateway.config_path().display().to_string();
    for (place, text) in &places {
        for secret in [PROMPT, ANSWER, CLIENT_KEY, UPSTREAM_KEY, QUERY] {
            if secret == UPSTREAM_KEY && place.starts_with(config.trim_end_matches(".toml")) {
                continue;
            }
            for form in [secret.to_owned(), base64(secret), url_encoded(secret)] {
                // The last good copy of the configuration holds what the configuration holds.
                let is_copy = secret == UPSTREAM_KEY && place.contains("toml");
                assert!(is_copy || !text.contains(&form), "{form} in {place}");
            }
        }
        let is_config = place.contains("toml");
        let tail = &CLIENT_KEY[CLIENT_KEY.len() - 8..];
        assert!(
            is_config || !text.contains(tail),
            "the end of a key in {place}"
        );
    }
}

fn ask(gateway: &Gateway, stream: bool) -> crate::support::client::Response {
    let mut body = if stream {
        chat::streamed(PROMPT)
    } else {
        chat::whole(PROMPT)
    };
    body["user"] = json!(PROMPT);
    gateway.exchange(&gateway.request_with(
        "POST",
        "/v1/chat/completions",
        &[
            ("authorization", &format!("Bearer {CLIENT_KEY}")),
            ("x-api-key", CLIENT_KEY),
        ],
        body.to_string().as_bytes(),
    ))
}

#[test]
fn no_prompt_answer_or_key_is_found_anywhere_at_the_highest_log_level() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("log.level = \"trace\"\nhealth.cooldown_ms = 100\ntimeouts.stall_s = 1")
        .limit("cooldown_max_ms", 100)
        .start();
    let recover = || {
        gateway.control("POST", "/oneslot/check", "");
        gateway.until_status("ready", |status| status["health"]["state"] == "ready");
    };
    upstream.next_chat(Script::answer(ANSWER));
    assert!(
        ask(&gateway, false).text().contains(ANSWER),
        "the client gets its answer"
    );
    upstream.next_chat(Script::streamed(ANSWER));
    assert!(ask(&gateway, true).text().contains(ANSWER));
    // Every way to fail that has the content at hand.
    for script in [
        Script::stream().delta(ANSWER).rst(),
        Script::stream().delta(ANSWER).last_chunk(),
        Script::stream().delta(ANSWER).hang(),
        Script::whole(
            500,
            "text/html",
            format!("<html>{PROMPT}{ANSWER}</html>").as_bytes(),
        ),
        Script::whole(
            200,
            "application/json",
            format!("{{\"half\":\"{ANSWER}").as_bytes(),
        ),
        Script::new()
            .send(format!("NOT HTTP {PROMPT}\r\n\r\n").as_bytes())
            .fin(),
        Script::new()
            .send(format!("HTTP/1.1 200 OK\r\nx-{ANSWER}: {PROMPT}\r\n").as_bytes())
            .rst(),
    ] {
        for stream in [false, true] {
            upstream.next_chat(script.clone());
            ask(&gateway, stream);
            recover();
            upstream.as_usual("POST", "/v1/chat/completions");
        }
    }
    gateway.get(&format!("/v1/models?key={QUERY}"));
    gateway.get(&format!("/{QUERY}"));
    let broken = format!("{{\"messages\":\"{PROMPT}\", {PROMPT}");
    gateway.exchange(&gateway.request("POST", "/v1/chat/completions", broken.as_bytes()));
    nowhere(&gateway);
    gateway.stands(&upstream);
    nowhere(&gateway);
}

#[test]
fn an_upstream_error_that_quotes_the_prompt_reaches_the_client_alone() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("log.level = \"trace\"")
        .start();
    let quoting = json!({"error": {"message": format!("cannot parse: {PROMPT}"),
        "type": "invalid_request_error", "code": "bad"}});
    upstream.next_chat(Script::json(400, &quoting));
    let answer = ask(&gateway, false);
    assert!(
        answer.text().contains(PROMPT),
        "the client may read its own words"
    );
    let record = gateway.until_recent(1)[0].clone();
    assert!(!record.to_string().contains(PROMPT), "{record}");
    nowhere(&gateway);
    gateway.stands(&upstream);
}

#[test]
fn the_upstreams_key_is_only_in_the_configuration() {
    let upstream = Upstream::plain();
    upstream.demand_key(UPSTREAM_KEY);
    let mut gateway = Setup::before(&upstream)
        .config(&format!(
            "log.level = \"trace\"\nupstream.api_key = \"{UPSTREAM_KEY}\""
        ))
        .start();
    assert_eq!(ask(&gateway, false).status(), 200);
    upstream.next_chat(Script::json(500, &json!({"error": {"message": "boom"}})));
    ask(&gateway, false);
    nowhere(&gateway);
    let shown = gateway.cli(&["config"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(!shown.contains(UPSTREAM_KEY), "a key is not shown again");
    gateway.stands(&upstream);
}

#[cfg(unix)]
#[test]
fn what_is_written_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    gateway.chat(&chat::whole("x"));
    gateway.cli_ok(&["pause"]);
    gateway.cli_ok(&["resume"]);
    let mut files = Vec::new();
    files_under(&gateway.state_path(), &mut files);
    assert!(!files.is_empty());
    for file in files {
        let mode = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{} is {mode:o}", file.display());
    }
    gateway.stands(&upstream);
}
