//! The tray follows and commands its gateway over HTTP, wherever and however that listens.

use super::support::desktop::Desktop;
use super::support::host::Host;
use super::support::program::{Program, Setup};
use super::support::upstream::Upstream;
use super::support::{LIMIT, eventually};

#[test]
fn menu_commands_need_no_api_key_and_no_ipv4() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        println!("this machine has no IPv6: nothing to see here");
        return;
    }
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let upstream = Upstream::plain();
    let key = format!(
        "access.keys = [{{ name = \"zed\", sha256 = \"{}\" }}]",
        "0".repeat(64)
    );
    let _tray = Setup::before(&desktop, &upstream)
        .config("listen = [\"[::1]:0\"]")
        .config("access.require_key = true")
        .config(&key)
        .start();
    let icon = host.icon();
    icon.until_says(LIMIT, "Ready");
    icon.press("Pause until I resume");
    icon.until_says(LIMIT, "Paused until you resume");
    icon.press("Resume");
    icon.until_says(LIMIT, "Ready");
}

#[test]
fn menu_commands_follow_a_changed_listen_address() {
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let upstream = Upstream::plain();
    let tray = Setup::before(&desktop, &upstream).start();
    let before = tray.address();
    let icon = host.icon();
    icon.until_says(LIMIT, "Ready");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let next = free.local_addr().unwrap();
    drop(free);
    let moved = tray.config_text().replace("127.0.0.1:0", &next.to_string());
    std::fs::write(desktop.home().join("oneslot.toml"), moved).unwrap();
    eventually("it serves the new address", || {
        (Program::address_on(&desktop) == next).then_some(())
    });
    assert_ne!(before, next);
    icon.press("Pause until I resume");
    icon.until_says(LIMIT, "Paused until you resume");
    tray.until_status("the gateway is paused", |status| !status["pause"].is_null());
    icon.press("Resume");
    icon.until_says(LIMIT, "Ready");
}
