//! What a JSON string spells.

use crate::request::size::code_unit;

/// Decodes what stands between a string's quotes. Takes text the scanner has passed; half a
/// surrogate pair becomes U+FFFD.
pub(super) fn decode(raw: &[u8]) -> String {
    let mut units: Vec<u8> = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((first, tail)) = rest.split_first() {
        if *first != b'\\' {
            units.push(*first);
            rest = tail;
            continue;
        }
        let (letter, length) = escaped(rest);
        let mut buffer = [0; 4];
        units.extend_from_slice(letter.encode_utf8(&mut buffer).as_bytes());
        rest = rest.get(length..).unwrap_or_default();
    }
    String::from_utf8_lossy(&units).into_owned()
}

/// Whether a key, however it is escaped, spells `name`.
pub(super) fn is_key(raw: &[u8], name: &str) -> bool {
    raw == name.as_bytes() || (raw.contains(&b'\\') && decode(raw) == name)
}

fn escaped(raw: &[u8]) -> (char, usize) {
    if let Some(unit) = code_unit(raw) {
        let low = code_unit(raw.get(6..).unwrap_or_default());
        let pair = low.and_then(|low| char::decode_utf16([unit, low]).next());
        return match (char::from_u32(u32::from(unit)), pair) {
            (Some(letter), _) => (letter, 6),
            (None, Some(Ok(letter))) => (letter, 12),
            (None, _) => (char::REPLACEMENT_CHARACTER, 6),
        };
    }
    let letter = match raw.get(1) {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(other) => char::from(*other),
        None => char::REPLACEMENT_CHARACTER,
    };
    (letter, 2)
}
