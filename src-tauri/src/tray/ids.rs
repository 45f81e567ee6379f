//! The names that rows have in the toolkit.

use crate::face::{Dialect, Span, Wish};

/// Every wish and its name.
const NAMES: [(Wish, &str); 21] = [
    (Wish::Status, "status"),
    (Wish::Memory, "memory"),
    (Wish::Open, "open"),
    (Wish::Pause(Span::Quarter), "pause.15m"),
    (Wish::Pause(Span::Hour), "pause.1h"),
    (Wish::Pause(Span::Tomorrow), "pause.tomorrow"),
    (Wish::Pause(Span::Open), "pause.open"),
    (Wish::PauseFor, "pause.for"),
    (Wish::Resume, "resume"),
    (Wish::Check, "check"),
    (Wish::Stop, "stop"),
    (Wish::Unload, "unload"),
    (Wish::CopyFor, "copy.for"),
    (Wish::Copy(Dialect::OpenAi), "copy.openai"),
    (Wish::Copy(Dialect::Ollama), "copy.ollama"),
    (Wish::Copy(Dialect::Anthropic), "copy.anthropic"),
    (Wish::Login, "login"),
    (Wish::Logs, "logs"),
    (Wish::Quit, "quit"),
    (Wish::Line(0), "line.0"),
    (Wish::Line(1), "line.1"),
];

/// The wish of that name.
pub(super) fn wish(id: &str) -> Option<Wish> {
    NAMES
        .iter()
        .find(|(_, name)| *name == id)
        .map(|(wish, _)| *wish)
}

/// The name of a wish; lines are never pressed and share one.
pub(super) fn id(wish: Wish) -> &'static str {
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
