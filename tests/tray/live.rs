//! The tray in front of a real llama.cpp with a real model: what it shows is what the process
//! really does, and what its rows ask for really happens there.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::client::Client;
use super::support::desktop::Desktop;
use super::support::host::{Host, Icon, Look};
use super::support::live::{LIVE_LIMIT, RealModel, alone};
use super::support::notices::Notices;
use super::support::process::signal;
use super::support::program::{Program, Setup};
use super::support::{ALWAYS_SHORT, LIMIT, chat, eventually, network, within};

const WINDOW: u32 = 2048;
/// How long after a change of the gateway the icon may still say the old: the second that people
/// are promised, and as much again for a machine that the model keeps busy. What it took is
/// printed.
const SOON: Duration = Duration::from_secs(2);

/// A chat that takes as long as this many tokens do.
fn lasting(tokens: u32) -> Value {
    let mut body = chat::streamed("Count.");
    body["max_tokens"] = json!(tokens);
    body["ignore_eos"] = json!(true);
    body
}

fn short(text: &str) -> Value {
    let mut body = chat::whole(text);
    body["max_tokens"] = json!(8);
    body
}

/// A real answer that has begun and takes this many tokens.
fn answering(tray: &Program, tokens: u32) -> Client {
    let mut client = tray.open_chat(&lasting(tokens));
    client.head_within(LIVE_LIMIT);
    client.body_until_has("data: ");
    client
}

fn served(tray: &Program) -> u16 {
    let mut client = tray.open_chat(&short("Hello?"));
    client.finish_within(LIVE_LIMIT).status()
}

fn before(desktop: &Desktop, url: &str) -> Program {
    let settings = [
        &format!("upstream.base_url = {url:?}"),
        "health.cooldown_ms = 4000",
        "health.idle_interval_s = 8",
        "pressure.sensitivity = \"off\"",
    ];
    let setup = settings
        .iter()
        .fold(Setup::bare(desktop), |setup, line| setup.config(line));
    setup.env("ONESLOT_LIMITS", ALWAYS_SHORT).start()
}

/// The icon's look soon after the gateway came into this state.
fn seen(tray: &Program, icon: &Icon, state: &str, said: &str) -> Look {
    within(LIVE_LIMIT, &format!("the gateway is {state}"), || {
        (tray.status()["state"] == state).then_some(())
    });
    let changed = Instant::now();
    let look = icon.until_begins(SOON, said);
    println!("{state} was seen after {:?}", changed.elapsed());
    look
}

fn change_settings(tray: &Program, desktop: &Desktop, change: impl FnOnce(&str) -> String) {
    let text = change(&tray.config_text());
    std::fs::write(desktop.home().join("oneslot.toml"), text).unwrap();
}

#[test]
fn each_state_of_a_real_server_is_seen_when_it_comes() {
    let _alone = alone();
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let mut model = RealModel::start(WINDOW);
    let tray = before(&desktop, &model.url());
    let icon = host.icon();
    let mut pictures = HashSet::new();
    let mut new = |look: Look, state: &str| {
        assert!(pictures.insert(look.picture), "{state} has its own picture");
    };

    new(seen(&tray, &icon, "ready", "Ready"), "ready");
    let mut running = answering(&tray, 1800);
    new(seen(&tray, &icon, "busy", "Answering zed"), "busy");
    assert!(model.is_busy(), "the server says so itself");

    let waiting = tray.open_chat(&short("Me too."));
    let look = seen(&tray, &icon, "waiting", "Answering zed · 1 waiting");
    new(look, "waiting");
    waiting.rst();
    seen(&tray, &icon, "busy", "Answering zed");

    change_settings(&tray, &desktop, |text| {
        text.replace("\"off\"", "\"normal\"")
    });
    let look = seen(
        &tray,
        &icon,
        "degraded",
        "Memory is low: answers are shortened",
    );
    new(look, "degraded");
    change_settings(&tray, &desktop, |text| {
        text.replace("\"normal\"", "\"off\"")
    });
    seen(&tray, &icon, "busy", "Answering zed");
    assert!(model.is_busy(), "the answer went on meanwhile");

    model.kill();
    let look = seen(&tray, &icon, "cooling", "llama.cpp failed · retrying in");
    new(look, "cooling");
    let cut = running.finish_within(LIVE_LIMIT);
    assert!(
        !cut.text().contains("[DONE]"),
        "half an answer is not whole"
    );

    slowly(&mut model, || {
        new(seen(&tray, &icon, "loading", "Loading"), "loading");
    });
    seen(&tray, &icon, "ready", "Ready");
    assert_eq!(served(&tray), 200, "and it serves again");

    icon.press("Pause until I resume");
    let look = seen(&tray, &icon, "paused", "Paused until you resume");
    new(look, "paused");
    icon.press("Resume");
    seen(&tray, &icon, "ready", "Ready");
    assert_eq!(pictures.len(), 7, "each state has a picture of its own");
}

#[test]
fn a_real_server_that_nobody_asks_is_left_alone_until_a_person_checks() {
    let _alone = alone();
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let mut model = RealModel::start(WINDOW);
    let tray = before(&desktop, &model.url());
    let icon = host.icon();
    let ready = seen(&tray, &icon, "ready", "Ready");

    model.kill();
    assert!(tray.control("/oneslot/check").status() < 300);
    let cooling = seen(&tray, &icon, "cooling", "llama.cpp failed · retrying in");
    let down = seen(&tray, &icon, "down", "llama.cpp is not responding");
    // Longer than a cooldown.
    let failures = || tray.status()["health"]["consecutive_failures"].clone();
    let before = failures();
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(failures(), before, "nobody asked it meanwhile");
    assert_eq!(
        icon.look().picture,
        down.picture,
        "and the icon says so still"
    );
    let pictures = HashSet::from([&ready.picture, &cooling.picture, &down.picture]);
    assert_eq!(pictures.len(), 3, "each state has a picture of its own");

    icon.press("Check now");
    seen(&tray, &icon, "cooling", "llama.cpp failed · retrying in");
    model.begin_again().until_ready();
    // The row is gone if the new process was seen before.
    assert!(tray.control("/oneslot/check").status() < 300);
    seen(&tray, &icon, "ready", "Ready");
    assert_eq!(served(&tray), 200, "and it serves again");
}

struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Starts the server again at a fraction of its pace, so that its loading can be looked at.
fn slowly(model: &mut RealModel, look: impl FnOnce()) {
    let starting = model.begin_again();
    let pid = model.pid();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                signal(pid, "STOP");
                std::thread::sleep(Duration::from_millis(60));
                signal(pid, "CONT");
                std::thread::sleep(Duration::from_millis(8));
            }
        });
        // Also when the look fails: a thread that goes on would hold the failure up for ever.
        let _ended = Ends(&ends);
        look();
    });
    starting.until_ready();
}

#[test]
fn a_real_answer_is_stopped_and_a_pause_refuses_and_resuming_serves() {
    let _alone = alone();
    let desktop = Desktop::new();
    let (host, notices) = (Host::on(&desktop), Notices::on(&desktop));
    let model = RealModel::start(WINDOW);
    let tray = before(&desktop, &model.url());
    let icon = host.icon();
    icon.until_says(LIMIT, "Ready");

    let mut running = answering(&tray, 1800);
    model.until_busy(true);
    icon.press("Stop the current answer");
    let pressed = Instant::now();
    model.until_busy(false);
    println!("stopped after {:?}", pressed.elapsed());
    let stopped = running.finish_within(LIVE_LIMIT).text();
    assert!(
        !stopped.contains("[DONE]"),
        "it is not said to be whole: {stopped}"
    );
    assert!(
        stopped.contains("cancelled by a person"),
        "it says why: {stopped}"
    );
    tray.until_status("the slot is free", |status| status["queue"]["running"] == 0);

    let mut running = answering(&tray, 300);
    icon.press("Pause until I resume");
    tray.until_status("it is paused", |status| !status["pause"].is_null());
    let refused = tray.open_chat(&short("Now?")).finish_within(LIVE_LIMIT);
    assert_eq!(refused.code(), Some("LLM_PAUSED"), "{}", refused.text());
    assert!(model.is_busy(), "what ran goes on to its end");
    let whole = running.finish_within(LIVE_LIMIT).text();
    assert!(
        whole.contains("[DONE]"),
        "a pause lets a running answer end"
    );
    icon.press("Resume");
    tray.until_status("it is resumed", |status| status["pause"].is_null());
    assert_eq!(served(&tray), 200, "the next request is served");

    // One that cannot give its memory back says so, and goes on.
    icon.press("Unload the model");
    let told = eventually("why nothing was unloaded", || notices.shown().pop());
    assert_eq!(told.title, "Unload the model");
    assert!(told.text.contains("stop the server to free"), "{told:?}");
    assert_eq!(served(&tray), 200, "the model is still there");

    icon.press("Pause until I resume");
    icon.until_says(SOON * 2, "Paused until you resume");
    let before = model.metric("llamacpp:prompt_tokens_total");
    let refused = tray.open_chat(&short("And now?")).finish_within(LIVE_LIMIT);
    assert_eq!(refused.code(), Some("LLM_PAUSED"));
    let after = model.metric("llamacpp:prompt_tokens_total");
    assert_eq!(before, after, "nothing of it reached the server");
}

#[test]
fn where_no_server_is_the_tray_says_so_and_one_that_appears_is_found_and_serves() {
    let name = "live::where_no_server_is_the_tray_says_so_and_one_that_appears_is_found_and_serves";
    let _alone = alone();
    if !network::is_for(name, &network::AUTO) {
        return;
    }
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let tray = before(&desktop, "auto");
    let icon = host.icon();
    let look = seen(&tray, &icon, "no_server", "No model server found");
    let refused = tray.open_chat(&short("Anybody?")).finish();
    assert_eq!(refused.code(), Some("LLM_UNAVAILABLE"));
    let _model = RealModel::start_on(8080, WINDOW);
    let ready = seen(&tray, &icon, "ready", "Ready");
    assert_ne!(look.picture, ready.picture, "each has its own picture");
    let upstream = tray.status()["upstream"].clone();
    assert_eq!(upstream["kind"], "llama.cpp", "{upstream}");
    assert_eq!(served(&tray), 200, "what was found serves");
    let known = eventually("its base URL is on the clipboard", || {
        icon.press("For OpenAI clients");
        let copied = desktop.clipboard();
        (!copied.is_empty()).then_some(copied)
    });
    assert_eq!(known, format!("http://{}/v1", tray.address()));
}
