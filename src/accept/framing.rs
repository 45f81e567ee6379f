//! Finds the end of a request's body, byte by byte, with the strictest reading of the grammar.
//!
//! The HTTP library decodes the same bytes once more; this machine only has to know where they
//! end, and must fail wherever another program might see a different end. Pure and incremental:
//! the same bytes in any cut give the same result.
//!
//! Not here: the size of a decoded body (the handler caps it) and its clocks ([`super::guarded`]).

use thiserror::Error;

use super::head::{BodyFraming, token_byte};

/// Hex digits a chunk size may have: 64 bits.
const SIZE_DIGITS: u8 = 16;
/// Bytes of extensions one chunk may carry.
const EXTENSION_PER_CHUNK: u32 = 1024;
/// Bytes of extensions all chunks of a body may carry.
const EXTENSION_TOTAL: u32 = 16 * 1024;
/// Bytes of trailers, line ends included.
const TRAILER_BYTES: u32 = 8 * 1024;
/// Trailer fields, as many as a head may have.
const TRAILER_FIELDS: u8 = 64;

/// What one piece of input held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fed {
    /// How many of the bytes belong to the body; less than all only when it has ended.
    pub consumed: usize,
    /// Whether the body goes on.
    pub rest: Rest,
}

/// Whether a body goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// More of it has to come.
    Expected,
    /// It has ended.
    Ended,
}

/// Where a chunked body broke its grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ChunkError {
    /// A size that is not 1 to 16 hex digits.
    #[error("a chunk size is not 1 to 16 hex digits")]
    Size,
    /// CR without LF, or LF without CR.
    #[error("a chunk line does not end in CRLF")]
    LineEnd,
    /// A control byte in an extension.
    #[error("a chunk extension has a control byte")]
    Extension,
    /// Over 1 KiB in one chunk, or 16 KiB in all.
    #[error("the chunk extensions are too long")]
    ExtensionLength,
    /// The data of a chunk is not followed by CRLF.
    #[error("a chunk is longer than its size says")]
    DataEnd,
    /// A trailer that is not `name: value`.
    #[error("a trailer is not a well-formed field")]
    Trailer,
    /// Over 8 KiB or 64 fields of trailers.
    #[error("the trailers are too long")]
    TrailerLength,
}

/// The machine that follows one body to its end.
#[derive(Debug, Clone)]
pub struct BodyEnd {
    state: State,
    extension_total: u32,
    trailer_bytes: u32,
    trailer_fields: u8,
}

/// Where in the body the next byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Plain { left: u64 },
    Size { digits: u8, value: u64 },
    Extension { size: u64, length: u32 },
    SizeLineFeed { size: u64 },
    Data { left: u64 },
    DataReturn,
    DataLineFeed,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLineFeed,
    LastLineFeed,
    Ended,
}

impl BodyEnd {
    /// A machine at the first byte after a head.
    pub fn new(framing: BodyFraming) -> Self {
        let state = match framing {
            BodyFraming::None | BodyFraming::Length(0) => State::Ended,
            BodyFraming::Length(left) => State::Plain { left },
            BodyFraming::Chunked => State::FIRST_SIZE,
        };
        Self {
            state,
            extension_total: 0,
            trailer_bytes: 0,
            trailer_fields: 0,
        }
    }

    /// Whether the body has ended (or there is none).
    pub fn rest(&self) -> Rest {
        match self.state {
            State::Ended => Rest::Ended,
            _ => Rest::Expected,
        }
    }

    /// Takes the next bytes, however they were cut.
    ///
    /// # Errors
    ///
    /// Where the chunk grammar is broken. The machine must not be fed again after that.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Fed, ChunkError> {
        let mut at = 0;
        while at < bytes.len() && self.state != State::Ended {
            at += match self.state {
                State::Plain { left } => {
                    let (taken, left) = skip(left, &bytes[at..]);
                    self.state = match left {
                        0 => State::Ended,
                        left => State::Plain { left },
                    };
                    taken
                }
                State::Data { left } => {
                    let (taken, left) = skip(left, &bytes[at..]);
                    self.state = match left {
                        0 => State::DataReturn,
                        left => State::Data { left },
                    };
                    taken
                }
                _ => {
                    self.state = self.step(bytes[at])?;
                    1
                }
            };
        }
        Ok(Fed {
            consumed: at,
            rest: self.rest(),
        })
    }

    /// One byte of the chunk grammar outside chunk data.
    fn step(&mut self, byte: u8) -> Result<State, ChunkError> {
        match self.state {
            State::Size { digits, value } => size_byte(digits, value, byte),
            State::Extension { size, length } => self.extension_byte(size, length, byte),
            State::SizeLineFeed { size } => match (byte, size) {
                (b'\n', 0) => Ok(State::TrailerStart),
                (b'\n', left) => Ok(State::Data { left }),
                _ => Err(ChunkError::LineEnd),
            },
            State::DataReturn if byte == b'\r' => Ok(State::DataLineFeed),
            State::DataLineFeed if byte == b'\n' => Ok(State::FIRST_SIZE),
            State::DataReturn | State::DataLineFeed => Err(ChunkError::DataEnd),
            State::LastLineFeed if byte == b'\n' => Ok(State::Ended),
            State::LastLineFeed => Err(ChunkError::LineEnd),
            State::TrailerStart
            | State::TrailerName
            | State::TrailerValue
            | State::TrailerLineFeed => self.trailer_byte(byte),
            // Bulk states are skipped through in `feed`.
            State::Plain { .. } | State::Data { .. } | State::Ended => Ok(self.state),
        }
    }

    fn extension_byte(&mut self, size: u64, length: u32, byte: u8) -> Result<State, ChunkError> {
        match byte {
            b'\r' => Ok(State::SizeLineFeed { size }),
            b'\n' => Err(ChunkError::LineEnd),
            0x7f => Err(ChunkError::Extension),
            byte if byte < b' ' && byte != b'\t' => Err(ChunkError::Extension),
            _ => {
                self.extension_total += 1;
                if length >= EXTENSION_PER_CHUNK || self.extension_total > EXTENSION_TOTAL {
                    return Err(ChunkError::ExtensionLength);
                }
                Ok(State::Extension {
                    size,
                    length: length + 1,
                })
            }
        }
    }

    fn trailer_byte(&mut self, byte: u8) -> Result<State, ChunkError> {
        self.trailer_bytes += 1;
        if self.trailer_bytes > TRAILER_BYTES {
            return Err(ChunkError::TrailerLength);
        }
        match (self.state, byte) {
            (State::TrailerStart, b'\r') => Ok(State::LastLineFeed),
            (State::TrailerStart, byte) if token_byte(byte) => {
                self.trailer_fields += 1;
                if self.trailer_fields > TRAILER_FIELDS {
                    return Err(ChunkError::TrailerLength);
                }
                Ok(State::TrailerName)
            }
            (State::TrailerName, b':') => Ok(State::TrailerValue),
            (State::TrailerName, byte) if token_byte(byte) => Ok(State::TrailerName),
            (State::TrailerValue, b'\r') => Ok(State::TrailerLineFeed),
            (State::TrailerValue, b'\t') => Ok(State::TrailerValue),
            (State::TrailerValue, byte) if byte >= b' ' && byte != 0x7f => Ok(State::TrailerValue),
            (State::TrailerLineFeed, b'\n') => Ok(State::TrailerStart),
            (State::TrailerLineFeed, _) => Err(ChunkError::LineEnd),
            _ => Err(ChunkError::Trailer),
        }
    }
}

impl State {
    const FIRST_SIZE: Self = Self::Size {
        digits: 0,
        value: 0,
    };
}

fn size_byte(digits: u8, value: u64, byte: u8) -> Result<State, ChunkError> {
    let digit = match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'f' => byte - b'a' + 10,
        b'A'..=b'F' => byte - b'A' + 10,
        b'\r' if digits > 0 => return Ok(State::SizeLineFeed { size: value }),
        b';' if digits > 0 => {
            return Ok(State::Extension {
                size: value,
                length: 0,
            });
        }
        b'\n' if digits > 0 => return Err(ChunkError::LineEnd),
        _ => return Err(ChunkError::Size),
    };
    if digits >= SIZE_DIGITS {
        return Err(ChunkError::Size);
    }
    Ok(State::Size {
        digits: digits + 1,
        value: (value << 4) | u64::from(digit),
    })
}

/// How many of `bytes` a run of `left` covers, and what is left of the run after them.
fn skip(left: u64, bytes: &[u8]) -> (usize, u64) {
    let taken = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
    (taken, left - taken as u64)
}

#[cfg(test)]
mod tests;
