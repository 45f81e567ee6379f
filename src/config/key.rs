//! Keys of apps: made once, shown once, kept as a digest.

use super::{Key, Settings};

impl Key {
    /// The digest under which a key's text is kept.
    pub fn digest(text: &str) -> [u8; 32] {
        use sha2::Digest as _;
        sha2::Sha256::digest(text.as_bytes()).into()
    }

    /// Makes a new key called `name`: what is kept, and the text that is shown once.
    ///
    /// # Errors
    ///
    /// If the system gives no random bytes.
    pub fn make(name: &str) -> Result<(Self, String), getrandom::Error> {
        let mut bytes = [0_u8; 32];
        getrandom::fill(&mut bytes)?;
        let text = format!("os-{}", base64url(&bytes));
        Ok((
            Self {
                name: name.to_owned(),
                sha256: Self::digest(&text),
            },
            text,
        ))
    }
}

impl Settings {
    /// The key whose text is `given`, if there is one; compares digests, so that the time it
    /// takes says nothing about a key.
    pub fn key_of(&self, given: &str) -> Option<&Key> {
        let digest = Key::digest(given);
        self.access.keys.iter().find(|key| key.sha256 == digest)
    }
}

/// RFC 4648 section 5, without padding: letters, digits, `-` and `_` survive every shell.
fn base64url(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let letter = |bits: u32| {
        LETTERS
            .get((bits & 63) as usize)
            .map_or('-', |byte| char::from(*byte))
    };
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, at| {
            (bits << 8) | u32::from(chunk.get(at).copied().unwrap_or_default())
        });
        let whole = [
            letter(bits >> 18),
            letter(bits >> 12),
            letter(bits >> 6),
            letter(bits),
        ];
        text.extend(whole.iter().take(chunk.len() + 1));
    }
    text
}
