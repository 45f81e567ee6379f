//! Judges the bytes of a request target: one path, with one reading.

use super::head::bad;
use crate::refusal::Refusal;

/// A target is a plain absolute path with an optional query, and nothing in its path has a second
/// reading: no escape for a dot, a slash, a backslash or NUL, no empty or dotted segment.
pub(super) fn judge(target: &[u8]) -> Result<(), Refusal> {
    if target.first() != Some(&b'/') {
        return Err(bad("the request target must be a path that starts with /"));
    }
    let cut = memchr::memchr(b'?', target).unwrap_or(target.len());
    let (path, query) = target.split_at(cut);
    if !path.iter().all(|byte| path_byte(*byte)) {
        return Err(bad("the path has a byte that no served path has"));
    }
    if !query.iter().all(|byte| query_byte(*byte)) {
        return Err(bad("the query has a byte that must be percent-encoded"));
    }
    if path.windows(3).any(has_second_reading) {
        return Err(bad(
            "the path has an encoded dot, slash, backslash or NUL; paths are matched as they are",
        ));
    }
    let segments = path[1..].split(|byte| *byte == b'/');
    let last = segments.clone().count() - 1;
    for (at, segment) in segments.enumerate() {
        if matches!(segment, b"." | b"..") || (segment.is_empty() && at != last) {
            return Err(bad(
                "the path has an empty or dotted segment; paths are matched as they are",
            ));
        }
    }
    Ok(())
}

fn has_second_reading(window: &[u8]) -> bool {
    window[0] == b'%'
        && matches!(
            (window[1], window[2].to_ascii_lowercase()),
            (b'2', b'e' | b'f') | (b'5', b'c') | (b'0', b'0')
        )
}

/// RFC 3986's path characters, save `;`.
fn path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,=:@/".contains(&byte)
}

/// A query may also hold `;`, `?` and brackets: nothing matches on it.
fn query_byte(byte: u8) -> bool {
    path_byte(byte) || b"?;[]".contains(&byte)
}
