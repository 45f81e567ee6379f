//! The names that rows have in the toolkit.

use crate::tray_face::{Action, Dialect, Span};

/// Every wish and its name.
const NAMES: [(Action, &str); 21] = [
    (Action::Status, "status"),
    (Action::Memory, "memory"),
    (Action::Open, "open"),
    (Action::Pause(Span::Quarter), "pause.15m"),
    (Action::Pause(Span::Hour), "pause.1h"),
    (Action::Pause(Span::Tomorrow), "pause.tomorrow"),
    (Action::Pause(Span::Open), "pause.open"),
    (Action::PauseFor, "pause.for"),
    (Action::Resume, "resume"),
    (Action::Check, "check"),
    (Action::Stop, "stop"),
    (Action::Unload, "unload"),
    (Action::CopyFor, "copy.for"),
    (Action::Copy(Dialect::OpenAi), "copy.openai"),
    (Action::Copy(Dialect::Ollama), "copy.ollama"),
    (Action::Copy(Dialect::Anthropic), "copy.anthropic"),
    (Action::Login, "login"),
    (Action::Logs, "logs"),
    (Action::Quit, "quit"),
    (Action::Line(0), "line.0"),
    (Action::Line(1), "line.1"),
];

/// The wish of that name.
pub(super) fn wish(id: &str) -> Option<Action> {
    NAMES
        .iter()
        .find(|(_, name)| *name == id)
        .map(|(wish, _)| *wish)
}

/// The name of a wish; lines are never pressed and share one.
pub(super) fn id(wish: Action) -> &'static str {
    NAMES
        .iter()
        .find(|(known, _)| *known == wish)
        .map_or("line", |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_leads_back_to_its_wish() {
        for (known, name) in NAMES {
            assert_eq!(wish(id(known)), Some(known), "{name}");
        }
        assert_eq!(wish("line"), None, "a line asks for nothing");
    }
}
