//! The harmless request that the HTTP library gets in place of a refused one.

/// For most methods.
const ANY: &[u8] = b"GET /oneslot-refused HTTP/1.1\r\nhost: refused\r\nconnection: close\r\n\r\n";
/// For a refused `HEAD`, whose answer has no body.
const HEAD: &[u8] = b"HEAD /oneslot-refused HTTP/1.1\r\nhost: refused\r\nconnection: close\r\n\r\n";

/// What stands for a refused request that began with these bytes.
pub(super) fn of(refused: &[u8]) -> &'static [u8] {
    if refused.starts_with(b"HEAD ") {
        HEAD
    } else {
        ANY
    }
}
