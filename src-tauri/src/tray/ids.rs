//! The names that rows have in the toolkit.

use crate::tray_face::{Action, Dialect, Span};

/// Every action and its name.
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

/// The action of that name.
pub(super) fn action(id: &str) -> Option<Action> {
    NAMES
        .iter()
        .find(|(_, name)| *name == id)
        .map(|(action, _)| *action)
}

/// The name of an action; lines are never pressed and share one.
pub(super) fn id(action: Action) -> &'static str {
    NAMES
        .iter()
        .find(|(known, _)| *known == action)
        .map_or("line", |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_leads_back_to_its_action() {
        for (known, name) in NAMES {
            assert_eq!(action(id(known)), Some(known), "{name}");
        }
        assert_eq!(action("line"), None, "a line asks for nothing");
    }
}
