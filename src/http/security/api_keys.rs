//! The gateway's own API keys: which client holds one, and which headers carry one.
//!
//! The gateway knows only hashes. A key is compared with every hash in constant time, so that
//! neither a position in the list nor a common prefix shows in the response time.
//!
//! Not here: the control token of a run, which opens the gateway's own paths.

use std::hint::black_box;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest, Sha256};

use crate::refusal::{Refusal, Wanted};

/// One named key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The name a person gave it.
    pub name: String,
    /// SHA-256 of the key.
    pub sha256: [u8; 32],
}

/// Whether a caller has to show a key (`access.require_key`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// Without a key nothing is served.
    Required,
    /// A key only names its holder.
    Optional,
}

/// The second header a key may come in.
pub(super) const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Judges what a caller shows, as `Authorization: Bearer …` or `x-api-key`; the name of the key
/// it holds, if it holds one.
///
/// # Errors
///
/// `Unauthorized` when a key is demanded and none of what was shown is one.
pub fn authorize<'a>(
    headers: &HeaderMap,
    keys: &'a [Key],
    demand: Demand,
) -> Result<Option<&'a str>, Refusal> {
    let bearer = headers.get_all(AUTHORIZATION).iter().filter_map(bearer);
    let plain = headers.get_all(X_API_KEY).iter().map(HeaderValue::as_bytes);
    let holder = bearer.chain(plain).find_map(|shown| holder(shown, keys));
    match (holder, demand) {
        (None, Demand::Required) => Err(Refusal::Unauthorized {
            wanted: Wanted::Key,
        }),
        (holder, _) => Ok(holder),
    }
}

/// Whether one of the gateway's secrets stands whole in a header value: as all of it, or as one of
/// its words (`Bearer KEY`). Such a header is not passed on.
pub fn is_own(value: &HeaderValue, secrets: &[Key]) -> bool {
    let words = value.as_bytes().split(|byte| b" \t,;\"'=".contains(byte));
    words
        .filter(|word| !word.is_empty())
        .any(|word| holder(word, secrets).is_some())
}

/// What stands behind `Bearer`, in any case.
fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, rest) = value.as_bytes().split_at_checked("bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"bearer ")
        .then(|| rest.trim_ascii())
}

/// The name of the key that was shown. Looks at every key, whichever matches.
fn holder<'a>(shown: &[u8], keys: &'a [Key]) -> Option<&'a str> {
    let hash: [u8; 32] = Sha256::digest(shown).into();
    let mut found = None;
    for key in keys {
        if same(&hash, &key.sha256) {
            found = Some(key.name.as_str());
        }
    }
    found
}

/// Compares in a time that does not depend on where two hashes differ.
fn same(left: &[u8; 32], right: &[u8; 32]) -> bool {
    let difference = left
        .iter()
        .zip(right)
        .fold(0, |difference, (left, right)| difference | (left ^ right));
    black_box(difference) == 0
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn keys() -> Vec<Key> {
        ["zed-key-0001", "pi-key-0002"]
            .map(|key| Key {
                name: key[..key.find('-').unwrap()].to_owned(),
                sha256: Sha256::digest(key).into(),
            })
            .to_vec()
    }

    fn shows(name: &'static str, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::try_from(value).unwrap());
        headers
    }

    #[test]
    fn a_key_is_taken_in_either_header() {
        let keys = keys();
        let cases = [
            ("authorization", "Bearer zed-key-0001", "zed"),
            ("authorization", "bearer zed-key-0001", "zed"),
            ("authorization", "BEARER   zed-key-0001", "zed"),
            ("x-api-key", "pi-key-0002", "pi"),
        ];
        for (header, value, name) in cases {
            let judged = authorize(&shows(header, value), &keys, Demand::Required);
            assert_eq!(judged, Ok(Some(name)), "{header}: {value}");
        }
    }

    #[test]
    fn anything_else_is_unauthorized_where_a_key_is_required() {
        let keys = keys();
        let cases = [
            ("authorization", "Bearer wrong"),
            ("authorization", "Bearer zed-key-000"),
            ("authorization", "Bearer zed-key-00011"),
            ("authorization", "Bearer zed-key-0001, x"),
            ("authorization", "Bearer"),
            ("authorization", "Bearer "),
            ("authorization", ""),
            ("authorization", "zed-key-0001"),
            ("authorization", "Basic zed-key-0001"),
            ("authorization", "Bearer ZED-KEY-0001"),
            ("x-api-key", "Bearer zed-key-0001"),
            ("x-api-key", ""),
            ("cookie", "key=zed-key-0001"),
            ("x-other", "zed-key-0001"),
        ];
        for (header, value) in cases {
            let headers = shows(header, value);
            let judged = authorize(&headers, &keys, Demand::Required);
            assert_eq!(
                judged,
                Err(Refusal::Unauthorized {
                    wanted: Wanted::Key
                }),
                "{header}: {value}"
            );
            assert_eq!(authorize(&headers, &keys, Demand::Optional), Ok(None));
        }
        let none = authorize(&HeaderMap::new(), &keys, Demand::Required);
        assert_eq!(
            none,
            Err(Refusal::Unauthorized {
                wanted: Wanted::Key
            }),
            "no key at all"
        );
        let no_keys = authorize(&shows("x-api-key", "a"), &[], Demand::Required);
        assert_eq!(
            no_keys,
            Err(Refusal::Unauthorized {
                wanted: Wanted::Key
            }),
            "no keys open nothing"
        );
    }

    #[test]
    fn the_key_of_another_service_may_stand_beside_ours() {
        let mut headers = shows("authorization", "Bearer sk-upstream");
        headers.insert(X_API_KEY, HeaderValue::from_static("pi-key-0002"));
        assert_eq!(
            authorize(&headers, &keys(), Demand::Required),
            Ok(Some("pi"))
        );
    }

    #[test]
    fn a_key_is_recognised_where_it_stands_whole() {
        for value in [
            "zed-key-0001",
            "Bearer zed-key-0001",
            "bearer  zed-key-0001",
            "Basic zed-key-0001",
            "Token token=\"zed-key-0001\"",
            "a, zed-key-0001",
        ] {
            let value = HeaderValue::from_static(value);
            assert!(is_own(&value, &keys()), "{value:?} must not pass");
        }
        for value in ["Bearer sk-upstream", "", "Bearer", "zed-key-00011"] {
            let value = HeaderValue::from_static(value);
            assert!(!is_own(&value, &keys()), "{value:?}");
        }
    }
}
