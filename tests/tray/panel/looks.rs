//! The real window in its usual size: nothing is cut, nothing scrolls sideways and nothing jumps,
//! with letters as they are and twice as large, and on a desktop that scales.
//!
//! With `ONESLOT_SHOTS` naming a folder, pictures of what was looked at are left there.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::super::support::chat;
use super::super::support::desktop::Desktop;
use super::super::support::driver::Panel;
use super::super::support::flavour::Flavour;
use super::super::support::host::Host;
use super::super::support::program::{Program, Setup};
use super::super::support::upstream::Upstream;
use super::super::support::{eventually, windows};
use super::{CHAT, Stage, ask};

const PLACES: [&str; 4] = ["now", "recent", "connect", "settings"];
/// As the program opens its window.
const SIZE: (u32, u32) = (380, 560);

/// What reaches over an edge or is not whole: texts cut by the box they are in, and whatever
/// begins or ends beyond the page. One line that a name of somebody else's choosing may fill is
/// cut on purpose, with its whole in a title or below; with large letters none is.
const FAULTS: &str = "\
    const [cutsNames] = arguments;\
    const found = [];\
    const name = (one) => one.tagName + '.' + one.className + ' ' +\
        (one.innerText ?? '').trim().slice(0, 40);\
    const root = document.documentElement;\
    for (const one of [root, ...document.querySelectorAll('main, .panel')]) {\
        if (one.scrollWidth > one.clientWidth) found.push('scrolls sideways: ' + name(one));\
    }\
    for (const one of document.querySelectorAll('body *')) {\
        if (!one.checkVisibility() || one.closest('.unseen, svg')) continue;\
        if (one.closest('details:not([open]) > :not(summary)')) continue;\
        const box = one.getBoundingClientRect();\
        if (box.width > 0 && (box.left < -1 || box.right > innerWidth + 1))\
            found.push('leaves the page: ' + name(one));\
        const style = getComputedStyle(one);\
        const hides = style.overflowX === 'hidden' || style.overflowX === 'clip';\
        const cuts = style.textOverflow === 'ellipsis';\
        if (hides && one.scrollWidth > one.clientWidth + 1 && !(cuts && cutsNames))\
            found.push('is cut: ' + name(one));\
        if (one.tagName === 'BUTTON' && one.scrollWidth > one.clientWidth + 1)\
            found.push('a button is cut: ' + name(one));\
        const letter = parseFloat(style.fontSize);\
        if (one.tagName === 'BUTTON' && box.height > letter * 6)\
            found.push('a button is in pieces: ' + name(one));\
    }\
    return found;";

/// Where everything stands that must not move while numbers do.
const STANDS: &str = "return JSON.stringify([...document.querySelectorAll(\
    'h1, h2, nav button, .pause button, .card, .who button, ol.line button')]\
    .map((one) => { const box = one.getBoundingClientRect();\
        return [box.left, box.top, box.width, box.height].map(Math.round); }))";

fn shot(panel: &Panel, name: &str) {
    let Some(folder) = std::env::var_os("ONESLOT_SHOTS") else {
        return;
    };
    std::thread::sleep(Duration::from_millis(250));
    if let Some(picture) = panel.picture() {
        let path = PathBuf::from(folder).join(format!("{name}.png"));
        std::fs::write(path, picture).expect("the pictures' folder is there");
    }
}

fn letters(panel: &Panel, percent: u32) {
    panel.script(&format!(
        "document.documentElement.style.fontSize = '{percent}%'"
    ));
}

fn hold_whole(panel: &Panel, percent: u32, what: &str) {
    let script = FAULTS.replace("arguments", &format!("[{}]", percent == 100));
    let found = panel.script(&script);
    assert_eq!(found, json!([]), "{what} at {percent} %");
}

/// A desk with something of everything: one answers, two wait, some have ended, some were turned
/// away.
fn busy(stage: &Stage) -> (Vec<super::Client>, super::Gate) {
    for (agent, text) in [
        ("OpenWebUI/1", "one"),
        ("claude-cli/2", "two"),
        ("aider/1", "three"),
    ] {
        stage.ask_as(agent, &chat::whole(text)).finish();
    }
    stage
        .ask_as("Continue/1", &chat::of(&chat::history(40, 60)))
        .finish();
    let page = [("origin", "https://chat.a-rather-long-name.example.com")];
    ask(stage.address, CHAT, &page, &chat::whole("hello")).finish();
    let host = [("host", "my-machine.local:11411")];
    ask(stage.address, CHAT, &host, &chat::whole("hello")).finish();
    let (running, gate) = stage.hold();
    let first = stage.queue("cline/3");
    let second = stage.queue("obsidian-copilot-with-a-very-long-name/1");
    stage
        .panel
        .until_text("//header//p", "two wait", |said| said.starts_with('2'));
    (vec![running, first, second], gate)
}

fn open(language: &str, theme: &str, scale: Option<(&str, &str)>) -> Stage {
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let upstream = Upstream::start(Flavour::LlamaCpp { window: 2048 });
    let mut setup = Setup::before(&desktop, &upstream)
        .env("LANG", language)
        .env("GTK_THEME", theme);
    if let Some((name, value)) = scale {
        setup = setup.env(name, value);
    }
    let panel = Panel::open(&desktop, setup);
    let address = Program::address_on(&desktop);
    panel.until_text("//main", "it is drawn", |said| said.contains("llama.cpp"));
    Stage {
        panel,
        address,
        upstream,
        desktop,
        _host: host,
    }
}

fn look_at_all(stage: &Stage, name: &str, sizes: &[u32]) {
    let panel = &stage.panel;
    shot(panel, &format!("{name}-first"));
    let (_clients, _gate) = busy(stage);
    for percent in sizes {
        letters(panel, *percent);
        for (at, place) in PLACES.iter().enumerate() {
            panel.click(&format!("//nav/button[{}]", at + 1));
            panel.until_text("//nav/button[@aria-current='page']", "it is there", |_| {
                *place != "settings" || panel.has("//input[@type='search']")
            });
            let what = format!("{name}-{percent}-{place}");
            hold_whole(panel, *percent, &what);
            shot(panel, &what);
            // With everything unfolded, and in a window as high as it takes.
            panel.script("document.querySelectorAll('details').forEach((one) => one.open = true)");
            hold_whole(panel, *percent, &format!("{what}, unfolded"));
            if *place != "settings" {
                panel.resize(SIZE.0, 1000);
                shot(panel, &format!("{what}-whole"));
                panel.resize(SIZE.0, SIZE.1);
            }
        }
        panel.click("//nav/button[1]");
        let page = format!("https://at-{percent}.a-rather-long-name.example.com");
        let fields = [("origin", page.as_str())];
        ask(stage.address, CHAT, &fields, &chat::whole("hello")).finish();
        panel.click(&format!("//button[contains(@aria-label, {page:?})]"));
        panel.until_text(
            "//div[contains(@class, 'toast')]",
            "what was done is told",
            |said| said.contains(&page),
        );
        hold_whole(panel, *percent, &format!("{name}, what was done"));
        shot(panel, &format!("{name}-{percent}-told"));
        panel.click("//div[contains(@class, 'toast')]/button");
        panel.click("//div[contains(@class, 'pause')]/button");
        hold_whole(panel, *percent, &format!("{name}, the choice of pauses"));
        shot(panel, &format!("{name}-{percent}-pause"));
        panel.click("//div[contains(@class, 'pause')]/button");
    }
}

#[test]
fn nothing_is_cut_in_english_with_letters_of_twice_the_size() {
    let stage = open("C.UTF-8", "Adwaita", None);
    let sizes = stage.panel.script(
        "return ['html', 'body', 'h1'].map((one) =>\
         getComputedStyle(document.querySelector(one)).fontSize)",
    );
    let designed = json!(["16px", "14px", "16px"]);
    assert_eq!(sizes, designed, "letters are as large as they are designed");
    look_at_all(&stage, "en-light", &[100, 200]);
    stage.panel.close();
}

#[test]
fn nothing_is_cut_in_chinese_with_letters_of_twice_the_size() {
    let stage = open("zh_CN.UTF-8", "Adwaita:dark", None);
    look_at_all(&stage, "zh-dark", &[100, 200]);
    stage.panel.close();
}

#[test]
fn nothing_is_cut_on_a_desktop_that_scales() {
    for (name, scale, wide) in [
        ("pixels", ("GDK_SCALE", "2"), json!([380, 2])),
        ("text", ("GDK_DPI_SCALE", "2"), json!([380, 1])),
    ] {
        let stage = open("C.UTF-8", "Adwaita:dark", Some(scale));
        let seen = stage.panel.script("return [innerWidth, devicePixelRatio]");
        assert_eq!(seen, wide, "{name}: the page has the room it was made for");
        let (_clients, _gate) = busy(&stage);
        for (at, place) in PLACES.iter().enumerate() {
            stage.panel.click(&format!("//nav/button[{}]", at + 1));
            std::thread::sleep(Duration::from_millis(300));
            hold_whole(&stage.panel, 100, &format!("{name}, {place}"));
            shot(&stage.panel, &format!("scale-{name}-{place}"));
        }
        stage.panel.close();
    }
}

#[test]
fn the_window_is_whole_on_the_screen_whatever_the_size_of_letters() {
    for scale in ["1", "1.5", "2"] {
        let stage = open("C.UTF-8", "Adwaita", Some(("GDK_DPI_SCALE", scale)));
        let whole = eventually("the window is in its place", || {
            windows::titled(&stage.desktop, "OneSlot")
                .into_iter()
                .map(|window| windows::place(&stage.desktop, window))
                .find(|(_, _, width, height)| *width > 300 && *height > 300)
        });
        std::thread::sleep(Duration::from_millis(500));
        let (left, top, width, height) = whole;
        println!("{scale}: {width} × {height} at {left}, {top}");
        let right_of_it = 1280 - left - width;
        let below_it = 1024 - top - height;
        assert!(left >= 0 && top >= 0, "{scale}: {whole:?}");
        assert!(right_of_it >= 0 && below_it >= 0, "{scale}: {whole:?}");
        let middle = (left - right_of_it).abs() <= 2;
        assert!(middle, "{scale}: it stands in the middle, {whole:?}");
        stage.panel.close();
    }
}

#[test]
fn nothing_moves_while_numbers_do() {
    let stage = open("C.UTF-8", "Adwaita", None);
    let (_clients, _gate) = busy(&stage);
    for percent in [100, 200] {
        letters(&stage.panel, percent);
        std::thread::sleep(Duration::from_millis(300));
        let before = stage.panel.script(STANDS);
        let ages = "//ol/li[1]";
        let age = stage.panel.text_of(ages);
        stage
            .panel
            .until_text(ages, "numbers move", |said| said != age);
        std::thread::sleep(Duration::from_millis(1500));
        let after = stage.panel.script(STANDS);
        assert_eq!(after, before, "at {percent} %");
    }
    stage.panel.close();
}
