//! The icon tells the truth: each state as picture, tooltip and first row, within a second.

use std::collections::HashSet;
use std::time::Duration;

use super::support::desktop::Desktop;
use super::support::host::Host;
use super::support::program::Setup;
use super::support::script::{Gate, Script};
use super::support::upstream::Upstream;
use super::support::{ALWAYS_SHORT, LIMIT, chat, eventually};

/// How long after a change of the gateway the icon may still say the old.
const SOON: Duration = Duration::from_secs(1);

#[test]
fn each_state_of_a_real_gateway_is_seen_within_a_second() {
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let upstream = Upstream::plain();
    let tray = Setup::before(&desktop, &upstream)
        .config("health.cooldown_ms = 4000")
        .config("health.idle_interval_s = 1")
        .config("pressure.sensitivity = \"off\"")
        .env("ONESLOT_LIMITS", ALWAYS_SHORT)
        .start();
    let icon = host.icon();
    assert_eq!(icon.title(), "OneSlot");
    let mut pictures = HashSet::new();

    let ready = icon.until_says(LIMIT, "Ready");
    assert_eq!(
        ready.status, "Active",
        "a passive icon is hidden by some desktops"
    );
    assert!(pictures.insert(ready.picture), "ready");

    let gate = Gate::new();
    upstream.next_chat(Script::stream().delta("one").wait_for(&gate).ending());
    let mut running = tray.open_chat(&chat::streamed("first"));
    running.body_until_has("one");
    assert!(
        pictures.insert(icon.until_says(SOON, "Answering zed").picture),
        "busy"
    );

    let waiting = tray.open_chat(&chat::whole("second"));
    tray.until_status("one waits", |status| status["queue"]["waiting"] == 1);
    let look = icon.until_says(SOON, "Answering zed · 1 waiting");
    assert!(pictures.insert(look.picture), "waiting");
    waiting.rst();
    tray.until_status("nobody waits", |status| status["queue"]["waiting"] == 0);
    icon.until_says(SOON, "Answering zed");

    let short = tray.config_text().replace("\"off\"", "\"normal\"");
    std::fs::write(desktop.home().join("oneslot.toml"), short).unwrap();
    let degraded = |status: &serde_json::Value| status["state"] == "degraded";
    tray.until_status("memory counts as short", degraded);
    let look = icon.until_says(SOON, "Memory is low: answers are shortened");
    assert!(pictures.insert(look.picture), "degraded");
    let plenty = tray.config_text().replace("\"normal\"", "\"off\"");
    std::fs::write(desktop.home().join("oneslot.toml"), plenty).unwrap();
    gate.open();
    running.finish();
    icon.until_says(LIMIT, "Ready");

    upstream.die();
    tray.until_status("it is seen to be gone", |status| {
        status["state"] == "cooling"
    });
    let look = icon.until_begins(SOON, "OpenAI-compatible server failed · retrying in 0:0");
    assert!(pictures.insert(look.picture), "cooling");
    let first = look.tooltip;
    eventually("the countdown moves", || {
        (icon.look().tooltip != first).then_some(())
    });
    let texts = icon.texts();
    assert!(texts.contains(&"Check now".to_owned()), "{texts:?}");

    upstream.come_back();
    icon.press("Check now");
    icon.until_says(LIMIT, "Ready");

    icon.press("Pause until I resume");
    let look = icon.until_says(SOON * 2, "Paused until you resume");
    assert!(pictures.insert(look.picture), "paused");
    assert_eq!(pictures.len(), 6, "each state has a picture of its own");
}

#[test]
fn a_server_that_appears_later_is_seen() {
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let upstream = Upstream::plain();
    upstream.die();
    let tray = Setup::before(&desktop, &upstream).start();
    let icon = host.icon();
    icon.until_begins(LIMIT, "The model server failed");
    upstream.come_back();
    icon.press("Check now");
    tray.until_status("it is found", |status| status["state"] == "ready");
    icon.until_says(SOON, "Ready");
}
