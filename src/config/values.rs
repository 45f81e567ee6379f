//! Values of settings that are more than a number, a switch or a choice, and their serde form.
//!
//! An error of `Deserialize` here is the text after "expected": it says what the value should be
//! and never repeats the value, which may hold a credential.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::refusal::FullStatus;
use crate::upstream::{BaseUrlError, Root};

/// Shown instead of a credential that is set.
pub(super) const HIDDEN: &str = "(set, not shown)";

/// Where the model server is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum BaseUrl {
    /// Found by trying the usual ports.
    #[default]
    Auto,
    /// This server.
    At(Root),
}

/// Where the size of the context window comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Context {
    /// Read from the model server.
    #[default]
    Auto,
    /// This many tokens, whatever the server reports.
    Tokens(u64),
}

/// A credential. `Debug` and `Serialize` never show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl BaseUrl {
    /// Reads `auto` or a URL with or without `/v1`.
    ///
    /// # Errors
    ///
    /// What is wrong with the URL; it never repeats the text, which may hold a password.
    pub fn parse(text: &str) -> Result<Self, BaseUrlError> {
        if text.trim().eq_ignore_ascii_case("auto") {
            return Ok(Self::Auto);
        }
        Root::parse(text).map(Self::At)
    }

    /// The article's own base URL.
    pub(super) fn article() -> Self {
        Self::parse("http://127.0.0.1:11434/v1").unwrap_or_default()
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::At(root) => root.fmt(f),
        }
    }
}

impl Serialize for BaseUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for BaseUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(|error| {
            D::Error::custom(match error {
                BaseUrlError::Empty | BaseUrlError::Parse(_) | BaseUrlError::Host => {
                    "\"auto\" or a URL such as \"http://127.0.0.1:8080\""
                }
                BaseUrlError::Scheme => "\"auto\" or a URL that begins with http:// or https://",
                BaseUrlError::Credentials => {
                    "a URL without user and password; put the key into upstream.api_key"
                }
                BaseUrlError::Query => "a URL without a query or fragment",
            })
        })
    }
}

impl Serialize for Context {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Tokens(tokens) => serializer.serialize_u64(*tokens),
        }
    }
}

impl<'de> Deserialize<'de> for Context {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Word(String),
            Tokens(u64),
        }
        match Written::deserialize(deserializer)? {
            Written::Tokens(tokens) => Ok(Self::Tokens(tokens)),
            Written::Word(word) if word == "auto" => Ok(Self::Auto),
            Written::Word(_) => Err(D::Error::custom("\"auto\" or a number")),
        }
    }
}

impl Secret {
    /// Wraps a credential.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The credential itself: for the header that carries it, and nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

macro_rules! duration {
    ($unit:literal, $module:ident, $from:ident, $as:ident) => {
        #[doc = concat!("A duration as a whole number of ", $unit, ".")]
        pub(super) mod $module {
            use super::{Deserialize, Deserializer, Serializer};
            use std::time::Duration;

            pub(in super::super) fn serialize<S: Serializer>(
                duration: &Duration,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                serializer
                    .serialize_u64(u64::try_from(u128::from(duration.$as())).unwrap_or(u64::MAX))
            }

            pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Duration, D::Error> {
                u64::deserialize(deserializer).map(Duration::$from)
            }
        }
    };
}

duration!("seconds", seconds, from_secs, as_secs);
duration!("milliseconds", millis, from_millis, as_millis);

/// Seconds, where 0 is none.
pub(super) mod optional_seconds {
    use super::{Deserializer, Serializer, seconds};
    use std::time::Duration;

    pub(in super::super) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        seconds::serialize(&duration.unwrap_or_default(), serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let duration = seconds::deserialize(deserializer)?;
        Ok(Some(duration).filter(|duration| !duration.is_zero()))
    }
}

/// A text, where an empty one is none.
pub(super) mod optional_text {
    use super::{Deserialize, Deserializer, Serializer};

    pub(in super::super) fn serialize<S: Serializer>(
        text: &Option<String>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(text.as_deref().unwrap_or_default())
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<String>, D::Error> {
        let text = String::deserialize(deserializer)?.trim().to_owned();
        Ok(Some(text).filter(|text| !text.is_empty()))
    }
}

/// A credential, where an empty text is none. It is read, and never written.
pub(super) mod secret {
    use super::{Deserializer, HIDDEN, Secret, Serializer, optional_text};
    use serde::de::Error as _;

    pub(in super::super) fn serialize<S: Serializer>(
        secret: &Option<Secret>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(secret.as_ref().map_or("", |_| HIDDEN))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Secret>, D::Error> {
        let text = optional_text::deserialize(deserializer)?;
        // It is sent in a header, which takes no line ends and no other control characters.
        let is_visible = |text: &String| text.bytes().all(|byte| byte.is_ascii_graphic());
        if text.as_ref().is_some_and(|text| !is_visible(text)) {
            return Err(D::Error::custom(
                "text of visible ASCII characters, without spaces",
            ));
        }
        Ok(text.map(Secret))
    }
}

/// The status of a full queue.
pub(super) mod full_status {
    use super::{Deserialize, Deserializer, FullStatus, Serializer};
    use serde::de::Error as _;

    pub(in super::super) fn serialize<S: Serializer>(
        status: &FullStatus,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(match status {
            FullStatus::Unavailable => 503,
            FullStatus::TooMany => 429,
        })
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<FullStatus, D::Error> {
        match u16::deserialize(deserializer)? {
            503 => Ok(FullStatus::Unavailable),
            429 => Ok(FullStatus::TooMany),
            _ => Err(D::Error::custom("503 or 429")),
        }
    }
}

/// Addresses with ports; `localhost:PORT` means both loopback families.
pub(super) mod addresses {
    use super::{Deserialize, Deserializer, Serializer, SocketAddr, addresses_of};
    use serde::de::Error as _;

    pub(in super::super) fn serialize<S: Serializer>(
        addresses: &[SocketAddr],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(addresses.iter().map(SocketAddr::to_string))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<SocketAddr>, D::Error> {
        let mut addresses = Vec::new();
        for text in Vec::<String>::deserialize(deserializer)? {
            for address in addresses_of(&text).map_err(D::Error::custom)? {
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
        }
        if addresses.is_empty() {
            return Err(D::Error::custom(
                "at least one address such as \"127.0.0.1:11411\"",
            ));
        }
        Ok(addresses)
    }
}

/// Host names, in lower case.
pub(super) fn hosts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let expected = "host names such as \"desk.lan\", without scheme, port or path";
    names(deserializer, is_host, expected)
}

/// Web origins, in lower case.
pub(super) fn origins<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let expected = "origins such as \"https://chat.example\", without a path";
    names(deserializer, is_origin, expected)
}

fn names<'de, D: Deserializer<'de>>(
    deserializer: D,
    is_valid: fn(&str) -> bool,
    expected: &str,
) -> Result<Vec<String>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let texts: Vec<String> = texts
        .iter()
        .map(|text| text.trim().to_ascii_lowercase())
        .collect();
    if texts.iter().all(|text| is_valid(text)) {
        Ok(texts)
    } else {
        Err(D::Error::custom(expected))
    }
}

fn addresses_of(text: &str) -> Result<Vec<SocketAddr>, &'static str> {
    let text = text.trim();
    let localhost_port = text
        .strip_prefix("localhost:")
        .and_then(|port| port.parse().ok());
    if let Some(port) = localhost_port {
        return Ok(vec![
            SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
            SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), port),
        ]);
    }
    let address = text.parse().map_err(
        |_| "addresses with a port from 0 to 65535, such as \"127.0.0.1:11411\" or \"[::1]:11411\"",
    )?;
    Ok(vec![address])
}

fn is_host(text: &str) -> bool {
    let ipv6 = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    if let Some(address) = ipv6 {
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    !text.is_empty() && text.bytes().all(is_name)
}

fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else {
        return text == "null";
    };
    let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let is_authority = |byte: u8| byte.is_ascii_graphic() && !b"/?#@*".contains(&byte);
    !scheme.is_empty() && scheme.bytes().all(is_scheme) && host.bytes().all(is_authority)
}
