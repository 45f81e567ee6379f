//! The list of settings as text: a file to start from, a page of documentation, or the values in
//! use.
//!
//! The file changes nothing: its values are comments, since a default that is set by hand would
//! win over a preset.

use std::fmt::Write as _;

use super::load::{Loaded, Origin};
use super::schema::{Kind, MEMBERS, Member};
use super::values::toml;
use super::{Location, Preset};

/// Every setting with text, range, default and variable, as TOML.
pub fn explain() -> String {
    let mut text = String::from(
        "# OneSlot's settings with their defaults. Remove the # in front of a setting to set it.\n\
         # An environment variable wins over the file, a flag over both.\n",
    );
    let mut section = None;
    for member in MEMBERS.iter() {
        let (in_section, name) = member.section();
        text.push('\n');
        if in_section != section {
            section = in_section;
            let _ = writeln!(text, "[{}]", in_section.unwrap_or_default());
        }
        comment(&mut text, &member.text);
        for (word, meaning) in &member.choices {
            comment(&mut text, &format!("{word:?}: {meaning}"));
        }
        if member.choices.is_empty() {
            comment(&mut text, &format!("Takes {}.", takes(member)));
        }
        if let Some(strict) = strict(member) {
            comment(&mut text, &format!("Preset strict: {strict}."));
        }
        comment(&mut text, &format!("Variable: {}.", member.variable()));
        let default = toml(&member.default(Preset::Balanced));
        let _ = writeln!(text, "#{name} = {default}");
    }
    text
}

/// The same as `docs/settings.md`.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Settings\n\n\
         Generated from the doc comments in `src/config/settings.rs`; a test says how to renew it.\n\n\
         One TOML file; `oneslotd config --path` prints where it is. An environment variable wins \
         over the file, a flag over both. `oneslotd config` shows the values in use and where each \
         came from, `oneslotd config --check` what is wrong with them. A changed file is loaded at \
         once; while it has a fault, the last good settings stay in use.\n",
    );
    let mut section = None;
    for member in MEMBERS.iter() {
        let (in_section, _) = member.section();
        if in_section != section {
            section = in_section;
            let _ = writeln!(text, "\n## `[{}]`", in_section.unwrap_or_default());
        }
        let default = toml(&member.default(Preset::Balanced));
        let _ = writeln!(text, "\n### `{}`\n\n{}\n", member.path, member.text);
        for (word, meaning) in &member.choices {
            let _ = writeln!(text, "- `{word:?}`: {meaning}");
        }
        if member.choices.is_empty() {
            let _ = writeln!(text, "- Takes {}.", takes(member));
        }
        let strict = strict(member).map_or(String::new(), |strict| {
            format!("; `{strict}` with preset strict")
        });
        let _ = writeln!(text, "- Default: `{default}`{strict}.");
        let _ = writeln!(text, "- Variable: `{}`.", member.variable());
    }
    text
}

/// Every setting with the value in use and where it came from.
pub fn in_use(loaded: &Loaded) -> String {
    let width = MEMBERS.iter().map(|member| member.path.len()).max();
    let width = width.unwrap_or_default();
    let mut text = String::new();
    for member in MEMBERS.iter() {
        let value = toml(&member.read(&loaded.settings));
        let origin = match loaded.origin(&member.path) {
            Origin::Default => "default".to_owned(),
            Origin::Preset => "preset".to_owned(),
            Origin::Given(Location::Variable(name)) => format!("environment {name}"),
            Origin::Given(Location::Flag(name)) => format!("flag {name}"),
            Origin::Given(location @ Location::File { .. }) => location.to_string(),
        };
        let _ = writeln!(text, "{:width$} = {value}  # {origin}", member.path);
    }
    text
}

fn takes(member: &Member) -> String {
    let unit = match member.unit.as_str() {
        "s" => "seconds",
        "ms" => "milliseconds",
        other => other,
    };
    match (&member.kind, unit) {
        (kind, "") => kind.expected(),
        (Kind::Whole(min, max), unit) => format!("{min} to {max} {unit}"),
        (kind, unit) => format!("{}, in {unit}", kind.expected()),
    }
}

fn strict(member: &Member) -> Option<String> {
    let strict = member.default(Preset::Strict);
    let differs = member.path != "preset" && strict != member.default(Preset::Balanced);
    differs.then(|| toml(&strict).to_string())
}

/// Appends words as comment lines of at most 90 characters.
fn comment(text: &mut String, words: &str) {
    let mut length = usize::MAX;
    for word in words.split_whitespace() {
        if length.saturating_add(word.len()) >= 90 {
            text.push_str(if length == usize::MAX { "#" } else { "\n#" });
            length = 0;
        }
        text.push(' ');
        text.push_str(word);
        length += word.len() + 1;
    }
    text.push('\n');
}
