//! The list of all settings with path, type, range, unit and text, read from the JSON schema of
//! [`Settings`].
//!
//! Range checks, environment variables, `oneslotd config --explain`, `docs/settings.md` and the
//! panel work from this list.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::{Preset, Settings};

/// One setting.
#[derive(Debug)]
pub struct Member {
    /// Its path in the file, such as `queue.max_waiting`.
    pub path: String,
    /// What values it takes.
    pub kind: Kind,
    /// `s`, `ms`, `tokens` or `requests`; empty where it counts in nothing.
    pub unit: String,
    /// What it does and why its default is what it is.
    pub text: String,
    /// The text of each choice, where it is one.
    pub choices: Vec<(String, String)>,
}

/// What values a setting takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number in this range, both ends included.
    Whole(u64, u64),
    /// One of these numbers.
    Number(Vec<u64>),
    /// One of these words.
    Word(Vec<String>),
    /// `"auto"` or a whole number in this range.
    AutoOr(u64, u64),
    /// Any text.
    Text,
    /// A credential, which no message repeats.
    Secret,
    /// `"auto"` or the URL of a server; no message repeats it, since it may hold a password.
    Server,
    /// Addresses with ports.
    Addresses,
    /// Host names.
    Hosts,
    /// Web origins.
    Origins,
    /// Named API keys.
    Keys,
}

/// What the name of every environment variable begins with.
pub(super) const PREFIX: &str = "ONESLOT_";

/// Every setting, in the order of the file.
pub static MEMBERS: LazyLock<Vec<Member>> = LazyLock::new(|| {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<Settings>();
    let mut members = Vec::new();
    for (name, section) in fields(schema.as_value()) {
        if section.get("properties").is_none() {
            members.push(Member::new(name.to_owned(), section));
        }
        for (inner, field) in fields(section) {
            members.push(Member::new(format!("{name}.{inner}"), field));
        }
    }
    members
});

/// The fields of a struct in the order of its declaration, which is that of `required`.
fn fields(schema: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let names = schema["required"].as_array().into_iter().flatten();
    names.filter_map(|name| Some((name.as_str()?, schema["properties"].get(name.as_str()?)?)))
}

impl Member {
    fn new(path: String, schema: &Value) -> Self {
        let text = |value: &Value| {
            let text = value.as_str().unwrap_or_default();
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let choices = schema["oneOf"].as_array().into_iter().flatten();
        let choices: Vec<_> = choices
            .map(|choice| (text(&choice["const"]), text(&choice["description"])))
            .collect();
        let unit = match schema["unit"].as_str() {
            Some(unit) => unit,
            None if path.ends_with("_ms") => "ms",
            None if path.ends_with("_s") => "s",
            None => "",
        };
        Self {
            kind: Kind::of(schema, &choices),
            unit: unit.to_owned(),
            text: text(&schema["description"]),
            choices,
            path,
        }
    }

    /// Its value in `settings`, as the file would have it. A credential is never shown.
    pub fn read(&self, settings: &Settings) -> Value {
        let tree = serde_json::to_value(settings).unwrap_or_default();
        tree.pointer(&self.pointer()).cloned().unwrap_or_default()
    }

    /// What a preset sets it to.
    pub fn default(&self, preset: Preset) -> Value {
        self.read(&Settings::of(preset))
    }

    /// The environment variable that sets it: `ONESLOT_UPSTREAM__BASE_URL` for
    /// `upstream.base_url`.
    pub fn variable(&self) -> String {
        let name = self.path.replace('.', "__").to_ascii_uppercase();
        format!("{PREFIX}{name}")
    }

    /// Its section, `upstream` of `upstream.base_url`, and its name there.
    pub(super) fn section(&self) -> (Option<&str>, &str) {
        match self.path.split_once('.') {
            Some((section, name)) => (Some(section), name),
            None => (None, &self.path),
        }
    }

    /// Puts `value` into the JSON form of settings.
    pub(super) fn put(&self, tree: &mut Value, value: Value) {
        if let Some(field) = tree.pointer_mut(&self.pointer()) {
            *field = value;
        }
    }

    /// Checks a value by itself. Gives it in its usual form: a list of one may be written without
    /// brackets.
    ///
    /// # Errors
    ///
    /// What was expected instead, in words.
    pub(super) fn check(&self, value: Value) -> Result<Value, String> {
        let value = match value {
            Value::String(_) if self.kind.is_list() => Value::Array(vec![value]),
            other => other,
        };
        if !self.kind.admits(&value) {
            return Err(self.kind.expected());
        }
        let mut tree = serde_json::to_value(Settings::default()).unwrap_or_default();
        self.put(&mut tree, value.clone());
        match serde_json::from_value::<Settings>(tree) {
            Ok(_) => Ok(value),
            Err(error) => Err(error.to_string()),
        }
    }

    fn pointer(&self) -> String {
        format!("/{}", self.path.replace('.', "/"))
    }
}

impl Kind {
    fn of(schema: &Value, choices: &[(String, String)]) -> Self {
        let min = schema["minimum"].as_u64().unwrap_or(0);
        let max = schema["maximum"].as_u64().unwrap_or(u64::MAX);
        match (schema["kind"].as_str(), schema["type"].as_str()) {
            (Some("auto"), _) => Self::AutoOr(min, max),
            (Some("secret"), _) => Self::Secret,
            (Some("server"), _) => Self::Server,
            (Some("addresses"), _) => Self::Addresses,
            (Some("hosts"), _) => Self::Hosts,
            (Some("origins"), _) => Self::Origins,
            (Some("keys"), _) => Self::Keys,
            (_, Some("boolean")) => Self::Bool,
            (_, Some("integer")) => match schema["enum"].as_array() {
                Some(numbers) => Self::Number(numbers.iter().filter_map(Value::as_u64).collect()),
                None => Self::Whole(min, max),
            },
            _ if !choices.is_empty() => {
                Self::Word(choices.iter().map(|(word, _)| word.clone()).collect())
            }
            _ => Self::Text,
        }
    }

    /// Whether `value` has the right type and is in the range. What lies beyond (is this text a
    /// URL?) is for the type of the field to say.
    fn admits(&self, value: &Value) -> bool {
        let is_within =
            |min: &u64, max: &u64| value.as_u64().is_some_and(|n| (min..=max).contains(&&n));
        match self {
            Self::Bool => value.is_boolean(),
            Self::Whole(min, max) => is_within(min, max),
            Self::AutoOr(min, max) => is_within(min, max) || value == "auto",
            Self::Number(numbers) => value.as_u64().is_some_and(|n| numbers.contains(&n)),
            Self::Word(words) => value
                .as_str()
                .is_some_and(|w| words.iter().any(|word| word == w)),
            Self::Text | Self::Secret | Self::Server => value.is_string(),
            Self::Addresses | Self::Hosts | Self::Origins => value
                .as_array()
                .is_some_and(|list| list.iter().all(Value::is_string)),
            Self::Keys => value.is_array(),
        }
    }

    /// Reads the text of an environment variable or a flag. Entries of a list are separated by
    /// commas; a key is `NAME=SHA256`.
    pub(super) fn read_text(&self, text: &str) -> Value {
        let text = text.trim();
        let number = || {
            text.parse::<u64>()
                .map_or_else(|_| text.into(), Value::from)
        };
        let entries = || {
            text.split(',')
                .map(str::trim)
                .filter(|entry| !entry.is_empty())
        };
        match self {
            Self::Bool => match text {
                "true" | "1" | "yes" | "on" => true.into(),
                "false" | "0" | "no" | "off" => false.into(),
                _ => text.into(),
            },
            Self::Whole(..) | Self::Number(_) | Self::AutoOr(..) => number(),
            Self::Word(_) | Self::Text | Self::Secret | Self::Server => text.into(),
            Self::Addresses | Self::Hosts | Self::Origins => entries().collect(),
            Self::Keys => entries()
                .map(|entry| {
                    let (name, sha256) = entry.split_once('=').unwrap_or((entry, ""));
                    serde_json::json!({"name": name, "sha256": sha256})
                })
                .collect(),
        }
    }

    /// What is expected, in words that fit after "expected".
    pub fn expected(&self) -> String {
        let one_of = |words: Vec<String>| words.join(" or ");
        match self {
            Self::Bool => "true or false".to_owned(),
            Self::Whole(min, max) => format!("a whole number from {min} to {max}"),
            Self::Number(numbers) => one_of(numbers.iter().map(u64::to_string).collect()),
            Self::Word(words) => one_of(words.iter().map(|word| format!("{word:?}")).collect()),
            Self::AutoOr(min, max) => format!("\"auto\" or a whole number from {min} to {max}"),
            Self::Text | Self::Secret => "text".to_owned(),
            Self::Server => "\"auto\" or a URL such as \"http://127.0.0.1:8080\"".to_owned(),
            Self::Addresses => "a list of addresses such as [\"127.0.0.1:11411\"]".to_owned(),
            Self::Hosts => "a list of host names such as [\"desk.lan\"]".to_owned(),
            Self::Origins => "a list of origins such as [\"https://chat.example\"]".to_owned(),
            Self::Keys => {
                "a list such as [{ name = \"zed\", sha256 = \"64 hexadecimal digits\" }]".to_owned()
            }
        }
    }

    /// Whether a value of this kind must not be repeated in a message.
    pub(super) fn is_private(&self) -> bool {
        matches!(self, Self::Secret | Self::Server | Self::Keys)
    }

    fn is_list(&self) -> bool {
        matches!(self, Self::Addresses | Self::Hosts | Self::Origins)
    }
}

/// The setting at `path`.
pub fn find(path: &str) -> Option<&'static Member> {
    MEMBERS.iter().find(|member| member.path == path)
}

/// The setting whose path is most like `path`, if any is similar.
pub(super) fn nearest(path: &str) -> Option<&'static str> {
    let name = path.rsplit('.').next().unwrap_or(path);
    // The right name in the wrong section is the commonest mistake.
    if let Some(member) = MEMBERS.iter().find(|member| member.section().1 == name) {
        return Some(&member.path);
    }
    let likeness = |member: &&Member| strsim::normalized_damerau_levenshtein(path, &member.path);
    let best = MEMBERS
        .iter()
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(&best) >= 0.75).then_some(&best.path)
}

/// Whether this was a setting of an earlier version and has no effect any more.
pub(super) fn is_gone(path: &str, value: &Value) -> bool {
    // Both are part of auto now.
    let is_counting = path == "window.counting" && (value == "exact" || value == "learned");
    is_counting || GONE.contains(&path)
}

/// Settings of earlier versions that are constants now.
const GONE: [&str; 29] = [
    "queue.max_bytes",
    "health.timeout_ms",
    "health.fresh_ms",
    "health.cooldown_max_ms",
    "window.margin",
    "timeouts.connect_ms",
    "timeouts.write_idle_s",
    "timeouts.header_s",
    "timeouts.body_idle_s",
    "timeouts.shutdown_s",
    "pressure.interval_ms",
    "pressure.ram_elevated_percent",
    "pressure.ram_elevated_mib",
    "pressure.ram_high_percent",
    "pressure.ram_high_mib",
    "pressure.ram_critical_percent",
    "pressure.ram_critical_mib",
    "pressure.stall_percent",
    "pressure.vram_elevated_mib",
    "pressure.vram_high_mib",
    "pressure.vram_fall_mib",
    "pressure.rise_readings",
    "pressure.fall_quiet_s",
    "pressure.critical_holds_s",
    "power.slow_on_battery",
    "relay.hold_bytes",
    "access.max_body_bytes",
    "access.max_upload_bytes",
    "access.max_connections",
];
