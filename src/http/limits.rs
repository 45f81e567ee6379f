//! What one client may use: bytes, header fields, connections and time.
//!
//! Constants, because no user has a reason to change them; tests shorten the times
//! (`fault-injection` only). Not here: the limits of the queue, which are settings.

use std::time::Duration;

use http::HeaderMap;
use http::header::TRANSFER_ENCODING;
use http::request::Parts;

use crate::refusal::{Part, Refusal};

/// Most clients that may follow the events at once: a panel, a terminal, some programs.
pub(crate) const FOLLOWERS: usize = 16;

/// Bytes of all header fields of a request together.
const HEADER_BYTES: usize = 32 * 1024;
/// Header fields of one request: more than any known client sends.
const HEADER_FIELDS: usize = 64;
/// Bytes of a request target.
const URI_BYTES: usize = 8 * 1024;
/// What hyper may buffer of a connection. Twice a header, so that a header just over its limit is
/// still parsed and refused with an explanation; beyond this hyper answers 431 by itself.
pub(super) const BUFFER: usize = 2 * HEADER_BYTES;

const MIB: u64 = 1024 * 1024;

/// What one client may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Connections open at once, over all listeners. Each takes a permit before it is accepted.
    pub(crate) connections: usize,
    /// From the moment the connection is ready for a request to the end of its header. hyper has
    /// one timer for this, so it also ends idle connections.
    pub(crate) header: Duration,
    /// Between two pieces of a request body.
    pub(crate) body_idle: Duration,
    /// From the header to the end of the body.
    pub(crate) body_whole: Duration,
    /// For how long a client's socket may take no byte of a response.
    pub(crate) write_idle: Duration,
    /// Bytes of one request body.
    pub(crate) body_bytes: u64,
    /// Bytes of all large request bodies held at once, until the queue counts them.
    pub(crate) held_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            header: Duration::from_secs(30),
            body_idle: Duration::from_secs(30),
            body_whole: Duration::from_secs(300),
            write_idle: Duration::from_secs(60),
            body_bytes: 64 * MIB,
            held_bytes: 256 * MIB,
        }
    }
}

impl Limits {
    /// The limits of this run.
    pub(crate) fn of_this_run() -> Self {
        let limits = Self::default();
        #[cfg(feature = "fault-injection")]
        let limits = limits.overridden(&std::env::var("ONESLOT_TEST_LIMITS").unwrap_or_default());
        limits
    }

    /// `header_ms=1000 connections=8`: for tests that cannot wait for the real limits.
    #[cfg(feature = "fault-injection")]
    fn overridden(mut self, text: &str) -> Self {
        for (name, value) in text.split(' ').filter_map(|pair| pair.split_once('=')) {
            let Ok(value) = value.parse::<u64>() else {
                continue;
            };
            let time = Duration::from_millis(value);
            match name {
                "connections" => self.connections = usize::try_from(value).unwrap_or(1),
                "header_ms" => self.header = time,
                "body_idle_ms" => self.body_idle = time,
                "body_whole_ms" => self.body_whole = time,
                "write_idle_ms" => self.write_idle = time,
                "body_bytes" => self.body_bytes = value,
                "held_bytes" => self.held_bytes = value,
                _ => {}
            }
        }
        self
    }
}

/// Checks the form and the sizes of a parsed request header.
///
/// # Errors
/// `BadRequest` for a target that is not a path, `TooLarge` for sizes.
pub(super) fn check_header(parts: &Parts) -> Result<(), Refusal> {
    if parts.uri.scheme().is_some() || parts.uri.authority().is_some() {
        return Err(bad("The request target must be a path that starts with /"));
    }
    if !has_plain_framing(&parts.headers) {
        return Err(bad("Transfer-Encoding must be exactly chunked"));
    }
    let target = parts
        .uri
        .path_and_query()
        .map_or(0, |all| all.as_str().len());
    if target > URI_BYTES {
        return Err(too_large(Part::Uri, URI_BYTES));
    }
    if parts.headers.len() > HEADER_FIELDS {
        return Err(too_large(Part::Fields, HEADER_FIELDS));
    }
    let fields = parts.headers.iter();
    let bytes: usize = fields
        .map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len())
        .sum();
    if target + bytes > HEADER_BYTES {
        return Err(too_large(Part::Head, HEADER_BYTES));
    }
    Ok(())
}

/// Whether a body is framed in the one way that every program reads alike. The others (`gzip,
/// chunked`, or given twice) are refused, and what follows on the connection is not read.
pub(super) fn has_plain_framing(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(coding), None) => coding.as_bytes().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

fn bad(message: &str) -> Refusal {
    Refusal::BadRequest {
        message: message.to_owned(),
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
mod tests {
    use super::*;

    fn checked(target: &str, fields: usize, bytes: usize) -> Result<(), Refusal> {
        let mut request = http::Request::get(target);
        for at in 0..fields {
            request = request.header(format!("x-{at}"), "v".repeat(bytes));
        }
        check_header(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn sizes_are_limited_and_targets_are_paths() {
        let part = |checked| match checked {
            Err(Refusal::TooLarge { part, .. }) => Some(part),
            _ => None,
        };
        let long = format!("/{}", "x".repeat(URI_BYTES));
        assert_eq!(checked("/v1/models", 64, 100), Ok(()));
        assert_eq!(part(checked("/v1/models", 65, 1)), Some(Part::Fields));
        assert_eq!(part(checked("/v1/models", 2, 17_000)), Some(Part::Head));
        assert_eq!(part(checked(&long, 1, 1)), Some(Part::Uri));
        for target in ["http://localhost/v1/models", "localhost:443"] {
            let checked = checked(target, 1, 1);
            assert!(
                matches!(checked, Err(Refusal::BadRequest { .. })),
                "{target}"
            );
        }
    }

    #[cfg(feature = "fault-injection")]
    #[test]
    fn tests_can_shorten_a_limit() {
        let limits = Limits::default().overridden("header_ms=5 connections=8 odd x=1");
        assert_eq!(limits.header, Duration::from_millis(5));
        assert_eq!((limits.connections, limits.body_bytes), (8, 64 * MIB));
    }
}
