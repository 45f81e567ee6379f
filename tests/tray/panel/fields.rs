//! A setting typed into its own field: it acts, is written with everything else kept, outlives a
//! restart; and what is wrong with a value is said beside it and aloud.

use super::super::support::desktop::Desktop;
use super::super::support::driver::{Panel, key};
use super::super::support::eventually;
use super::super::support::flavour::Flavour;
use super::super::support::host::Host;
use super::super::support::program::{Program, Setup, get};
use super::super::support::upstream::Upstream;
use super::{Stage, stage};

const WAITING: &str = "Queue size";

/// Replaces what stands in the field that has the focus.
fn retype(panel: &Panel, text: &str) {
    panel.keys_with(key::CONTROL, "a");
    panel.type_text(text);
    panel.keys(&[key::ENTER]);
}

/// The field that has the focus: its value, whether it is marked as wrong, and what a screen
/// reader says with it.
fn field(panel: &Panel) -> (String, bool, String) {
    let told = panel.script(
        "const at = document.activeElement;\
         const said = (at.getAttribute('aria-describedby') ?? '').split(' ')\
             .map((id) => document.getElementById(id)?.innerText ?? '').join(' ');\
         return [at.value, at.getAttribute('aria-invalid') === 'true', said];",
    );
    (
        told[0].as_str().unwrap_or_default().to_owned(),
        told[1] == true,
        told[2].as_str().unwrap_or_default().to_owned(),
    )
}

fn until_max_waiting(stage: &Stage, wanted: u64) {
    eventually("the gateway goes by it", || {
        (stage.status()["queue"]["max_waiting"] == wanted).then_some(())
    });
}

#[test]
fn a_setting_typed_into_its_field_acts_at_once_and_outlives_a_restart() {
    let stage = stage(
        Flavour::Plain,
        &["# kept by hand", "queue.max_waiting = 3 # mine"],
    );
    let panel = &stage.panel;
    panel.press("Settings");
    panel.until_says("Common");
    let at = panel.tab_to(WAITING);
    assert_eq!(at.role, "textbox");
    assert_eq!(field(panel).0, "3");
    retype(panel, "7");
    panel.until_says("Saved");
    until_max_waiting(&stage, 7);
    let written = stage.settings();
    assert!(written.contains("queue.max_waiting = 7"), "{written}");
    assert!(
        written.contains("# kept by hand") && written.contains("# mine"),
        "comments stay: {written}"
    );
    let saved = panel.script(
        "return [...document.querySelectorAll('[role=status]')].some((one) => \
         one.innerText === 'Saved')",
    );
    assert_eq!(saved, true, "that it was saved is said aloud too");

    for (typed, why) in [
        ("-1", "Enter a whole number."),
        ("99999", "Expected 0 to 10,000."),
    ] {
        retype(panel, typed);
        panel.until_says(why);
        let (value, is_wrong, said) = field(panel);
        assert_eq!((value.as_str(), is_wrong), (typed, true), "it is marked");
        assert!(said.contains(why), "the field says why: {said}");
        let aloud = panel.script(&format!(
            "return [...document.querySelectorAll('[role=alert]')].some((one) => \
             one.innerText === {why:?})"
        ));
        assert_eq!(aloud, true, "and it is said aloud");
        assert_eq!(stage.settings(), written, "the file is as it was");
    }
    panel.keys(&[key::ESCAPE]);
    let (value, is_wrong, _) = field(panel);
    assert_eq!(
        (value.as_str(), is_wrong),
        ("7", false),
        "Escape takes it back"
    );

    let Stage {
        panel,
        upstream: _upstream,
        desktop,
        ..
    } = stage;
    panel.close();
    let panel = Panel::open(&desktop, Setup::as_left(&desktop));
    let address = Program::address_on(&desktop);
    let status = get(address, "/oneslot/status").json();
    assert_eq!(status["queue"]["max_waiting"], 7, "it outlives a restart");
    panel.press("Settings");
    panel.tab_to(WAITING);
    assert_eq!(field(&panel).0, "7");
    panel.close();
}

#[test]
fn a_setting_goes_back_to_its_default_and_a_list_says_what_it_takes() {
    let stage = stage(Flavour::Plain, &["queue.max_waiting = 3"]);
    let panel = &stage.panel;
    panel.press("Settings");
    panel.tab_to(&format!("Reset to default: {WAITING}"));
    panel.keys(&[key::ENTER]);
    until_max_waiting(&stage, 4);
    eventually("it is out of the file", || {
        (!stage.settings().contains("max_waiting")).then_some(())
    });
    let at = eventually("the focus goes to the field, not to nowhere", || {
        Some(panel.focus()).filter(|at| at.name == WAITING)
    });
    assert!(at.is_seen, "{at:?}");
    assert_eq!(field(panel).0, "4");

    let written = stage.settings();
    panel.keys_with(key::SHIFT, key::TAB);
    panel.click("//input[@type='search']");
    panel.script("document.querySelector('input[type=search]').focus()");
    panel.type_text("access.allowed_hosts");
    panel.until_says("1 found");
    panel.keys(&[key::TAB]);
    panel.type_text("http://desk.lan/");
    panel.keys(&[key::TAB]);
    panel.until_says("Not saved: expected host names");
    assert_eq!(stage.settings(), written, "the file is as it was");
    stage.panel.close();
}

#[test]
fn a_setting_of_the_environment_is_locked_and_says_by_what() {
    let desktop = Desktop::new();
    let _host = Host::on(&desktop);
    let upstream = Upstream::plain();
    let setup = Setup::before(&desktop, &upstream).env("ONESLOT_QUEUE__MAX_WAITING", "2");
    let panel = Panel::open(&desktop, setup);
    let address = Program::address_on(&desktop);
    let status = get(address, "/oneslot/status").json();
    assert_eq!(status["queue"]["max_waiting"], 2);
    panel.press("Settings");
    let field = format!("//div[contains(@class, 'field')][.//label[.={WAITING:?}]]");
    let said = panel.text_of(&field);
    assert!(
        said.contains("Set by the environment variable ONESLOT_QUEUE__MAX_WAITING."),
        "{said}"
    );
    assert!(
        panel.has(&format!("{field}//input[@disabled]")),
        "it takes nothing"
    );
    assert!(
        !panel.has(&format!("{field}//button")),
        "and there is no way back that would do nothing"
    );
    panel.close();
}
