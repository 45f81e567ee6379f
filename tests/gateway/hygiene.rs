//! Traces on the machine: no content and no key in any form, nothing other users can read, and no
//! process left running.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::canary::{files_under, forms};
use crate::support::chat;
use crate::support::client::Client;
use crate::support::eventually;
use crate::support::gateway::{Gateway, Setup};
use crate::support::held::{hold, queue};
use crate::support::refused::{Advice, error_event, refused};
use crate::support::script::Script;
use crate::support::untouched::quiet;
use crate::support::upstream::{How, Upstream};

const PROMPT: &str = "CANARY-7f3a prompt ünïcode";
const ANSWER: &str = "CANARY-7f3a answer";
const CLIENT_KEY: &str = "sk-client-Qm7xW2pL-9vTbn4Za";
const UPSTREAM_KEY: &str = "sk-upstream-Jr5yH8dK-3wXcm6Fe";

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Everything the gateway wrote, logged or shows, by its source.
fn traces(gateway: &Gateway) -> Vec<(String, Vec<u8>)> {
    let mut found = vec![
        ("what it said".to_owned(), gateway.said().into_bytes()),
        (
            "status".to_owned(),
            gateway.status().to_string().into_bytes(),
        ),
        ("metrics".to_owned(), gateway.get("/metrics").body),
        ("doctor".to_owned(), gateway.cli(&["doctor"]).stdout),
        ("config".to_owned(), gateway.cli(&["config"]).stdout),
        ("status command".to_owned(), gateway.cli(&["status"]).stdout),
    ];
    for file in files_under(gateway.home()) {
        found.push((
            file.display().to_string(),
            std::fs::read(&file).unwrap_or_default(),
        ));
    }
    found
}

/// None of these secrets is in any trace, in any form, nor the ends of a key.
fn none_of(gateway: &Gateway, secrets: &[(&str, &[&str])]) {
    for (place, bytes) in traces(gateway) {
        for (secret, at_home) in secrets {
            if at_home.iter().any(|home| place.contains(home)) {
                continue;
            }
            for form in forms(secret) {
                assert!(
                    memchr::memmem::find(&bytes, form.as_bytes()).is_none(),
                    "{form:?}, a form of {secret:?}, in {place}"
                );
            }
        }
    }
}

/// The secret and the first and last eight characters of it.
fn with_ends(key: &str) -> [&str; 3] {
    [key, &key[..8], &key[key.len() - 8..]]
}

#[test]
fn no_content_and_no_key_is_found_after_every_kind_of_end_a_panic_included() {
    let upstream = Upstream::plain();
    upstream.demand_key(UPSTREAM_KEY);
    let fault = tempfile::tempdir().unwrap().keep().join("fault");
    let mut gateway = Setup::before(&upstream)
        .config(&format!(
            "log.level = \"trace\"\nupstream.api_key = \"{UPSTREAM_KEY}\"\nhealth.cooldown_ms = 50\ntimeouts.stall_s = 1"
        ))
        .limit("cooldown_max_ms", 50)
        .env("ONESLOT_FAULT", &fault.display().to_string())
        .start();
    let made = gateway.cli_ok(&[
        "key",
        "add",
        "zed",
        "--config",
        &gateway.config_path().display().to_string(),
    ]);
    let own_key = made.lines().next().unwrap_or_default().trim().to_owned();
    assert!(own_key.len() > 16, "a key was made: {made}");
    let count = std::cell::Cell::new(0);
    let send = |stream: bool, key: &str| {
        let mut body = if stream {
            chat::streamed(PROMPT)
        } else {
            chat::whole(PROMPT)
        };
        // No two alike: a body in flight at two deaths of the server is not sent again.
        count.set(count.get() + 1);
        body["metadata"] = json!({"note": PROMPT, "count": count.get()});
        let fields = [
            ("authorization", format!("Bearer {key}")),
            ("x-api-key", key.to_owned()),
            ("cookie", format!("session={key}")),
            ("x-canary", PROMPT.replace('ü', "u").replace('ï', "i")),
        ];
        let fields: Vec<(&str, &str)> = fields
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        gateway.exchange(&gateway.request_with(
            "POST",
            &format!("/v1/chat/completions?key={key}"),
            &fields,
            body.to_string().as_bytes(),
        ))
    };
    let endings = [
        Script::answer(ANSWER),
        Script::streamed(ANSWER),
        Script::stream().delta(ANSWER).rst(),
        Script::stream().delta(ANSWER).last_chunk(),
        Script::stream().delta(ANSWER).hang(),
        Script::stream().chunk(format!("data: {{\"error\":{{\"message\":\"{ANSWER}\",\"type\":\"{ANSWER}\",\"code\":\"{ANSWER}\"}}}}\n\n").as_bytes()).last_chunk(),
        Script::json(400, &json!({"error": {"message": PROMPT, "type": ANSWER, "code": ANSWER}})),
        Script::json(500, &json!({"error": PROMPT})),
        Script::whole(502, "text/html", format!("<html>{PROMPT}").as_bytes()),
        Script::whole(200, "text/html", format!("<html>{PROMPT}").as_bytes()),
        Script::new().send(format!("NOT HTTP {ANSWER}\r\n\r\n").as_bytes()).fin(),
        Script::new().send(format!("HTTP/1.1 200 {ANSWER}\r\nx-{}: {ANSWER}\r\n", "canary").as_bytes()).rst(),
    ];
    for script in endings {
        for (stream, key) in [(false, CLIENT_KEY), (true, own_key.as_str())] {
            upstream.next_chat(script.clone());
            send(stream, key);
            gateway.control("POST", "/oneslot/check", "");
            upstream.as_usual("POST", "/v1/chat/completions");
        }
    }
    for stage in ["Gate", "Queue", "Trim", "Connect", "Head", "Record"] {
        std::fs::write(&fault, format!("{stage}\n{PROMPT} {CLIENT_KEY}")).unwrap();
        let answer = send(false, CLIENT_KEY);
        assert_eq!(answer.status(), 500, "{stage}: {}", answer.text());
        assert!(!answer.text().contains("CANARY"), "{}", answer.text());
    }
    gateway.get(&format!("/CANARY-7f3a/{CLIENT_KEY}"));
    gateway.get("/v1/models/CANARY-7f3a?key=CANARY-7f3a");
    gateway.exchange(&gateway.request(
        "POST",
        "/v1/chat/completions",
        format!("{{\"messages\":\"{PROMPT}").as_bytes(),
    ));
    gateway.exchange(&gateway.request_with(
        "POST",
        "/oneslot/pause",
        &[("x-oneslot-token", CLIENT_KEY)],
        PROMPT.as_bytes(),
    ));
    gateway.exchange(&gateway.request_with(
        "GET",
        "/v1/models",
        &[("origin", "https://allowed.example")],
        b"",
    ));
    let token = gateway.token();
    let config = gateway.config_path().display().to_string();
    let config = config.trim_end_matches(".toml").to_owned();
    let good = "config.toml.good";
    let mut secrets: Vec<(&str, &[&str])> = vec![("CANARY-7f3a", &[]), ("allowed.nothing", &[])];
    let upstreams = [config.as_str(), good];
    let tokens = ["control.token"];
    for form in with_ends(CLIENT_KEY).into_iter().chain(with_ends(&own_key)) {
        secrets.push((form, &[]));
    }
    for form in with_ends(UPSTREAM_KEY) {
        secrets.push((form, &upstreams));
    }
    for form in with_ends(&token) {
        secrets.push((form, &tokens));
    }
    // The names of things share their first letters with keys.
    secrets.retain(|(form, _)| !form.starts_with("sk-") || form.len() > 8 || *form == "sk-clien");
    none_of(&gateway, &secrets);
    gateway.stands(&upstream);
    none_of(&gateway, &secrets);
}

#[test]
fn a_credential_in_the_upstreams_address_is_refused_and_repeated_nowhere() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("log.level = \"trace\"")
        .start();
    gateway.rewrite_config(&format!(
        "upstream.base_url = \"http://person:hunter2-CANARY@{}\"\nlog.level = \"trace\"",
        upstream.address()
    ));
    let status = gateway.until_status("the file is refused", |status| {
        status["notices"].to_string().contains("base_url")
    });
    assert!(!status.to_string().contains("hunter2"), "{status}");
    for (place, bytes) in traces(&gateway) {
        let is_own = place.ends_with("oneslot.toml");
        assert!(
            is_own || memchr::memmem::find(&bytes, b"hunter2").is_none(),
            "a password in {place}"
        );
    }
    gateway.stands(&upstream);
}

#[test]
fn under_the_widest_mask_everything_is_still_its_owners_alone() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).umask("000").start();
    gateway.chat(&chat::whole("x"));
    gateway.cli_ok(&["pause"]);
    gateway.cli_ok(&["resume"]);
    let fresh = gateway.home().join("fresh/deep/config.toml");
    gateway.cli_ok(&[
        "key",
        "add",
        "zed",
        "--config",
        &fresh.display().to_string(),
    ]);
    let mut looked = 0;
    for file in files_under(&gateway.state_path())
        .into_iter()
        .chain([fresh.clone()])
    {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
        looked += 1;
    }
    assert!(looked > 3, "there is something to look at");
    let parents: [PathBuf; 3] = [
        gateway.state_path(),
        fresh.parent().unwrap().to_owned(),
        fresh.parent().unwrap().parent().unwrap().to_owned(),
    ];
    for folder in parents {
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
    }
    gateway.stands(&upstream);
}

#[test]
fn a_readable_file_with_a_key_in_it_is_closed_and_said() {
    let upstream = Upstream::plain();
    let setup = Setup::before(&upstream).config(&format!("upstream.api_key = \"{UPSTREAM_KEY}\""));
    std::fs::write(setup.config_path(), "").unwrap();
    std::fs::set_permissions(setup.config_path(), std::fs::Permissions::from_mode(0o644)).unwrap();
    let mut gateway = setup.start();
    assert_eq!(mode(&gateway.config_path()), 0o600);
    let notices = gateway.status()["notices"].to_string();
    assert!(notices.contains("644"), "there is a notice: {notices}");
    let said = format!("{}{notices}", gateway.said());
    assert!(!said.contains(UPSTREAM_KEY));
    gateway.stands(&upstream);
}

#[test]
fn a_state_directory_that_others_could_use_is_closed_and_said_once() {
    let upstream = Upstream::plain();
    let gateway = Setup::before(&upstream).start();
    let state = gateway.state_path();
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o775)).unwrap();
    std::fs::set_permissions(
        state.join("oneslot.log"),
        std::fs::Permissions::from_mode(0o644),
    )
    .unwrap();
    let mut gateway = gateway.restart();
    assert_eq!(mode(&state), 0o700);
    assert_eq!(mode(&state.join("oneslot.log")), 0o600);
    let warnings = || {
        let log = std::fs::read_to_string(state.join("oneslot.log")).unwrap();
        let lines = log.lines().filter(|line| line.contains("open to others"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    // The file is written beside the rest.
    let lines = eventually("it is said", || {
        let lines = warnings();
        (!lines.is_empty()).then_some(lines)
    });
    assert_eq!(lines.len(), 1, "it may have been meant: {lines:?}");
    assert!(lines[0].contains("775"), "how it was is said: {lines:?}");
    gateway = gateway.restart();
    assert_eq!(warnings(), lines, "and not again");
    gateway.stands(&upstream);
}

/// One streams and five wait; then the program is asked to end.
fn asked_to_end(finishes: bool) {
    let upstream = Upstream::plain();
    let mut gateway = quiet(&upstream).config("queue.max_waiting = 5").start();
    let address = gateway.address();
    let mut held = hold(&gateway, &upstream);
    let mut waiting = queue(&gateway, 5);
    let began = Instant::now();
    gateway.signal("TERM");
    for client in &mut waiting {
        refused(&client.finish(), 503, "SHUTTING_DOWN", Advice::Later);
    }
    let took = began.elapsed();
    assert!(
        took < Duration::from_secs(1),
        "queued requests are refused at once: {took:?}"
    );
    if finishes {
        held.let_go();
        let answer = held.client.finish();
        assert!(answer.text().contains("[DONE]"), "{}", answer.text());
    } else {
        let answer = held.client.finish();
        error_event(&answer.body, "LLM_INTERRUPTED");
        let (how, _) = upstream.until_ended(0);
        assert!(matches!(how, How::PeerFin | How::PeerRst), "{how:?}");
    }
    let status = gateway.until_exit();
    let took = began.elapsed();
    assert!(status.success(), "{status:?}");
    assert!(took < Duration::from_secs(4), "gone after {took:?}");
    let again = eventually("the port is free", || TcpListener::bind(address).ok());
    drop(again);
    assert_eq!(upstream.chats().len(), 1, "no queued request was sent");
}

#[test]
fn an_end_tells_five_in_line_at_once_and_lets_a_running_answer_finish() {
    asked_to_end(true);
}

#[test]
fn an_end_cuts_an_answer_that_goes_on_with_an_event_and_closes_the_upstream() {
    asked_to_end(false);
}

#[test]
fn a_client_that_reads_nothing_does_not_delay_shutdown() {
    let upstream = Upstream::plain();
    let mut gateway = quiet(&upstream).start();
    upstream.next_chat(
        Script::stream()
            .drip(&[b'x'; 4096], Duration::ZERO, 2000)
            .hang(),
    );
    let body = chat::streamed("x").to_string();
    let mut stuck = Client::connect_narrow(gateway.address());
    stuck.send(&gateway.request("POST", "/v1/chat/completions", body.as_bytes()));
    upstream.until_chats(1);
    let began = Instant::now();
    gateway.signal("TERM");
    gateway.until_exit();
    let took = began.elapsed();
    assert!(took < Duration::from_secs(4), "gone after {took:?}");
}
