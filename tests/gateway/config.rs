//! The configuration: layers, live reload, files that cannot be read, and who may serve.

use std::time::Duration;

use serde_json::json;

use crate::support::chat;
use crate::support::gateway::{Gateway, Setup};
use crate::support::held::{hold, queue};
use crate::support::script::Script;
use crate::support::upstream::Upstream;

fn max_waiting(gateway: &Gateway) -> u64 {
    gateway.status()["queue"]["max_waiting"].as_u64().unwrap()
}

fn in_front_of(upstream: &Upstream, more: &str) -> String {
    format!("upstream.base_url = {:?}\n{more}\n", upstream.url())
}

// Layers.

#[test]
fn environment_wins_over_the_file_and_flags_over_both() {
    let upstream = Upstream::plain();
    let gateway = Setup::bare()
        .config("upstream.base_url = \"http://127.0.0.1:9\"\nqueue.max_waiting = 7")
        .env("ONESLOT_QUEUE__MAX_WAITING", "3")
        .env("ONESLOT_UPSTREAM__BASE_URL", "http://127.0.0.1:10")
        .arg("--upstream")
        .arg(&format!("{}/v1/", upstream.url()))
        .start();
    assert_eq!(max_waiting(&gateway), 3);
    assert_eq!(
        gateway.chat(&chat::whole("x")).status(),
        200,
        "the flag names the real one"
    );
}

#[test]
fn a_base_url_is_the_same_server_with_and_without_v1() {
    let upstream = Upstream::plain();
    for ending in ["", "/", "/v1", "/v1/"] {
        let mut gateway = Setup::bare()
            .config(&format!(
                "upstream.base_url = \"{}{ending}\"",
                upstream.url()
            ))
            .start();
        assert_eq!(gateway.chat(&chat::whole("x")).status(), 200, "{ending:?}");
        assert_eq!(gateway.get("/v1/models").status(), 200, "{ending:?}");
        gateway.stands(&upstream);
    }
}

#[test]
fn every_member_is_explained() {
    let upstream = Upstream::plain();
    let gateway = Setup::before(&upstream).start();
    let text = gateway.cli_ok(&["config", "--explain"]);
    for member in [
        "max_waiting",
        "cooldown_ms",
        "first_byte_s",
        "commit_after_s",
        "fallback",
    ] {
        assert!(text.contains(member), "{member} is documented");
    }
}

#[test]
fn its_own_address_as_upstream_is_refused_at_start() {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let output = Setup::bare()
        .config(&format!(
            "upstream.base_url = \"http://localhost:{port}/v1\""
        ))
        .listen(&format!("127.0.0.1:{port}"))
        .start_refused();
    assert!(!output.status.success());
    assert!(!output.stderr.is_empty(), "it says why");
}

#[test]
fn listening_beyond_loopback_without_a_key_is_refused_at_start() {
    let upstream = Upstream::plain();
    let output = Setup::before(&upstream).listen("0.0.0.0:0").start_refused();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("key"), "{said}");
}

// Files that cannot be read.

/// Starts well, leaves this in place of the configuration, and starts again.
fn started_again_with(broken: &[u8]) {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("queue.max_waiting = 3")
        .start();
    gateway.signal("TERM");
    gateway.until_exit();
    std::fs::write(gateway.config_path(), broken).unwrap();
    let mut gateway = gateway.start_again();
    assert_eq!(max_waiting(&gateway), 3, "the last good copy serves");
    assert_eq!(gateway.chat(&chat::whole("x")).status(), 200);
    assert_eq!(
        std::fs::read(gateway.config_path()).unwrap(),
        broken,
        "what could not be read is never overwritten"
    );
    let kept_aside = std::fs::read_dir(gateway.home())
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().contains("corrupt"))
        .any(|entry| std::fs::read(entry.path()).unwrap() == broken);
    assert!(kept_aside, "and a copy is kept aside");
    assert!(
        gateway.said().contains("oneslot.toml"),
        "a person is told which file: {}",
        gateway.said()
    );
    gateway.stands(&upstream);
}

#[test]
fn a_file_of_nul_bytes_is_kept_aside_and_the_last_good_copy_serves() {
    started_again_with(&[0; 400]);
}

#[test]
fn an_emptied_file_is_kept_aside_and_the_last_good_copy_serves() {
    started_again_with(b"");
}

#[test]
fn half_a_file_is_kept_aside_and_the_last_good_copy_serves() {
    started_again_with(b"queue.max_waiting = 4\n[upstream]\nbase_url = \"http://127.0");
}

#[test]
fn a_file_with_wrong_types_is_kept_aside_and_the_last_good_copy_serves() {
    started_again_with(b"queue.max_waiting = \"many\"\nupstream = 17\n");
}

#[test]
fn a_broken_file_at_the_very_first_start_still_starts() {
    for broken in [
        &[0; 400][..],
        b"",
        b"{ \"json\": tr",
        b"queue.max_waiting = -1\n",
    ] {
        let setup = Setup::bare();
        std::fs::write(setup.config_path(), broken).unwrap();
        let gateway = setup.start_as_is();
        assert_eq!(max_waiting(&gateway), 4, "the defaults serve");
        assert_eq!(
            std::fs::read(gateway.config_path()).unwrap(),
            broken,
            "untouched"
        );
    }
}

#[cfg(unix)]
#[test]
fn a_read_only_file_and_directory_are_no_reason_not_to_start() {
    use std::os::unix::fs::PermissionsExt;
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    gateway.signal("TERM");
    gateway.until_exit();
    let read_only = std::fs::Permissions::from_mode(0o400);
    std::fs::set_permissions(gateway.config_path(), read_only).unwrap();
    let mut gateway = gateway.start_again();
    assert_eq!(gateway.chat(&chat::whole("x")).status(), 200);
    gateway.stands(&upstream);
}

#[test]
fn keys_are_added_listed_and_removed_and_comments_stay() {
    let upstream = Upstream::plain();
    let gateway = Setup::before(&upstream)
        .config("# a person's own words\naccess.require_key = true")
        .start();
    let config = gateway.config_path().display().to_string();
    let added = gateway.cli_ok(&["key", "add", "zed", "--config", &config]);
    let key = added
        .split_whitespace()
        .max_by_key(|word| word.len())
        .expect("a key is shown")
        .trim_matches(['"', '`'])
        .to_owned();
    let file = std::fs::read_to_string(gateway.config_path()).unwrap();
    assert!(
        file.contains("# a person's own words"),
        "comments are kept: {file}"
    );
    assert!(!file.contains(&key), "only its digest is kept");
    let with_key = || {
        let bearer = format!("Bearer {key}");
        let body = chat::whole("x").to_string();
        let fields = [("authorization", bearer.as_str())];
        gateway
            .exchange(&gateway.request_with(
                "POST",
                "/v1/chat/completions",
                &fields,
                body.as_bytes(),
            ))
            .status()
    };
    crate::support::eventually("the key works without a restart", || {
        (with_key() == 200).then_some(())
    });
    assert!(
        gateway
            .cli_ok(&["key", "list", "--config", &config])
            .contains("zed")
    );
    gateway.cli_ok(&["key", "remove", "zed", "--config", &config]);
    crate::support::eventually("the key no longer works", || {
        (with_key() == 401).then_some(())
    });
}

// Reload.

#[test]
fn a_changed_file_is_taken_up_while_it_runs() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    assert_eq!(max_waiting(&gateway), 4);
    gateway.rewrite_config(&in_front_of(&upstream, "queue.max_waiting = 9"));
    gateway.until_status("the new line length", |status| {
        status["queue"]["max_waiting"] == 9
    });
    gateway.stands(&upstream);
}

#[test]
fn a_change_made_the_moment_it_serves_is_not_lost() {
    let upstream = Upstream::plain();
    for _ in 0..5 {
        let gateway = Setup::before(&upstream).start();
        gateway.rewrite_config(&in_front_of(&upstream, "queue.max_waiting = 9"));
        gateway.until_status("the new line length", |status| {
            status["queue"]["max_waiting"] == 9
        });
    }
}

#[test]
fn an_invalid_file_changes_nothing_and_is_shown_with_line_and_reason() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("queue.max_waiting = 3")
        .start();
    // A first change that counts: from here on it is known to look.
    crate::support::eventually("it looks at the file", || {
        gateway.rewrite_config(&in_front_of(&upstream, "queue.max_waiting = 2"));
        std::thread::sleep(std::time::Duration::from_millis(500));
        (max_waiting(&gateway) == 2).then_some(())
    });
    gateway.rewrite_config(&in_front_of(&upstream, "queue.max_waiting = \"many\""));
    crate::support::eventually("the fault is said with its line", || {
        let said = format!("{}\n{}", gateway.said(), gateway.status()["notices"]);
        let fault = said
            .lines()
            .find(|line| line.contains("many") || line.contains("max_waiting"));
        fault
            .is_some_and(|fault| fault.contains("line 2") || fault.contains(":2"))
            .then_some(())
    });
    assert_eq!(max_waiting(&gateway), 2, "nothing changed");
    gateway.rewrite_config(&in_front_of(&upstream, "queue.max_waiting = 5"));
    gateway.until_status("a mended file counts", |status| {
        status["queue"]["max_waiting"] == 5
    });
    gateway.stands(&upstream);
}

#[test]
fn a_shorter_line_throws_nobody_out() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let held = hold(&gateway, &upstream);
    let waiting = queue(&gateway, 4);
    gateway.rewrite_config(&in_front_of(&upstream, "queue.max_waiting = 1"));
    gateway.until_status("the new line length", |status| {
        status["queue"]["max_waiting"] == 1
    });
    assert_eq!(
        gateway.chat(&chat::whole("one more")).code(),
        Some("LLM_OVERLOADED")
    );
    held.release();
    for mut client in waiting {
        assert_eq!(client.finish().status(), 200, "who waited is served");
    }
    gateway.stands(&upstream);
}

#[test]
fn a_new_upstream_gets_what_is_not_dispatched_yet() {
    let (old, new) = (Upstream::plain(), Upstream::plain());
    let mut gateway = Setup::before(&old).start();
    let held = hold(&gateway, &old);
    let mut waiting = gateway.open_chat(&chat::whole("waits"));
    gateway.until_queue(1, 1);
    gateway.rewrite_config(&in_front_of(&new, ""));
    let wanted = new.url();
    gateway.until_status("the new server is meant", |status| {
        status["upstream"]["base_url"]
            .as_str()
            .is_some_and(|url| url.starts_with(&wanted))
    });
    assert!(
        held.release().text().contains("released"),
        "the running one ends where it began"
    );
    assert_eq!(waiting.finish().status(), 200);
    assert_eq!(new.order(), ["waits"]);
    assert_eq!(old.chats().len(), 1);
    gateway.stands(&new);
}

#[test]
fn fewer_slots_take_effect_as_leases_return() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("upstream.slots = 2")
        .start();
    let (first, second) = (hold(&gateway, &upstream), hold(&gateway, &upstream));
    gateway.rewrite_config(&in_front_of(
        &upstream,
        "upstream.slots = 1\nqueue.max_waiting = 5",
    ));
    gateway.until_status("it was read", |status| status["queue"]["max_waiting"] == 5);
    let mut third = gateway.open_chat(&chat::whole("third"));
    gateway.until_queue(2, 1);
    first.release();
    assert!(
        third.is_silent_for(std::time::Duration::from_millis(1200)),
        "one slot is taken"
    );
    assert_eq!(upstream.chats().len(), 2);
    second.release();
    assert_eq!(third.finish().status(), 200);
    gateway.stands_with_slots(&upstream, 2);
}

// Who may serve.

#[test]
fn a_second_gateway_with_the_same_state_exits_3_and_says_who_holds_it() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let config = gateway.config_path().display().to_string();
    let output = gateway.cli(&["serve", "--listen", "127.0.0.1:0", "--config", &config]);
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains(&gateway.pid().to_string()),
        "who holds it: {said}"
    );
    gateway.stands(&upstream);
}

#[test]
fn a_taken_port_exits_2_and_names_who_has_it() {
    let upstream = Upstream::plain();
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let output = Setup::before(&upstream)
        .listen(&stranger.local_addr().unwrap().to_string())
        .start_refused();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let port = stranger.local_addr().unwrap().port().to_string();
    assert!(said.contains(&port), "{said}");
}

#[test]
fn a_killed_gateway_leaves_nothing_that_keeps_the_next_from_starting() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    gateway.signal("KILL");
    gateway.until_exit();
    let mut gateway = gateway.start_again();
    gateway.stands(&upstream);
}

#[test]
fn the_demo_says_so_in_every_answer() {
    let gateway = Setup::bare().arg("--demo").start();
    for body in [chat::whole("hello"), chat::streamed("hello")] {
        let answer = gateway.chat(&body);
        assert_eq!(answer.status(), 200, "{}", answer.text());
        assert!(
            answer.text().to_lowercase().contains("demo") || answer.text().contains("simulated")
        );
    }
    let status = gateway.status();
    assert_eq!(status["queue"]["running"], json!(0));
}

// Seen from outside.

#[test]
fn the_status_has_every_member_and_counts_up() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let before = gateway.status();
    gateway.chat(&chat::whole("x"));
    gateway.until_recent(1);
    let status = gateway.status();
    for path in [
        "/seq",
        "/version",
        "/state",
        "/upstream/base_url",
        "/upstream/kind",
        "/upstream/model",
        "/upstream/process",
        "/queue/running",
        "/queue/waiting",
        "/queue/max_waiting",
        "/queue/items",
        "/health/state",
        "/health/consecutive_failures",
        "/health/last_error",
        "/health/cooldown_ms",
        "/latency/wait/p50",
        "/latency/wait/p95",
        "/latency/first_token/p50",
        "/latency/total/p95",
        "/pressure/level",
        "/pressure/cause",
        "/pressure/ram",
        "/pressure/vram",
        "/plan/rung",
        "/plan/ceiling",
        "/plan/reason",
        "/window/size",
        "/window/source",
        "/window/counting",
        "/pause",
        "/refused_origins",
        "/recent/0/id",
        "/recent/0/app",
        "/recent/0/outcome",
        "/recent/0/code",
        "/recent/0/wait_ms",
        "/recent/0/first_token_ms",
        "/recent/0/total_ms",
        "/recent/0/budget",
        "/recent/0/prompt_before",
        "/recent/0/prompt_after",
        "/recent/0/dropped",
        "/recent/0/asked",
        "/recent/0/granted",
    ] {
        assert!(
            status.pointer(path).is_some(),
            "members never vanish: {path} in {status:#}"
        );
    }
    assert!(
        status["seq"].as_u64() > before["seq"].as_u64(),
        "numbered upward"
    );
    gateway.stands(&upstream);
}

#[test]
fn events_show_the_line_as_it_moves() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let mut events = gateway.open(&gateway.request("GET", "/oneslot/events", b""));
    assert_eq!(events.head().status(), 200);
    events.body_until_has("\"running\":0");
    let held = hold(&gateway, &upstream);
    events.body_until_has("\"running\":1");
    held.release();
    gateway.stands(&upstream);
}

#[test]
fn events_tell_the_tokens_of_an_answer_as_they_come() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let mut events = gateway.open(&gateway.request("GET", "/oneslot/events?watched=yes", b""));
    events.body_until_has("\"running\":0");
    let mut script = Script::stream();
    for at in 0..40 {
        script = script
            .delta(&format!("word{at} "))
            .wait(Duration::from_millis(100));
    }
    upstream.next_chat(script.ending());
    let mut running = gateway.open_chat(&chat::streamed("go on"));
    assert_eq!(running.finish().status(), 200);
    events.body_until_has("\"outcome\":\"done\"");
    let told = String::from_utf8_lossy(events.body()).into_owned();
    let tokens: std::collections::BTreeSet<&str> = told
        .split("\"tokens\":")
        .skip(1)
        .filter_map(|rest| rest.split(',').next())
        .filter(|number| *number != "null")
        .collect();
    assert!(
        tokens.len() >= 5,
        "four seconds of tokens are told more than once: {tokens:?}"
    );
    gateway.stands(&upstream);
}

#[test]
fn who_was_turned_away_is_told_at_once_and_no_more_when_let_in() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let mut events = gateway.open(&gateway.request("GET", "/oneslot/events", b""));
    events.body_until_has("\"running\":0");
    let page = [("origin", "https://chat.example")];
    let ask = |gateway: &Gateway| {
        gateway
            .exchange(&gateway.request_with("GET", "/v1/models", &page, b""))
            .status()
    };
    assert_eq!(ask(&gateway), 403);
    let began = std::time::Instant::now();
    events.body_until_has("https://chat.example");
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "long before the next quiet event"
    );
    let line = "access.allowed_origins = [\"https://chat.example\"]";
    gateway.rewrite_config(&in_front_of(&upstream, line));
    gateway.until_status("it is no news any more", |status| {
        status["refused_origins"] == serde_json::json!([])
    });
    assert_eq!(ask(&gateway), 200);
    gateway.stands(&upstream);
}

#[test]
fn whoever_watches_does_not_keep_it_from_ending() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .limit("shutdown_ms", 60_000)
        .start();
    let mut events = gateway.open(&gateway.request("GET", "/oneslot/events", b""));
    events.body_until_has("data: ");
    gateway.signal("TERM");
    assert!(
        gateway.until_exit().success(),
        "long before its grace is over"
    );
}

#[test]
fn a_stranger_on_the_other_family_at_our_port_is_reported() {
    let Ok(stranger) = std::net::TcpListener::bind("[::1]:0") else {
        return; // A machine without IPv6.
    };
    let port = stranger.local_addr().unwrap().port();
    let upstream = Upstream::plain();
    let listen = format!("listen = [\"127.0.0.1:{port}\", \"[::1]:{port}\"]");
    let mut gateway = Setup::before(&upstream).listen("").config(&listen).start();
    let status = gateway.until_status("the stranger is told", |status| {
        status["notices"].to_string().contains("foreign_listener")
    });
    let told = status["notices"].to_string();
    for word in [
        format!("[::1]:{port}"),
        format!("pid {}", std::process::id()),
        format!("127.0.0.1:{port}"),
    ] {
        assert!(told.contains(&word), "{word:?} in {told}");
    }
    gateway.stands(&upstream);
}

#[test]
fn metrics_are_openmetrics() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    gateway.chat(&chat::whole("x"));
    let metrics = gateway.get("/metrics");
    assert_eq!(metrics.status(), 200);
    assert!(
        metrics
            .head
            .get("content-type")
            .is_some_and(|kind| kind.contains("openmetrics"))
    );
    assert!(
        metrics.text().trim_end().ends_with("# EOF"),
        "{}",
        metrics.text()
    );
    assert!(metrics.text().contains("oneslot_"));
    gateway.stands(&upstream);
}

/// The log line of this request, once it is written.
fn log_line(gateway: &Gateway, id: &str) -> String {
    crate::support::eventually("the request's line", || {
        let said = gateway.said();
        let mut lines = said.lines().filter(|line| line.contains(id));
        lines
            .find(|line| line.contains("outcome"))
            .map(str::to_owned)
    })
}

#[test]
fn one_log_line_tells_what_became_of_a_request() {
    {
        let upstream = Upstream::plain();
        let mut gateway = Setup::before(&upstream)
            .config("window.context = 1000")
            .start();
        let mut body = chat::whole("x");
        body["max_tokens"] = json!(900_000);
        let answer = gateway.chat(&body);
        let id = answer.head.get("x-oneslot-request-id").unwrap().to_owned();
        let line = log_line(&gateway, &id);
        for word in [
            "queue_length",
            "wait_ms",
            "infer_ms",
            "total_ms",
            "budget",
            "prompt_before",
            "prompt_after",
            "asked",
            "granted",
            "consecutive_failures",
            "done",
        ] {
            assert!(line.contains(word), "{word} in {line}");
        }
        gateway.stands(&upstream);
    }
}

#[test]
fn a_start_without_the_file_that_was_there_says_where_its_last_copy_is() {
    let upstream = Upstream::plain();
    let gateway = Setup::before(&upstream).start();
    let told = "there is no settings file";
    assert!(!gateway.said().contains(told), "it is there");
    std::fs::remove_file(gateway.config_path()).unwrap();
    let gateway = gateway.restart();
    let said = gateway.said();
    let line = said.lines().find(|line| line.contains(told));
    assert!(
        line.is_some_and(|line| line.contains("config.toml.good")),
        "a person may miss it: {said}"
    );
}

#[test]
fn one_change_after_the_file_was_removed_changes_nothing_else() {
    let upstream = Upstream::plain();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let line = format!("listen = [\"{}\"]", free.local_addr().unwrap());
    drop(free);
    let config = in_front_of(&upstream, &line);
    let mut gateway = Setup::bare().listen("").config(&config).start();
    std::fs::remove_file(gateway.config_path()).unwrap();
    gateway.until_status("the missing file is told", |status| {
        status["notices"].to_string().contains("the file is gone")
    });
    let config = gateway.config_path();
    let config = config.to_str().unwrap();
    let output = gateway.cli(&["key", "add", "zed", "--config", config]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("written again"), "it is logged: {said}");
    gateway.until_status("the new file is read", |status| {
        !status["notices"].to_string().contains("the file is gone")
    });
    let written = std::fs::read_to_string(gateway.config_path()).unwrap();
    assert!(written.contains(&line), "{written}");
    assert!(written.contains("zed"), "{written}");
    gateway.stands(&upstream);
}

#[test]
fn a_changed_listen_opens_the_new_address_before_it_lets_go_of_the_old() {
    let upstream = Upstream::plain();
    let old_line = "listen = [\"127.0.0.1:0\"]";
    let gateway = Setup::before(&upstream).listen("").config(old_line).start();
    let old = gateway.address();
    let held = hold(&gateway, &upstream);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let new = free.local_addr().unwrap();
    // Still taken: the old one is kept, and it is said why.
    gateway.rewrite_config(&in_front_of(&upstream, &format!("listen = [\"{new}\"]")));
    gateway.until_status("the taken address is told", |status| {
        status["notices"].to_string().contains(&new.to_string())
    });
    drop(free);
    let other = format!("listen = [\"{new}\"]\nqueue.max_waiting = 3");
    gateway.rewrite_config(&in_front_of(&upstream, old_line));
    gateway.rewrite_config(&in_front_of(&upstream, &other));
    crate::support::eventually("the new address serves", || {
        std::net::TcpStream::connect(new).is_ok().then_some(())
    });
    crate::support::eventually("the old address takes nobody new", || {
        std::net::TcpStream::connect(old).is_err().then_some(())
    });
    assert_eq!(
        held.release().status(),
        200,
        "what ran on the old one was finished"
    );
}

#[test]
fn a_reload_renews_the_notices_about_the_file() {
    let upstream = Upstream::plain();
    let gateway = Setup::before(&upstream)
        .config("timeouts.header_s = 3")
        .start();
    let url = upstream.url();
    gateway.until_status("the removed setting is named", |status| {
        status["notices"].to_string().contains("timeouts.header_s")
    });
    gateway.rewrite_config(&format!(
        "upstream.base_url = {url:?}\nqueue.max_wating = 3\n"
    ));
    gateway.until_status("the typo is named instead", |status| {
        let notices = status["notices"].to_string();
        notices.contains("queue.max_wating") && !notices.contains("timeouts.header_s")
    });
    gateway.rewrite_config(&format!("upstream.base_url = {url:?}\n"));
    gateway.until_status("nothing is left to say", |status| {
        !status["notices"].to_string().contains("max_wating")
    });
}
