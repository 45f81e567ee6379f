//! One visitor over JSON text that yields raw slices of the body, never copies.
//!
//! [`walk`] visits one level. Values stay `RawValue`s, which `serde_json` validates without
//! recursion, so deep nesting cannot exhaust the stack. Lone surrogates are legal JSON and pass;
//! the upstream decides about them.
//!
//! Not here: what a member means ([`super::dialect`]).

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use memchr::memchr2;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::refusal::Refusal;

/// Most objects and arrays that may be open at once.
pub(super) const MAX_DEPTH: usize = 128;

/// Calls its function for each member of an object (with the key, quotes included) and for each
/// item of an array (with an empty key).
struct Walk<F>(F);

impl<'a, F: FnMut(&'a str, &'a str)> Visitor<'a> for Walk<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'a>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some((key, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            (self.0)(key.get(), value.get());
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'a>>(mut self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element::<&RawValue>()? {
            (self.0)("", item.get());
        }
        Ok(())
    }
}

/// Calls `each` with key and value of every member, or with an empty key and every item.
///
/// # Errors
/// When `json` is not exactly one object or array.
pub(super) fn walk<'a>(
    json: &'a str,
    each: impl FnMut(&'a str, &'a str),
) -> Result<(), serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(json);
    reader.deserialize_any(Walk(each))?;
    reader.end()
}

/// The body as text that is one JSON object of legal depth.
///
/// # Errors
/// [`Refusal::BadRequest`] that says what is wrong. The text of the object itself is only
/// validated by [`walk`].
pub(super) fn object(raw: &[u8]) -> Result<&str, Refusal> {
    let text = std::str::from_utf8(raw).map_err(|error| {
        let at = error.valid_up_to();
        bad_request(
            &format!("The body is not valid UTF-8 at byte {at}; send one JSON object"),
            None,
        )
    })?;
    let inner = text.trim_ascii();
    if inner.is_empty() {
        return Err(bad_request("The body is empty; send one JSON object", None));
    }
    if is_too_deep(raw) {
        let message = format!("The body is nested deeper than {MAX_DEPTH} levels");
        return Err(bad_request(&message, None));
    }
    if !inner.starts_with('{') {
        serde_json::from_str::<&RawValue>(inner).map_err(|error| not_json(&error))?;
        return Err(bad_request("The body must be a JSON object", None));
    }
    Ok(text)
}

/// The refusal of text that is not JSON; the parser's message has a position and no content.
pub(super) fn not_json(error: &serde_json::Error) -> Refusal {
    bad_request(
        &format!("The body is not valid JSON: {error}; send one JSON object"),
        None,
    )
}

pub(super) fn bad_request(message: &str, param: Option<&'static str>) -> Refusal {
    Refusal::BadRequest {
        message: message.to_owned(),
        param,
    }
}

/// Where `part`, a slice of `body`, is in it.
pub(super) fn range_in(body: &[u8], part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - body.as_ptr().addr();
    start..start + part.len()
}

/// Whether a key, quotes included and however it is escaped, spells `name`.
pub(super) fn is_key(key: &str, name: &str) -> bool {
    inner(key) == name || (key.contains('\\') && decode(key) == name)
}

/// The text of a JSON string without its quotes, still escaped.
pub(super) fn inner(string: &str) -> &str {
    string
        .get(1..string.len().saturating_sub(1))
        .unwrap_or_default()
}

/// Decodes a JSON string; a lone surrogate becomes U+FFFD.
pub(super) fn decode(string: &str) -> Cow<'_, str> {
    if !string.contains('\\') {
        return Cow::Borrowed(inner(string));
    }
    struct Decoded;
    impl Visitor<'_> for Decoded {
        type Value = String;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }
        fn visit_bytes<E>(self, bytes: &[u8]) -> Result<String, E> {
            Ok(String::from_utf8_lossy(bytes).into_owned())
        }
    }
    let mut reader = serde_json::Deserializer::from_str(string);
    // As bytes, since only those may hold a lone surrogate.
    Cow::Owned(reader.deserialize_bytes(Decoded).unwrap_or_default())
}

/// Whether more than [`MAX_DEPTH`] brackets are open at once, outside of strings.
fn is_too_deep(raw: &[u8]) -> bool {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = raw.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => at = string_end(raw, at),
            _ => {}
        }
    }
    false
}

/// The position behind the quote that closes the string whose text begins at `at`.
pub(super) fn string_end(raw: &[u8], mut at: usize) -> usize {
    while let Some(found) = raw.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found;
        if raw.get(at) == Some(&b'"') {
            return at + 1;
        }
        at += 2;
    }
    raw.len()
}
