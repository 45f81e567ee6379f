//! Reading the file, environment variables and flags: settings with the place each was set.
//!
//! It only reads. What is done about a file with faults is decided in [`load`](super::load).

use std::io;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use serde_json::Value;
use toml_edit::{Document, Item, TableLike};

use super::error::{Fault, Location, Notice, words};
use super::schema::{self, MEMBERS, Member};
use super::values::toml;
use crate::state::regular;

/// One setting that was set, and where.
#[derive(Debug, Clone)]
pub(super) struct Given {
    pub(super) member: &'static Member,
    pub(super) value: Value,
    pub(super) location: Location,
}

/// The settings of one layer, and what is wrong with it.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    pub(super) given: Vec<Given>,
    pub(super) faults: Vec<Fault>,
    pub(super) notices: Vec<Notice>,
}

/// What is at the path of the file.
#[derive(Debug)]
pub(super) enum Content {
    /// Nothing.
    Missing,
    /// A file of no bytes.
    Empty,
    /// Text.
    Text(String),
    /// Something that is not text.
    Unreadable(Fault),
}

/// All bytes of a file.
pub(super) fn bytes(file: &Path) -> io::Result<Vec<u8>> {
    regular::read(file, regular::SETTINGS)
}

pub(super) fn read(file: &Path) -> Content {
    let fault = |reason| {
        Content::Unreadable(Fault::Unreadable {
            file: file.to_owned(),
            reason,
        })
    };
    let bytes = match bytes(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Content::Missing,
        Err(error) => return fault(words(&error)),
    };
    if bytes.is_empty() {
        return Content::Empty;
    }
    if bytes.iter().all(|byte| *byte == 0) {
        return fault("only NUL bytes, as a power failure leaves them".to_owned());
    }
    match String::from_utf8(bytes) {
        Ok(text) => Content::Text(text),
        Err(_) => fault("it is not UTF-8 text".to_owned()),
    }
}

/// Whether a file that cannot be used may require a key: it mentions one outside of comments, or
/// cannot be read.
pub(super) fn may_require_key(file: &Path) -> bool {
    let bytes = match bytes(file) {
        Ok(bytes) => bytes,
        // What is not a file requires nothing.
        Err(error) => {
            return !matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory
            );
        }
    };
    // UTF-16, as some editors on Windows write it, is readable without its NUL bytes.
    let letters: Vec<u8> = bytes.into_iter().filter(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&letters)
        .lines()
        .map(str::trim_start)
        .filter(|line| !line.starts_with('#'))
        .any(|line| line.contains("require_key") || line.contains("keys"))
}

/// Reads TOML; `file` is only named in messages.
pub(super) fn parse(file: &Path, text: &str) -> Parsed {
    // Some editors on Windows write a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut parsed = Parsed::default();
    let at = |span: Option<Range<usize>>| Location::File {
        file: file.to_owned(),
        line: span.map(|span| line_of(text, span.start)),
    };
    let document = match Document::parse(text) {
        Ok(document) => document,
        Err(error) => {
            parsed.faults.push(Fault::Syntax {
                location: at(error.span()),
                // Only the parser's message: its full text would repeat the line, key and all.
                reason: error
                    .message()
                    .split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" "),
            });
            return parsed;
        }
    };
    for (name, item) in document.as_table().iter() {
        let location = at(span(document.as_table(), name, item));
        let is_section = MEMBERS
            .iter()
            .any(|member| member.section().0 == Some(name));
        match (is_section, item.as_table_like()) {
            (true, Some(section)) => {
                for (inner, item) in section.iter() {
                    let location = at(span(section, inner, item));
                    parsed.take(&format!("{name}.{inner}"), json(item), location);
                }
            }
            (true, None) => parsed.faults.push(Fault::Shape {
                location,
                name: name.to_owned(),
                found: item.type_name(),
            }),
            (false, _) => parsed.take(name, json(item), location),
        }
    }
    parsed
}

impl Parsed {
    /// Takes the text of an environment variable or a flag.
    pub(super) fn take_text(&mut self, path: &str, text: &str, location: Location) {
        let value = match schema::find(path) {
            Some(member) => member.kind.read_text(text),
            None => text.into(),
        };
        self.take(path, value, location);
    }

    fn take(&mut self, path: &str, value: Value, location: Location) {
        let name = path.to_owned();
        if schema::is_gone(path, &value) {
            self.notices.push(Notice::Removed { location, name });
            return;
        }
        let Some(member) = schema::find(path) else {
            let nearest = schema::nearest(path);
            self.notices.push(Notice::Unknown {
                location,
                name,
                nearest,
            });
            return;
        };
        let found = if member.kind.is_private() {
            "something else".to_owned()
        } else {
            shortened(&toml(&value).to_string())
        };
        match member.check(value) {
            Ok(value) => self.given.push(Given {
                member,
                value,
                location,
            }),
            Err(expected) => self.faults.push(Fault::Value {
                location,
                member: &member.path,
                found,
                expected,
            }),
        }
    }

    /// The same, if nothing is wrong with it.
    pub(super) fn faultless(self) -> Result<Self, Vec<Fault>> {
        if self.faults.is_empty() {
            Ok(self)
        } else {
            Err(self.faults)
        }
    }
}

/// A value of TOML as one of JSON; null where JSON has none such.
pub(super) fn json(item: &Item) -> Value {
    let value = item.clone().into_value().ok();
    value
        .and_then(|value| Value::deserialize(value.into_deserializer()).ok())
        .unwrap_or_default()
}

fn span(table: &dyn TableLike, name: &str, item: &Item) -> Option<Range<usize>> {
    let key = table.key(name).and_then(toml_edit::Key::span);
    key.or_else(|| item.span())
}

fn line_of(text: &str, offset: usize) -> usize {
    let before = text.bytes().take(offset);
    before.filter(|byte| *byte == b'\n').count() + 1
}

fn shortened(text: &str) -> String {
    let short: String = text.chars().take(60).collect();
    let ellipsis = if short.len() < text.len() { "…" } else { "" };
    format!("{short}{ellipsis}")
}
