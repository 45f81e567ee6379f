//! API keys of apps: made once, shown once, stored as a digest.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::Settings;

/// The API key of an app: its name, and a digest of the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// Names the app in the queue, the record and the panel.
    pub name: String,
    /// SHA-256 of the key's text; 64 hexadecimal digits in the file.
    #[serde(with = "hex")]
    pub sha256: [u8; 32],
}

impl Key {
    /// The digest that is stored for a key's text.
    pub fn digest(text: &str) -> [u8; 32] {
        use sha2::Digest as _;
        sha2::Sha256::digest(text.as_bytes()).into()
    }

    /// Makes a new key called `name`: what is stored, and the text that is shown once.
    ///
    /// # Errors
    ///
    /// The system gives no random bytes.
    pub fn make(name: &str) -> Result<(Self, String), getrandom::Error> {
        let mut bytes = [0_u8; 32];
        getrandom::fill(&mut bytes)?;
        let text = format!("os-{}", URL_SAFE_NO_PAD.encode(bytes));
        let key = Self {
            name: name.to_owned(),
            sha256: Self::digest(&text),
        };
        Ok((key, text))
    }
}

impl Settings {
    /// The key whose text is `given`, if there is one. It compares digests, so that the time it
    /// takes says nothing about a key.
    pub fn key_of(&self, given: &str) -> Option<&Key> {
        let digest = Key::digest(given);
        self.access.keys.iter().find(|key| key.sha256 == digest)
    }
}

/// Reads keys with different names that are not empty.
pub(super) fn keys<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Key>, D::Error> {
    let expected = "a list such as [{ name = \"zed\", sha256 = \"64 hexadecimal digits\" }]";
    // Serde's own message might repeat a part of a key that was put there by mistake.
    let mut keys = Vec::<Key>::deserialize(deserializer).map_err(|_| D::Error::custom(expected))?;
    for key in &mut keys {
        key.name = key.name.trim().to_owned();
    }
    if keys.iter().any(|key| key.name.is_empty()) {
        return Err(D::Error::custom(expected));
    }
    let has_twin = |(at, key): (usize, &Key)| keys.iter().skip(at + 1).any(|k| k.name == key.name);
    if keys.iter().enumerate().any(has_twin) {
        return Err(D::Error::custom("each name once"));
    }
    Ok(keys)
}

/// A SHA-256 digest in hexadecimal.
mod hex {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        digest: &[u8; 32],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let text: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        serializer.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(deserializer)?;
        let text = text.trim();
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(D::Error::custom("a digest of 64 hexadecimal digits"));
        }
        let mut digest = [0_u8; 32];
        for (at, byte) in digest.iter_mut().enumerate() {
            let pair = text.get(at * 2..at * 2 + 2).unwrap_or_default();
            *byte = u8::from_str_radix(pair, 16).map_err(D::Error::custom)?;
        }
        Ok(digest)
    }
}
