//! The table of members as text: with every reason, or with the values in use.
//!
//! The long form is a configuration file that changes nothing, ready to be edited: its values are
//! comments, since a default that is set by hand would win over a preset.

use std::fmt::Write as _;

use super::Preset;
use super::load::{Loaded, Origin};
use super::members::{MEMBERS, Member};

/// Every member with default, unit, range, variable and reason, as TOML.
pub fn explain() -> String {
    let mut text = String::from(
        "# OneSlot's settings with their defaults. Take the # in front of a member away to set it.\n\
         # A variable of the environment wins over the file, a flag over both.\n",
    );
    let mut section = None;
    for member in MEMBERS {
        let (in_section, name) = member.place();
        text.push('\n');
        if in_section != section {
            section = in_section;
            let _ = writeln!(text, "[{}]", in_section.unwrap_or_default());
        }
        for line in wrapped(member.reason) {
            let _ = writeln!(text, "# {line}");
        }
        let _ = writeln!(text, "# Takes {}.", takes(member));
        if let Some(strict) = strict(member) {
            let _ = writeln!(text, "# Preset strict: {strict}.");
        }
        let _ = writeln!(text, "# Variable: {}.", member.variable());
        let _ = writeln!(text, "#{name} = {}", member.default(Preset::Balanced));
    }
    text
}

/// Every member with the value in use and where it came from.
pub fn in_use(loaded: &Loaded) -> String {
    let width = MEMBERS
        .iter()
        .map(|member| member.path.len())
        .max()
        .unwrap_or_default();
    let mut text = String::new();
    for member in MEMBERS {
        let value = member.read(&loaded.settings).to_string();
        let from = match loaded.origin(member.path) {
            Origin::Default => "default".to_owned(),
            Origin::Preset => "preset".to_owned(),
            Origin::Given(place) => place.to_string(),
        };
        let _ = writeln!(text, "{:width$} = {value}  # {from}", member.path);
    }
    text
}

fn takes(member: &Member) -> String {
    match member.unit.name() {
        "" => member.kind.expected(),
        unit => format!("{}, in {unit}", member.kind.expected()),
    }
}

fn strict(member: &Member) -> Option<String> {
    let strict = member.default(Preset::Strict);
    (member.path != "preset" && strict != member.default(Preset::Balanced))
        .then(|| strict.to_string())
}

/// Words in lines of at most 90 characters.
fn wrapped(words: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + word.len() < 90 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
