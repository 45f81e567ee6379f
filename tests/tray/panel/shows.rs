//! Every part of the panel says what the gateway knows, driven by real requests.

use serde_json::{Value, json};

use super::super::support::flavour::Flavour;
use super::super::support::script::{Gate, Script};
use super::super::support::{chat, eventually};
use super::{CHAT, Stage, ask, card, stage};
use std::time::Duration;

const LLAMA: Flavour = Flavour::LlamaCpp { window: 2048 };

/// A stream of so many pieces, one after the other, that ends when the gate is opened.
fn slowly(pieces: usize, gate: &Gate) -> Script {
    let mut script = Script::stream();
    for at in 0..pieces {
        script = script
            .delta(&format!("word{at} "))
            .wait(Duration::from_millis(100));
    }
    script.wait_for(gate).ending()
}

/// The number right before this word in a text.
fn number_before(text: &str, word: &str) -> Option<u64> {
    let (before, _) = text.split_once(word)?;
    let digits: String = before
        .chars()
        .rev()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.chars().rev().collect::<String>().parse().ok()
}

/// A number as the panel writes it.
fn grouped(number: &Value) -> String {
    let digits = number.to_string();
    let (thousands, rest) = digits.split_at(digits.len().saturating_sub(3));
    if thousands.is_empty() {
        digits
    } else {
        format!("{thousands},{rest}")
    }
}

/// Waits until a text has become another.
fn until_other(stage: &Stage, xpath: &str, why: &str) -> (String, String) {
    let first = stage.panel.text_of(xpath);
    let other = stage.panel.until_text(xpath, why, |said| said != first);
    (first, other)
}

#[test]
fn what_runs_and_who_waits_is_told_with_phase_time_tokens_and_ages() {
    let stage = stage(LLAMA, &[]);
    let panel = &stage.panel;
    let gate = Gate::new();
    stage.upstream.next_chat(slowly(60, &gate));
    let mut body = chat::streamed("tell me");
    body["max_tokens"] = json!(300);
    let mut running = stage.ask_as("zed/1.0", &body);
    panel.until_text("//h1", "the sentence names who is answered", |said| {
        said == "Answering zed"
    });
    panel.until_text("//header//p", "model and server stand under it", |said| {
        said == "smollm2 · llama.cpp"
    });
    let slot = card("Current request");
    let pace = |said: &str| said.contains(" of 300 tokens") && said.contains("tok/s");
    let first = panel.until_text(&slot, "tokens, their most and their pace", pace);
    assert!(
        first.contains("zed") && first.contains("Writing"),
        "{first}"
    );
    let tokens = number_before(&first, " of 300 tokens");
    panel.until_text(&slot, "its tokens are counted as they come", |said| {
        number_before(said, " of 300 tokens") > tokens
    });
    let elapsed = format!("{slot}//*[contains(@class, 'time')]");
    until_other(&stage, &elapsed, "its time goes on");

    let mut second = ask(
        stage.address,
        "/app/cline/v1/chat/completions",
        &[],
        &chat::whole("2"),
    );
    eventually("it waits", || {
        (stage.status()["queue"]["waiting"] == 1).then_some(())
    });
    let mut third = stage.queue("OpenWebUI/0.5");
    panel.until_text("//header//p", "how many wait is said on top", |said| {
        said.starts_with("2 waiting")
    });
    let row = |at: usize| format!("{slot}//ol/li[{at}]");
    for (at, app) in [(1, "cline"), (2, "OpenWebUI")] {
        let said = panel.text_of(&row(at));
        let place = format!("Position {at}");
        assert!(said.contains(&place) && said.contains(app), "{said}");
    }
    until_other(&stage, &row(1), "its age goes on");
    panel.until_text(&slot, "what waiting does to the next answer", |said| {
        said.contains("Next answer: at most 512 tokens · requests are waiting")
    });
    gate.open();
    assert_eq!(running.finish().status(), 200);
    assert_eq!(second.finish().status(), 200);
    assert_eq!(third.finish().status(), 200);
    panel.until_text("//h1", "all are served", |said| said == "Ready");
    panel.until_text(&slot, "the slot is free", |said| {
        said.contains("Idle. The next request starts immediately.")
            && said.contains("Queue empty (max 4)")
    });
    stage.panel.close();
}

/// A length of time as the panel writes it.
fn took(ms: &Value) -> String {
    match ms.as_f64() {
        None => "–".to_owned(),
        Some(ms) if ms < 100.0 => format!("{} ms", ms.round()),
        // Exact ties are rounded up by the page, and to the even digit here.
        Some(ms) if ms < 9_950.0 && ms % 500.0 == 250.0 => format!("{:.1} s", (ms + 1.0) / 1000.0),
        Some(ms) if ms < 9_950.0 => format!("{:.1} s", ms / 1000.0),
        Some(ms) => format!("{} s", (ms / 1000.0).round()),
    }
}

/// The wait, first token and total times of the requests that the gateway remembers, oldest
/// first, as the charts draw them.
fn drawn(recent: &Value, member: &str) -> Vec<f64> {
    let records = recent.as_array().unwrap().iter().rev();
    let counts = |record: &&Value| member != "total_ms" || record["outcome"] == "done";
    records
        .filter(counts)
        .filter_map(|record| record[member].as_f64())
        .collect()
}

#[test]
fn waits_first_tokens_and_answers_are_told_as_figures_chart_and_table() {
    let stage = stage(LLAMA, &[]);
    for at in 0..4 {
        let pause = Duration::from_millis(120 + 40 * at);
        let script = Script::stream()
            .wait(pause)
            .delta("one")
            .wait(pause)
            .ending();
        stage.upstream.next_chat(script);
        let mut first = stage.ask_as("zed/1.0", &chat::streamed("go"));
        let mut second = stage.ask_as("aider/1.0", &chat::whole("go"));
        assert_eq!(first.finish().status(), 200);
        assert_eq!(second.finish().status(), 200);
    }
    let status = eventually("all eight are recorded", || {
        let status = stage.status();
        (status["recent"].as_array()?.len() == 8).then_some(status)
    });
    let (panel, times) = (&stage.panel, card("Times"));
    panel.click(&format!("{times}//summary"));
    for (row, all, member) in [
        ("Wait", "wait", "wait_ms"),
        ("First token", "first_token", "first_token_ms"),
        ("Answer", "total", "total_ms"),
    ] {
        let lately = &status["latency"]["last_15_min"][all];
        let always = &status["latency"][all];
        let numbers = [
            &lately["p50"],
            &lately["p95"],
            &always["p50"],
            &always["p95"],
        ];
        let wanted: Vec<String> = numbers.into_iter().map(took).collect();
        let xpath = format!("{times}//tr[th[@scope='row'][.={row:?}]]");
        panel.until_text(&xpath, "the table has the gateway's own numbers", |said| {
            let cells: Vec<&str> = said.split('\t').skip(1).map(str::trim).collect();
            cells == wanted
        });
        let figure = format!("{times}//figure[figcaption={row:?}]");
        let said = panel.text_of(&figure);
        assert!(said.contains(&wanted[0]), "the median stands large: {said}");

        let values = drawn(&status["recent"], member);
        let (least, most) = values
            .iter()
            .fold((f64::MAX, 0.0_f64), |(least, most), value| {
                (least.min(*value), most.max(*value))
            });
        let text = format!(
            "{row}: the last {} requests took {} to {}, the latest {}",
            values.len(),
            took(&json!(least)),
            took(&json!(most)),
            took(&json!(values.last()))
        );
        let chart = format!("{figure}//*[name()='svg'][@role='img'][@aria-label={text:?}]");
        eventually(&format!("the chart says {text:?}"), || {
            panel.has(&chart).then_some(())
        });
    }
    stage.panel.close();
}

#[test]
fn failures_the_last_error_and_a_countdown_that_moves_are_told() {
    let stage = stage(LLAMA, &["health.cooldown_ms = 6000"]);
    let panel = &stage.panel;
    stage.upstream.die();
    let refused = stage.ask_as("zed/1.0", &chat::whole("hello")).finish();
    assert_eq!(refused.code(), Some("LLM_UNAVAILABLE"));
    panel.until_text("//h1", "the sentence tells of it", |said| {
        said == "llama.cpp failed" || said == "llama.cpp is not responding"
    });
    let count = stage.status()["health"]["consecutive_failures"]
        .as_u64()
        .unwrap();
    let slot = card("Current request");
    panel.until_text(&slot, "the last error and when it is tried again", |said| {
        said.contains("The model server") && said.contains("Retrying in 0:0")
    });
    let retry = format!("{slot}//div[contains(@class, 'act')]/span");
    let (before, after) = until_other(&stage, &retry, "the countdown moves");
    assert!(after < before, "it counts down: {before:?}, {after:?}");
    let health = panel.text_of(&card("Health"));
    assert!(health.contains("Not responding"), "{health}");
    let told = number_before(&health, " failure").unwrap_or_default();
    assert!(told >= count, "failures in a row are counted: {health}");
    assert!(health.contains("Last response"), "{health}");
    stage.upstream.come_back();
    panel.press("Check now");
    panel.until_text("//h1", "it is found well", |said| said == "Ready");
    panel.until_text(&card("Health"), "no failure is left", |said| {
        said.contains("No failures")
    });
    stage.panel.close();
}

/// Memory does not count as short until the test replaces this line.
pub(super) const NEVER_SHORT: &str = "pressure.sensitivity = \"off\"";

#[test]
fn memory_its_level_and_what_it_does_to_answers_are_told() {
    let stage = stage(LLAMA, &[NEVER_SHORT]);
    let (panel, memory) = (&stage.panel, card("Memory"));
    let said = panel.until_text(&memory, "there is room", |said| {
        said.contains("normal") && said.contains("No limit on answers")
    });
    let ram = &stage.status()["pressure"]["ram"];
    let total = ram["total"].as_f64().unwrap();
    let used = total - ram["available"].as_f64().unwrap();
    let (_, numbers) = said.split_once("RAM").unwrap();
    let numbers: Vec<f64> = numbers
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    assert!(
        (numbers[1] - total / f64::from(1 << 30)).abs() < 0.06,
        "{said}"
    );
    assert!(
        (numbers[0] - used / f64::from(1 << 30)).abs() < 2.0,
        "{said}"
    );
    let cards = stage.status()["pressure"]["vram"].as_array().unwrap().len();
    let rows = format!("{memory}//*[@role='meter'][{}]", cards + 1);
    assert!(
        panel.has(&rows),
        "one bar for RAM and one for each graphics card"
    );
    if cards == 0 {
        assert!(
            said.contains("No graphics card reports its memory."),
            "{said}"
        );
    }

    let file = stage.desktop.home().join("oneslot.toml");
    std::fs::write(&file, stage.settings().replace("\"off\"", "\"normal\"")).unwrap();
    panel.until_text(&memory, "the level, its cause and its effect", |said| {
        said.contains("getting low")
            && said.contains("Shorter answers")
            && said.contains("RAM available")
    });
    panel.until_text("//h1", "the sentence tells of it", |said| {
        said == "Memory is low: answers are shortened"
    });
    panel.until_text(
        &card("Current request"),
        "what it does to the next answer",
        |said| said.contains("Next answer: at most") && said.contains("memory is low"),
    );
    stage.panel.close();
}

#[test]
fn who_was_turned_away_is_told_and_let_in_by_a_press() {
    let stage = stage(Flavour::Plain, &["# kept by hand"]);
    let (panel, turned) = (&stage.panel, card("Blocked origins"));
    let port = stage.address.port();
    let name = format!("my-machine.local:{port}");
    let page = "https://chat.example.com";
    let from_page = || {
        let fields = [("origin", page), ("user-agent", "browser/1")];
        ask(stage.address, CHAT, &fields, &chat::whole("hello")).finish()
    };
    let by_name = || {
        let fields = [("host", name.as_str())];
        ask(stage.address, CHAT, &fields, &chat::whole("hello")).finish()
    };
    assert_eq!(from_page().code(), Some("FORBIDDEN_ORIGIN"));
    assert_eq!(from_page().code(), Some("FORBIDDEN_ORIGIN"));
    assert_eq!(by_name().code(), Some("FORBIDDEN_HOST"));
    panel.until_text(&turned, "each with what it is and how often", |said| {
        said.contains(page)
            && said.contains("Web page · 2 times")
            && said.contains("my-machine.local")
            && said.contains("Host name · 1 time")
    });
    panel.press(&format!("Allow {page}"));
    eventually("the page is on the list", || {
        let settings = stage.settings();
        (settings.contains(page) && settings.contains("# kept by hand")).then_some(())
    });
    panel.until_says(&format!("{page} is now allowed"));
    eventually("the next request from it is served", || {
        (from_page().status() == 200).then_some(())
    });
    let allow = format!("{turned}//button[starts-with(@aria-label, 'Allow my-machine.local')]");
    panel.click(&allow);
    eventually("the next request by this name is served", || {
        (by_name().status() == 200).then_some(())
    });
    assert!(stage.settings().contains("my-machine.local"));
    panel.until_text(&turned, "who was let in is not offered again", |said| {
        !said.contains("Allow")
    });
    stage.panel.close();
}

#[test]
fn what_became_of_requests_is_told_with_code_cut_and_limit() {
    let stage = stage(
        Flavour::LlamaCpp { window: 512 },
        &["queue.max_waiting = 0"],
    );
    let panel = &stage.panel;
    // One that is cut and limited.
    let mut body = chat::of(&chat::history(12, 40));
    body["model"] = json!("smollm2");
    body["max_tokens"] = json!(4096);
    let mut cut = stage.ask_as("zed/1.0", &body);
    assert_eq!(cut.finish().status(), 200);
    // One that finds the line full, and one that leaves.
    let (running, _gate) = stage.hold();
    let refused = stage.ask_as("aider/1.0", &chat::whole("too many")).finish();
    assert_eq!(refused.code(), Some("LLM_OVERLOADED"));
    running.rst();
    let recent = eventually("all three are recorded", || {
        let recent = stage.status()["recent"].clone();
        (recent.as_array()?.len() == 3).then_some(recent)
    });
    panel.press("Recent");
    let of = |app: &str| {
        recent
            .as_array()
            .unwrap()
            .iter()
            .position(|one| one["app"] == app)
    };
    let row = |at: usize| format!("//main//ul/li[{}]", at + 1);
    let detail = |at: usize, name: &str| {
        let (row, name) = (row(at), format!("{name:?}"));
        panel.text_of(&format!("{row}//dt[.={name}]/following-sibling::dd[1]"))
    };
    let overloaded = of("aider").unwrap();
    panel.click(&format!("{}//summary", row(overloaded)));
    assert_eq!(detail(overloaded, "Code"), "LLM_OVERLOADED");
    assert_eq!(
        detail(overloaded, "Caused by"),
        "no capacity at that moment"
    );

    let left = recent.as_array().unwrap().iter();
    let left = left
        .clone()
        .position(|one| one["outcome"] == "left")
        .unwrap();
    let said = panel.text_of(&row(left));
    assert!(
        said.contains("disconnected") && said.contains("The client disconnected before the end."),
        "{said}"
    );

    let done = recent.as_array().unwrap().iter();
    let done = done
        .clone()
        .position(|one| one["outcome"] == "done")
        .unwrap();
    let record = &recent[done];
    let said = panel.text_of(&row(done));
    let dropped = record["dropped"].as_u64().unwrap();
    assert!(dropped > 0, "the chat was too long: {record}");
    assert!(
        said.contains(&format!("{dropped} messages dropped")),
        "{said}"
    );
    panel.click(&format!("{}//summary", row(done)));
    let (before, after) = (
        grouped(&record["prompt_before"]),
        grouped(&record["prompt_after"]),
    );
    assert_eq!(
        detail(done, "Prompt"),
        format!("{before} tokens, trimmed to {after}")
    );
    assert_eq!(detail(done, "Dropped messages"), dropped.to_string());
    assert_eq!(
        detail(done, "Space for the prompt"),
        format!("{} tokens", grouped(&record["budget"]))
    );
    assert_eq!(
        detail(done, "Answer limit"),
        format!(
            "{}, requested 4,096: the context window was full",
            grouped(&record["granted"])
        )
    );
    panel.press("Now");
    panel.until_text(
        &card("Context window"),
        "the window tells what was cut",
        |said| said.contains("512 tokens · reported by the server") && said.contains("dropped"),
    );
    stage.panel.close();
}

#[test]
fn an_app_is_ticked_when_it_first_calls_and_its_set_up_is_copied() {
    let stage = stage(Flavour::Plain, &[]);
    let panel = &stage.panel;
    panel.press("Connect");
    panel.until_says("0 of 15 connected");
    let row = |app: &str| format!("//li[.//summary[contains(., {app:?})]]");
    panel.click(&format!("{}//summary", row("Continue")));
    panel.press("Copy the set-up for Continue");
    let wanted = format!("apiBase: http://{}/app/continue/v1", stage.address);
    eventually("the clipboard has what is shown", || {
        let text = stage.desktop.clipboard();
        (text.contains(&wanted) && text.contains("provider: openai")).then_some(())
    });
    panel.press("Copy the base URL");
    let wanted = format!("http://{}/v1", stage.address);
    eventually("the clipboard has the address", || {
        (stage.desktop.clipboard() == wanted).then_some(())
    });

    assert!(panel.text_of(&row("Cline")).contains("Not connected yet"));
    let by_path = "/app/cline/v1/chat/completions";
    ask(stage.address, by_path, &[], &chat::whole("hello")).finish();
    panel.until_text(&row("Cline"), "a path of its own names it", |said| {
        said.contains("Connected")
    });
    assert!(
        panel
            .text_of(&row("Open WebUI"))
            .contains("Not connected yet")
    );
    stage
        .ask_as("OpenWebUI/0.5", &chat::whole("hello"))
        .finish();
    panel.until_text(&row("Open WebUI"), "its User-Agent names it", |said| {
        said.contains("Connected")
    });
    panel.until_says("2 of 15 connected");
    panel.press("Send a test prompt");
    panel.until_says("answered in");
    stage.panel.close();
}
