//! A strict scanner over JSON text that yields spans, never copies.
//!
//! It accepts what `serde_json` accepts as a raw value (RFC 8259, UTF-8 only, no byte order
//! mark), to a depth of 128. Nothing recurses over unknown content, so no nesting a caller
//! sends can exhaust the stack. Escapes are checked for form; what they spell is not judged: a
//! lone surrogate is legal JSON and the upstream's to refuse.
//!
//! Not here: what any member means.

use std::ops::Range;

use memchr::memchr2;

use super::span::{Kind, MAX_DEPTH, ScanError, Span};

/// A position in JSON text and the containers open around it.
#[derive(Debug)]
pub(super) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    depth: u32,
}

/// The containers opened inside one skipped value: one bit each, set for an object.
#[derive(Debug, Default)]
struct Nest {
    objects: u128,
    depth: u32,
}

// --- Scanner ---

impl<'a> Scanner<'a> {
    /// A scanner at the start of `text`.
    pub(super) fn new(text: &'a [u8]) -> Result<Self, ScanError> {
        match std::str::from_utf8(text) {
            Ok(_) => Ok(Self {
                text,
                at: 0,
                depth: 0,
            }),
            Err(error) => Err(ScanError::Encoding {
                at: error.valid_up_to(),
            }),
        }
    }

    /// The text under a range.
    pub(super) fn text(&self, range: Range<usize>) -> &'a [u8] {
        self.text.get(range).unwrap_or_default()
    }

    /// What the next value is.
    pub(super) fn peek(&mut self) -> Kind {
        self.blank();
        match self.byte() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b'-' | b'0'..=b'9') => Kind::Number,
            Some(b't') => Kind::True,
            Some(b'f') => Kind::False,
            Some(b'n') => Kind::Null,
            _ => Kind::Nothing,
        }
    }

    /// Walks an object: `each` gets every key's span and must read exactly its value.
    pub(super) fn object(
        &mut self,
        mut each: impl FnMut(&mut Self, Span) -> Result<(), ScanError>,
    ) -> Result<Span, ScanError> {
        self.blank();
        let start = self.at;
        self.open(b'{')?;
        self.blank();
        if !self.take(b'}') {
            loop {
                let key = self.key()?;
                each(self, key)?;
                self.blank();
                if !self.take(b',') {
                    break;
                }
            }
            self.expect(b'}')?;
        }
        self.depth -= 1;
        Ok(Span {
            start,
            end: self.at,
        })
    }

    /// Walks an array: `each` must read exactly one value.
    pub(super) fn array(
        &mut self,
        mut each: impl FnMut(&mut Self) -> Result<(), ScanError>,
    ) -> Result<Span, ScanError> {
        self.blank();
        let start = self.at;
        self.open(b'[')?;
        self.blank();
        if !self.take(b']') {
            loop {
                each(self)?;
                self.blank();
                if !self.take(b',') {
                    break;
                }
            }
            self.expect(b']')?;
        }
        self.depth -= 1;
        Ok(Span {
            start,
            end: self.at,
        })
    }

    /// Reads any value without looking into it.
    pub(super) fn value(&mut self) -> Result<Span, ScanError> {
        self.blank();
        let start = self.at;
        let mut nest = Nest::default();
        loop {
            if self.enter(&mut nest)? {
                continue;
            }
            // A value has ended: close what it ends, or go on to the next.
            loop {
                if nest.depth == 0 {
                    return Ok(Span {
                        start,
                        end: self.at,
                    });
                }
                self.blank();
                let in_object = nest.in_object();
                if self.take(b',') {
                    if in_object {
                        self.key()?;
                    }
                    break;
                }
                self.expect(if in_object { b'}' } else { b']' })?;
                nest.depth -= 1;
            }
        }
    }

    /// Reads a string; the span has its quotes.
    pub(super) fn string(&mut self) -> Result<Span, ScanError> {
        self.blank();
        let start = self.at;
        self.expect(b'"')?;
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let Some(found) = memchr2(b'"', b'\\', rest) else {
                return Err(ScanError::Syntax {
                    at: self.text.len(),
                });
            };
            let (plain, tail) = rest.split_at(found);
            if holds_control(plain) {
                let offset = plain.iter().position(|byte| *byte < 0x20).unwrap_or(0);
                return Err(ScanError::Syntax {
                    at: self.at + offset,
                });
            }
            self.at += found + 1;
            if tail.first() == Some(&b'"') {
                return Ok(Span {
                    start,
                    end: self.at,
                });
            }
            self.escape()?;
        }
    }

    /// Nothing but white space may follow.
    pub(super) fn end(&mut self) -> Result<(), ScanError> {
        self.blank();
        if self.at == self.text.len() {
            Ok(())
        } else {
            self.fail()
        }
    }

    /// Begins one value inside `value`; true when it is a container with something in it.
    fn enter(&mut self, nest: &mut Nest) -> Result<bool, ScanError> {
        match self.peek() {
            Kind::Object => {
                nest.push(true, self.depth, self.at)?;
                self.at += 1;
                self.blank();
                if !self.take(b'}') {
                    self.key()?;
                    return Ok(true);
                }
                nest.depth -= 1;
            }
            Kind::Array => {
                nest.push(false, self.depth, self.at)?;
                self.at += 1;
                self.blank();
                if !self.take(b']') {
                    return Ok(true);
                }
                nest.depth -= 1;
            }
            Kind::String => {
                self.string()?;
            }
            Kind::Number => self.number()?,
            Kind::True => self.literal(b"true")?,
            Kind::False => self.literal(b"false")?,
            Kind::Null => self.literal(b"null")?,
            Kind::Nothing => return self.fail(),
        }
        Ok(false)
    }

    fn key(&mut self) -> Result<Span, ScanError> {
        let key = self.string()?;
        self.blank();
        self.expect(b':')?;
        Ok(key)
    }

    fn open(&mut self, bracket: u8) -> Result<(), ScanError> {
        if self.depth == MAX_DEPTH {
            return Err(ScanError::Depth { at: self.at });
        }
        self.expect(bracket)?;
        self.depth += 1;
        Ok(())
    }

    fn escape(&mut self) -> Result<(), ScanError> {
        match self.byte() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 1;
                Ok(())
            }
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.byte().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                        return self.fail();
                    }
                    self.at += 1;
                }
                Ok(())
            }
            _ => self.fail(),
        }
    }

    fn number(&mut self) -> Result<(), ScanError> {
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), ScanError> {
        let start = self.at;
        while self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start {
            self.fail()
        } else {
            Ok(())
        }
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), ScanError> {
        if self
            .text
            .get(self.at..)
            .is_some_and(|rest| rest.starts_with(word))
        {
            self.at += word.len();
            Ok(())
        } else {
            self.fail()
        }
    }

    fn byte(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn blank(&mut self) {
        while matches!(self.byte(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, wanted: u8) -> bool {
        let there = self.byte() == Some(wanted);
        if there {
            self.at += 1;
        }
        there
    }

    fn expect(&mut self, wanted: u8) -> Result<(), ScanError> {
        if self.take(wanted) {
            Ok(())
        } else {
            self.fail()
        }
    }

    fn fail<T>(&self) -> Result<T, ScanError> {
        Err(ScanError::Syntax { at: self.at })
    }
}

// --- Nest ---

impl Nest {
    fn push(&mut self, object: bool, outside: u32, at: usize) -> Result<(), ScanError> {
        if outside + self.depth >= MAX_DEPTH {
            return Err(ScanError::Depth { at });
        }
        let bit = 1_u128 << self.depth;
        if object {
            self.objects |= bit;
        } else {
            self.objects &= !bit;
        }
        self.depth += 1;
        Ok(())
    }

    fn in_object(&self) -> bool {
        self.objects >> (self.depth - 1) & 1 == 1
    }
}

/// Whether a control character stands in `plain`; written without an early exit so that it is
/// done many bytes at a time.
fn holds_control(plain: &[u8]) -> bool {
    plain
        .iter()
        .fold(false, |found, byte| found | (*byte < 0x20))
}
