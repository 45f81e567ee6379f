//! A setting's value as a person writes it, before it becomes a typed field.
//!
//! Here are its three spellings (TOML, the text of a variable or flag, and the printed form) and
//! the check against what a member takes. What a value means is decided in [`field`](super::field).

use std::fmt;

use toml_edit::{Array, InlineTable, Item};

use super::Key;

/// A value as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Whole(u64),
    /// Text.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
    /// Named keys.
    Keys(Vec<Key>),
    /// A credential that is set; its text is not here.
    Hidden,
}

/// What a member takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number in this range, both ends included.
    Whole(u64, u64),
    /// One of these numbers.
    Number(&'static [u64]),
    /// One of these words.
    Word(&'static [&'static str]),
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
    /// Named keys.
    Keys,
}

impl Kind {
    /// Reads a value from TOML.
    ///
    /// # Errors
    ///
    /// What was found instead, in words.
    pub fn from_toml(self, item: &Item) -> Result<Value, String> {
        let value = match self {
            Self::Bool => item.as_bool().map(Value::Bool),
            Self::Whole(..) | Self::Number(_) => whole(item),
            Self::AutoOr(..) => whole(item).or_else(|| text(item)),
            Self::Word(_) | Self::Text | Self::Secret | Self::Server => text(item),
            Self::Addresses | Self::Hosts | Self::Origins => list(item).map(Value::List),
            Self::Keys => return keys(item).map(Value::Keys),
        };
        value.ok_or_else(|| self.describe(item))
    }

    /// Reads a value from the text of a variable or a flag. Lists are separated by commas.
    ///
    /// # Errors
    ///
    /// What was found instead, in words.
    pub fn from_text(self, given: &str) -> Result<Value, String> {
        let given = given.trim();
        let found = || {
            if self.is_private() {
                "some text".to_owned()
            } else {
                quoted(given)
            }
        };
        let number = || given.parse().map(Value::Whole).map_err(|_| found());
        match self {
            Self::Bool => match given {
                "true" | "1" | "yes" | "on" => Ok(Value::Bool(true)),
                "false" | "0" | "no" | "off" => Ok(Value::Bool(false)),
                _ => Err(found()),
            },
            Self::Whole(..) | Self::Number(_) => number(),
            Self::AutoOr(..) => number().or_else(|_| Ok(Value::Text(given.to_owned()))),
            Self::Word(_) | Self::Text | Self::Secret | Self::Server => {
                Ok(Value::Text(given.to_owned()))
            }
            Self::Addresses | Self::Hosts | Self::Origins => Ok(Value::List(pieces(given))),
            Self::Keys => pieces(given)
                .iter()
                .map(|piece| {
                    let (name, digest) = piece.split_once('=')?;
                    key(name, digest)
                })
                .collect::<Option<_>>()
                .map(Value::Keys)
                .ok_or_else(|| "something that is not a list of NAME=SHA256".to_owned()),
        }
    }

    /// Whether `value` is of this kind and in its range. What lies beyond (is this text a URL?)
    /// is decided by the field that takes it.
    pub fn admits(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Whole(min, max) | Self::AutoOr(min, max), Value::Whole(number)) => {
                (min..=max).contains(number)
            }
            (Self::Number(numbers), Value::Whole(number)) => numbers.contains(number),
            (Self::Word(words), Value::Text(word)) => words.contains(&word.as_str()),
            (Self::AutoOr(..), Value::Text(word)) => word == "auto",
            (Self::Bool, Value::Bool(_))
            | (Self::Text | Self::Secret | Self::Server, Value::Text(_))
            | (Self::Secret, Value::Hidden)
            | (Self::Addresses | Self::Hosts | Self::Origins, Value::List(_))
            | (Self::Keys, Value::Keys(_)) => true,
            _ => false,
        }
    }

    /// What is expected, in words that fit after "expected".
    pub fn expected(self) -> String {
        match self {
            Self::Bool => "true or false".to_owned(),
            Self::Whole(min, max) => format!("a whole number from {min} to {max}"),
            Self::Number(numbers) => one_of(numbers.iter().map(u64::to_string)),
            Self::Word(words) => one_of(words.iter().map(|word| quoted(word))),
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
    pub fn is_private(self) -> bool {
        match self {
            Self::Secret | Self::Server | Self::Keys => true,
            Self::Bool
            | Self::Whole(..)
            | Self::Number(_)
            | Self::Word(_)
            | Self::AutoOr(..)
            | Self::Text
            | Self::Addresses
            | Self::Hosts
            | Self::Origins => false,
        }
    }

    fn describe(self, item: &Item) -> String {
        match item.as_value() {
            Some(value) if !self.is_private() => {
                let text: String = value.clone().decorated("", "").to_string();
                let short: String = text.chars().take(60).collect();
                let cut = if short.len() < text.len() { "…" } else { "" };
                format!("{short}{cut} ({})", item.type_name())
            }
            _ => format!("a value of type {}", item.type_name()),
        }
    }
}

impl Value {
    /// The value as TOML.
    pub fn to_toml(&self) -> toml_edit::Value {
        match self {
            Self::Bool(value) => (*value).into(),
            Self::Whole(number) => i64::try_from(*number).unwrap_or(i64::MAX).into(),
            Self::Text(text) => text.as_str().into(),
            Self::List(texts) => texts.iter().map(String::as_str).collect::<Array>().into(),
            Self::Keys(keys) => keys.iter().map(inline).collect::<Array>().into(),
            Self::Hidden => "".into(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hidden => f.write_str("(set, not shown)"),
            Self::Bool(_) | Self::Whole(_) | Self::Text(_) | Self::List(_) | Self::Keys(_) => {
                self.to_toml().fmt(f)
            }
        }
    }
}

fn whole(item: &Item) -> Option<Value> {
    item.as_integer()
        .and_then(|number| u64::try_from(number).ok())
        .map(Value::Whole)
}

fn text(item: &Item) -> Option<Value> {
    item.as_str().map(|text| Value::Text(text.to_owned()))
}

/// A list of texts; a single text is a list of one.
fn list(item: &Item) -> Option<Vec<String>> {
    if let Some(one) = item.as_str() {
        return Some(vec![one.to_owned()]);
    }
    item.as_array()?
        .iter()
        .map(|entry| entry.as_str().map(str::to_owned))
        .collect()
}

/// Keys, as an array of inline tables or as `[[access.keys]]`.
fn keys(item: &Item) -> Result<Vec<Key>, String> {
    let entries: Option<Vec<Key>> = match item.as_array_of_tables() {
        Some(tables) => tables
            .iter()
            .map(|table| key(table.get("name")?.as_str()?, table.get("sha256")?.as_str()?))
            .collect(),
        None => item.as_array().and_then(|array| {
            let tables = array.iter().map(|entry| {
                let table = entry.as_inline_table()?;
                key(table.get("name")?.as_str()?, table.get("sha256")?.as_str()?)
            });
            tables.collect()
        }),
    };
    entries.ok_or_else(|| "something else".to_owned())
}

fn key(name: &str, digest: &str) -> Option<Key> {
    let (name, digest) = (name.trim(), digest.trim().as_bytes());
    if name.is_empty() || digest.len() != 64 {
        return None;
    }
    let mut sha256 = [0_u8; 32];
    for (byte, pair) in sha256.iter_mut().zip(digest.chunks_exact(2)) {
        let pair = std::str::from_utf8(pair)
            .ok()
            .filter(|pair| !pair.starts_with('+'))?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(Key {
        name: name.to_owned(),
        sha256,
    })
}

fn inline(key: &Key) -> toml_edit::Value {
    let digest: String = key
        .sha256
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let mut table = InlineTable::new();
    table.insert("name", key.name.as_str().into());
    table.insert("sha256", digest.into());
    table.into()
}

fn pieces(given: &str) -> Vec<String> {
    let pieces = given
        .split(',')
        .map(str::trim)
        .filter(|piece| !piece.is_empty());
    pieces.map(str::to_owned).collect()
}

fn quoted(text: &str) -> String {
    let short: String = text.chars().take(60).collect();
    format!("{short:?}")
}

fn one_of(choices: impl Iterator<Item = String>) -> String {
    choices.collect::<Vec<_>>().join(" or ")
}
