//! A place for icons that comes late, goes and comes back, or never comes.

use std::time::Duration;

use super::support::desktop::Desktop;
use super::support::host::Host;
use super::support::program::{BINARY, Setup};
use super::support::{LIMIT, eventually, windows};

#[test]
fn without_a_place_for_icons_the_panel_opens_and_the_icon_appears_when_there_is_one() {
    let desktop = Desktop::new();
    let tray = Setup::bare(&desktop).args(&["--demo"]).start();
    tray.until_panel();
    let host = Host::on(&desktop);
    host.icon().until_says(LIMIT, "Ready");
}

#[test]
fn without_a_place_for_icons_the_next_start_brings_a_closed_panel_back() {
    let desktop = Desktop::new();
    let tray = Setup::bare(&desktop).args(&["--demo"]).start();
    tray.until_panel();
    eventually("its window is there", || {
        (!windows::titled(&desktop, "OneSlot").is_empty()).then_some(())
    });
    windows::close(&desktop, "OneSlot");
    eventually("the panel is gone", || {
        (tray.web_processes() == 0).then_some(())
    });
    let status = desktop
        .command(BINARY)
        .arg("--state")
        .arg(tray.state_path())
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "a second one ends in order"
    );
    tray.until_panel();
}

#[test]
fn a_desktop_that_starts_late_gets_the_icon_and_no_window() {
    let desktop = Desktop::new();
    let tray = Setup::bare(&desktop).args(&["--hidden", "--demo"]).start();
    std::thread::sleep(Duration::from_secs(2));
    let host = Host::on(&desktop);
    host.icon().until_says(LIMIT, "Ready");
    assert_eq!(tray.web_processes(), 0, "nobody asked for a window");
}

#[test]
fn a_desktop_that_starts_anew_gets_the_icon_again() {
    let desktop = Desktop::new();
    let first = Host::on(&desktop);
    let tray = Setup::bare(&desktop).args(&["--hidden", "--demo"]).start();
    first.icon().until_says(LIMIT, "Ready");
    drop(first);
    let second = eventually("the name is free again", || Some(Host::on(&desktop)));
    let icon = second.icon();
    icon.until_says(LIMIT, "Ready");
    icon.press("Pause until I resume");
    tray.until_status("its rows work", |status| !status["pause"].is_null());
    assert!(
        second.is_empty_for(Duration::from_secs(2)),
        "it is one icon, not two"
    );
}
