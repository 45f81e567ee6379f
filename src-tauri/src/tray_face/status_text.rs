//! What is going on, in one sentence; memory in another. The panel says the same words.

use jiff::Timestamp;
use oneslot::telemetry::plain;
use oneslot::telemetry::snapshot::{Face, Item, Level, Phase, Snapshot};

use super::seen::Seen;

/// The notice of a daemon that has ended, and is waited for.
pub const DAEMON_GONE: &str = "daemon_gone";

/// Letters of a name that an app or server chose. Windows cuts a tooltip at 127.
const NAME_LETTERS: usize = 28;

/// The state, who waits, and when it is tried again.
pub(super) fn status(seen: &Seen<'_>) -> String {
    let mut said = vec![state(seen)];
    let snapshot = seen.snapshot;
    if snapshot.queue.waiting > 0 {
        let n = snapshot.queue.waiting.to_string();
        said.push(seen.say("waiting", &[("n", &n)]));
    }
    if snapshot.state == Face::Cooling && snapshot.health.cooldown_ms > 0 {
        let time = ticking(snapshot.health.cooldown_ms);
        said.push(seen.say("retry.in", &[("time", &time)]));
    }
    said.join(" · ")
}

fn state(seen: &Seen<'_>) -> String {
    let snapshot = seen.snapshot;
    let server = named(snapshot.upstream.kind.as_deref(), seen, "some.server");
    match snapshot.state {
        Face::Starting => seen.say("face.starting", &[]),
        Face::Ready => seen.say("face.ready", &[]),
        Face::Busy | Face::Waiting => working(seen),
        Face::Degraded if snapshot.pressure.level == Level::Critical => {
            seen.say("face.degraded.critical", &[])
        }
        Face::Degraded => seen.say("face.degraded", &[]),
        Face::Loading => {
            let loads = in_slot(seen).find(|item| item.phase == Phase::Loading);
            let model = loads.and_then(|item| item.model.as_deref());
            let model = model.or(snapshot.upstream.model.as_deref());
            seen.say(
                "face.loading",
                &[("model", &named(model, seen, "some.model"))],
            )
        }
        Face::Cooling => seen.say("face.cooling", &[("server", &server)]),
        Face::Down => seen.say("face.down", &[("server", &server)]),
        Face::Paused => match snapshot.pause.and_then(|pause| pause.until_ms) {
            None => seen.say("face.paused.open", &[]),
            Some(until) => seen.say("face.paused.until", &[("time", &clock(seen, until))]),
        },
        Face::NoServer => seen.say("face.no_server", &[]),
        Face::NotServing => seen.say(why_not_serving(snapshot), &[]),
    }
}

/// Whether a gateway that does not serve has only its port in the way.
pub fn is_port_taken(snapshot: &Snapshot) -> bool {
    let mut notices = snapshot.notices.iter();
    notices.any(|notice| matches!(notice.code.as_str(), "port_taken" | "port_taken_unknown"))
}

/// Whether this was the face of a daemon that has ended.
pub fn is_daemon_gone(snapshot: &Snapshot) -> bool {
    let mut notices = snapshot.notices.iter();
    notices.any(|notice| notice.code == DAEMON_GONE)
}

fn why_not_serving(snapshot: &Snapshot) -> &'static str {
    let mut notices = snapshot.notices.iter();
    if is_port_taken(snapshot) {
        "face.not_serving"
    } else if is_daemon_gone(snapshot) {
        "face.not_serving.daemon"
    } else if notices.any(|notice| notice.code == "port_refused") {
        "face.not_serving.refused"
    } else {
        "face.not_serving.failed"
    }
}

fn working(seen: &Seen<'_>) -> String {
    let running = in_slot(seen).count();
    let Some(first) = in_slot(seen).next() else {
        let app = seen.say("some.app", &[]);
        return seen.say("face.busy.waiting", &[("app", &app)]);
    };
    if running > 1 {
        return seen.say("face.busy.many", &[("n", &running.to_string())]);
    }
    let app = named(first.app.as_deref(), seen, "some.app");
    let model = first.model.as_deref();
    let model = model.or(seen.snapshot.upstream.model.as_deref());
    let model = named(model, seen, "some.model");
    let key = match first.phase {
        Phase::Waiting => "face.busy.waiting",
        Phase::Loading => "face.busy.loading",
        Phase::Prompt => "face.busy.prompt",
        Phase::Answer => "face.busy.answer",
        Phase::Settling => "face.busy.settling",
    };
    seen.say(key, &[("app", &app), ("model", &model)])
}

fn in_slot<'a>(seen: &Seen<'a>) -> impl Iterator<Item = &'a Item> {
    let items = &seen.snapshot.queue.items;
    items.iter().filter(|item| item.position == 0)
}

/// How much memory is in use, and whether that is much.
pub(super) fn memory(seen: &Seen<'_>) -> String {
    let pressure = &seen.snapshot.pressure;
    let (Some(total), Some(available)) = (pressure.ram.total, pressure.ram.available) else {
        return seen.say("memory.unknown", &[]);
    };
    let level = seen.say(
        match pressure.level {
            Level::Normal => "level.normal",
            Level::Elevated => "level.elevated",
            Level::High => "level.high",
            Level::Critical => "level.critical",
        },
        &[],
    );
    let used = gigabytes(total.saturating_sub(available));
    let total = gigabytes(total);
    seen.say(
        "memory.line",
        &[("level", &level), ("used", &used), ("total", &total)],
    )
}

/// A countdown, rounded up: `0:42`, `12:05`, `1:02:05`.
pub(super) fn ticking(ms: u64) -> String {
    let seconds = ms.div_ceil(1000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours == 0 {
        format!("{minutes}:{seconds:02}")
    } else {
        format!("{hours}:{minutes:02}:{seconds:02}")
    }
}

/// Hours and minutes, rounded up to minutes, so that the text changes once a minute: `0:15`.
pub(super) fn minutes(ms: u64) -> String {
    let minutes = ms.div_ceil(60_000);
    format!("{}:{:02}", minutes / 60, minutes % 60)
}

/// The time of day; with the day where it is not today.
fn clock(seen: &Seen<'_>, unix_ms: u64) -> String {
    let at = |ms: u64| {
        let timestamp = Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok()?;
        Some(timestamp.to_zoned_datetime(seen.zone.clone()))
    };
    let (Some(then), Some(now)) = (at(unix_ms), at(seen.snapshot.now_ms)) else {
        return String::new();
    };
    if then.date() == now.date() {
        then.strftime("%H:%M").to_string()
    } else {
        then.strftime("%m-%d %H:%M").to_string()
    }
}

fn named(name: Option<&str>, seen: &Seen<'_>, unnamed: &str) -> String {
    name.map_or_else(|| seen.say(unnamed, &[]), shortened)
}

/// A name that can be shown, cut in the middle, so that both its ends stay readable.
fn shortened(name: &str) -> String {
    // Some desktops read marks in a tooltip.
    let name = plain(name).replace('<', "‹").replace('>', "›");
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= NAME_LETTERS {
        return name;
    }
    let head = NAME_LETTERS * 3 / 5;
    let tail = letters.len() - (NAME_LETTERS - 1 - head);
    let part = |letters: Option<&[char]>| letters.unwrap_or_default().iter().collect::<String>();
    format!(
        "{}…{}",
        part(letters.get(..head)),
        part(letters.get(tail..))
    )
}

/// Units of 2³⁰ bytes with one decimal; that is what the panel calls GB as well.
fn gigabytes(bytes: u64) -> String {
    let tenths = (bytes.saturating_mul(10) + (1 << 29)) >> 30;
    format!("{}.{}", tenths / 10, tenths % 10)
}
