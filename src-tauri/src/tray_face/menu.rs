//! The rows of the menu. What stands in it depends on the state; the order never does.

use http::Method;
use oneslot::http::router::{Admin, Target};
use oneslot::telemetry::snapshot::Face;

use super::seen::{Login, Seen, Whose};
use super::status_text::{memory, minutes};

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What pressing it asks for; also its name among the rows.
    pub action: Action,
    /// What it looks like.
    pub kind: Kind,
    /// Its text.
    pub text: String,
}

/// What a row looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Words that cannot be pressed.
    Words,
    /// A row to press.
    Press,
    /// A row to press that does nothing now.
    Resting,
    /// A row with a tick.
    Tick(Login),
    /// A row with rows of its own.
    Rows(Vec<Row>),
    /// A line between rows; it has no text.
    Line,
}

/// What a person asks for by a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Nothing: it is the state in words.
    Status,
    /// Nothing: it is memory in words.
    Memory,
    /// Show the panel.
    Open,
    /// Pause for that long.
    Pause(Span),
    /// Nothing: it holds the lengths of a pause.
    PauseFor,
    /// Resume.
    Resume,
    /// Look for the server at once.
    Check,
    /// Stop the answers that run.
    Stop,
    /// Unload the model.
    Unload,
    /// Nothing: it holds the base URLs.
    CopyFor,
    /// Copy the base URL for clients that speak this.
    Copy(Dialect),
    /// Start at login, or not any more.
    Login,
    /// Open the folder with the logs.
    Logs,
    /// End the program.
    Quit,
    /// Nothing: it is the line with this number.
    Line(u8),
}

/// How long a pause lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Span {
    /// Fifteen minutes.
    Quarter,
    /// An hour.
    Hour,
    /// Until 08:00 of the next day, local time.
    Tomorrow,
    /// Until a person resumes.
    Open,
}

/// What a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// OpenAI's API.
    OpenAi,
    /// Ollama's own.
    Ollama,
    /// Anthropic's.
    Anthropic,
}

const DIALECTS: [Dialect; 3] = [Dialect::OpenAi, Dialect::Ollama, Dialect::Anthropic];

/// All rows; `status` is the first one's text.
pub(super) fn rows(seen: &Seen<'_>, status: &str) -> Vec<Row> {
    let snapshot = seen.snapshot;
    let serves = snapshot.state != Face::NotServing;
    let mut rows = vec![
        row(Action::Status, Kind::Words, status.to_owned()),
        row(Action::Memory, Kind::Words, memory(seen)),
        line(0),
        press(seen, Action::Open, "menu.open"),
        line(1),
    ];
    if serves {
        rows.extend(pauses(seen));
        if matches!(snapshot.state, Face::Cooling | Face::Down | Face::NoServer) {
            rows.push(press(seen, Action::Check, "menu.check"));
        }
        let active = if snapshot.queue.running > 0 {
            Kind::Press
        } else {
            Kind::Resting
        };
        rows.push(row(Action::Stop, active, seen.say("menu.stop", &[])));
        let loaded = if snapshot.upstream.model.is_some() {
            Kind::Press
        } else {
            Kind::Resting
        };
        rows.push(row(Action::Unload, loaded, seen.say("menu.unload", &[])));
        rows.push(copies(seen));
        rows.push(line(2));
    }
    let login = Kind::Tick(seen.login);
    rows.push(row(Action::Login, login, seen.say("menu.login", &[])));
    rows.push(press(seen, Action::Logs, "menu.logs"));
    rows.push(row(Action::Quit, Kind::Press, quit(seen)));
    rows
}

/// Pausing takes two clicks: one on the icon, one on a row. Its lengths are one step further.
fn pauses(seen: &Seen<'_>) -> Vec<Row> {
    let Some(pause) = seen.snapshot.pause else {
        let spans = [
            (Span::Quarter, "menu.pause.15m"),
            (Span::Hour, "menu.pause.1h"),
            (Span::Tomorrow, "menu.pause.tomorrow"),
        ];
        let spans = spans.map(|(span, key)| press(seen, Action::Pause(span), key));
        return vec![
            press(seen, Action::Pause(Span::Open), "menu.pause.open"),
            row(
                Action::PauseFor,
                Kind::Rows(spans.into()),
                seen.say("menu.pause.for", &[]),
            ),
        ];
    };
    let text = match pause.until_ms {
        None => seen.say("menu.resume", &[]),
        Some(until) => {
            let left = minutes(until.saturating_sub(seen.snapshot.now_ms));
            seen.say("menu.resume.left", &[("time", &left)])
        }
    };
    vec![row(Action::Resume, Kind::Press, text)]
}

/// A dialect has a row when the gateway serves it in front of this server.
fn copies(seen: &Seen<'_>) -> Row {
    let served = DIALECTS
        .into_iter()
        .filter(|dialect| dialect.is_served(seen));
    let rows = served
        .map(|dialect| press(seen, Action::Copy(dialect), dialect.key()))
        .collect();
    row(
        Action::CopyFor,
        Kind::Rows(rows),
        seen.say("menu.copy", &[]),
    )
}

fn quit(seen: &Seen<'_>) -> String {
    let queue = &seen.snapshot.queue;
    let n = queue.running + queue.waiting;
    match seen.gateway {
        Whose::Daemon => seen.say("menu.quit.daemon", &[]),
        Whose::Own if n > 0 => seen.say("menu.quit.busy", &[("n", &n.to_string())]),
        Whose::Own => seen.say("menu.quit", &[]),
    }
}

fn press(seen: &Seen<'_>, action: Action, key: &str) -> Row {
    row(action, Kind::Press, seen.say(key, &[]))
}

fn row(action: Action, kind: Kind, text: String) -> Row {
    Row { action, kind, text }
}

fn line(number: u8) -> Row {
    row(Action::Line(number), Kind::Line, String::new())
}

impl Dialect {
    /// What it is appended to the address that clients of this kind are given.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::OpenAi => "/v1",
            Self::Ollama | Self::Anthropic => "",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::OpenAi => "menu.copy.openai",
            Self::Ollama => "menu.copy.ollama",
            Self::Anthropic => "menu.copy.anthropic",
        }
    }

    fn is_served(self, seen: &Seen<'_>) -> bool {
        let path = match self {
            Self::OpenAi => "/v1/chat/completions",
            Self::Ollama => "/api/chat",
            Self::Anthropic => "/v1/messages",
        };
        let routed = Target::of(path)
            .resolve(&Method::POST, None, Admin::Blocked)
            .is_ok();
        let kind = seen.snapshot.upstream.kind.as_deref();
        routed
            && match self {
                Self::OpenAi => true,
                Self::Ollama => kind == Some("Ollama"),
                Self::Anthropic => matches!(kind, Some("Ollama" | "llama.cpp" | "LM Studio")),
            }
    }
}
