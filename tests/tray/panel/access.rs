//! axe-core in the real web view, in both themes and both languages, over every place and the
//! states that draw something of their own.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::support::chat;
use super::super::support::desktop::Desktop;
use super::super::support::driver::Panel;
use super::super::support::flavour::Flavour;
use super::super::support::host::Host;
use super::super::support::program::{Program, Setup};
use super::super::support::upstream::Upstream;
use super::{CHAT, Stage, ask};

/// Runs axe over the whole page, with everything unfolded and in sight: of what is scrolled away
/// it cannot tell the contrast, and what it cannot tell counts as wrong, save where an open sheet
/// lies over what is seen in another state.
const AXE: &str = "const done = arguments[arguments.length - 1];\
    const covers = document.querySelector('.sheet') !== null;\
    const below = (node) => covers && node.any.every(({ data }) =>\
        ['bgOverlap', 'elmPartiallyObscured', 'elmPartiallyObscuring'].includes(data?.messageKey));\
    axe.run(document, { resultTypes: ['violations', 'incomplete'] }).then((result) => {\
        const unsure = result.incomplete.filter((one) => one.id === 'color-contrast')\
            .map((one) => ({ ...one, nodes: one.nodes.filter((node) => !below(node)) }))\
            .filter((one) => one.nodes.length > 0);\
        done([...result.violations, ...unsure].map((one) => one.id + ': ' + one.nodes.map(\
            (node) => node.html + ' ' + node.failureSummary).join(' | '))); },\
        (error) => done(['' + error]));";

struct Look {
    language: &'static str,
    theme: &'static str,
    ready: &'static str,
}

/// Fails with what axe finds wrong.
fn hold(panel: &Panel, look: &Look, state: &str) {
    panel.script("document.querySelectorAll('details').forEach((one) => { one.open = true; })");
    let height = panel.script(
        "return document.querySelector('.top').offsetHeight\
         + document.querySelector('main').scrollHeight + 300",
    );
    panel.resize(380, u32::try_from(height.as_u64().unwrap()).unwrap());
    let found = panel.script_that_tells(AXE);
    let (language, theme) = (look.language, look.theme);
    assert_eq!(found, json!([]), "{language}, {theme}: {state}");
}

fn place(panel: &Panel, at: usize) {
    panel.click(&format!("//nav/button[{at}]"));
    panel.until_text("//main", "the place is there", |said| {
        !said.trim().is_empty()
    });
    std::thread::sleep(Duration::from_millis(200));
}

fn look_at_everything(look: &Look) {
    let axe = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ui/node_modules/axe-core/axe.min.js");
    let axe = std::fs::read_to_string(axe).expect("the panel's packages are installed");
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let upstream = Upstream::start(Flavour::LlamaCpp { window: 2048 });
    let setup = Setup::before(&desktop, &upstream)
        .config("health.cooldown_ms = 60000")
        .env("LANG", look.language)
        .env("GTK_THEME", look.theme);
    let panel = Panel::open(&desktop, setup);
    let address = Program::address_on(&desktop);
    panel.until_text("//h1", "it is ready", |said| said == look.ready);
    let dark = panel.script("return matchMedia('(prefers-color-scheme: dark)').matches");
    assert_eq!(
        dark,
        look.theme.ends_with("dark"),
        "the theme is the desktop's"
    );
    panel.script(&axe);
    let stage = Stage {
        panel,
        address,
        upstream,
        desktop,
        _host: host,
    };
    let panel = &stage.panel;
    hold(panel, look, "nothing was asked yet");
    place(panel, 2);
    hold(panel, look, "no recent requests");

    stage
        .ask_as("OpenWebUI/1", &chat::of(&chat::history(30, 60)))
        .finish();
    stage.ask_as("aider/1", &chat::whole("hello")).finish();
    let fields = [("origin", "https://chat.example.com")];
    ask(stage.address, CHAT, &fields, &chat::whole("hello")).finish();
    let (mut running, gate) = stage.hold();
    let mut waiting = stage.queue("cline/3");
    for at in 1..=4 {
        place(panel, at);
        hold(panel, look, &format!("one runs and one waits, place {at}"));
    }
    place(panel, 1);
    panel.click("//div[contains(@class, 'pause')]/button");
    hold(panel, look, "the choice of pauses is open");
    panel.click("//div[contains(@class, 'sheet')]/button[last()]");
    gate.open();
    running.finish();
    panel.until_text("//main", "it is paused", |_| {
        panel.has("//div[contains(@class, 'pause')]/button[contains(@class, 'main')]")
    });
    hold(panel, look, "paused");
    panel.click("//div[contains(@class, 'pause')]/button");
    waiting.finish();

    stage.upstream.die();
    stage.ask_as("zed/1", &chat::whole("hello")).finish();
    panel.until_text("//main", "its server is down", |_| {
        panel.has("//p[contains(@class, 'bad')]")
    });
    hold(panel, look, "the server is down");
    let failed = panel.script_that_tells(
        "const done = arguments[arguments.length - 1];\
         document.querySelectorAll('nav button')[3].click();\
         setTimeout(() => done(document.querySelector('main').innerText !== ''), 400);",
    );
    assert_eq!(failed, Value::Bool(true));
    panel.click("//input[@type='text' and @inputmode='numeric']");
    panel.script(
        "const field = document.querySelector('input[inputmode=numeric]');\
         field.value = '-1'; field.dispatchEvent(new Event('change', { bubbles: true }));",
    );
    panel.until_text("//main", "it is refused beside its field", |_| {
        panel.has("//*[@aria-invalid='true']")
    });
    hold(panel, look, "a setting is wrong");
    stage.panel.close();
}

#[test]
fn axe_finds_nothing_in_light_and_english() {
    look_at_everything(&Look {
        language: "C.UTF-8",
        theme: "Adwaita",
        ready: "Ready",
    });
}

#[test]
fn axe_finds_nothing_in_dark_and_english() {
    look_at_everything(&Look {
        language: "C.UTF-8",
        theme: "Adwaita:dark",
        ready: "Ready",
    });
}

#[test]
fn axe_finds_nothing_in_light_and_chinese() {
    look_at_everything(&Look {
        language: "zh_CN.UTF-8",
        theme: "Adwaita",
        ready: "就绪",
    });
}

#[test]
fn axe_finds_nothing_in_dark_and_chinese() {
    look_at_everything(&Look {
        language: "zh_CN.UTF-8",
        theme: "Adwaita:dark",
        ready: "就绪",
    });
}
