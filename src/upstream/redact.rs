//! Keeps a credential out of what an upstream says: some servers repeat the key that they were
//! sent, whole or in part, to whoever asks.
//!
//! Not here: errors inside a stream ([`crate::proxy::body::redact`]).

use std::collections::HashSet;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};

use crate::refusal::UpstreamError;

/// So many characters in a row of a key are masked; fewer give nothing away and may be a word.
const PART: usize = 8;

/// A shorter key is no secret, and masking it would eat words.
pub const SHORTEST: usize = 4;

/// What stands in a key's place.
pub const MASK: &str = "[key]";

/// The error without any credential that was sent with the request, whatever header it was in:
/// those are marked as sensitive.
#[must_use]
pub fn without_sent_keys(error: UpstreamError, sent: &HeaderMap) -> UpstreamError {
    let secret = sent.values().filter(|value| value.is_sensitive());
    secret.fold(error, |error, value| without_key(error, key_in(value)))
}

/// The key that was sent as `Authorization`, behind its scheme.
pub fn sent_key(sent: &HeaderMap) -> Option<&str> {
    sent.get(AUTHORIZATION).and_then(key_in)
}

fn key_in(value: &HeaderValue) -> Option<&str> {
    let value = value.to_str().ok()?;
    Some(value.split_once(' ').map_or(value, |(_, key)| key).trim())
}

/// The error without this key.
#[must_use]
pub fn without_key(error: UpstreamError, key: Option<&str>) -> UpstreamError {
    let Some(key) = key.filter(|key| key.chars().count() >= SHORTEST) else {
        return error;
    };
    let key: Vec<char> = key.chars().collect();
    let named = |text: Option<String>| text.map(|text| masked(&text, &key));
    UpstreamError {
        kind: named(error.kind),
        code: named(error.code),
        param: named(error.param),
        excerpt: masked(&error.excerpt, &key),
        ..error
    }
}

/// Every run of the text that is the key, or at least [`PART`] characters of it, gives way.
fn masked(text: &str, key: &[char]) -> String {
    let part = PART.min(key.len());
    let parts: HashSet<&[char]> = key.windows(part).collect();
    let text: Vec<char> = text.chars().collect();
    let hit = |at: usize| {
        text.get(at..at + part)
            .is_some_and(|run| parts.contains(run))
    };
    let mut clean = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(letter) = text.get(at) {
        if !hit(at) {
            clean.push(*letter);
            at += 1;
            continue;
        }
        while hit(at) {
            at += 1;
        }
        // The last hit covers the rest of its run.
        at += part - 1;
        clean.push_str(MASK);
    }
    clean
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    fn said(excerpt: &str) -> UpstreamError {
        UpstreamError {
            status: StatusCode::UNAUTHORIZED,
            kind: None,
            code: Some("sk-UPSTREAMKEY-1234".to_owned()),
            param: None,
            excerpt: excerpt.to_owned(),
            length: 0,
            retry_after: None,
        }
    }

    #[test]
    fn a_key_gives_way_whatever_header_it_was_sent_in() {
        for name in ["authorization", "x-api-key", "api-key"] {
            let mut sent = HeaderMap::new();
            sent.insert("user-agent", HeaderValue::from_static("said"));
            let mut value = HeaderValue::from_static("sk-UPSTREAMKEY-1234");
            value.set_sensitive(true);
            sent.insert(name, value);
            let error = without_sent_keys(said("wrong: sk-UPSTREAMKEY-1234, said"), &sent);
            assert_eq!(error.excerpt, "wrong: [key], said", "in {name}");
        }
    }

    #[test]
    fn a_key_and_every_longer_part_of_it_give_way_and_nothing_else_does() {
        let key = Some("sk-UPSTREAMKEY-1234");
        for (text, clean) in [
            (
                "Incorrect API key provided: sk-UPSTREAMKEY-1234.",
                "Incorrect API key provided: [key].",
            ),
            (
                "Bearer sk-UPSTREAMKEY-1234sk-UPSTREAMKEY-1234",
                "Bearer [key][key]",
            ),
            ("sk-UPSTR***********1234", "[key]***********1234"),
            ("ends in AMKEY-1234", "ends in [key]"),
            ("cut: sk-UPSTREAMK", "cut: [key]"),
            (
                "sk-UPST is the start of many",
                "sk-UPST is the start of many",
            ),
            ("Ключ sk-UPSTREAMKEY-1234 ✗", "Ключ [key] ✗"),
            ("", ""),
        ] {
            let error = without_key(said(text), key);
            assert_eq!(error.excerpt, clean);
            assert_eq!(
                error.code.as_deref(),
                Some("[key]"),
                "names are relayed too"
            );
        }
        assert_eq!(
            without_key(said("the model ollama"), Some("ollama")).excerpt,
            "the model [key]",
            "a short key is masked as a whole"
        );
        assert_eq!(without_key(said("a b c"), Some("a")).excerpt, "a b c");
        assert_eq!(without_key(said("a b c"), None).excerpt, "a b c");
    }
}
