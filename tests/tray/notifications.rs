//! Notifications as a desktop gets them: one for each lasting incident, in the language that was
//! chosen, and none of a kind that was switched off.

use std::time::Duration;

use super::support::desktop::Desktop;
use super::support::host::{Host, Icon};
use super::support::notices::{Notice, Notices};
use super::support::program::{Program, Setup};
use super::support::upstream::Upstream;
use super::support::{LIMIT, chat, network, within};

/// The longest patience is a minute; the rest is a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the tray was told to keep for itself.
const ENGLISH: &str = r#"{"language": "en"}"#;
const CHINESE: &str = r#"{"language": "zh-CN"}"#;

struct Stage {
    tray: Program,
    icon: Icon,
    notices: Notices,
    _host: Host,
    _desktop: Desktop,
}

/// A tray that kept this, on a desktop of its own.
/// Memory is read often and always counts as high; the cooldown stays short.
const ALWAYS_HIGH: &str = r#"{"cooldown_max_ms": 500, "memory": {"interval_ms": 250,
    "rise_readings": 1, "ram_percent": [100, 100, 0], "ram_mib": [1000000, 900000, 0]}}"#;

fn stage(kept: &str, settings: &[String]) -> Stage {
    let desktop = Desktop::new();
    let state = desktop.home().join("state");
    std::fs::create_dir_all(&state).unwrap();
    std::fs::write(state.join("tray.json"), kept).unwrap();
    let (host, notices) = (Host::on(&desktop), Notices::on(&desktop));
    let bare = Setup::bare(&desktop).env("ONESLOT_LIMITS", ALWAYS_HIGH);
    let setup = settings.iter().fold(bare, |setup, line| setup.config(line));
    let tray = setup.start_as_is();
    Stage {
        tray,
        icon: host.icon(),
        notices,
        _host: host,
        _desktop: desktop,
    }
}

impl Stage {
    fn until_told(&self, titles: &[&str]) -> Vec<Notice> {
        let shown = || self.notices.shown();
        let why = format!(
            "{titles:?} are told; the icon says {}",
            self.icon.look().tooltip
        );
        within(PATIENCE, &why, || {
            (shown().len() >= titles.len()).then_some(())
        });
        self.told(titles)
    }

    fn told(&self, titles: &[&str]) -> Vec<Notice> {
        let shown = self.notices.shown();
        let told: Vec<&str> = shown.iter().map(|one| one.title.as_str()).collect();
        assert_eq!(told, titles, "this and nothing else is told");
        let named = shown.iter().all(|one| one.app == "OneSlot");
        assert!(named, "who tells it is said: {shown:?}");
        shown
    }
}

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(ToString::to_string).collect()
}

#[test]
fn a_lost_server_and_short_memory_are_told_once_each_and_flaps_are_not() {
    let upstream = Upstream::plain();
    let mut settings = lines(&["health.cooldown_ms = 500", "health.idle_interval_s = 1"]);
    settings.push(format!("upstream.base_url = {:?}", upstream.url()));
    let both = stage(ENGLISH, &settings);
    let lost = stage(
        r#"{"language": "zh-CN", "notify": {"memory": false}}"#,
        &settings,
    );
    let short = stage(
        r#"{"language": "zh-CN", "notify": {"down": false}}"#,
        &settings,
    );
    for one in [&both, &lost, &short] {
        one.tray.until_serves();
        one.tray.until_status("memory counts as short", |status| {
            status["pressure"]["level"] == "high" && status["health"]["state"] == "ready"
        });
    }
    // Some that are over before anybody needs to hear of them.
    flaps(&upstream, &both, 3);
    both.told(&[]);

    upstream.die();
    for one in [&both, &lost, &short] {
        // Nobody asks for anything here, so it would be found out only at the next idle look.
        one.tray.control("/oneslot/check");
    }
    let down = "OpenAI-compatible server stopped responding";
    let told = both.until_told(&[down, "Memory is low"]);
    assert!(told[0].text.contains("retries automatically"), "{told:?}");
    assert!(told[1].text.starts_with("RAM available"), "{told:?}");
    let told = lost.until_told(&["OpenAI-compatible server 停止响应"]);
    assert!(told[0].text.contains("自动重试"), "{told:?}");
    let told = short.until_told(&["内存不足"]);
    assert!(told[0].text.starts_with("可用内存"), "{told:?}");
    assert!(told[0].text.contains("回答会缩短"), "{told:?}");

    // Ten more, and the last one lasts: it is the incident that was told already.
    upstream.come_back();
    flaps(&upstream, &both, 10);
    upstream.die();
    std::thread::sleep(Duration::from_secs(18));
    both.told(&[down, "Memory is low"]);
    lost.told(&["OpenAI-compatible server 停止响应"]);
    short.told(&["内存不足"]);
    for one in [&both, &lost, &short] {
        let shown = format!("{:?}", one.notices.shown());
        assert!(!shown.contains(super::support::canary::CANARY), "{shown}");
    }
}

/// The server goes and comes so often, each seen by the icon; it is there at the end.
fn flaps(upstream: &Upstream, stage: &Stage, times: usize) {
    for _ in 0..times {
        upstream.die();
        stage.tray.control("/oneslot/check");
        stage.icon.until_begins(LIMIT, "OpenAI-compatible server");
        upstream.come_back();
        stage.tray.control("/oneslot/check");
        stage
            .icon
            .until_begins(LIMIT, "Memory is low: answers are shortened");
    }
    let answer = stage.tray.open_chat(&chat::whole("hello")).finish();
    assert_eq!(answer.status(), 200, "it serves in between");
}

#[test]
fn a_taken_port_is_told_once_with_what_to_do_and_not_where_that_was_switched_off() {
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = [format!("listen = [\"{}\"]", stranger.local_addr().unwrap())];
    let english = stage(ENGLISH, &listen);
    let chinese = stage(CHINESE, &listen);
    let silent = stage(r#"{"notify": {"not_serving": false}}"#, &listen);
    // One that cannot start for another reason does not blame the port.
    let other = stage(ENGLISH, &lines(&["listen = [\"0.0.0.0:0\"]"]));
    let told = english.until_told(&["OneSlot is not serving"]);
    assert!(told[0].text.contains("choose another"), "{told:?}");
    let told = chinese.until_told(&["OneSlot 未提供服务"]);
    assert!(told[0].text.contains("端口被其他程序占用"), "{told:?}");
    let told = other.until_told(&["OneSlot is not serving"]);
    assert!(told[0].text.contains("see the reason"), "{told:?}");
    other
        .icon
        .until_says(LIMIT, "Not serving: it could not start");
    // It is tried again every five seconds, and that is no news.
    std::thread::sleep(Duration::from_secs(11));
    english.told(&["OneSlot is not serving"]);
    chinese.told(&["OneSlot 未提供服务"]);
    silent.told(&[]);
}

#[test]
fn a_server_that_is_nowhere_is_told_after_a_minute() {
    let name = "notifications::a_server_that_is_nowhere_is_told_after_a_minute";
    if !network::is_for(name, &network::AUTO) {
        return;
    }
    let auto = lines(&[
        "upstream.base_url = \"auto\"",
        "pressure.sensitivity = \"off\"",
    ]);
    let english = stage(ENGLISH, &auto);
    let chinese = stage(CHINESE, &auto);
    let silent = stage(r#"{"notify": {"no_server": false}}"#, &auto);
    let told = english.until_told(&["No model server found"]);
    assert!(told[0].text.contains("every 10 seconds"), "{told:?}");
    let told = chinese.until_told(&["未找到模型服务器"]);
    assert!(told[0].text.contains("每 10 秒"), "{told:?}");
    std::thread::sleep(Duration::from_secs(3));
    english.told(&["No model server found"]);
    silent.told(&[]);
}
