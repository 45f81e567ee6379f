//! The size of a part of a chat in bytes, characters and attachments.
//!
//! Text is measured decoded: `\u4f60` is one character of three bytes. Attachments are counted,
//! not measured: the cost of an image depends on its resolution, not on its base64.
//!
//! Not here: what a byte, a character or an attachment costs in tokens ([`crate::window`]).

use std::ops::AddAssign;

use memchr::{memchr, memmem};

use super::parse::string_end;

/// The size of a part of a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// UTF-8 bytes of its text.
    pub bytes: u64,
    /// Unicode scalar values of its text.
    pub scalars: u64,
    /// Images, audio, video and files.
    pub media: u64,
}

impl Size {
    /// One attachment.
    pub(super) const MEDIUM: Self = Self {
        bytes: 0,
        scalars: 0,
        media: 1,
    };
}

impl AddAssign for Size {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.scalars += other.scalars;
        self.media += other.media;
    }
}

/// Measures the text between a JSON string's quotes, escapes decoded. Takes validated text.
pub(super) fn text(mut raw: &[u8]) -> Size {
    let mut size = Size::default();
    while let Some(found) = memchr(b'\\', raw) {
        let (plain, escape) = raw.split_at(found);
        size += plain_text(plain);
        let (bytes, length) = escaped(escape);
        size.bytes += bytes;
        size.scalars += 1;
        raw = escape.get(length..).unwrap_or_default();
    }
    size += plain_text(raw);
    size
}

/// Measures any JSON value: all its text, except that a base64 data URL is one attachment.
pub(super) fn any(mut raw: &[u8]) -> Size {
    let mut size = Size::default();
    while let Some(quote) = memchr(b'"', raw) {
        let (outside, string) = raw.split_at(quote);
        let (string, rest) = string.split_at(string_end(string, 1));
        size += plain_text(outside);
        size += if is_data_url(string) {
            Size::MEDIUM
        } else {
            text(string)
        };
        raw = rest;
    }
    size += plain_text(raw);
    size
}

fn plain_text(raw: &[u8]) -> Size {
    // Every byte but a continuation byte begins a scalar value.
    let scalars = raw.iter().filter(|byte| (**byte & 0xC0) != 0x80).count();
    Size {
        bytes: raw.len() as u64,
        scalars: scalars as u64,
        media: 0,
    }
}

/// The length of an escaped character in UTF-8 bytes, and the length of its escape.
fn escaped(raw: &[u8]) -> (u64, usize) {
    let Some(unit) = code_unit(raw) else {
        return (1, 2);
    };
    match unit {
        0..0x80 => (1, 6),
        0x80..0x800 => (2, 6),
        0xD800..0xDC00 => match code_unit(raw.get(6..).unwrap_or_default()) {
            Some(0xDC00..0xE000) => (4, 12),
            // Decoders replace a lone surrogate by U+FFFD.
            _ => (3, 6),
        },
        _ => (3, 6),
    }
}

/// The code unit of a `\uXXXX` at the start of `raw`.
fn code_unit(raw: &[u8]) -> Option<u16> {
    let digits = raw.strip_prefix(b"\\u")?.get(..4)?;
    let digits = std::str::from_utf8(digits).ok()?;
    u16::from_str_radix(digits, 16).ok()
}

fn is_data_url(string: &[u8]) -> bool {
    // The media type precedes the marker and is short.
    let start = string.get(..string.len().min(160)).unwrap_or_default();
    start.starts_with(b"\"data:") && memmem::find(start, b";base64,").is_some()
}
