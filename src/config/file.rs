//! Reading the file: bytes, TOML, members with their lines.
//!
//! It only reads. What is done about a file with faults is decided in [`load`](super::load).

use std::io;
use std::ops::Range;
use std::path::Path;

use toml_edit::{Document, Item, Table, TableLike};

use super::Member;
use super::fault::{Fault, Notice, Place, words};
use super::members::{self, MEMBERS};
use super::value::Value;
use crate::state::regular;

/// One member that was set, and where.
#[derive(Debug, Clone)]
pub(super) struct Given {
    pub(super) member: &'static Member,
    pub(super) value: Value,
    pub(super) place: Place,
}

/// A file's members, and what is wrong with the rest of it.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    pub(super) given: Vec<Given>,
    pub(super) faults: Vec<Fault>,
    pub(super) notices: Vec<Notice>,
}

/// What is in the file's place.
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

/// All of a file.
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
        // Some editors on Windows put a byte order mark in front.
        Ok(text) => Content::Text(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned()),
        Err(_) => fault("it is not UTF-8 text".to_owned()),
    }
}

/// Whether a file that cannot be used may ask for a key: it speaks of one outside of comments, or
/// what it says cannot be read.
pub(super) fn may_ask_for_key(file: &Path) -> bool {
    let bytes = match bytes(file) {
        Ok(bytes) => bytes,
        // What is no file says nothing.
        Err(error) => {
            return !matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory
            );
        }
    };
    // Text of two bytes a letter, as some editors on Windows save it, is still legible so.
    let letters: Vec<u8> = bytes.into_iter().filter(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&letters)
        .lines()
        .map(str::trim_start)
        .filter(|line| !line.starts_with('#'))
        .any(|line| line.contains("require_key") || line.contains("keys"))
}

pub(super) fn parse(file: &Path, text: &str) -> Parsed {
    let mut parsed = Parsed::default();
    let at = |span: Option<Range<usize>>| Place::File {
        file: file.to_owned(),
        line: span.map(|span| line_of(text, span.start)),
    };
    match Document::parse(text) {
        Ok(document) => top(document.as_table(), &at, &mut parsed),
        Err(error) => parsed.faults.push(Fault::Syntax {
            place: at(error.span()),
            // Only the parser's own words: its full text would repeat the line, key and all.
            reason: one_line(error.message()),
        }),
    }
    parsed
}

type At<'a> = dyn Fn(Option<Range<usize>>) -> Place + 'a;

fn top(table: &Table, at: &At<'_>, parsed: &mut Parsed) {
    for (name, item) in table.iter() {
        let place = at(span(table, name, item));
        let is_section = MEMBERS.iter().any(|member| member.place().0 == Some(name));
        match (is_section, item.as_table_like()) {
            (true, Some(section)) => {
                for (inner, item) in section.iter() {
                    let place = at(span(section, inner, item));
                    member(&format!("{name}.{inner}"), item, place, parsed);
                }
            }
            (true, None) => parsed.faults.push(Fault::Shape {
                place,
                name: name.to_owned(),
                found: item.type_name(),
                expected: "a section of settings",
            }),
            (false, _) => member(name, item, place, parsed),
        }
    }
}

fn member(path: &str, item: &Item, place: Place, parsed: &mut Parsed) {
    let Some(member) = members::find(path) else {
        let nearest = members::nearest(path);
        parsed.notices.push(Notice::Unknown {
            place,
            name: path.to_owned(),
            nearest,
        });
        return;
    };
    match member.kind.from_toml(item) {
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

fn span(table: &dyn TableLike, name: &str, item: &Item) -> Option<Range<usize>> {
    table
        .key(name)
        .and_then(toml_edit::Key::span)
        .or_else(|| item.span())
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes()
        .take(offset)
        .filter(|byte| *byte == b'\n')
        .count()
        + 1
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
