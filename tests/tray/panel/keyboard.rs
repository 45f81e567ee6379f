//! The panel without a pointer: every control is reached in the order of the eye, is seen when it
//! has the focus, has a name, and does what it does by a key; nothing that vanishes takes the
//! focus along; and what is said aloud is said once.

use serde_json::{Value, json};

use super::super::support::driver::{Focus, Panel, key};
use super::super::support::flavour::Flavour;
use super::super::support::{chat, eventually};
use super::{CHAT, Stage, ask, card, stage};

/// What Tab is to come to, in the order of the page: everything that can be operated and is in
/// sight or can be scrolled there.
fn operable(panel: &Panel) -> Vec<String> {
    let all = panel.script(
        "const shown = (one) => one.checkVisibility() && !one.closest('details:not([open]) > :not(summary)');\
         const all = [...document.querySelectorAll('button, input, select, textarea, summary, a[href]')];\
         return all.filter((one) => !one.disabled && shown(one)).map((one, at) => {\
             one.dataset.walked = at; return String(at); });",
    );
    let all = all.as_array().unwrap().iter();
    all.map(|one| one.as_str().unwrap().to_owned()).collect()
}

/// Walks by Tab from the top of the page until it begins anew; what was met, by the marks of
/// [`operable`].
fn walk(panel: &Panel, steps: usize) -> Vec<(String, Focus)> {
    panel.script("document.activeElement.blur(); getSelection().removeAllRanges();");
    (0..steps)
        .map(|_| {
            panel.keys(&[key::TAB]);
            let mark = panel.script("return document.activeElement.dataset.walked ?? ''");
            (mark.as_str().unwrap().to_owned(), panel.focus())
        })
        .collect()
}

fn hold_the_order(panel: &Panel, place: &str) {
    let wanted = operable(panel);
    assert!(wanted.len() > 5, "{place}: {wanted:?}");
    let mut met = walk(panel, wanted.len());
    for (_, focus) in &met {
        assert!(focus.is_seen, "{place}: the focus is seen: {focus:?}");
        assert!(!focus.name.is_empty(), "{place}: it has a name: {focus:?}");
        assert!(
            [
                "button",
                "textbox",
                "searchbox",
                "checkbox",
                "combobox",
                "disclosure",
                "DisclosureTriangle"
            ]
            .iter()
            .any(|role| focus.role.eq_ignore_ascii_case(role))
                || focus.tag == "SUMMARY"
                || focus.tag == "SELECT",
            "{place}: it has a role: {focus:?}"
        );
    }
    // The walk may begin anywhere; it comes around to where it began.
    let marks: Vec<String> = met.iter().map(|(mark, _)| mark.clone()).collect();
    let first = marks
        .iter()
        .position(|mark| *mark == wanted[0])
        .unwrap_or_default();
    met.rotate_left(first);
    let marks: Vec<String> = met.iter().map(|(mark, _)| mark.clone()).collect();
    assert_eq!(marks, wanted, "{place}: {met:#?}");
}

#[test]
fn every_control_of_every_place_is_walked_in_order_seen_and_named() {
    let stage = stage(Flavour::LlamaCpp { window: 2048 }, &[]);
    let panel = &stage.panel;
    stage.ask_as("aider/1.0", &chat::whole("hello")).finish();
    let fields = [("origin", "https://chat.example.com")];
    ask(stage.address, CHAT, &fields, &chat::whole("hello")).finish();
    let (_running, _gate) = stage.hold();
    let _waiting = stage.queue("cline/3");
    panel.until_says("Allow");
    hold_the_order(panel, "Now");
    for place in ["Recent", "Connect", "Settings"] {
        panel.tab_to(place);
        panel.keys(&[key::ENTER]);
        panel.until_text("//nav/button[@aria-current='page']", "it is there", |at| {
            at == place
        });
        if place == "Settings" {
            panel.until_says("Common");
        }
        hold_the_order(panel, place);
    }
    // What is folded opens by a key, and its inside is then part of the way.
    panel.tab_to("Queue");
    panel.keys(&[key::SPACE]);
    hold_the_order(panel, "Settings with a section open");
    stage.panel.close();
}

fn until_focus(panel: &Panel, why: &str, is_so: impl Fn(&Focus) -> bool) -> Focus {
    let mut last = None;
    let at = eventually_or(|| {
        last = Some(panel.focus());
        last.clone().filter(&is_so)
    });
    at.unwrap_or_else(|| panic!("{why}; the focus is at {last:?}"))
}

/// As `eventually`, for who says the rest.
fn eventually_or<T>(mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = std::time::Instant::now() + super::LIMIT;
    while std::time::Instant::now() < deadline {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    None
}

#[test]
fn requests_are_cancelled_by_keys_and_the_focus_stays_where_they_were() {
    let stage = stage(Flavour::Plain, &[]);
    let panel = &stage.panel;
    let (mut running, _gate) = stage.hold();
    let mut first = stage.queue("cline/3");
    let mut second = stage.queue("aider/1");
    panel.until_text("//header//p", "both wait", |said| {
        said.starts_with("2 waiting")
    });
    panel.tab_to("Cancel the request from cline");
    panel.keys(&[key::ENTER]);
    assert_eq!(first.finish().code(), Some("LLM_INTERRUPTED"));
    let at = until_focus(panel, "the card around the row has the focus", |at| {
        at.name == "Current request"
    });
    assert!(at.is_seen, "{at:?}");
    let waits = || stage.status()["queue"]["waiting"].clone();
    panel.keys(&[key::ENTER, key::ENTER, key::SPACE]);
    assert_eq!(waits(), 1, "a key that is held cancels nobody else");
    panel.tab_to("Cancel the request from aider");
    panel.keys(&[key::SPACE]);
    assert_eq!(second.finish().code(), Some("LLM_INTERRUPTED"));
    until_focus(panel, "again", |at| at.name == "Current request");
    panel.tab_to("Cancel the request from zed");
    panel.keys(&[key::ENTER]);
    assert!(
        !running.finish().text().contains("[DONE]"),
        "it was stopped"
    );
    let at = until_focus(panel, "and again", |at| at.name == "Current request");
    assert!(at.is_seen, "{at:?}");
    stage.panel.close();
}

#[test]
fn one_pauses_and_resumes_by_keys_and_escape_takes_back() {
    let stage = stage(Flavour::Plain, &[]);
    let panel = &stage.panel;
    let sheet = "//*[@role='group'][@aria-label='Pause inference']";
    panel.tab_to("Pause");
    panel.keys(&[key::SPACE]);
    until_focus(panel, "the first choice has the focus", |at| {
        at.name == "15 minutes"
    });
    assert!(panel.has(sheet));
    panel.keys(&[key::ESCAPE]);
    until_focus(panel, "Escape gives it back", |at| at.name == "Pause");
    assert!(!panel.has(sheet), "and nothing is left open");
    panel.keys(&[key::ENTER]);
    until_focus(panel, "open again", |at| at.name == "15 minutes");
    panel.keys_with(key::SHIFT, key::TAB);
    let also = panel.focus();
    assert_eq!(
        (also.role.as_str(), also.name.as_str()),
        ("checkbox", "Also unload the model")
    );
    panel.tab_to("Until I resume");
    panel.keys(&[key::ENTER]);
    let at = until_focus(panel, "what comes in its place has the focus", |at| {
        at.name == "Resume"
    });
    assert!(at.is_seen, "{at:?}");
    let refused = stage.ask_as("zed/1.0", &chat::whole("hello")).finish();
    assert_eq!(refused.code(), Some("LLM_PAUSED"));
    panel.keys(&[key::ENTER]);
    until_focus(panel, "and back", |at| at.name == "Pause");
    eventually("it is resumed", || {
        stage.status()["pause"].is_null().then_some(())
    });
    let served = stage.ask_as("zed/1.0", &chat::whole("hello")).finish();
    assert_eq!(served.status(), 200);
    stage.panel.close();
}

/// Notes from now on what the page says by itself.
const LISTEN: &str = "window.said = [];\
    const place = document.querySelector('[data-live]');\
    new MutationObserver(() => window.said.push(place.innerText)).observe(place,\
        { childList: true, characterData: true, subtree: true });";

fn said(stage: &Stage) -> Value {
    stage.panel.script("return window.said")
}

#[test]
fn a_change_that_lasts_is_said_aloud_once_and_what_passes_is_not() {
    let stage = stage(Flavour::Plain, &[]);
    let spoken = "//*[@data-live][.='Ready']";
    eventually("the first state was said", || {
        stage.panel.has(spoken).then_some(())
    });
    stage.panel.script(LISTEN);
    for _ in 0..5 {
        stage.ask_as("zed/1.0", &chat::whole("hello")).finish();
    }
    let (mut running, gate) = stage.hold();
    eventually("who is answered is said", || {
        (said(&stage) == json!(["Answering zed"])).then_some(())
    });
    let waiting = stage.queue("cline/3");
    stage
        .panel
        .until_text("//header//p", "its place is shown", |said| {
            said.starts_with("1 ")
        });
    gate.open();
    running.finish();
    drop(waiting);
    eventually("and that it is over", || {
        (said(&stage) == json!(["Answering zed", "Ready"])).then_some(())
    });
    let roles = stage.panel.script(
        "const live = document.querySelector('[data-live]');\
         return [live.getAttribute('aria-live'), live.getAttribute('aria-atomic')]",
    );
    assert_eq!(
        roles,
        json!(["polite", "true"]),
        "it waits until it may speak"
    );
    let slot = stage
        .panel
        .has(&format!("{}//*[@aria-live]", card("Current request")));
    assert!(!slot, "numbers that tick are never said by themselves");
    stage.panel.close();
}
