//! HTTP/1.1 as bytes: heads, chunks and whole bodies, read and written by hand.

use serde_json::Value;

/// A request or response head, as it was sent.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    /// The first line, without its line end.
    pub(crate) first: String,
    /// Names in the case they were sent in, with their values.
    pub(crate) fields: Vec<(String, String)>,
}

impl Head {
    /// Reads a head that ends in an empty line.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.split("\r\n");
        let first = lines.next().unwrap_or_default().to_owned();
        let fields = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        Self { first, fields }
    }

    /// The value of the only field of this name; fails when it was sent twice.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let all = self.all(name);
        assert!(
            all.len() <= 1,
            "{name} was sent {} times: {self:?}",
            all.len()
        );
        all.first().copied()
    }

    /// Every value of this name, in order.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.fields
            .iter()
            .filter(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
            .collect()
    }

    /// The status of a response head.
    pub(crate) fn status(&self) -> u16 {
        self.first
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .unwrap_or_else(|| panic!("not a status line: {:?}", self.first))
    }

    /// How the body behind this head is framed.
    pub(crate) fn framing(&self) -> Framing {
        if self
            .get("transfer-encoding")
            .is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))
        {
            return Framing::Chunked;
        }
        match self.get("content-length") {
            Some(length) => Framing::Length(length.parse().expect("a content-length is a number")),
            None => Framing::UntilClose,
        }
    }
}

/// How a body says where it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Chunked,
    Length(usize),
    UntilClose,
}

/// Takes body bytes off the wire as they come.
#[derive(Debug)]
pub(crate) struct Decoder {
    framing: Framing,
    pending: Vec<u8>,
    /// The body so far, without its framing.
    pub(crate) body: Vec<u8>,
    /// Whether the framing said that the body is complete.
    pub(crate) whole: bool,
}

impl Decoder {
    pub(crate) fn new(framing: Framing) -> Self {
        Self {
            framing,
            pending: Vec::new(),
            body: Vec::new(),
            whole: framing == Framing::Length(0),
        }
    }

    /// Adds bytes; what lies behind the body's end stays pending.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        match self.framing {
            Framing::UntilClose => self.body.append(&mut self.pending),
            Framing::Length(length) => {
                let take = (length - self.body.len()).min(self.pending.len());
                self.body.extend(self.pending.drain(..take));
                self.whole = self.body.len() == length;
            }
            Framing::Chunked => while !self.whole && self.one_chunk() {},
        }
    }

    /// What came after the body.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.pending
    }

    fn one_chunk(&mut self) -> bool {
        let Some(line) = find(&self.pending, b"\r\n") else {
            return false;
        };
        let size = String::from_utf8_lossy(&self.pending[..line]).into_owned();
        let size = size.split(';').next().unwrap_or_default();
        let size = usize::from_str_radix(size, 16)
            .unwrap_or_else(|_| panic!("not a chunk size: {size:?}"));
        let start = line + 2;
        if self.pending.len() < start + size + 2 {
            return false;
        }
        self.body
            .extend_from_slice(&self.pending[start..start + size]);
        self.pending.drain(..start + size + 2);
        self.whole = size == 0;
        true
    }
}

/// Where `needle` starts in `haystack`.
pub(crate) fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(haystack, needle)
}

/// One chunk of a chunked body.
pub(crate) fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut out = format!("{:x}\r\n", bytes.len()).into_bytes();
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
    out
}

/// The end of a chunked body.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// A whole response with a length, kept alive.
pub(crate) fn response(status: u16, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    for (name, value) in fields {
        out.push_str(&format!("{name}: {value}\r\n"));
    }
    out.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    let mut out = out.into_bytes();
    out.extend_from_slice(body);
    out
}

/// A whole JSON response.
pub(crate) fn json_response(status: u16, body: &Value) -> Vec<u8> {
    response(
        status,
        &[("content-type", "application/json")],
        body.to_string().as_bytes(),
    )
}

/// The words behind a status; nobody may read them.
pub(crate) fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        302 => "Found",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        _ => "Other",
    }
}
