//! Members set outside the file: by variables of the environment and by flags.

use super::fault::{Fault, Notice, Place};
use super::file::{Given, Parsed};
use super::load::Sources;
use super::members::{self, PREFIX};

/// The article's own variables, read below `ONESLOT_…`.
const ARTICLE: [(&str, &str); 3] = [
    ("LLM_BASE_URL", "upstream.base_url"),
    ("LLM_MODEL", "upstream.model"),
    ("LLM_N_CTX", "window.context"),
];

/// Variables that begin with the prefix and name places instead of members.
const PLACES: [&str; 2] = ["ONESLOT_CONFIG", "ONESLOT_STATE"];

impl Sources {
    pub(super) fn article(&self) -> Parsed {
        let mut parsed = Parsed::default();
        for (name, path) in ARTICLE {
            let text = self
                .variables
                .iter()
                .find(|(given, _)| given == name)
                .map(|(_, text)| text);
            // Other programs read these too; an empty one is as good as none.
            if let Some(text) = text.filter(|text| !text.trim().is_empty()) {
                parse_text(path, text, Place::Variable(name.to_owned()), &mut parsed);
            }
        }
        parsed
    }

    pub(super) fn environment(&self) -> Parsed {
        let mut parsed = Parsed::default();
        for (name, text) in &self.variables {
            let Some(rest) = name.strip_prefix(PREFIX) else {
                continue;
            };
            if PLACES.contains(&name.as_str()) {
                continue;
            }
            let path = rest.to_ascii_lowercase().replace("__", ".");
            parse_text(&path, text, Place::Variable(name.clone()), &mut parsed);
        }
        parsed
    }

    pub(super) fn command_line(&self) -> Parsed {
        let mut parsed = Parsed::default();
        for flag in &self.flags {
            parse_text(flag.member, &flag.text, Place::Flag(flag.name), &mut parsed);
        }
        parsed
    }
}

fn parse_text(path: &str, text: &str, place: Place, parsed: &mut Parsed) {
    let Some(member) = members::find(path) else {
        let nearest = members::nearest(path);
        parsed.notices.push(Notice::Unknown {
            place,
            name: path.to_owned(),
            nearest,
        });
        return;
    };
    match member.kind.from_text(text) {
        Ok(value) => parsed.given.push(Given {
            member,
            value,
            place,
        }),
        Err(found) => parsed.faults.push(Fault::Value {
            place,
            member: member.path,
            found,
            expected: member.kind.expected(),
        }),
    }
}
