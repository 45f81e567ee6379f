//! Judges the raw bytes of a request head, before an HTTP library has tidied them.
//!
//! What a handler sees afterwards is the library's reading of a head: equal lengths merged, bare
//! line feeds forgiven, one of two framings taken away. Two programs that read one head in two
//! ways are how requests are smuggled, so everything that can be read twice is refused here.
//! Pure: bytes in, verdict out.
//!
//! Not here: which hosts, origins and paths are served ([`crate::admit`]).

use super::target;
use crate::refusal::{Part, Refusal};

/// The sizes a head may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLimits {
    /// The whole head in bytes, its empty line included.
    pub bytes: usize,
    /// Header fields.
    pub fields: usize,
    /// The request target in bytes.
    pub uri: usize,
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self {
            bytes: 32 * 1024,
            fields: super::limits::FIELDS,
            uri: 8 * 1024,
        }
    }
}

/// How the end of a request's body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFraming {
    /// There is no body.
    None,
    /// `Content-Length`, in bytes.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
}

/// What a head that passed says about what follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadFacts {
    /// How the body ends.
    pub framing: BodyFraming,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub expect_continue: bool,
    /// The protocol version.
    pub version: Version,
}

/// The versions that are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0: no chunks, and `Host` may be missing.
    Http10,
    /// HTTP/1.1.
    Http11,
}

/// How far a head has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Its end has not arrived.
    More,
    /// It ends here: its length in bytes, the empty line included.
    Ends(usize),
    /// Whatever follows, it will not be served.
    Refused(Refusal),
}

/// Methods that may be routed; the routes decide which of them a path has.
const METHODS: [&[u8]; 7] = [
    b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"PATCH", b"OPTIONS",
];

/// The longest method that could still become one of [`METHODS`].
const LONGEST_METHOD: usize = 7;

/// Fields that must not be imitated by a name with `_` in place of `-`: some servers read the
/// two as one.
const SHADOWED: [&[u8]; 21] = [
    b"content-length",
    b"transfer-encoding",
    b"content-type",
    b"content-encoding",
    b"x-api-key",
    b"proxy-authorization",
    b"proxy-connection",
    b"keep-alive",
    b"accept-encoding",
    b"x-request-id",
    b"x-forwarded-for",
    b"x-forwarded-host",
    b"x-forwarded-proto",
    b"x-real-ip",
    b"user-agent",
    b"set-cookie",
    b"sec-fetch-site",
    b"access-control-request-method",
    b"access-control-request-headers",
    b"http2-settings",
    b"x-http-method-override",
];

/// Looks for the end of a head in what has arrived.
///
/// Refuses as early as it can: a TLS hello or a bare line feed would otherwise be waited on until
/// the head's clock runs out. Bytes that pass here still have to pass [`judge`].
pub fn find_end(bytes: &[u8], limits: &HeadLimits) -> Progress {
    if let Some(refusal) = bad_start(bytes) {
        return Progress::Refused(refusal);
    }
    let seen = &bytes[..bytes.len().min(limits.bytes)];
    let mut line_start = 0;
    for line_feed in memchr::memchr_iter(b'\n', seen) {
        if line_feed == 0 || seen[line_feed - 1] != b'\r' {
            return Progress::Refused(bad("a line of the request head ends without CR"));
        }
        let first = line_start == 0;
        if first && !ends_in_version(&seen[..line_feed - 1]) {
            return Progress::Refused(bad(NOT_A_REQUEST_LINE));
        }
        if !first && line_feed == line_start + 1 {
            return Progress::Ends(line_feed + 1);
        }
        line_start = line_feed + 1;
    }
    if line_start == 0 && bytes.len() > limits.uri + LONGEST_METHOD + "  HTTP/1.1\r\n".len() {
        return Progress::Refused(too_large(Part::Uri, limits.uri));
    }
    if bytes.len() >= limits.bytes {
        return Progress::Refused(too_large(Part::Head, limits.bytes));
    }
    Progress::More
}

/// Judges one whole head, from its request line to its empty line.
///
/// # Errors
///
/// `BadRequest` for everything that two programs could read in two ways, `TooLarge` for sizes.
pub fn judge(head: &[u8], limits: &HeadLimits) -> Result<HeadFacts, Refusal> {
    if head.len() > limits.bytes {
        return Err(too_large(Part::Head, limits.bytes));
    }
    let text = head
        .strip_suffix(b"\r\n\r\n")
        .ok_or_else(|| bad("the request head does not end in an empty line"))?;
    let mut lines = Lines { rest: Some(text) };
    let request_line = lines
        .next()
        .transpose()?
        .ok_or_else(|| bad(NOT_A_REQUEST_LINE))?;
    let version = judge_request_line(request_line, limits)?;
    let mut seen = Seen::default();
    for (count, line) in lines.enumerate() {
        if count >= limits.fields {
            return Err(too_large(Part::Fields, limits.fields));
        }
        seen.field(line?)?;
    }
    seen.verdict(version)
}

const NOT_A_REQUEST_LINE: &str =
    "this is not an HTTP/1.1 request; the gateway speaks plain HTTP/1.1";

/// Refuses what cannot become a method, before a line has ended.
fn bad_start(bytes: &[u8]) -> Option<Refusal> {
    let method = &bytes[..memchr::memchr(b' ', bytes).unwrap_or(bytes.len())];
    let possible = method.len() <= LONGEST_METHOD && method.iter().all(u8::is_ascii_uppercase);
    (!possible).then(|| bad(NOT_A_REQUEST_LINE))
}

fn ends_in_version(line: &[u8]) -> bool {
    line.ends_with(b" HTTP/1.1") || line.ends_with(b" HTTP/1.0")
}

fn judge_request_line(line: &[u8], limits: &HeadLimits) -> Result<Version, Refusal> {
    let mut parts = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(bad("the request line is not METHOD target HTTP/1.1"));
    };
    if !METHODS.contains(&method) {
        return Err(bad("this method is not served"));
    }
    let version = match version {
        b"HTTP/1.1" => Version::Http11,
        b"HTTP/1.0" => Version::Http10,
        _ => return Err(bad("only HTTP/1.1 and HTTP/1.0 are served")),
    };
    if target.len() > limits.uri {
        return Err(too_large(Part::Uri, limits.uri));
    }
    target::judge(target)?;
    Ok(version)
}

/// The lines of a head, without their CRLF; a lone CR or LF is an error.
struct Lines<'a> {
    rest: Option<&'a [u8]>,
}

/// What the fields have said so far.
#[derive(Default)]
struct Seen {
    hosts: usize,
    length: Option<u64>,
    chunked: bool,
    expect_continue: bool,
}

impl<'a> Iterator for Lines<'a> {
    type Item = Result<&'a [u8], Refusal>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take()?;
        let Some(at) = memchr::memchr2(b'\r', b'\n', rest) else {
            return Some(Ok(rest));
        };
        if rest[at..].starts_with(b"\r\n") {
            self.rest = Some(&rest[at + 2..]);
            Some(Ok(&rest[..at]))
        } else {
            Some(Err(bad("the request head has a lone CR or LF")))
        }
    }
}

impl Seen {
    fn field(&mut self, line: &[u8]) -> Result<(), Refusal> {
        if matches!(line.first(), Some(b' ' | b'\t')) {
            return Err(bad("a header field is folded over two lines"));
        }
        let colon = memchr::memchr(b':', line).ok_or_else(|| bad("a header field has no colon"))?;
        let (name, value) = (&line[..colon], trimmed(&line[colon + 1..]));
        if name.is_empty() || !name.iter().all(|byte| token_byte(*byte)) {
            return Err(bad(
                "a header name has a byte that no name may have, or a space before its colon",
            ));
        }
        if value.iter().any(|byte| control_byte(*byte)) {
            return Err(bad("a header value has a control byte"));
        }
        let name = name.to_ascii_lowercase();
        if name.contains(&b'_') && shadows(&name) {
            return Err(bad("a header name with _ imitates a known one"));
        }
        match name.as_slice() {
            b"host" => self.host(value),
            b"content-length" => self.content_length(value),
            b"transfer-encoding" => self.transfer_encoding(value),
            // Java's client offers HTTP/2 on every plain connection; a server may pass over it.
            b"upgrade" if value.eq_ignore_ascii_case(b"h2c") => Ok(()),
            b"upgrade" => Err(bad(
                "Upgrade is not served; send the request as plain HTTP/1.1",
            )),
            b"expect" => {
                self.expect_continue |= value.eq_ignore_ascii_case(b"100-continue");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn host(&mut self, value: &[u8]) -> Result<(), Refusal> {
        self.hosts += 1;
        if self.hosts > 1 {
            return Err(bad("there is more than one Host"));
        }
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(byte);
        if value.iter().all(plain) {
            Ok(())
        } else {
            Err(bad("the Host has a byte that no host has"))
        }
    }

    fn content_length(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if self.length.is_some() {
            return Err(bad("there is more than one Content-Length"));
        }
        // 19 digits always fit into 64 bits.
        if value.is_empty() || value.len() > 19 || !value.iter().all(u8::is_ascii_digit) {
            return Err(bad("Content-Length is not a plain number"));
        }
        let length = value
            .iter()
            .fold(0_u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
        self.length = Some(length);
        Ok(())
    }

    fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if self.chunked {
            return Err(bad("there is more than one Transfer-Encoding"));
        }
        if !value.eq_ignore_ascii_case(b"chunked") {
            return Err(bad("Transfer-Encoding is not exactly chunked"));
        }
        self.chunked = true;
        Ok(())
    }

    fn verdict(self, version: Version) -> Result<HeadFacts, Refusal> {
        // Without a Host, HTTP/1.0 is well formed; the Host gate refuses it all the same.
        if self.hosts == 0 && version == Version::Http11 {
            return Err(bad("there is no Host"));
        }
        let framing = match (self.length, self.chunked) {
            (Some(_), true) => {
                return Err(bad(
                    "Content-Length and Transfer-Encoding contradict each other",
                ));
            }
            (None, true) if version == Version::Http10 => {
                return Err(bad("HTTP/1.0 has no Transfer-Encoding"));
            }
            (None, true) => BodyFraming::Chunked,
            (Some(0) | None, false) => BodyFraming::None,
            (Some(length), false) => BodyFraming::Length(length),
        };
        Ok(HeadFacts {
            framing,
            expect_continue: self.expect_continue,
            version,
        })
    }
}

/// A value without the spaces and tabs around it; other white space is left for the control check.
fn trimmed(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// RFC 9110's token characters.
pub(super) fn token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn control_byte(byte: u8) -> bool {
    byte == 0x7f || (byte < 0x20 && byte != b'\t')
}

fn shadows(lower_name: &[u8]) -> bool {
    let plain: Vec<u8> = lower_name
        .iter()
        .map(|byte| if *byte == b'_' { b'-' } else { *byte })
        .collect();
    SHADOWED.contains(&plain.as_slice())
}

/// A `BadRequest` that says what is wrong.
pub(super) fn bad(what: &str) -> Refusal {
    Refusal::BadRequest {
        message: format!("The request was refused: {what}"),
        param: None,
    }
}

fn too_large(part: Part, limit: usize) -> Refusal {
    Refusal::TooLarge {
        part,
        limit: limit as u64,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
