//! Every row of the menu does what it says.

use std::time::Duration;

use serde_json::Value;

use super::support::desktop::Desktop;
use super::support::flavour::Flavour;
use super::support::host::{Host, Icon};
use super::support::notices::Notices;
use super::support::program::{Program, Setup};
use super::support::script::{Gate, Script};
use super::support::upstream::Upstream;
use super::support::{LIMIT, chat, eventually};

const OLLAMA: Flavour = Flavour::Ollama {
    loaded: Some(4096),
    on_load: 4096,
};

struct Stage {
    tray: Program,
    icon: Icon,
    upstream: Upstream,
    _host: Host,
    desktop: Desktop,
}

fn stage(flavour: Flavour) -> Stage {
    let desktop = Desktop::new();
    desktop.stand_in("xdg-open");
    let host = Host::on(&desktop);
    let upstream = Upstream::start(flavour);
    let tray = Setup::before(&desktop, &upstream).start();
    let icon = host.icon();
    icon.until_says(LIMIT, "Ready");
    Stage {
        tray,
        icon,
        upstream,
        _host: host,
        desktop,
    }
}

fn pause_of(tray: &Program) -> Value {
    tray.status()["pause"].clone()
}

#[test]
fn a_pause_from_the_tray_refuses_the_next_request_and_resuming_serves_it() {
    let stage = stage(Flavour::Plain);
    stage.icon.press("Pause until I resume");
    stage
        .tray
        .until_status("it is paused", |status| !status["pause"].is_null());
    let refused = stage.tray.chat("hello");
    assert_eq!(refused.code(), Some("LLM_PAUSED"));
    stage.icon.press("Resume");
    stage
        .tray
        .until_status("it is resumed", |status| status["pause"].is_null());
    assert_eq!(stage.tray.chat("hello").status(), 200);
}

#[test]
fn each_length_of_a_pause_ends_when_it_says() {
    let stage = stage(Flavour::Plain);
    for (row, least, most) in [
        ("Pause for 15 minutes", 890, 900),
        ("Pause for 1 hour", 3_590, 3_600),
        ("Pause until tomorrow, 08:00", 8 * 3_600 - 60, 32 * 3_600),
    ] {
        stage.icon.press(row);
        let status = stage
            .tray
            .until_status(row, |status| !status["pause"].is_null());
        let until = status["pause"]["until_ms"].as_u64().unwrap();
        let left = (until - status["now_ms"].as_u64().unwrap()).div_ceil(1000);
        assert!((least..=most).contains(&left), "{row}: {left} s are left");
        let resume = eventually("resuming says how long it would take", || {
            let mut texts = stage.icon.texts().into_iter();
            texts.find(|text| text.starts_with("Resume (") && text.ends_with(" left)"))
        });
        stage.icon.press(&resume);
        stage
            .tray
            .until_status("it is resumed", |status| status["pause"].is_null());
        stage.icon.until_says(LIMIT, "Ready");
    }
}

#[test]
fn the_running_answer_is_stopped_and_the_line_keeps_its_places() {
    let stage = stage(Flavour::Plain);
    stage
        .upstream
        .next_chat(Script::stream().delta("on and on").hang());
    let mut running = stage.tray.open_chat(&chat::streamed("first"));
    running.body_until_has("on and on");
    let mut waiting = stage.tray.open_chat(&chat::whole("second"));
    stage
        .tray
        .until_status("one waits", |status| status["queue"]["waiting"] == 1);
    stage.icon.press("Stop the current answer");
    let stopped = running.finish();
    assert!(
        !stopped.text().contains("[DONE]"),
        "it is not said to be whole"
    );
    assert_eq!(waiting.finish().status(), 200, "who waited is served next");
}

#[test]
fn the_model_is_unloaded() {
    let stage = stage(OLLAMA);
    stage.icon.press("Unload the model");
    stage
        .upstream
        .until("the server is told to unload", |state| {
            let unload =
                |one: &super::support::upstream::Seen| one.request.json()["keep_alive"] == 0;
            state.log.iter().any(unload).then_some(())
        });
}

#[test]
fn the_base_url_is_copied() {
    let stage = stage(OLLAMA);
    stage.icon.press("For OpenAI clients");
    let wanted = format!("http://{}/v1", stage.tray.address());
    eventually("the clipboard has it", || {
        (stage.desktop.clipboard() == wanted).then_some(())
    });
    let native = stage.icon.row("For Ollama clients");
    assert_eq!(native, None, "no address is offered that is not served");
}

#[test]
fn starting_at_login_is_a_choice_hidden_and_revoked() {
    let stage = stage(Flavour::Plain);
    let entry = stage
        .desktop
        .home()
        .join("config/autostart/OneSlot.desktop");
    assert!(!entry.exists(), "nobody chose it");
    stage.icon.press("Start at login");
    let text = eventually("there is an entry", || std::fs::read_to_string(&entry).ok());
    assert!(
        text.contains("--hidden"),
        "a start at login shows no window: {text}"
    );
    eventually("the row is ticked", || {
        let row = stage.icon.row("Start at login")?;
        (row.ticked == Some(true)).then_some(())
    });
    stage.icon.press("Start at login");
    eventually("the entry is gone", || (!entry.exists()).then_some(()));
    eventually("the row is not ticked", || {
        let row = stage.icon.row("Start at login")?;
        (row.ticked == Some(false)).then_some(())
    });
}

#[test]
fn the_logs_are_opened() {
    let stage = stage(Flavour::Plain);
    stage.icon.press("Open logs");
    let wanted = stage.tray.state_path().display().to_string();
    eventually("the desktop is asked to show them", || {
        stage
            .desktop
            .told("xdg-open")
            .contains(&wanted)
            .then_some(())
    });
}

#[test]
fn logs_that_cannot_be_opened_are_named_and_told_in_plain_words() {
    let stage = stage(Flavour::Plain);
    let notices = Notices::on(&stage.desktop);
    let opener = stage.desktop.home().join("bin/xdg-open");
    // A desktop's own takes its time to find that there is nothing.
    std::fs::write(opener, "#!/bin/sh\nsleep 1\nexit 4\n").unwrap();
    stage.icon.press("Open logs");
    let told = eventually("it is told", || notices.shown().pop());
    let folder = stage.tray.state_path().display().to_string();
    assert_eq!(told.title, "Open logs");
    assert!(told.text.contains(&folder), "{told:?}");
    assert!(
        told.text.contains("no program for it was found"),
        "{told:?}"
    );
    for word in ["Launcher", "ExitStatus", "xdg-open"] {
        assert!(!told.text.contains(word), "{told:?}");
    }
}

#[test]
fn quitting_says_what_is_in_flight_ends_it_and_frees_the_port() {
    let mut stage = stage(Flavour::Plain);
    let gate = Gate::new();
    stage
        .upstream
        .next_chat(Script::stream().delta("begun").wait_for(&gate).ending());
    let mut running = stage.tray.open_chat(&chat::streamed("first"));
    running.body_until_has("begun");
    let address = stage.tray.address();
    stage.icon.press("Quit (1 in flight)");
    let answer = running.finish_within(Duration::from_secs(20));
    assert!(
        answer.text().contains("OneSlot was shut down"),
        "{}",
        answer.text()
    );
    assert!(stage.tray.until_exit().success(), "it ends in order");
    assert!(
        std::net::TcpListener::bind(address).is_ok(),
        "the port is free"
    );
}

#[test]
fn a_click_on_the_icon_opens_the_panel_and_changes_nothing() {
    let stage = stage(Flavour::Plain);
    assert_eq!(stage.tray.web_processes(), 0, "no panel, no web process");
    stage.icon.click();
    stage.tray.until_panel();
    assert_eq!(pause_of(&stage.tray), Value::Null);
}
