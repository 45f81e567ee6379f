//! The panel in WebKitGTK, in front of real traffic.

mod access;
mod fields;
mod first;
mod keyboard;
mod live;
mod looks;
mod shows;

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;

use super::support::client::{Client, End, request};
use super::support::desktop::Desktop;
use super::support::driver::Panel;
use super::support::flavour::Flavour;
use super::support::host::Host;
use super::support::program::{Program, Setup, get, open_chat, web_processes};
use super::support::script::{DONE, Gate, Script, delta, finish};
use super::support::upstream::Upstream;
use super::support::{ALWAYS_SHORT, LIMIT, chat, eventually, windows};

/// Where chats go.
const CHAT: &str = "/v1/chat/completions";

/// A panel in front of a scripted server.
struct Stage {
    panel: Panel,
    address: SocketAddr,
    upstream: Upstream,
    desktop: Desktop,
    _host: Host,
}

/// One in front of a server of this flavour, with these further lines in the settings.
fn stage(flavour: Flavour, lines: &[&str]) -> Stage {
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let upstream = Upstream::start(flavour);
    let mut setup = Setup::before(&desktop, &upstream);
    for line in lines {
        setup = setup.config(line);
    }
    if lines.contains(&shows::NEVER_SHORT) {
        setup = setup.env("ONESLOT_LIMITS", ALWAYS_SHORT);
    }
    let panel = Panel::open(&desktop, setup);
    let address = Program::address_on(&desktop);
    panel.until_text("//h1", "it has found its server", |said| said == "Ready");
    Stage {
        panel,
        address,
        upstream,
        desktop,
        _host: host,
    }
}

impl Stage {
    fn status(&self) -> Value {
        get(self.address, "/oneslot/status").json()
    }

    fn settings(&self) -> String {
        let file = self.desktop.home().join("oneslot.toml");
        std::fs::read_to_string(file).expect("the settings can be read")
    }

    /// A chat from an app that calls itself so.
    fn ask_as(&self, agent: &str, body: &Value) -> Client {
        ask(self.address, CHAT, &[("user-agent", agent)], body)
    }

    /// Takes the slot for `zed` with an answer that goes on until the gate is opened.
    fn hold(&self) -> (Client, Gate) {
        let gate = Gate::new();
        let script = Script::stream().delta("on and on").wait_for(&gate);
        self.upstream.next_chat(script.ending());
        let mut running = self.ask_as("zed/1.0", &chat::streamed("hold"));
        running.body_until_has("on and on");
        (running, gate)
    }

    /// Puts this app into the line.
    fn queue(&self, agent: &str) -> Client {
        let before = self.status()["queue"]["waiting"].as_u64();
        let client = self.ask_as(agent, &chat::whole("wait"));
        eventually("it waits", || {
            let now = self.status()["queue"]["waiting"].as_u64();
            (now > before).then_some(())
        });
        client
    }
}

/// Sends a chat with these fields to this route.
fn ask(address: SocketAddr, target: &str, fields: &[(&str, &str)], body: &Value) -> Client {
    let host = address.to_string();
    let mut all = vec![("content-type", "application/json")];
    all.extend(fields);
    if !fields.iter().any(|(name, _)| *name == "host") {
        all.push(("host", &host));
    }
    let mut client = Client::connect(address);
    client.send(&request("POST", target, &all, body.to_string().as_bytes()));
    client
}

/// The card with this heading.
fn card(title: &str) -> String {
    format!("//section[.//h2[normalize-space(.)={title:?}]]")
}

/// A long answer in numbered pieces, and the bytes that they are.
fn long_answer(pieces: usize, gate: &Gate) -> (Script, String) {
    let mut script = Script::stream();
    let mut text = String::new();
    for at in 0..pieces {
        let piece = format!("piece {at} ");
        script = script.delta(&piece).wait(Duration::from_millis(20));
        text.push_str(&delta(&piece));
    }
    text.push_str(&finish("stop"));
    text.push_str(DONE);
    (script.wait_for(gate).ending(), text)
}

#[test]
fn the_panel_shows_the_line_of_real_traffic_and_cancels_from_it() {
    let desktop = Desktop::new();
    let _host = Host::on(&desktop);
    let upstream = Upstream::plain();
    let panel = Panel::open(&desktop, Setup::before(&desktop, &upstream));
    let address = Program::address_on(&desktop);
    panel.until_says("Ready");

    upstream.next_chat(Script::stream().delta("on and on").hang());
    let mut running = open_chat(address, &chat::streamed("first"));
    running.body_until_has("on and on");
    panel.until_says("Answering zed");
    let waiting = open_chat(address, &chat::whole("second"));
    let cancel = "//li//button[@aria-label='Cancel the request from zed']";
    eventually("the line is drawn", || panel.has(cancel).then_some(()));
    panel.click(cancel);
    let refused = waiting_answer(waiting);
    assert_ne!(refused, 200, "who waited is told that it was cancelled");
    panel.click("//button[@aria-label='Cancel the request from zed']");
    let stopped = running.finish();
    assert!(
        !stopped.text().contains("[DONE]"),
        "it is not said to be whole"
    );
    panel.until_says("Ready");
    panel.press("Recent");
    panel.until_says("zed");
    panel.close();
}

fn waiting_answer(mut client: super::support::client::Client) -> u16 {
    client.finish().status()
}

#[test]
fn a_setting_changed_in_the_panel_acts_and_is_in_the_file() {
    let desktop = Desktop::new();
    let _host = Host::on(&desktop);
    let upstream = Upstream::plain();
    let setup = Setup::before(&desktop, &upstream).config("# kept by hand");
    let panel = Panel::open(&desktop, setup);
    let address = Program::address_on(&desktop);
    panel.until_says("Ready");
    let before = get(address, "/oneslot/status").json();
    assert_eq!(before["queue"]["max_waiting"], 4);
    let changed = panel.script_that_tells(
        "const done = arguments[arguments.length - 1];\
         window.__TAURI_INTERNALS__.invoke('change', { path: 'queue.max_waiting', value: 7 })\
         .then(done, (fault) => done({ fault }));",
    );
    assert_eq!(changed["ok"], true, "{changed}");
    eventually("the gateway goes by it", || {
        let status = get(address, "/oneslot/status").json();
        (status["queue"]["max_waiting"] == 7).then_some(())
    });
    let file = std::fs::read_to_string(desktop.home().join("oneslot.toml")).unwrap();
    assert!(file.contains("max_waiting = 7"), "{file}");
    assert!(file.contains("# kept by hand"), "comments stay: {file}");

    let refused = panel.script_that_tells(
        "const done = arguments[arguments.length - 1];\
         window.__TAURI_INTERNALS__.invoke('change', { path: 'queue.max_waiting', value: -1 })\
         .then(done, (fault) => done({ fault }));",
    );
    assert_ne!(refused["ok"], true, "{refused}");
    let after = std::fs::read_to_string(desktop.home().join("oneslot.toml")).unwrap();
    assert_eq!(after, file, "a refused change leaves the file as it was");
    panel.close();
}

#[test]
fn a_stream_is_whole_while_the_panel_opens_closes_and_dies() {
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let upstream = Upstream::plain();
    let tray = Setup::before(&desktop, &upstream).start();
    let icon = host.icon();
    icon.until_says(LIMIT, "Ready");
    let gate = Gate::new();
    let (script, text) = long_answer(400, &gate);
    upstream.next_chat(script);
    let running = tray.open_chat(&chat::streamed("tell me"));
    let reader = std::thread::spawn(move || {
        let mut running = running;
        running.finish_within(Duration::from_secs(60))
    });
    // Opened and closed, as a person does.
    icon.press("Open OneSlot…");
    tray.until_panel();
    eventually("its window is there", || {
        (!windows::titled(&desktop, "OneSlot").is_empty()).then_some(())
    });
    windows::close(&desktop, "OneSlot");
    eventually("nothing of it is left", || {
        (tray.web_processes() == 0).then_some(())
    });
    // Killed once it stands, and once more as soon as it has come back by itself.
    for _ in 0..2 {
        icon.press("Open OneSlot…");
        tray.until_panel();
        std::thread::sleep(Duration::from_secs(1));
        kill_all(&web_processes(tray.pid()));
    }
    gate.open();
    let answer = reader.join().unwrap();
    assert_eq!(
        answer.text(),
        text,
        "every byte came, in order, and none besides"
    );
    assert_eq!(answer.end, End::Whole, "it ended as the server ended it");
    icon.until_says(LIMIT, "Ready");
}

#[test]
fn a_stream_is_whole_although_the_toolkit_falls_and_the_tray_comes_back() {
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let upstream = Upstream::plain();
    let mut tray = Setup::before(&desktop, &upstream).start();
    let icon = host.icon();
    icon.until_says(LIMIT, "Ready");
    let gate = Gate::new();
    let (script, text) = long_answer(100, &gate);
    upstream.next_chat(script);
    let mut running = tray.open_chat(&chat::streamed("tell me"));
    running.body_until_has("piece 0");
    // A web process that dies while it starts makes WebKitGTK give up on the whole program.
    icon.press("Open OneSlot…");
    let newborn = eventually("a web process starts", || {
        let web = web_processes(tray.pid());
        (!web.is_empty()).then_some(web)
    });
    kill_all(&newborn);
    std::thread::sleep(Duration::from_secs(2));
    gate.open();
    let answer = running.finish_within(Duration::from_secs(60));
    assert_eq!(
        answer.text(),
        text,
        "every byte came, in order, and none besides"
    );
    assert_eq!(answer.end, End::Whole, "it ended as the server ended it");
    eventually("the tray is there and serves", || {
        let served = std::panic::catch_unwind(|| tray.chat("hello").status());
        served.is_ok_and(|status| status == 200).then_some(())
    });
    assert!(tray.is_alive(), "it is the same process");
}

fn kill_all(processes: &[u32]) {
    for process in processes {
        let pid = process.to_string();
        let _ = std::process::Command::new("kill")
            .args(["-KILL", &pid])
            .status();
    }
}

#[test]
fn the_page_may_call_what_it_needs_and_nothing_else() {
    let desktop = Desktop::new();
    let _host = Host::on(&desktop);
    let upstream = Upstream::plain();
    let panel = Panel::open(&desktop, Setup::before(&desktop, &upstream));
    let address = Program::address_on(&desktop);
    panel.until_says("Ready");
    assert_eq!(panel.script("return typeof window.__TAURI__"), "undefined");
    for (command, body) in [
        ("plugin:window|set_title", "{ label: 'panel', value: 'x' }"),
        ("plugin:autostart|enable", "{}"),
        ("plugin:clipboard-manager|read_text", "{}"),
        ("nothing_of_ours", "{}"),
    ] {
        let said = panel.script_that_tells(&format!(
            "const done = arguments[arguments.length - 1];\
             window.__TAURI_INTERNALS__.invoke('{command}', {body})\
             .then(() => done('called'), () => done('refused'));"
        ));
        assert_eq!(said, "refused", "{command}");
    }
    let fetched = panel.script_that_tells(&format!(
        "const done = arguments[arguments.length - 1];\
         fetch('http://{address}/oneslot/status').then(() => done('fetched'), () => done('refused'));"
    ));
    assert_eq!(
        fetched, "refused",
        "the page's policy keeps it from the network"
    );
    panel.close();
}
