//! What stays on the machine behind tray and panel, and how both end.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::support::canary::{CANARY, files_under, forms};
use super::support::client::{Client, request};
use super::support::desktop::Desktop;
use super::support::host::{Host, Icon};
use super::support::notices::Notices;
use super::support::program::{Program, Setup};
use super::support::refused::{Advice, error_event, refused};
use super::support::script::{Gate, Script};
use super::support::upstream::{How, Upstream};
use super::support::{LIMIT, chat, eventually, windows};

const CLIENT_KEY: &str = "sk-client-Qm7xW2pL-9vTbn4Za";
const UPSTREAM_KEY: &str = "sk-upstream-Jr5yH8dK-3wXcm6Fe";

/// Every form in which a secret could lie in a file, the panel's storage included.
fn all_forms(secret: &str) -> Vec<Vec<u8>> {
    let wide = secret.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let plain = forms(secret).into_iter().map(String::into_bytes);
    plain.chain([wide]).collect()
}

fn is_in(bytes: &[u8], secret: &str) -> bool {
    all_forms(secret)
        .iter()
        .any(|form| memchr::memmem::find(bytes, form).is_some())
}

fn send(tray: &Program, body: &serde_json::Value) -> Client {
    let host = tray.address().to_string();
    let bearer = format!("Bearer {CLIENT_KEY}");
    let fields = [
        ("host", host.as_str()),
        ("content-type", "application/json"),
        ("authorization", &bearer),
        ("user-agent", "zed/1.0"),
    ];
    let path = format!("/v1/chat/completions?key={CLIENT_KEY}");
    let mut client = Client::connect(tray.address());
    client.send(&request(
        "POST",
        &path,
        &fields,
        body.to_string().as_bytes(),
    ));
    client
}

fn see_panel(desktop: &Desktop, tray: &Program, icon: &Icon) {
    icon.press("Open OneSlot…");
    tray.until_panel();
    eventually("its window is there", || {
        (!windows::titled(desktop, "OneSlot").is_empty()).then_some(())
    });
}

fn close_panel(desktop: &Desktop, tray: &Program) {
    windows::close(desktop, "OneSlot");
    eventually("nothing of it is left", || {
        (tray.web_processes() == 0).then_some(())
    });
}

#[test]
fn no_content_and_no_key_stays_behind_tray_panel_and_notifications() {
    let desktop = Desktop::new();
    desktop.stand_in("xdg-open");
    let (host, notices) = (Host::on(&desktop), Notices::on(&desktop));
    let upstream = Upstream::plain();
    upstream.demand_key(UPSTREAM_KEY);
    let mut tray = Setup::before(&desktop, &upstream)
        .config("log.level = \"trace\"")
        .config(&format!("upstream.api_key = {UPSTREAM_KEY:?}"))
        .config("health.cooldown_ms = 50")
        .env("ONESLOT_LIMITS", "{\"cooldown_max_ms\": 50}")
        .config("timeouts.stall_s = 1")
        .start();
    let icon = host.icon();
    icon.until_says(LIMIT, "Ready");
    see_panel(&desktop, &tray, &icon);
    let answer = format!("{CANARY} answer");
    let quoting = json!({"error": {"message": answer, "type": answer, "code": answer}});
    for script in [
        Script::answer(&answer),
        Script::streamed(&answer),
        Script::stream().delta(&answer).rst(),
        Script::stream().delta(&answer).hang(),
        Script::json(400, &quoting),
        Script::json(500, &quoting),
        Script::whole(200, "text/html", answer.as_bytes()),
    ] {
        upstream.next_chat(script);
        send(&tray, &chat::streamed(CANARY)).finish();
        tray.control("/oneslot/check");
    }
    // What cannot be done is told by a notification.
    icon.press("Unload the model");
    eventually("it is told", || (!notices.shown().is_empty()).then_some(()));
    icon.press("Open logs");
    tray.until_status("the server is well", |status| {
        status["health"]["state"] == "ready"
    });
    icon.until_says(LIMIT, "Ready");
    close_panel(&desktop, &tray);
    let shown = format!("{:?}", notices.shown());
    let mut places = vec![
        (
            "the status".to_owned(),
            tray.status().to_string().into_bytes(),
        ),
        ("notifications".to_owned(), shown.into_bytes()),
        ("the clipboard".to_owned(), desktop.clipboard().into_bytes()),
        ("the rows".to_owned(), icon.texts().concat().into_bytes()),
    ];
    tray.terminate();
    assert!(tray.until_exit().success(), "it ends in order");
    for file in files_under(desktop.home()) {
        places.push((
            file.display().to_string(),
            std::fs::read(&file).unwrap_or_default(),
        ));
    }
    let has = |part: &str| places.iter().any(|(place, _)| place.contains(part));
    assert!(has("oneslot.log"), "the log is among what is searched");
    assert!(
        has("data/"),
        "the panel's storage is among what is searched"
    );
    let ends = |key: &'static str| [key, &key[key.len() - 8..]];
    for (place, bytes) in &places {
        assert!(!is_in(bytes, CANARY), "content in {place}");
        for part in ends(CLIENT_KEY) {
            assert!(!is_in(bytes, part), "a client's key in {place}");
        }
        for part in ends(UPSTREAM_KEY) {
            let at_home = place.contains("toml");
            assert!(
                at_home || !is_in(bytes, part),
                "the server's key in {place}"
            );
        }
    }
}

/// Whether others are kept out, by the file's own mode or by a folder's on the way.
fn is_closed(home: &Path, path: &Path) -> bool {
    let mut upwards = path.ancestors().take_while(|one| *one != home);
    upwards.any(|one| {
        let mode = std::fs::symlink_metadata(one).unwrap().permissions().mode();
        mode & 0o077 == 0
    })
}

#[test]
fn under_the_widest_mask_what_tray_and_panel_write_is_their_owners_alone() {
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let upstream = Upstream::plain();
    let mut tray = Setup::before(&desktop, &upstream).umask("000").start();
    let icon = host.icon();
    icon.until_says(LIMIT, "Ready");
    let own = |name: &str| desktop.home().join(name);
    tray.chat("hello");
    icon.press("Start at login");
    icon.press("Pause for 1 hour");
    eventually("the apps that called are written down", || {
        let kept = std::fs::read_to_string(own("state/tray.json")).ok()?;
        kept.contains("zed").then_some(())
    });
    see_panel(&desktop, &tray, &icon);
    std::thread::sleep(Duration::from_secs(1));
    close_panel(&desktop, &tray);
    let mut looked = 0;
    for file in files_under(&own("state"))
        .into_iter()
        .chain(files_under(&own("config")))
    {
        let mode = std::fs::symlink_metadata(&file)
            .unwrap()
            .permissions()
            .mode()
            & 0o777;
        assert_eq!(mode, 0o600, "{} is {mode:o}", file.display());
        looked += 1;
    }
    assert!(looked > 6, "there is something to look at");
    for folder in ["state", "config/autostart"] {
        let mode = std::fs::metadata(own(folder)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700, "{folder}");
    }
    tray.terminate();
    tray.until_exit();
    for folder in ["data", "cache", "state-home"] {
        for file in files_under(&own(folder)) {
            assert!(
                is_closed(desktop.home(), &file),
                "others reach {}",
                file.display()
            );
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    Signal,
    Row,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Ends,
    GoesOn,
}

/// One streams and five wait; then the program is asked to end.
fn ended(asks: Asks, answer: Answer) {
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let upstream = Upstream::plain();
    let mut tray = Setup::before(&desktop, &upstream)
        .config("queue.max_waiting = 5")
        .config("health.idle_interval_s = 3600")
        .start();
    let icon = host.icon();
    icon.until_says(LIMIT, "Ready");
    let address = tray.address();
    let gate = Gate::new();
    upstream.next_chat(
        Script::stream()
            .delta("holding")
            .wait_for(&gate)
            .delta("released")
            .ending(),
    );
    let mut running = tray.open_chat(&chat::streamed("hold the slot"));
    running.body_until_has("holding");
    let mut waiting: Vec<Client> = (1..=5)
        .map(|number| {
            let client = tray.open_chat(&chat::whole(&format!("number {number}")));
            tray.until_status("it waits", |status| status["queue"]["waiting"] == number);
            client
        })
        .collect();
    let began = Instant::now();
    match asks {
        Asks::Signal => tray.terminate(),
        Asks::Row => icon.press("Quit (6 in flight)"),
    }
    let pressed = Instant::now();
    for client in &mut waiting {
        refused(&client.finish(), 503, "SHUTTING_DOWN", Advice::Later);
    }
    let told = pressed.elapsed();
    assert!(
        told < Duration::from_secs(1),
        "those in line are told at once: {told:?}"
    );
    if answer == Answer::Ends {
        gate.open();
        let whole = running.finish();
        assert!(whole.text().contains("[DONE]"), "{}", whole.text());
    } else {
        let cut = running.finish();
        error_event(&cut.body, "LLM_INTERRUPTED");
        let (how, _) = upstream.until_ended(0);
        assert!(matches!(how, How::PeerFin | How::PeerRst), "{how:?}");
    }
    let status = tray.until_exit();
    println!("{told:?} until told, {:?} until gone", began.elapsed());
    assert!(status.success(), "{status:?}");
    let again = eventually("the port is free", || TcpListener::bind(address).ok());
    drop(again);
    assert_eq!(
        upstream.chats().len(),
        1,
        "nobody from the line was sent on"
    );
    let lock = std::fs::read_to_string(tray.state_path().join("gateway.lock"));
    let names_it = lock.is_ok_and(|lock| lock.contains(&address.to_string()));
    assert!(!names_it, "nothing says that it still serves");
}

#[test]
fn a_signal_tells_five_in_line_at_once_and_lets_a_running_answer_finish() {
    ended(Asks::Signal, Answer::Ends);
}

#[test]
fn a_signal_cuts_an_answer_that_goes_on_in_words_and_frees_port_and_server() {
    ended(Asks::Signal, Answer::GoesOn);
}

#[test]
fn quitting_by_the_row_tells_five_in_line_at_once_and_lets_a_running_answer_finish() {
    ended(Asks::Row, Answer::Ends);
}

#[test]
fn quitting_by_the_row_cuts_an_answer_that_goes_on_in_words_and_frees_port_and_server() {
    ended(Asks::Row, Answer::GoesOn);
}
