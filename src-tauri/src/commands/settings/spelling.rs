//! A setting as the panel spells it: what it takes, what it is, and who set it.

use oneslot::config::{self, Loaded, Location};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What a member takes.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Kind {
    /// True or false.
    Bool,
    /// A whole number in a range.
    Whole {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// One of these numbers.
    Number {
        /// The numbers.
        of: Vec<u64>,
    },
    /// One of these words.
    Word {
        /// The words.
        of: Vec<String>,
    },
    /// `auto` or a whole number in a range.
    AutoOr {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// Any text.
    Text,
    /// A credential.
    Secret,
    /// `auto` or the URL of a server.
    Server,
    /// Addresses with ports.
    Addresses,
    /// Host names.
    Hosts,
    /// Web origins.
    Origins,
    /// Named keys.
    Keys,
}

/// In what a member counts.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[cfg_attr(test, ts(type = "\"\" | \"ms\" | \"s\" | \"tokens\" | \"requests\""))]
pub struct Unit(String);

/// A value as it would be written. A credential that is set is `{hidden: true}`, never its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(untagged)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Whole(u64),
    /// Text.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
    /// A credential that is set.
    Hidden {
        /// Always true.
        #[cfg_attr(test, ts(type = "true"))]
        hidden: bool,
    },
}

/// Who set a member. `variable` and `flag` win over the file, so the panel cannot change them.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum Origin {
    /// No one.
    Default,
    /// The preset.
    Preset,
    /// The file.
    File {
        /// File and line.
        place: String,
    },
    /// The environment.
    Variable {
        /// The variable.
        place: String,
    },
    /// The command line.
    Flag {
        /// The flag.
        place: String,
    },
}

/// One setting.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Member {
    path: String,
    kind: Kind,
    unit: Unit,
    reason: String,
    value: Value,
    default: Value,
    origin: Origin,
}

impl Member {
    pub(super) fn of(member: &config::Member, loaded: &Loaded) -> Self {
        let preset = loaded.settings.preset;
        Self {
            path: member.path.clone(),
            kind: Kind::of(&member.kind),
            unit: Unit(member.unit.clone()),
            reason: reason(member),
            value: Value::of(&member.kind, member.read(&loaded.settings)),
            default: Value::of(&member.kind, member.default(preset)),
            origin: match loaded.origin(&member.path) {
                config::Origin::Default => Origin::Default,
                config::Origin::Preset => Origin::Preset,
                config::Origin::Given(at @ Location::File { .. }) => Origin::File {
                    place: at.to_string(),
                },
                config::Origin::Given(Location::Variable(name)) => Origin::Variable { place: name },
                config::Origin::Given(Location::Flag(name)) => Origin::Flag {
                    place: name.to_owned(),
                },
            },
        }
    }
}

/// Its text, with that of each choice.
fn reason(member: &config::Member) -> String {
    let choices = member.choices.iter();
    choices.fold(member.text.clone(), |text, (word, meaning)| {
        format!("{text} {word}: {meaning}")
    })
}

impl Kind {
    fn of(kind: &config::Kind) -> Self {
        match kind {
            config::Kind::Bool => Self::Bool,
            config::Kind::Whole(min, max) => Self::Whole {
                min: *min,
                max: *max,
            },
            config::Kind::Number(of) => Self::Number { of: of.clone() },
            config::Kind::Word(of) => Self::Word { of: of.clone() },
            config::Kind::AutoOr(min, max) => Self::AutoOr {
                min: *min,
                max: *max,
            },
            config::Kind::Text => Self::Text,
            config::Kind::Secret => Self::Secret,
            config::Kind::Server => Self::Server,
            config::Kind::Addresses => Self::Addresses,
            config::Kind::Hosts => Self::Hosts,
            config::Kind::Origins => Self::Origins,
            config::Kind::Keys => Self::Keys,
        }
    }
}

impl Value {
    fn of(kind: &config::Kind, value: serde_json::Value) -> Self {
        // Of keys only the names are shown, of a credential only that it is set.
        let value = match kind {
            config::Kind::Secret if value != "" => return Self::Hidden { hidden: true },
            config::Kind::Keys => value
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|key| key.get("name").cloned())
                .collect(),
            _ => value,
        };
        serde_json::from_value(value).unwrap_or_else(|_| Self::Text(String::new()))
    }

    pub(super) fn into_json(self) -> Result<serde_json::Value, &'static str> {
        Ok(match self {
            Self::Bool(value) => json!(value),
            Self::Whole(number) => json!(number),
            Self::Text(text) => json!(text),
            Self::List(texts) => json!(texts),
            Self::Hidden { .. } => return Err("a hidden value cannot be written"),
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// Renew with `ONESLOT_RENEW=1 cargo test -p oneslot-tray --lib spelling`, then format it.
    #[test]
    fn the_panels_fake_host_has_the_real_settings() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../ui/src/host/fake/members.json"
        );
        let loaded = config::Sources::default().load().unwrap();
        let members = config::MEMBERS.iter().map(|member| {
            let mut member = serde_json::to_value(Member::of(member, &loaded)).unwrap();
            let fields = member.as_object_mut().unwrap();
            fields.remove("value");
            fields.remove("origin");
            member
        });
        let members: Vec<serde_json::Value> = members.collect();
        if std::env::var_os("ONESLOT_RENEW").is_some() {
            std::fs::write(path, serde_json::to_string_pretty(&members).unwrap()).unwrap();
        }
        let kept: Vec<serde_json::Value> =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert!(
            kept == members,
            "ui/src/host/fake/members.json is stale; renew it with \
             `ONESLOT_RENEW=1 cargo test -p oneslot-tray --lib spelling`"
        );
    }
}
