//! Keeps the configured key of the model server out of a stream: an error in one may repeat it.
//!
//! Every byte of a stream without the key passes as it came. Looked for is the whole key, also
//! where two pieces share it: the end of a piece that may be its beginning waits for the next one.
//! A short key, or one without a digit, may be a word of an answer (`ollama` is a usual one), so it
//! is looked for only from the piece on that makes the server's error whole.
//!
//! Not here: errors that are not in a stream ([`crate::upstream`]).

use bytes::{Bytes, BytesMut};
use memchr::memchr;
use memchr::memmem::Finder;

use crate::upstream::{MASK, SHORTEST};

/// A key of so many bytes, with a digit in it, is nothing that a model would write. Placeholders
/// that people set where no key is asked for (`sk-no-key-required`) have none.
const LONG: usize = 16;

/// What a piece of a stream is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The answer.
    Answer,
    /// What the server says once it has reported an error.
    Error,
}

/// Looks for one key in the pieces of one stream.
pub struct Secret {
    key: Finder<'static>,
    /// Looked for in answers too.
    is_no_word: bool,
    /// The end of the last piece, while it may be the beginning of the key.
    held: Bytes,
}

impl Secret {
    /// Looks for `key`; `None` where that is too short to be a secret.
    pub fn of(key: &str) -> Option<Self> {
        (key.chars().count() >= SHORTEST).then(|| Self {
            key: Finder::new(key.as_bytes()).into_owned(),
            is_no_word: key.len() >= LONG && key.bytes().any(|byte| byte.is_ascii_digit()),
            held: Bytes::new(),
        })
    }

    /// What of the stream can go on now that this piece has come: nothing while all of it may be
    /// the beginning of the key.
    pub fn pass(&mut self, piece: Bytes, part: Part) -> Bytes {
        let key = self.key.needle();
        if !self.is_no_word && part == Part::Answer {
            return piece;
        }
        let mut rest = if self.held.is_empty() {
            piece
        } else {
            [std::mem::take(&mut self.held), piece].concat().into()
        };
        let mut clean = BytesMut::new();
        while let Some(at) = self.key.find(&rest) {
            clean.extend_from_slice(&rest.split_to(at));
            clean.extend_from_slice(MASK.as_bytes());
            let _key = rest.split_to(key.len());
        }
        self.held = rest.split_off(rest.len() - begun(key, &rest));
        if clean.is_empty() {
            return rest;
        }
        clean.extend_from_slice(&rest);
        clean.freeze()
    }

    /// What was held back, once nothing follows: it was not the key.
    pub fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.held)
    }
}

/// How many bytes at the end of `text` are the beginning of `key`, but not all of it.
fn begun(key: &[u8], text: &[u8]) -> usize {
    // Most pieces end with a line, which no key has in it.
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
    use super::*;

    const KEY: &str = "sk-sk-UPSTREAMKEY-1234";

    /// The stream as it goes on when it comes cut at these places.
    fn relayed(key: &str, text: &str, part: Part, cuts: &[usize]) -> String {
        let mut secret = Secret::of(key).unwrap();
        let mut out = Vec::new();
        let ends = cuts.iter().copied().chain([text.len()]);
        let mut from = 0;
        for end in ends {
            let piece = Bytes::copy_from_slice(&text.as_bytes()[from..end]);
            out.extend_from_slice(&secret.pass(piece, part));
            assert!(secret.held.len() < key.len(), "no more than may be the key");
            from = end;
        }
        out.extend_from_slice(&secret.rest());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_key_gives_way_wherever_the_stream_is_cut() {
        let text = format!("data: {{\"error\":\"{KEY}, {KEY}{KEY}\"}}\n\nsk-sk-");
        let clean = text.replace(KEY, "[key]");
        for one in 0..text.len() {
            for two in one..text.len() {
                let now = relayed(KEY, &text, Part::Answer, &[one, two]);
                assert_eq!(now, clean, "cut at {one} and {two}");
            }
        }
        let every: Vec<usize> = (1..text.len()).collect();
        assert_eq!(relayed(KEY, &text, Part::Answer, &every), clean);
    }

    #[test]
    fn a_stream_without_the_key_passes_as_it_came() {
        let text = "data: sk-sk-sk-UPSTREAMKEY-123\n\nsk-sk-UPSTREAMKEY-12";
        for cut in 0..text.len() {
            assert_eq!(relayed(KEY, text, Part::Error, &[cut]), text);
        }
        let piece = Bytes::from_static(b"data: hello sk-sk\n\n");
        let passed = Secret::of(KEY).unwrap().pass(piece.clone(), Part::Error);
        assert_eq!(passed.as_ptr(), piece.as_ptr(), "and is not copied");
    }

    #[test]
    fn a_word_that_is_also_the_key_passes_in_an_answer_and_not_in_an_error() {
        let text = "data: ask ollama\n\n";
        assert_eq!(relayed("ollama", text, Part::Answer, &[12]), text);
        let masked = relayed("ollama", text, Part::Error, &[12]);
        assert_eq!(masked, "data: ask [key]\n\n");
        let placeholder = "sk-no-key-required";
        let text = format!("data: pass {placeholder}\n\n");
        assert_eq!(relayed(placeholder, &text, Part::Answer, &[20]), text);
        assert!(Secret::of("abc").is_none(), "this is no secret");
    }
}
