//! Starts: the only one, the second, beside a daemon, with the port taken, and without a bus.

use std::net::TcpListener;
use std::time::Duration;

use super::support::desktop::{Bus, Desktop};
use super::support::host::Host;
use super::support::program::{BINARY, Setup, get};
use super::support::upstream::Upstream;
use super::support::{LIMIT, eventually};

fn second_start(desktop: &Desktop) {
    let state = desktop.home().join("state");
    let status = desktop
        .command(BINARY)
        .arg("--state")
        .arg(&state)
        .status()
        .expect("a second one starts");
    assert!(status.success(), "a second one ends in order");
}

#[test]
fn a_second_start_shows_the_panel_of_the_first() {
    let desktop = Desktop::new();
    let _host = Host::on(&desktop);
    let tray = Setup::bare(&desktop).args(&["--hidden", "--demo"]).start();
    assert_eq!(tray.web_processes(), 0, "it was started hidden");
    second_start(&desktop);
    tray.until_panel();
}

#[test]
fn a_second_start_finds_the_first_without_a_session_bus_too() {
    let desktop = Desktop::with(Bus::None);
    let tray = Setup::bare(&desktop).args(&["--hidden", "--demo"]).start();
    second_start(&desktop);
    tray.until_panel();
}

#[test]
fn the_port_is_taken_at_start_and_freed_at_the_end() {
    let desktop = Desktop::new();
    let mut tray = Setup::bare(&desktop).args(&["--hidden", "--demo"]).start();
    let address = tray.address();
    assert!(TcpListener::bind(address).is_err(), "it is the tray's");
    tray.terminate();
    assert!(tray.until_exit().success(), "a signal ends it in order");
    assert!(TcpListener::bind(address).is_ok(), "it is free");
}

#[test]
fn with_a_stranger_on_its_port_it_stays_and_serves_when_the_stranger_goes() {
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = stranger.local_addr().unwrap();
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let upstream = Upstream::plain();
    let mut tray = Setup::before(&desktop, &upstream)
        .config(&format!("listen = [\"{address}\"]"))
        .start_as_is();
    let icon = host.icon();
    icon.until_says(LIMIT, "Not serving: port taken");
    assert!(tray.is_alive(), "it stays, to say so");
    drop(stranger);
    icon.until_says(LIMIT, "Ready");
    assert_eq!(tray.until_serves(), address);
}

#[test]
fn beside_a_daemon_it_is_its_face_and_quitting_leaves_the_daemon() {
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let upstream = Upstream::plain();
    let mut daemon = Setup::before(&desktop, &upstream).start_daemon();
    let mut tray = Setup::before(&desktop, &upstream).start_as_is();
    let icon = host.icon();
    icon.until_says(LIMIT, "Ready");
    icon.press("Pause for 15 minutes");
    let paused = daemon.until_status("the daemon is paused", |status| !status["pause"].is_null());
    assert!(
        paused["pause"]["until_ms"].is_u64(),
        "for as long as was said"
    );
    icon.until_begins(LIMIT, "Paused until");
    icon.press("Quit (oneslotd goes on)");
    assert!(tray.until_exit().success(), "the tray ends");
    assert!(daemon.is_alive(), "the daemon does not");
    assert_eq!(get(daemon.address(), "/healthz").status(), 200);
}

#[test]
fn when_the_daemon_is_gone_for_good_the_tray_serves() {
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let upstream = Upstream::plain();
    let mut daemon = Setup::before(&desktop, &upstream).start_daemon();
    let tray = Setup::before(&desktop, &upstream).start_as_is();
    let icon = host.icon();
    icon.until_says(LIMIT, "Ready");
    daemon.kill();
    let why = "the tray takes over";
    super::support::within(Duration::from_secs(40), why, || {
        let lock = std::fs::read_to_string(tray.state_path().join("gateway.lock")).ok()?;
        lock.contains("\"oneslot\"").then_some(())
    });
    eventually("it serves", || {
        let texts = icon.texts();
        texts.contains(&"Quit".to_owned()).then_some(())
    });
    assert_eq!(tray.chat("hello").status(), 200);
}
