//! Every form in which one secret can stand in a header: bare, behind a scheme, quoted, as a
//! parameter (`token="…"`), as user or password of `Basic`.
//!
//! A secret of the gateway is known by its hash alone, so what a header holds is cut at every
//! separator, and each run of neighbouring pieces is asked about. Not here: whose the secret is
//! ([`super::keys`]).

use std::iter;

/// More separated pieces than the credential of any scheme has. What has more is not looked
/// through, and is taken for a disguise.
const PIECES: usize = 64;

/// The most neighbouring pieces that are tried as one, for secrets that hold separators
/// themselves.
const RUN: usize = 8;

/// Whether `is_secret` says so of anything that `value` holds, in any of its forms.
pub(super) fn holds(value: &[u8], is_secret: impl Fn(&[u8]) -> bool) -> bool {
    let pieces = pieces(value);
    if pieces.len() > PIECES {
        return true;
    }
    let decoded = pieces.iter().filter_map(|(from, to)| {
        let piece = decode(&value[*from..*to])?;
        Some(piece).filter(|piece| !piece.is_empty())
    });
    is_secret(value)
        || runs(value, &pieces).any(&is_secret)
        || decoded.into_iter().any(|inner| {
            let pieces = self::pieces(&inner);
            pieces.len() > PIECES || is_secret(&inner) || runs(&inner, &pieces).any(&is_secret)
        })
}

/// Runs of up to [`RUN`] neighbouring pieces, each from a piece's start to a piece's end.
fn runs<'a>(value: &'a [u8], pieces: &'a [(usize, usize)]) -> impl Iterator<Item = &'a [u8]> {
    pieces.iter().enumerate().flat_map(move |(at, (from, _))| {
        let ends = pieces[at..].iter().take(RUN);
        ends.map(move |(_, to)| &value[*from..*to])
    })
}

/// Where the pieces between separators start and end.
fn pieces(value: &[u8]) -> Vec<(usize, usize)> {
    let ends = (0..value.len()).filter(|at| separates(value[*at]));
    let mut from = 0;
    let mut pieces = Vec::new();
    for end in ends.chain(iter::once(value.len())) {
        if end > from {
            pieces.push((from, end));
        }
        from = end + 1;
    }
    pieces
}

fn separates(byte: u8) -> bool {
    byte.is_ascii_whitespace() || b"\"',;=:".contains(&byte)
}

/// The bytes behind a base64 text of either alphabet, whose padding is cut off already.
fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut held, mut bits) = (0_u32, 0_u32);
    for byte in text {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        held = (held << 6 | u32::from(six)) & 0xffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds_key(value: &str) -> bool {
        holds(value.as_bytes(), |shown| shown == b"osk-a.b_c")
    }

    #[test]
    fn a_secret_is_found_bare_quoted_as_a_parameter_and_behind_any_scheme() {
        for value in [
            "osk-a.b_c",
            "Bearer osk-a.b_c",
            "Bearer Bearer   osk-a.b_c ",
            "Bearer \"osk-a.b_c\"",
            "Bearer 'osk-a.b_c'",
            "Token token=\"osk-a.b_c\"",
            "Token token=osk-a.b_c, user=x",
            "Bearer x, Bearer osk-a.b_c",
            "apikey:osk-a.b_c",
        ] {
            assert!(holds_key(value), "{value}");
        }
        for value in [
            "",
            "Bearer",
            "Bearer sk-other",
            "Bearer osk-a.b_cd",
            "osk-a.b",
        ] {
            assert!(!holds_key(value), "{value}");
        }
    }

    #[test]
    fn a_secret_is_found_as_either_half_of_basic_with_or_without_padding() {
        for value in [
            "Basic dXNlcjpvc2stYS5iX2M=", // user:KEY
            "Basic dXNlcjpvc2stYS5iX2M",  // the same, without its padding
            "basic b3NrLWEuYl9jOg==",     // KEY:
            "Basic b3NrLWEuYl9jOnBhc3M=", // KEY:pass
            "Basic b3NrLWEuYl9j",         // KEY
            "b3NrLWEuYl9j",
        ] {
            assert!(holds_key(value), "{value}");
        }
        assert!(!holds_key("Basic dXNlcjpwYXNz"), "user:pass");
    }

    #[test]
    fn a_secret_may_hold_separators_itself() {
        let is = |shown: &[u8]| shown == b"my key: a=b";
        assert!(holds(b"Bearer \"my key: a=b\"", is));
        assert!(holds(b"Basic dXNlcjpteSBrZXk6IGE9Yg==", is));
    }

    #[test]
    fn what_has_too_many_pieces_to_be_looked_through_is_taken_for_a_disguise() {
        let value = ",x".repeat(PIECES + 1);
        assert!(holds(value.as_bytes(), |_| false));
        assert!(!holds(b",x,x", |_| false));
    }
}
