//! How a written [`Value`] becomes a typed field and back, one impl per field type.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use super::members::Unit;
use super::value::Value;
use super::{BaseUrl, Context, Counting, Key, Level, Preset, Secret, Trim};
use crate::refusal::FullStatus;
use crate::upstream::BaseUrlError;

/// A field of the settings.
pub(super) trait Field {
    /// The field as it would be written.
    fn show(&self, unit: Unit) -> Value;

    /// Takes a value that its member's kind admits; else says what was expected.
    fn take(&mut self, value: &Value, unit: Unit) -> Result<(), &'static str>;
}

/// Said only if the table names a kind that its field's type cannot take; a test writes every
/// member once, so that it is never said.
const MISMATCH: &str = "a value of another type";

impl Field for Duration {
    fn show(&self, unit: Unit) -> Value {
        Value::Whole(
            u64::try_from(self.as_millis() / u128::from(unit.millis())).unwrap_or(u64::MAX),
        )
    }

    fn take(&mut self, value: &Value, unit: Unit) -> Result<(), &'static str> {
        let Value::Whole(number) = value else {
            return Err(MISMATCH);
        };
        *self = Self::from_millis(number.saturating_mul(unit.millis()));
        Ok(())
    }
}

/// Written as 0 where there is none.
impl Field for Option<Duration> {
    fn show(&self, unit: Unit) -> Value {
        self.unwrap_or_default().show(unit)
    }

    fn take(&mut self, value: &Value, unit: Unit) -> Result<(), &'static str> {
        let mut duration = Duration::ZERO;
        duration.take(value, unit)?;
        *self = Some(duration).filter(|duration| !duration.is_zero());
        Ok(())
    }
}

macro_rules! whole_fields {
    ($($type:ty),+) => {$(
        impl Field for $type {
            fn show(&self, unit: Unit) -> Value {
                Value::Whole(u64::try_from(*self).unwrap_or(u64::MAX) / unit.bytes())
            }

            fn take(&mut self, value: &Value, unit: Unit) -> Result<(), &'static str> {
                let Value::Whole(number) = value else { return Err(MISMATCH) };
                let number = number.saturating_mul(unit.bytes());
                *self = Self::try_from(number).map_err(|_| "a smaller number")?;
                Ok(())
            }
        }
    )+};
}

whole_fields!(u8, u32, u64, usize);

impl Field for bool {
    fn show(&self, _unit: Unit) -> Value {
        Value::Bool(*self)
    }

    fn take(&mut self, value: &Value, _unit: Unit) -> Result<(), &'static str> {
        let Value::Bool(value) = value else {
            return Err(MISMATCH);
        };
        *self = *value;
        Ok(())
    }
}

/// Written as an empty text where there is none.
impl Field for Option<String> {
    fn show(&self, _unit: Unit) -> Value {
        Value::Text(self.clone().unwrap_or_default())
    }

    fn take(&mut self, value: &Value, _unit: Unit) -> Result<(), &'static str> {
        let Value::Text(text) = value else {
            return Err(MISMATCH);
        };
        *self = Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        Ok(())
    }
}

impl Field for Option<Secret> {
    fn show(&self, _unit: Unit) -> Value {
        self.as_ref()
            .map_or_else(|| Value::Text(String::new()), |_| Value::Hidden)
    }

    fn take(&mut self, value: &Value, _unit: Unit) -> Result<(), &'static str> {
        let Value::Text(text) = value else {
            return Err(MISMATCH);
        };
        let text = text.trim();
        // It travels in a header, which takes no line ends and no other control characters.
        if !text.bytes().all(|byte| (0x21..=0x7e).contains(&byte)) {
            return Err("text of visible ASCII characters, without spaces");
        }
        *self = Some(text).filter(|text| !text.is_empty()).map(Secret::new);
        Ok(())
    }
}

impl Field for BaseUrl {
    fn show(&self, _unit: Unit) -> Value {
        Value::Text(self.to_string())
    }

    fn take(&mut self, value: &Value, _unit: Unit) -> Result<(), &'static str> {
        let Value::Text(text) = value else {
            return Err(MISMATCH);
        };
        *self = Self::parse(text).map_err(root_expected)?;
        Ok(())
    }
}

impl Field for Context {
    fn show(&self, _unit: Unit) -> Value {
        match self {
            Self::Auto => Value::Text("auto".to_owned()),
            Self::Tokens(tokens) => Value::Whole(*tokens),
        }
    }

    fn take(&mut self, value: &Value, _unit: Unit) -> Result<(), &'static str> {
        *self = match value {
            Value::Whole(tokens) => Self::Tokens(*tokens),
            Value::Text(_) => Self::Auto,
            Value::Bool(_) | Value::List(_) | Value::Keys(_) | Value::Hidden => {
                return Err(MISMATCH);
            }
        };
        Ok(())
    }
}

impl Field for FullStatus {
    fn show(&self, _unit: Unit) -> Value {
        Value::Whole(match self {
            Self::Unavailable => 503,
            Self::TooMany => 429,
        })
    }

    fn take(&mut self, value: &Value, _unit: Unit) -> Result<(), &'static str> {
        *self = match value {
            Value::Whole(503) => Self::Unavailable,
            Value::Whole(429) => Self::TooMany,
            _ => return Err(MISMATCH),
        };
        Ok(())
    }
}

impl Field for Vec<SocketAddr> {
    fn show(&self, _unit: Unit) -> Value {
        Value::List(self.iter().map(SocketAddr::to_string).collect())
    }

    fn take(&mut self, value: &Value, _unit: Unit) -> Result<(), &'static str> {
        let Value::List(texts) = value else {
            return Err(MISMATCH);
        };
        let mut addresses = Self::new();
        for text in texts {
            for address in addresses_of(text)? {
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
        }
        if addresses.is_empty() {
            return Err("at least one address such as \"127.0.0.1:11411\"");
        }
        *self = addresses;
        Ok(())
    }
}

/// Host names and origins; which of the two is told by whether an entry has a scheme.
impl Field for Vec<String> {
    fn show(&self, _unit: Unit) -> Value {
        Value::List(self.clone())
    }

    fn take(&mut self, value: &Value, unit: Unit) -> Result<(), &'static str> {
        let Value::List(texts) = value else {
            return Err(MISMATCH);
        };
        let texts: Self = texts
            .iter()
            .map(|text| text.trim().to_ascii_lowercase())
            .collect();
        let (fits, expected): (fn(&str) -> bool, _) = match unit {
            Unit::Origin => (
                is_origin,
                "origins such as \"https://chat.example\", without a path",
            ),
            _ => (
                is_host,
                "host names such as \"desk.lan\", without scheme, port or path",
            ),
        };
        if !texts.iter().all(|text| fits(text)) {
            return Err(expected);
        }
        *self = texts;
        Ok(())
    }
}

impl Field for Vec<Key> {
    fn show(&self, _unit: Unit) -> Value {
        Value::Keys(self.clone())
    }

    fn take(&mut self, value: &Value, _unit: Unit) -> Result<(), &'static str> {
        let Value::Keys(keys) = value else {
            return Err(MISMATCH);
        };
        let twice = |(at, key): (usize, &Key)| keys.iter().skip(at + 1).any(|k| k.name == key.name);
        if keys.iter().enumerate().any(twice) {
            return Err("each name once");
        }
        self.clone_from(keys);
        Ok(())
    }
}

macro_rules! word_fields {
    ($($type:ident { $($word:literal => $variant:ident),+ })+) => {$(
        impl Field for $type {
            fn show(&self, _unit: Unit) -> Value {
                Value::Text(match self { $(Self::$variant => $word),+ }.to_owned())
            }

            fn take(&mut self, value: &Value, _unit: Unit) -> Result<(), &'static str> {
                let Value::Text(word) = value else { return Err(MISMATCH) };
                *self = match word.as_str() {
                    $($word => Self::$variant,)+
                    _ => return Err(MISMATCH),
                };
                Ok(())
            }
        }
    )+};
}

word_fields! {
    Preset { "balanced" => Balanced, "strict" => Strict }
    Trim { "steady" => Steady, "minimal" => Minimal, "off" => Off }
    Counting {
        "auto" => Auto, "exact" => Exact, "learned" => Learned, "bytes" => Bytes, "scalar" => Scalar
    }
    Level { "error" => Error, "warn" => Warn, "info" => Info, "debug" => Debug, "trace" => Trace }
}

/// What a URL should be like, by what is wrong with it.
fn root_expected(error: BaseUrlError) -> &'static str {
    match error {
        BaseUrlError::Empty | BaseUrlError::Parse(_) | BaseUrlError::Host => {
            "\"auto\" or a URL such as \"http://127.0.0.1:8080\""
        }
        BaseUrlError::Scheme => "\"auto\" or a URL that begins with http:// or https://",
        BaseUrlError::Credentials => {
            "a URL without user and password; put the key into upstream.api_key"
        }
        BaseUrlError::Query => "a URL without a query or fragment",
    }
}

/// One address, or both loopback families for `localhost:PORT`.
fn addresses_of(text: &str) -> Result<Vec<SocketAddr>, &'static str> {
    let text = text.trim();
    if let Some(port) = text
        .strip_prefix("localhost:")
        .and_then(|port| port.parse().ok())
    {
        return Ok(vec![
            SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
            SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), port),
        ]);
    }
    let one = text.parse().map_err(
        |_| "addresses with a port from 0 to 65535, such as \"127.0.0.1:11411\" or \"[::1]:11411\"",
    )?;
    Ok(vec![one])
}

fn is_host(text: &str) -> bool {
    let address = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    if let Some(address) = address {
        return address.parse::<Ipv6Addr>().is_ok();
    }
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
}

fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else {
        return text == "null";
    };
    let named = scheme
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let plain = host
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && !b"/?#@*".contains(&byte));
    !scheme.is_empty() && named && plain
}
