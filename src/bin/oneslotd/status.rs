//! `status`: the running OneSlot's snapshot, as JSON or as a block a person reads at a glance.
//!
//! The block is built from the JSON, so that it shows what any program sees. A member that is
//! missing or null is left out.

use std::io::{self, IsTerminal as _};

use oneslot::control_client::Viewing;
use oneslot::telemetry::message::Message;
use serde::Deserialize as _;
use serde_json::Value;

use crate::args::{Look, Paths};
use crate::control::ask;
use crate::{Failure, output};

/// `status [--json] [--watch]`.
pub(crate) fn run(paths: &Paths, look: Look) -> Result<(), Failure> {
    let running = paths.running()?;
    let show = |snapshot: &Value| {
        let address = running
            .gateway()
            .addresses
            .first()
            .map_or("", String::as_str);
        output::line(&if look.json {
            snapshot.to_string()
        } else {
            block(snapshot, address)
        })
    };
    if !look.watch {
        return show(&ask(running.status::<Value>())?).or(Ok(()));
    }
    let clears = !look.json && io::stdout().is_terminal();
    ask(async {
        let mut events = running.events(Viewing::Watched).await?;
        while let Some(snapshot) = events.next::<Value>().await? {
            let shown = if clears {
                output::line("\x1b[2J\x1b[H").and_then(|()| show(&snapshot))
            } else {
                show(&snapshot)
            };
            if shown.is_err() {
                return Ok(Ok(()));
            }
        }
        Ok(Err(Failure::not_done("OneSlot has stopped")))
    })?
}

/// The snapshot in a few lines.
fn block(snapshot: &Value, address: &str) -> String {
    let mut lines = vec![head(snapshot, address)];
    lines.extend(upstream(snapshot));
    lines.extend(health(snapshot));
    lines.push(queue(snapshot));
    lines.extend(items(snapshot));
    lines.extend(pause(snapshot));
    lines.extend(memory(snapshot));
    lines.extend(window(snapshot));
    lines.extend(plan(snapshot));
    lines.extend(latency(snapshot));
    lines.extend(refused(snapshot));
    lines.extend(notices(snapshot));
    lines.join("\n")
}

fn head(snapshot: &Value, address: &str) -> String {
    let state = text(snapshot, "/state")
        .unwrap_or("unknown")
        .replace('_', " ");
    let version = text(snapshot, "/version").unwrap_or("?");
    row("OneSlot", &format!("{state}, version {version}, {address}"))
}

fn upstream(snapshot: &Value) -> Option<String> {
    let url = text(snapshot, "/upstream/base_url")?;
    let mut words = vec![url.to_owned()];
    words.extend(text(snapshot, "/upstream/kind").map(str::to_owned));
    words.extend(text(snapshot, "/upstream/model").map(str::to_owned));
    if let Some(pid) = number(snapshot, "/upstream/process/pid") {
        let name = text(snapshot, "/upstream/process/name").unwrap_or("process");
        let resident = number(snapshot, "/upstream/process/resident");
        let resident = resident.map_or_else(String::new, |bytes| format!(", {}", size(bytes)));
        words.push(format!("{name} (process {pid}{resident})"));
    }
    Some(row("server", &words.join(", ")))
}

fn health(snapshot: &Value) -> Option<String> {
    let state = text(snapshot, "/health/state")?;
    let mut words = state.to_owned();
    if let Some(failures) = number(snapshot, "/health/consecutive_failures").filter(|n| *n > 0) {
        let failures = match failures {
            1 => "1 failure".to_owned(),
            more => format!("{more} failures in a row"),
        };
        words += &format!(", {failures}");
    }
    // The last error is kept after a recovery; beside "ready" it would read as a current one.
    let error = snapshot.pointer("/health/last_error").and_then(message);
    if let Some(error) = error.filter(|_| state != "ready") {
        words += &format!(" ({error})");
    }
    if let Some(left) = number(snapshot, "/health/cooldown_ms").filter(|ms| *ms > 0) {
        words += &format!(", retrying in {}", time(left));
    }
    Some(row("health", &words))
}

fn queue(snapshot: &Value) -> String {
    let running = number(snapshot, "/queue/running").unwrap_or(0);
    let waiting = number(snapshot, "/queue/waiting").unwrap_or(0);
    let most = number(snapshot, "/queue/max_waiting").unwrap_or(0);
    row(
        "queue",
        &format!("{running} running, {waiting} of {most} waiting"),
    )
}

fn items(snapshot: &Value) -> Vec<String> {
    let items = snapshot.pointer("/queue/items").and_then(Value::as_array);
    let show = |item: &Value| {
        let id = text(item, "/id").unwrap_or("?");
        let app = text(item, "/app").unwrap_or("?");
        let phase = text(item, "/phase").unwrap_or("waiting");
        let age = number(item, "/age_ms").map_or_else(String::new, time);
        row("", &format!("{id}  {app}  {phase}  {age}"))
    };
    items.into_iter().flatten().map(show).collect()
}

fn pause(snapshot: &Value) -> Option<String> {
    let pause = snapshot.get("pause").filter(|pause| !pause.is_null())?;
    let until = number(pause, "/until_ms")
        .and_then(|ms| jiff::Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok());
    let words = until.map_or_else(
        || "until resumed".to_owned(),
        |until| {
            let until = until.to_zoned_datetime(jiff::tz::TimeZone::system());
            format!("until {}", until.strftime("%a %H:%M"))
        },
    );
    Some(row("paused", &words))
}

fn memory(snapshot: &Value) -> Option<String> {
    let level = text(snapshot, "/pressure/level")?;
    let mut words = level.to_owned();
    if let Some(cause) = snapshot.pointer("/pressure/cause").and_then(message) {
        words += &format!(" ({cause})");
    }
    let available = number(snapshot, "/pressure/ram/available");
    if let (Some(free), Some(total)) = (available, number(snapshot, "/pressure/ram/total")) {
        words += &format!(", RAM {} of {} available", size(free), size(total));
    }
    let cards = snapshot.pointer("/pressure/vram").and_then(Value::as_array);
    for card in cards.into_iter().flatten() {
        if let (Some(free), Some(total)) = (number(card, "/free"), number(card, "/total")) {
            let name = text(card, "/name").unwrap_or("a card");
            words += &format!(", VRAM {} of {} free on {name}", size(free), size(total));
        }
    }
    Some(row("memory", &words))
}

fn window(snapshot: &Value) -> Option<String> {
    let size = number(snapshot, "/window/size")?;
    let source = text(snapshot, "/window/source").unwrap_or("unknown");
    let counting = text(snapshot, "/window/counting").unwrap_or("unknown");
    Some(row(
        "window",
        &format!("{size} tokens ({source}), counted: {counting}"),
    ))
}

fn plan(snapshot: &Value) -> Option<String> {
    let ceiling = number(snapshot, "/plan/ceiling")?;
    let reason = match text(snapshot, "/plan/reason") {
        Some("waiting") => "requests are waiting",
        Some("pressure") => "memory is low",
        Some(_) | None => "of the preset",
    };
    Some(row(
        "answers",
        &format!("at most {ceiling} tokens, because {reason}"),
    ))
}

fn latency(snapshot: &Value) -> Option<String> {
    let show = |name: &str, path: &str| {
        let p50 = number(snapshot, &format!("/latency/{path}/p50"))?;
        let p95 = number(snapshot, &format!("/latency/{path}/p95"))?;
        Some(format!("{name} {}/{}", time(p50), time(p95)))
    };
    let parts = [
        show("wait", "wait"),
        show("first token", "first_token"),
        show("total", "total"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| {
        row(
            "latency",
            &format!("{} (median/95th percentile)", parts.join(", ")),
        )
    })
}

fn refused(snapshot: &Value) -> Vec<String> {
    let list = snapshot.get("refused_origins").and_then(Value::as_array);
    let show = |entry: &Value| {
        let kind = text(entry, "/kind").unwrap_or("origin");
        Some(row(
            "refused",
            &format!("{kind} {}", text(entry, "/value")?),
        ))
    };
    list.into_iter().flatten().filter_map(show).collect()
}

fn notices(snapshot: &Value) -> Vec<String> {
    let list = snapshot.get("notices").and_then(Value::as_array);
    let texts = list.into_iter().flatten().filter_map(message);
    texts.map(|text| row("note", &text)).collect()
}

/// A message in English.
fn message(value: &Value) -> Option<String> {
    Message::deserialize(value).ok().map(|one| one.to_string())
}

fn row(name: &str, words: &str) -> String {
    format!("{name:<8} {words}")
}

fn text<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    value.pointer(path).and_then(Value::as_str)
}

fn number(value: &Value, path: &str) -> Option<u64> {
    value.pointer(path).and_then(Value::as_u64)
}

/// Milliseconds as a person says them.
fn time(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1000),
    }
}

/// Bytes as a person says them.
fn size(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    let mib = bytes / MIB;
    if mib < 1024 {
        format!("{mib} MiB")
    } else {
        format!("{}.{} GiB", mib / 1024, mib % 1024 * 10 / 1024)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_block_shows_what_is_known() {
        let snapshot = json!({
            "seq": 41, "version": "0.1.0", "state": "busy",
            "upstream": {"base_url": "http://127.0.0.1:8080", "kind": "llama.cpp", "model": "smollm2",
                "process": {"pid": 7, "name": "llama-server", "resident": 419_430_400}},
            "queue": {"running": 1, "waiting": 1, "max_waiting": 4, "items": [
                {"id": "r1", "app": "zed", "position": 0, "phase": "prompt", "age_ms": 1234},
                {"id": "r2", "app": "cli", "position": 1, "phase": "waiting", "age_ms": 61_000}]},
            "health": {"state": "ready", "consecutive_failures": 0, "last_error": null, "cooldown_ms": 0},
            "latency": {"wait": {"p50": 1, "p95": 20}, "first_token": {"p50": null, "p95": null},
                "total": {"p50": 2500, "p95": 9000}},
            "pressure": {"level": "elevated", "cause": {"code": "ram_low", "params": {"available": "1.8 GiB", "total": "16.0 GiB", "percent": 11}}, "ram": {"total": 17_179_869_184_u64,
                "available": 1_932_735_283_u64}, "vram": []},
            "plan": {"rung": 1, "ceiling": 512, "reason": "waiting"},
            "window": {"size": 2048, "source": "loaded", "counting": "exact"},
            "pause": null, "refused_origins": [{"kind": "host", "value": "evil.example", "count": 2}],
            "notices": [{"code": "several_servers", "params": {"list": "a, b"}}], "recent": []
        });
        let want = "\
OneSlot  busy, version 0.1.0, http://127.0.0.1:11411
server   http://127.0.0.1:8080, llama.cpp, smollm2, llama-server (process 7, 400 MiB)
health   ready
queue    1 running, 1 of 4 waiting
         r1  zed  prompt  1.2 s
         r2  cli  waiting  1 min 1 s
memory   elevated (RAM available: 1.8 GiB of 16.0 GiB (11 %)), RAM 1.7 GiB of 16.0 GiB available
window   2048 tokens (loaded), counted: exact
answers  at most 512 tokens, because requests are waiting
latency  wait 1 ms/20 ms, total 2.5 s/9.0 s (median/95th percentile)
refused  host evil.example
note     Several model servers are running: a, b. OneSlot uses the first";
        assert_eq!(block(&snapshot, "http://127.0.0.1:11411"), want);
    }

    #[test]
    fn an_outage_and_a_pause_are_told() {
        let snapshot = json!({
            "state": "paused", "version": "0.1.0", "pause": {"until_ms": null},
            "health": {"state": "down", "consecutive_failures": 3, "last_error": {"code": "connection_refused", "params": {}}, "cooldown_ms": 2400}
        });
        let block = block(&snapshot, "http://127.0.0.1:1");
        assert!(
            block.contains(
                "health   down, 3 failures in a row (The model server is not running: the connection was refused), retrying in 2.4 s"
            ),
            "{block}"
        );
        assert!(block.contains("paused   until resumed"), "{block}");
    }

    #[test]
    fn a_snapshot_of_another_version_does_not_break_the_block() {
        for odd in [
            json!(null),
            json!({}),
            json!({"queue": [], "pause": 7, "health": "fine"}),
        ] {
            assert!(block(&odd, "").starts_with("OneSlot  unknown"), "{odd}");
        }
    }
}
