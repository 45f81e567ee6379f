//! Keeps a credential out of what an upstream sends: some servers repeat the key they were sent
//! in an error.
//!
//! A key is redacted where it occurs whole, also across two pieces of a stream: the end of a piece
//! that may be its beginning is held back until the next one. Every other byte passes unchanged.

use bytes::{Bytes, BytesMut};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use memchr::memchr;
use memchr::memmem::Finder;

use crate::refusal::UpstreamError;

/// A shorter key is not secret, and redacting it would destroy words. In bytes.
const SHORTEST: usize = 4;

/// A key of this many bytes with a digit in it is not a word of an answer. Placeholders that
/// people set where no key is needed (`ollama`, `sk-no-key-required`) have no digit.
const LONG: usize = 16;

/// So much of a key at the end of an excerpt that was shortened is redacted too. In bytes.
const BEGINNING: usize = 8;

/// Replaces a key.
const REDACTED: &str = "[key]";

/// Redacts one key, in texts or in the pieces of one stream.
pub struct Redactor {
    key: Finder<'static>,
    /// Redacted in answers too, not only in errors.
    in_answers: bool,
    /// The end of the last piece, while it may be the beginning of the key.
    held: Bytes,
}

/// The error without any credential that was sent with the request, whatever header it was in:
/// those values are marked as sensitive.
#[must_use]
pub fn without_sent_keys(error: UpstreamError, sent: &HeaderMap) -> UpstreamError {
    let secret = sent.values().filter(|value| value.is_sensitive());
    secret.fold(error, |error, value| without_key(error, key_in(value)))
}

/// The key that was sent as `Authorization`, without its scheme.
pub fn sent_key(sent: &HeaderMap) -> Option<&str> {
    sent.get(AUTHORIZATION).and_then(key_in)
}

/// The error without this key.
#[must_use]
pub fn without_key(error: UpstreamError, key: Option<&str>) -> UpstreamError {
    let Some(key) = key.and_then(Redactor::of) else {
        return error;
    };
    UpstreamError {
        kind: error.kind.map(|text| key.text(&text)),
        code: error.code.map(|text| key.text(&text)),
        param: error.param.map(|text| key.text(&text)),
        excerpt: key.text(&error.excerpt),
        ..error
    }
}

fn key_in(value: &HeaderValue) -> Option<&str> {
    let value = value.to_str().ok()?;
    Some(value.split_once(' ').map_or(value, |(_, key)| key).trim())
}

impl Redactor {
    /// Redacts `key`; `None` if it is too short to be a secret.
    pub fn of(key: &str) -> Option<Self> {
        (key.len() >= SHORTEST).then(|| Self {
            key: Finder::new(key.as_bytes()).into_owned(),
            in_answers: key.len() >= LONG && key.bytes().any(|byte| byte.is_ascii_digit()),
            held: Bytes::new(),
        })
    }

    /// The next bytes to relay, given the next piece of the stream; empty while all of it may be
    /// the beginning of the key. `in_error`: the server has reported an error in the stream.
    pub fn piece(&mut self, piece: Bytes, in_error: bool) -> Bytes {
        if !self.in_answers && !in_error {
            return piece;
        }
        let key = self.key.needle();
        let mut rest = if self.held.is_empty() {
            piece
        } else {
            [std::mem::take(&mut self.held), piece].concat().into()
        };
        let mut clean = BytesMut::new();
        while let Some(at) = self.key.find(&rest) {
            clean.extend_from_slice(&rest.split_to(at));
            clean.extend_from_slice(REDACTED.as_bytes());
            let _key = rest.split_to(key.len());
        }
        self.held = rest.split_off(rest.len() - beginning(key, &rest));
        if clean.is_empty() {
            return rest;
        }
        clean.extend_from_slice(&rest);
        clean.freeze()
    }

    /// The bytes held back, once the stream has ended: they were not the key.
    pub fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.held)
    }

    fn text(&self, text: &str) -> String {
        let key = String::from_utf8_lossy(self.key.needle());
        let mut clean = text.replace(&*key, REDACTED);
        if let Some(start) = clean.strip_suffix('…') {
            let kept = start.len() - beginning(key.as_bytes(), start.as_bytes());
            if start.len() - kept >= BEGINNING {
                clean.truncate(kept);
                clean.push_str(REDACTED);
            }
        }
        clean
    }
}

/// How many bytes at the end of `text` are the beginning of `key`, but not all of it.
fn beginning(key: &[u8], text: &[u8]) -> usize {
    // Most pieces end with a line feed, which no key contains.
    if text.last().is_none_or(|last| memchr(*last, key).is_none()) {
        return 0;
    }
    let most = text.len().min(key.len() - 1);
    let is_beginning = |length: &usize| text.ends_with(&key[..*length]);
    (1..=most).rev().find(is_beginning).unwrap_or(0)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use http::StatusCode;

    use super::*;

    const KEY: &str = "sk-sk-UPSTREAMKEY-1234";

    fn reported(excerpt: &str) -> UpstreamError {
        UpstreamError {
            status: StatusCode::UNAUTHORIZED,
            kind: None,
            code: Some(KEY.to_owned()),
            param: None,
            excerpt: excerpt.to_owned(),
            length: 0,
            retry_after: None,
        }
    }

    #[test]
    fn a_key_is_redacted_whatever_header_it_was_sent_in() {
        for name in ["authorization", "x-api-key", "api-key"] {
            let mut sent = HeaderMap::new();
            sent.insert("user-agent", HeaderValue::from_static("wrong"));
            let mut value = HeaderValue::from_static(KEY);
            value.set_sensitive(true);
            sent.insert(name, value);
            let error = without_sent_keys(reported(&format!("wrong: {KEY}, said")), &sent);
            assert_eq!(error.excerpt, "wrong: [key], said", "in {name}");
        }
    }

    #[test]
    fn an_error_keeps_everything_but_the_key() {
        for (text, clean) in [
            (
                "Incorrect API key provided: {}.",
                "Incorrect API key provided: [key].",
            ),
            ("Bearer {}{}", "Bearer [key][key]"),
            ("Ключ {} ✗", "Ключ [key] ✗"),
            ("shortened: sk-sk-UPST…", "shortened: [key]"),
            ("sk-sk-UPST is not whole", "sk-sk-UPST is not whole"),
            ("", ""),
        ] {
            let error = without_key(reported(&text.replace("{}", KEY)), Some(KEY));
            assert_eq!(error.excerpt, clean);
            assert_eq!(
                error.code.as_deref(),
                Some("[key]"),
                "names are relayed too"
            );
        }
        let short = without_key(reported("the model ollama"), Some("ollama"));
        assert_eq!(short.excerpt, "the model [key]");
        assert_eq!(without_key(reported("a b c"), Some("a")).excerpt, "a b c");
        assert_eq!(without_key(reported("a b c"), None).excerpt, "a b c");
    }

    /// The stream as it is relayed when it arrives cut at these positions.
    fn relayed(key: &str, text: &str, in_error: bool, cuts: &[usize]) -> String {
        let mut redactor = Redactor::of(key).unwrap();
        let mut out = Vec::new();
        let ends = cuts.iter().copied().chain([text.len()]);
        let mut from = 0;
        for end in ends {
            let piece = Bytes::copy_from_slice(&text.as_bytes()[from..end]);
            out.extend_from_slice(&redactor.piece(piece, in_error));
            assert!(redactor.held.len() < key.len(), "holds less than a key");
            from = end;
        }
        out.extend_from_slice(&redactor.rest());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_key_is_redacted_wherever_the_stream_is_cut() {
        let text = format!("data: {{\"error\":\"{KEY}, {KEY}{KEY}\"}}\n\nsk-sk-");
        let clean = text.replace(KEY, "[key]");
        for one in 0..text.len() {
            for two in one..text.len() {
                let now = relayed(KEY, &text, false, &[one, two]);
                assert_eq!(now, clean, "cut at {one} and {two}");
            }
        }
        let every: Vec<usize> = (1..text.len()).collect();
        assert_eq!(relayed(KEY, &text, false, &every), clean);
    }

    #[test]
    fn a_stream_without_the_key_passes_unchanged() {
        let text = "data: sk-sk-sk-UPSTREAMKEY-123\n\nsk-sk-UPSTREAMKEY-12";
        for cut in 0..text.len() {
            assert_eq!(relayed(KEY, text, true, &[cut]), text);
        }
        let piece = Bytes::from_static(b"data: hello sk-sk\n\n");
        let passed = Redactor::of(KEY).unwrap().piece(piece.clone(), true);
        assert_eq!(passed.as_ptr(), piece.as_ptr(), "and is not copied");
    }

    #[test]
    fn a_key_that_may_be_a_word_is_redacted_in_errors_only() {
        let text = "data: ask ollama\n\n";
        assert_eq!(relayed("ollama", text, false, &[12]), text);
        assert_eq!(relayed("ollama", text, true, &[12]), "data: ask [key]\n\n");
        let placeholder = "sk-no-key-required";
        let text = format!("data: pass {placeholder}\n\n");
        assert_eq!(relayed(placeholder, &text, false, &[20]), text);
        assert!(Redactor::of("abc").is_none(), "too short to be secret");
    }
}
