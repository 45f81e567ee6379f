//! A setting as the panel spells it: what it takes, what it is, and who set it.

use oneslot::config::{self, Loaded, Place};
use serde::{Deserialize, Serialize};

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
#[cfg_attr(
    test,
    ts(
        type = "\"\" | \"ms\" | \"s\" | \"bytes\" | \"MiB\" | \"percent\" | \"tokens\" | \"requests\" | \"readings\" | \"connections\""
    )
)]
pub struct Unit(&'static str);

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
        let place = |place: &Place| place.to_string();
        Self {
            path: member.path.to_owned(),
            kind: Kind::of(member.kind),
            unit: Unit(member.unit.name()),
            reason: member.reason.to_owned(),
            value: Value::of(member.read(&loaded.settings)),
            default: Value::of(member.default(loaded.settings.preset)),
            origin: match loaded.origin(member.path) {
                config::Origin::Default => Origin::Default,
                config::Origin::Preset => Origin::Preset,
                config::Origin::Given(at @ Place::File { .. }) => {
                    Origin::File { place: place(&at) }
                }
                config::Origin::Given(Place::Variable(name)) => Origin::Variable { place: name },
                config::Origin::Given(Place::Flag(name)) => Origin::Flag {
                    place: name.to_owned(),
                },
            },
        }
    }
}

impl Kind {
    fn of(kind: config::Kind) -> Self {
        match kind {
            config::Kind::Bool => Self::Bool,
            config::Kind::Whole(min, max) => Self::Whole { min, max },
            config::Kind::Number(of) => Self::Number { of: of.to_vec() },
            config::Kind::Word(of) => Self::Word {
                of: of.iter().map(ToString::to_string).collect(),
            },
            config::Kind::AutoOr(min, max) => Self::AutoOr { min, max },
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
    fn of(value: config::Value) -> Self {
        match value {
            config::Value::Bool(value) => Self::Bool(value),
            config::Value::Whole(number) => Self::Whole(number),
            config::Value::Text(text) => Self::Text(text),
            config::Value::List(texts) => Self::List(texts),
            // Their digests are nobody's reading.
            config::Value::Keys(keys) => Self::List(keys.into_iter().map(|key| key.name).collect()),
            config::Value::Hidden => Self::Hidden { hidden: true },
        }
    }

    pub(super) fn into_written(self) -> Result<config::Value, &'static str> {
        Ok(match self {
            Self::Bool(value) => config::Value::Bool(value),
            Self::Whole(number) => config::Value::Whole(number),
            Self::Text(text) => config::Value::Text(text),
            Self::List(texts) => config::Value::List(texts),
            Self::Hidden { .. } => return Err("a hidden value cannot be written"),
        })
    }
}
