//! Splits a copy of a server-sent event stream into events, however the bytes were cut.
//!
//! It works on bytes, so a character split by the network does no harm, and it never holds more
//! than [`EVENT_LIMIT`] bytes of one event: a longer one is reported without its content. It also
//! knows whether the stream is within a line, so that an event of the gateway can be appended
//! ([`Splitter::closing_bytes`]).
//!
//! Not here: what an event means ([`crate::proxy::inspect`]), and the relayed bytes themselves.
//! There is no `Debug`: the buffers hold what people wrote.

use memchr::{memchr, memchr2};

/// Most bytes of one event that are kept: 1 MiB. Real ones have a few hundred.
pub const EVENT_LIMIT: usize = 1 << 20;

/// Bytes kept of a line that is too long: enough to recognise a comment, or `event: error`.
const CUT_LINE: usize = 32;

/// The byte order mark a stream may begin with.
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// One event, complete or as far as it had come when the stream ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// The `event` field, at most 32 bytes of it; empty when there was none.
    pub name: &'a [u8],
    /// The `data` lines, joined by line feeds. Empty when `oversized`.
    pub data: &'a [u8],
    /// An `error` field: not in the standard, but some model servers send it instead of `data`.
    pub error: Option<&'a [u8]>,
    /// The event was longer than [`EVENT_LIMIT`], so its content was not kept.
    pub oversized: bool,
}

/// Whether a body begins like an event stream; `None` while that is undecided.
pub fn begins_like_events(body: &[u8]) -> Option<bool> {
    let body = body.strip_prefix(BOM).unwrap_or(body).trim_ascii_start();
    let prefixes: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];
    if prefixes.iter().any(|prefix| body.starts_with(prefix)) {
        return Some(true);
    }
    let may_become =
        prefixes.iter().any(|prefix| prefix.starts_with(body)) || BOM.starts_with(body);
    (!may_become).then_some(false)
}

/// The state between two pieces of a stream.
#[derive(Clone, Default)]
pub struct Splitter {
    line: Vec<u8>,
    line_cut: bool,
    event: Draft,
    after_cr: bool,
    begun: bool,
}

/// The lines since the last blank one.
#[derive(Clone, Default)]
struct Draft {
    open: bool,
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    error: Option<Vec<u8>>,
    oversized: bool,
}

// === impl Splitter ===

impl Splitter {
    /// Takes the next piece of the stream and calls `seen` for each event it completes.
    pub fn feed(&mut self, mut bytes: &[u8], mut seen: impl FnMut(Event<'_>)) {
        if bytes.is_empty() {
            return;
        }
        if self.after_cr {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(at) = memchr2(b'\n', b'\r', bytes) {
            let (head, rest) = bytes.split_at(at);
            bytes = if rest.first() == Some(&b'\r') {
                self.after_cr = rest.len() == 1;
                rest.strip_prefix(b"\r\n").unwrap_or(&rest[1..])
            } else {
                &rest[1..]
            };
            self.end_line(head, &mut seen);
        }
        self.keep(bytes);
    }

    /// Calls `seen` with the unfinished last event, if any: some servers omit the blank line
    /// after it.
    pub fn tail(&self, mut seen: impl FnMut(Event<'_>)) {
        let mut event = self.event.clone();
        event.add(self.open_line(), self.line_cut);
        event.dispatch(&mut seen);
    }

    /// The data of an event that lacks only its blank line; empty within a line.
    pub fn open_data(&self) -> &[u8] {
        if self.line.is_empty() {
            &self.event.data
        } else {
            b""
        }
    }

    /// What must be sent before an event that is appended now: nothing, the end of a line, or the
    /// end of a line and of its event.
    pub fn closing_bytes(&self) -> &'static [u8] {
        let line = self.open_line();
        let event_is_open = self.event.open || !(line.is_empty() || line.starts_with(b":"));
        match (line.is_empty(), event_is_open) {
            (true, false) => b"",
            // A line feed right behind a carriage return only completes that line's end.
            (true, true) if self.after_cr => b"\n\n",
            (true, true) | (false, false) => b"\n",
            (false, true) => b"\n\n",
        }
    }

    fn open_line(&self) -> &[u8] {
        if self.begun {
            &self.line
        } else {
            self.line.strip_prefix(BOM).unwrap_or(&self.line)
        }
    }

    fn end_line(&mut self, head: &[u8], seen: &mut impl FnMut(Event<'_>)) {
        // Nearly every line arrives in one piece and needs no copy.
        if self.line.is_empty() {
            let line = if self.begun {
                head
            } else {
                head.strip_prefix(BOM).unwrap_or(head)
            };
            self.begun = true;
            self.event.line(line, false, seen);
            return;
        }
        self.keep(head);
        let line = std::mem::take(&mut self.line);
        let whole = if self.begun {
            &line
        } else {
            line.strip_prefix(BOM).unwrap_or(&line)
        };
        self.begun = true;
        self.event.line(whole, self.line_cut, seen);
        self.line_cut = false;
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.line.len() + bytes.len() <= self.event.room() && !self.line_cut {
            self.line.extend_from_slice(bytes);
            return;
        }
        self.line_cut = true;
        self.line.truncate(CUT_LINE);
        let missing = CUT_LINE - self.line.len();
        self.line
            .extend_from_slice(&bytes[..missing.min(bytes.len())]);
        self.line.shrink_to(CUT_LINE);
    }
}

// === impl Draft ===

impl Draft {
    /// Bytes a further line may have before the event counts as oversized.
    fn room(&self) -> usize {
        if self.oversized {
            return CUT_LINE;
        }
        let error = self.error.as_ref().map_or(0, Vec::len);
        EVENT_LIMIT.saturating_sub(self.data.len() + error)
    }

    fn line(&mut self, line: &[u8], cut: bool, seen: &mut impl FnMut(Event<'_>)) {
        if line.is_empty() {
            self.dispatch(seen);
        } else {
            self.add(line, cut);
        }
    }

    fn add(&mut self, line: &[u8], cut: bool) {
        if line.is_empty() || line.starts_with(b":") {
            return;
        }
        self.open = true;
        let (field, value) = field(line);
        if field == b"event" {
            self.name.clear();
            self.name
                .extend_from_slice(&value[..value.len().min(CUT_LINE)]);
            return;
        }
        if cut || line.len() > self.room() {
            self.oversized = true;
            self.data = Vec::new();
            self.error = None;
        }
        if self.oversized {
            return;
        }
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"error" => self.error.get_or_insert_default().extend_from_slice(value),
            _ => {}
        }
    }

    fn dispatch(&mut self, seen: &mut impl FnMut(Event<'_>)) {
        if self.has_data || self.error.is_some() || self.oversized || !self.name.is_empty() {
            seen(Event {
                name: &self.name,
                data: &self.data,
                error: self.error.as_deref(),
                oversized: self.oversized,
            });
        }
        // The buffers stay for the next event, unless a giant one has passed.
        self.data.clear();
        self.data.shrink_to(64 * 1024);
        self.name.clear();
        self.open = false;
        self.has_data = false;
        self.error = None;
        self.oversized = false;
    }
}

/// A line's field name and its value, without the one space that may follow the colon.
fn field(line: &[u8]) -> (&[u8], &[u8]) {
    match memchr(b':', line) {
        Some(at) => {
            let value = &line[at + 1..];
            (&line[..at], value.strip_prefix(b" ").unwrap_or(value))
        }
        None => (line, b""),
    }
}

#[cfg(test)]
mod tests;
