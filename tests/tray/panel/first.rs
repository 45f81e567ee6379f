//! The first minutes: nothing is configured, no server runs, the server wants a key, the port is
//! somebody else's. Each time the panel says exactly what to do, and does it when asked.

use std::net::TcpListener;

use super::super::support::desktop::Desktop;
use super::super::support::driver::{Panel, key};
use super::super::support::flavour::Flavour;
use super::super::support::host::Host;
use super::super::support::program::{Program, Setup, get};
use super::super::support::upstream::Upstream;
use super::super::support::{chat, eventually, network};
use super::{CHAT, ask, card};

#[test]
fn without_a_server_it_says_what_to_do_and_one_that_appears_is_found_and_proven() {
    let name = "panel::first::without_a_server_it_says_what_to_do_and_one_that_appears_is_found_and_proven";
    if !network::is_for(name, &network::AUTO) {
        return;
    }
    let desktop = Desktop::new();
    let _host = Host::on(&desktop);
    let panel = Panel::open(&desktop, Setup::bare(&desktop));
    let address = Program::address_on(&desktop);
    panel.until_text("//h1", "it says so", |said| said == "No model server found");
    let steps = panel.text_of(&card("What you can try"));
    for step in [
        "Start Ollama, LM Studio (Developer → Start server) or llama-server. OneSlot finds it within 10 seconds.",
        "Enter its address under “Model server” in Settings.",
        "Is it on another machine?",
    ] {
        assert!(steps.contains(step), "{steps}");
    }
    let refused = ask(address, CHAT, &[], &chat::whole("anybody?")).finish();
    assert_eq!(refused.code(), Some("LLM_UNAVAILABLE"));
    panel.press("Search again");
    panel.until_says("Nothing found on ports 11434, 1234 and 8080.");
    panel.press("Set the address");
    panel.until_text("//main", "the very setting is shown", |said| {
        said.contains("Model server") && said.contains("upstream.base_url")
    });
    panel.press("Now");

    let ollama = Flavour::Ollama {
        loaded: Some(4096),
        on_load: 4096,
    };
    let upstream = Upstream::start_on("127.0.0.1:11434", ollama);
    panel.press("Search again");
    panel.until_text("//h1", "it is found by itself", |said| said == "Ready");
    panel.press("Connect");
    panel.press("Send a test prompt");
    panel.until_says("answered in");
    panel.until_says("“one two three”");
    let proof = upstream.chats();
    let proof = proof.last().unwrap();
    assert_eq!(
        proof.request.json()["stream"],
        true,
        "by way of the gateway"
    );
    panel.close();
}

#[test]
fn first_steps_prove_the_server_and_lead_to_the_apps() {
    let stage = super::stage(Flavour::LlamaCpp { window: 2048 }, &[]);
    let panel = &stage.panel;
    let steps = card("First steps");
    let found = format!("llama.cpp found at {}", stage.upstream.url());
    panel.until_text(&steps, "what was found, and where", |said| {
        said.contains(&found)
    });
    panel.press("Connect an app");
    panel.until_says("0 of 15 connected");
    panel.press("Now");
    panel.press("Send a test prompt");
    panel.press("Recent");
    panel.until_text(
        "//main//ul/li[1]",
        "the proof is a request like any other",
        |said| said.contains("OneSlot") && said.contains("done"),
    );
    stage.panel.close();
}

#[test]
fn a_server_that_wants_a_key_gets_it_from_the_panel() {
    let desktop = Desktop::new();
    let _host = Host::on(&desktop);
    let upstream = Upstream::plain();
    upstream.demand_key("the-key-of-the-server");
    let setup = Setup::before(&desktop, &upstream).config("# kept by hand");
    let panel = Panel::open(&desktop, setup);
    let address = Program::address_on(&desktop);
    panel.until_text(
        &card("Notices"),
        "what is missing, and where it goes",
        |said| said.contains("The model server requires a key."),
    );
    panel.press("Set “Key for the server”");
    let field = panel.tab_to("Key for the server");
    assert_eq!(field.tag, "INPUT", "the field itself is what Tab comes to");
    panel.type_text("the-key-of-the-server");
    panel.keys(&[key::ENTER]);
    panel.until_says("Saved");
    let settings = std::fs::read_to_string(desktop.home().join("oneslot.toml")).unwrap();
    assert!(
        settings.contains("the-key-of-the-server") && settings.contains("# kept by hand"),
        "{settings}"
    );
    let page = panel.script("return document.documentElement.outerHTML + document.querySelector('input[type=password]').value");
    assert!(
        !page.as_str().unwrap().contains("the-key-of-the-server"),
        "what was typed is not shown again"
    );
    panel.press("Now");
    eventually("it is not asked for any more", || {
        (!panel.has(&card("Notices"))).then_some(())
    });
    let answer = ask(address, CHAT, &[], &chat::whole("hello")).finish();
    assert_eq!(answer.status(), 200, "the key is the right one");
    panel.close();
}

#[test]
fn with_its_port_taken_it_says_by_whom_and_serves_on_another_when_asked() {
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = stranger.local_addr().unwrap();
    let desktop = Desktop::new();
    let _host = Host::on(&desktop);
    let upstream = Upstream::plain();
    let setup = Setup::before(&desktop, &upstream).config(&format!("listen = [\"{taken}\"]"));
    let panel = Panel::open(&desktop, setup);
    panel.until_text("//h1", "it says so", |said| {
        said == "Not serving: port in use"
    });
    let what = panel.text_of(&card("What you can do"));
    assert!(what.contains(&format!("{taken} is in use by")), "{what}");
    assert!(
        what.contains(&std::process::id().to_string()),
        "by whom: {what}"
    );
    panel.press("Use another port");
    panel.until_text("//h1", "it serves", |said| said == "Ready");
    let address = Program::address_on(&desktop);
    assert_ne!(address, taken);
    assert_eq!(get(address, "/healthz").status(), 200);
    let settings = std::fs::read_to_string(desktop.home().join("oneslot.toml")).unwrap();
    assert!(settings.contains(&address.to_string()), "{settings}");
    panel.press("Connect");
    panel.until_says(&format!("http://{address}/v1"));
    panel.close();
}
