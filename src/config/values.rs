//! Values of settings that are more than a number, a switch or a choice, and the form each has in
//! the file.
//!
//! An error of reading is the text after "expected": it says what the value should be and never
//! repeats the value, which may hold a credential.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use toml_edit::ser::ValueSerializer;

use crate::refusal::FullStatus;
use crate::upstream::{BaseUrlError, Root};

/// Shown instead of a credential that is set.
const HIDDEN: &str = "(set, not shown)";

/// The starting point of all other settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// OneSlot's own rules.
    #[default]
    Balanced,
    /// Fixed numbers: ceilings of 256, 128 and 64 tokens, one token per character, refusals by
    /// that count, and window.fallback used where the window is unknown.
    Strict,
}

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

/// A credential. `Debug` never shows it, and it is never written.
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

/// A module for `#[serde(with = "…")]`: a field of one type is written as another.
macro_rules! forms {
    ($($(#[$doc:meta])+ $name:ident: $field:ty as $form:ty, $write:expr, $read:expr;)+) => {$(
        $(#[$doc])+
        pub(super) mod $name {
            use super::*;

            pub(in super::super) fn serialize<S: Serializer>(
                field: &$field,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                let write: fn(&$field) -> $form = $write;
                write(field).serialize(serializer)
            }

            pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<$field, D::Error> {
                let read: fn($form) -> Result<$field, &'static str> = $read;
                read(<$form>::deserialize(deserializer)?).map_err(D::Error::custom)
            }
        }
    )+};
}

forms! {
    /// A duration as whole seconds.
    seconds: Duration as u64, Duration::as_secs, |number| Ok(Duration::from_secs(number));
    /// A duration as whole milliseconds.
    millis: Duration as u64,
        |duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        |number| Ok(Duration::from_millis(number));
    /// A duration as whole seconds, where 0 is none.
    optional_seconds: Option<Duration> as u64,
        |duration| duration.unwrap_or_default().as_secs(),
        |number| Ok((number > 0).then(|| Duration::from_secs(number)));
    /// A text, where an empty one is none.
    optional_text: Option<String> as String,
        |text| text.clone().unwrap_or_default(),
        |text| Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty()));
    /// A credential, where an empty text is none.
    secret: Option<Secret> as String,
        |secret| secret.as_ref().map_or("", |_| HIDDEN).to_owned(),
        read_secret;
    /// `auto` or a URL.
    base_url: BaseUrl as String, BaseUrl::to_string, read_base_url;
    /// `auto` or a number of tokens.
    context: Context as Value,
        |context| match context {
            Context::Auto => "auto".into(),
            Context::Tokens(tokens) => (*tokens).into(),
        },
        |value| match value.as_u64() {
            Some(tokens) => Ok(Context::Tokens(tokens)),
            None if value == "auto" => Ok(Context::Auto),
            None => Err("\"auto\" or a number"),
        };
    /// The status of a full queue.
    full_status: FullStatus as u16,
        |status| match status {
            FullStatus::Unavailable => 503,
            FullStatus::TooMany => 429,
        },
        |number| match number {
            503 => Ok(FullStatus::Unavailable),
            429 => Ok(FullStatus::TooMany),
            _ => Err("503 or 429"),
        };
    /// Addresses with ports; `localhost:PORT` means both loopback families.
    addresses: Vec<SocketAddr> as Vec<String>,
        |addresses| addresses.iter().map(SocketAddr::to_string).collect(),
        read_addresses;
    /// Host names, in lower case.
    hosts: Vec<String> as Vec<String>, Vec::clone, |texts| {
        read_names(&texts, is_host, "host names such as \"desk.lan\", without scheme, port or path")
    };
    /// Web origins, in lower case.
    origins: Vec<String> as Vec<String>, Vec::clone, |texts| {
        read_names(&texts, is_origin, "origins such as \"https://chat.example\", without a path")
    };
}

fn read_secret(text: String) -> Result<Option<Secret>, &'static str> {
    let text = text.trim();
    // It is sent in a header, which takes no line ends and no other control characters.
    if text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok((!text.is_empty()).then(|| Secret::new(text)))
    } else {
        Err("text of visible ASCII characters, without spaces")
    }
}

fn read_base_url(text: String) -> Result<BaseUrl, &'static str> {
    BaseUrl::parse(&text).map_err(|error| match error {
        BaseUrlError::Empty | BaseUrlError::Parse(_) | BaseUrlError::Host => {
            "\"auto\" or a URL such as \"http://127.0.0.1:8080\""
        }
        BaseUrlError::Scheme => "\"auto\" or a URL that begins with http:// or https://",
        BaseUrlError::Credentials => {
            "a URL without user and password; put the key into upstream.api_key"
        }
        BaseUrlError::Query => "a URL without a query or fragment",
    })
}

fn read_addresses(texts: Vec<String>) -> Result<Vec<SocketAddr>, &'static str> {
    let mut addresses = Vec::new();
    for text in texts {
        let text = text.trim();
        let port = text
            .strip_prefix("localhost:")
            .and_then(|port| port.parse().ok());
        let found = match port {
            Some(port) => vec![
                SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
                SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), port),
            ],
            None => vec![text.parse().map_err(|_| {
                "addresses with a port from 0 to 65535, such as \"127.0.0.1:11411\" or \"[::1]:11411\""
            })?],
        };
        addresses.extend(found);
    }
    let mut seen = std::collections::HashSet::new();
    addresses.retain(|address| seen.insert(*address));
    if addresses.is_empty() {
        return Err("at least one address such as \"127.0.0.1:11411\"");
    }
    Ok(addresses)
}

fn read_names(
    texts: &[String],
    is_valid: fn(&str) -> bool,
    expected: &'static str,
) -> Result<Vec<String>, &'static str> {
    let texts = texts.iter().map(|text| text.trim().to_ascii_lowercase());
    let texts: Vec<String> = texts.collect();
    texts
        .iter()
        .all(|text| is_valid(text))
        .then_some(texts)
        .ok_or(expected)
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

/// A value as TOML.
pub(super) fn toml(value: &Value) -> toml_edit::Value {
    let written = value.serialize(ValueSerializer::new());
    // TOML has no null and no larger numbers; no setting does either.
    written.unwrap_or_else(|_| value.to_string().into())
}
