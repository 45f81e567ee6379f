//! The panel in WebKitGTK, in front of real traffic.

use std::time::Duration;

use super::support::desktop::Desktop;
use super::support::driver::Panel;
use super::support::host::Host;
use super::support::program::{Program, Setup, get, open_chat, web_processes};
use super::support::script::{Gate, Script, delta};
use super::support::upstream::Upstream;
use super::support::{LIMIT, chat, eventually, windows};

/// A long answer in numbered pieces, and the bytes that they are.
fn long_answer(pieces: usize, gate: &Gate) -> (Script, String) {
    let mut script = Script::stream();
    let mut text = String::new();
    for at in 0..pieces {
        let piece = format!("piece {at} ");
        script = script.delta(&piece).wait(Duration::from_millis(20));
        text.push_str(&delta(&piece));
    }
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
    let cancel = "//li//button[@aria-label='Cancel the request of zed']";
    eventually("the line is drawn", || panel.has(cancel).then_some(()));
    panel.click(cancel);
    let refused = waiting_answer(waiting);
    assert_ne!(refused, 200, "who waited is told that it was cancelled");
    panel.click("//button[@aria-label='Cancel the request of zed']");
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
    assert!(
        answer.text().starts_with(&text),
        "every byte came, in order"
    );
    assert!(answer.text().contains("[DONE]"), "the answer is whole");
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
    assert!(
        answer.text().starts_with(&text),
        "every byte came, in order"
    );
    assert!(answer.text().contains("[DONE]"), "the answer is whole");
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

#[test]
fn the_panel_has_no_fault_for_who_cannot_see_or_point() {
    let axe = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../ui/node_modules/axe-core/axe.min.js");
    let axe = std::fs::read_to_string(axe).expect("the panel's packages are installed");
    for (language, theme, ready) in [
        ("C.UTF-8", "Adwaita", "Ready"),
        ("zh_CN.UTF-8", "Adwaita:dark", "就绪"),
    ] {
        let desktop = Desktop::new();
        let _host = Host::on(&desktop);
        let upstream = Upstream::plain();
        let setup = Setup::before(&desktop, &upstream)
            .env("LANG", language)
            .env("GTK_THEME", theme);
        let panel = Panel::open(&desktop, setup);
        panel.until_says(ready);
        panel.script(&axe);
        for place in 1..=4 {
            panel.click(&format!("//nav/button[{place}]"));
            std::thread::sleep(Duration::from_millis(300));
            let found = panel.script_that_tells(
                "const done = arguments[arguments.length - 1];\
                 axe.run(document, { resultTypes: ['violations'] }).then((result) => done(\
                 result.violations.map((one) => one.id + ': ' + one.nodes.map((node) => \
                 node.html + ' ' + node.failureSummary).join(' | '))), (error) => done(['' + error]));",
            );
            assert_eq!(
                found,
                serde_json::json!([]),
                "{language} {theme}, place {place}"
            );
        }
        panel.close();
    }
}
