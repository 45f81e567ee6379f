//! The panel in front of a real llama.cpp: a walk as a person makes it, and an answer that no end
//! of a web process touches.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::support::client::End;
use super::super::support::desktop::Desktop;
use super::super::support::driver::Panel;
use super::super::support::host::Host;
use super::super::support::live::{LIVE_LIMIT, RealModel, alone};
use super::super::support::program::{Program, Setup, web_processes};
use super::super::support::tcp_proxy::Tap;
use super::super::support::{LIMIT, chat, eventually, windows};
use super::{CHAT, ask, card, kill_all};

const WINDOW: u32 = 2048;

fn before<'a>(desktop: &'a Desktop, url: &str) -> Setup<'a> {
    Setup::bare(desktop).config(&format!("upstream.base_url = {url:?}"))
}

/// A chat that takes as long as this many tokens do.
fn lasting(tokens: u32) -> Value {
    let mut body = chat::streamed("Write about 三月 and 🙂.");
    body["max_tokens"] = json!(tokens);
    body["ignore_eos"] = json!(true);
    body
}

#[test]
fn a_real_server_is_found_proven_watched_and_stopped_from_the_panel() {
    let _alone = alone();
    let model = RealModel::start(WINDOW);
    let desktop = Desktop::new();
    let _host = Host::on(&desktop);
    let panel = Panel::open(&desktop, before(&desktop, &model.url()));
    let address = Program::address_on(&desktop);
    panel.until_text("//h1", "it is found", |said| said == "Ready");
    panel.press("Send a test prompt");
    panel.press("Connect");
    panel.press("Send a test prompt");
    panel.until_says("smollm2 answered in");
    panel.press("Now");
    panel.until_text(
        &card("Context window"),
        "the window is the real one",
        |said| said.contains("2,048 tokens · reported by the server") && said.contains("prompt"),
    );
    panel.until_text(&card("Memory"), "what the model's process holds", |said| {
        said.contains(" uses 0.")
    });

    let mut running = ask(address, CHAT, &[("user-agent", "zed/1")], &lasting(1500));
    running.head_within(LIVE_LIMIT);
    let slot = card("Current request");
    panel.until_text(&slot, "real tokens at a real pace", |said| {
        said.contains(" of 1,500 tokens") && said.contains("tok/s") && said.contains("Writing")
    });
    let mut body = chat::whole("And you?");
    body["max_tokens"] = json!(8);
    let mut waiting = ask(address, CHAT, &[("user-agent", "aider/1")], &body);
    panel.until_text("//header//p", "one waits", |said| {
        said.starts_with("1 waiting")
    });
    panel.press("Cancel the request from zed");
    let stopped = running.finish_within(LIVE_LIMIT);
    assert!(
        !stopped.text().contains("[DONE]"),
        "it is not said to be whole"
    );
    let served = waiting.finish_within(LIVE_LIMIT);
    assert_eq!(
        served.status(),
        200,
        "who waited is served by the same server"
    );
    model.until_busy(false);
    panel.press("Recent");
    panel.until_text("//main//ul/li[1]", "and it is told", |said| {
        said.contains("aider") && said.contains("done") && said.contains("8 tokens")
    });
    panel.close();
}

#[test]
fn a_real_answer_is_byte_for_byte_the_servers_while_the_panel_opens_closes_and_dies() {
    let _alone = alone();
    let model = RealModel::start(WINDOW);
    let tap = Tap::before(model.port());
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let tray = before(&desktop, &tap.url()).start();
    let icon = host.icon();
    icon.until_says(LIMIT, "Ready");
    let mut running = tray.open_chat(&lasting(900));
    running.head_within(LIVE_LIMIT);
    let reader = std::thread::spawn(move || running.finish_within(LIVE_LIMIT));
    icon.press("Open OneSlot…");
    tray.until_panel();
    eventually("its window is there", || {
        (!windows::titled(&desktop, "OneSlot").is_empty()).then_some(())
    });
    windows::close(&desktop, "OneSlot");
    eventually("nothing of it is left", || {
        (tray.web_processes() == 0).then_some(())
    });
    icon.press("Open OneSlot…");
    tray.until_panel();
    std::thread::sleep(Duration::from_secs(1));
    let running = tray.status()["queue"]["running"].clone();
    kill_all(&web_processes(tray.pid()));
    assert_eq!(running, 1, "the answer was on its way all the time");
    let answer = reader.join().unwrap();
    let heard = tap.chats().pop().unwrap();
    assert_eq!(answer.body, heard.answer(), "byte for byte");
    assert_eq!(answer.end, End::Whole);
    assert!(answer.text().ends_with("data: [DONE]\n\n"), "to its end");
}
