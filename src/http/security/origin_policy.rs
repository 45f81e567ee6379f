//! The rules for Host, Origin and Fetch metadata, and for the type of a browser's body.
//!
//! A page in a browser can send requests to loopback, and a hostile name can be made to resolve
//! to it. The Host stops the second, Origin and `Sec-Fetch-Site` the first. `Sec-Fetch-Mode` is
//! never judged: Node's `fetch` sends it without being a browser.
//!
//! Not here: which headers an allowed page gets ([`super::cors`]).

use std::net::Ipv4Addr;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::refusal::Refusal;

/// The configured lists, beside what is always allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OriginPolicy<'a> {
    /// Names beyond loopback (`access.allowed_hosts`), each with a port or without.
    pub allowed_hosts: &'a [String],
    /// Origins beyond loopback and desktop apps (`access.allowed_origins`), exact.
    pub allowed_origins: &'a [String],
}

/// Which of the two rules for pages a path is under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Area {
    /// What is relayed: pages with an allowed Origin may.
    Relayed,
    /// The gateway's own state and control: no page may.
    Own,
}

/// What kind of client is asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Visitor {
    /// No browser: neither an Origin nor Fetch metadata that names a page.
    Program,
    /// A page with this allowed Origin.
    Page {
        /// The Origin as sent, to be echoed.
        origin: HeaderValue,
    },
    /// A browser's request without an Origin, from the gateway's own address.
    SameOrigin,
}

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Origins of desktop apps that have one fixed host, and of a page that was opened as a file.
const APP_ORIGINS: [&str; 4] = [
    "capacitor://localhost",
    "ionic://localhost",
    "wails://wails",
    "file://",
];

/// Schemes that only a desktop app's own window has, each with any host behind it.
const APP_SCHEMES: [&str; 4] = ["app://", "tauri://", "vscode-webview://", "vscode-file://"];

/// How much of a refused header is shown.
const SHOWN: usize = 100;

impl OriginPolicy<'_> {
    /// The Host rule, for every method and path.
    ///
    /// # Errors
    /// `BadRequest` unless there is exactly one Host, `ForbiddenHost` unless it is a loopback name
    /// with any port, or a configured one.
    pub fn check_host(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(host) = only(headers, &HOST) else {
            return Err(Refusal::BadRequest {
                message: "The request must have exactly one Host header".to_owned(),
                param: None,
            });
        };
        match host.to_str() {
            Ok(host) if self.allows_host(host) => Ok(()),
            _ => Err(Refusal::ForbiddenHost {
                host: shown(Some(host)),
            }),
        }
    }

    /// The page rule for a path in this area.
    ///
    /// # Errors
    /// `ForbiddenOrigin` for a page that may not ask.
    pub fn visitor(&self, headers: &HeaderMap, area: Area) -> Result<Visitor, Refusal> {
        if headers.contains_key(ORIGIN) {
            let origin = only(headers, &ORIGIN).filter(|origin| {
                origin
                    .to_str()
                    .is_ok_and(|origin| self.allows_origin(origin))
            });
            return match (origin, area) {
                (Some(origin), Area::Relayed) => Ok(Visitor::Page {
                    origin: origin.clone(),
                }),
                (Some(_), Area::Own) | (None, _) => Err(Refusal::ForbiddenOrigin {
                    origin: shown(headers.get(ORIGIN)),
                }),
            };
        }
        let mut visitor = Visitor::Program;
        for site in headers.get_all(FETCH_SITE) {
            match (site.as_bytes(), area) {
                (b"none", _) => {}
                (b"same-origin", Area::Relayed) => visitor = Visitor::SameOrigin,
                _ => {
                    return Err(Refusal::ForbiddenOrigin {
                        origin: format!("no Origin, Sec-Fetch-Site: {}", shown(Some(site))),
                    });
                }
            }
        }
        Ok(visitor)
    }

    /// Whether requests for this Host are served.
    pub fn allows_host(&self, host: &str) -> bool {
        let (name, port) = split_port(host);
        if !is_port(port) {
            return false;
        }
        let configured = self.allowed_hosts.iter().any(|allowed| {
            // A name configured without a port is served on any.
            allowed.eq_ignore_ascii_case(host)
                || (split_port(allowed).1.is_none() && allowed.eq_ignore_ascii_case(name))
        });
        configured || is_loopback_name(name)
    }

    /// Whether pages of this origin may use what is relayed.
    pub fn allows_origin(&self, origin: &str) -> bool {
        let configured = self.allowed_origins.iter().any(|own| own == origin);
        configured || is_app(origin) || is_loopback_page(origin)
    }
}

/// The body rule: a browser may send without asking first only what no page can forge.
///
/// # Errors
/// `UnsupportedMediaType` for a browser's body that is not JSON, and for any that is compressed.
pub fn check_body_type(
    method: &Method,
    headers: &HeaderMap,
    visitor: &Visitor,
) -> Result<(), Refusal> {
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    for encoding in headers.get_all(CONTENT_ENCODING) {
        if !encoding.as_bytes().eq_ignore_ascii_case(b"identity") {
            return Err(Refusal::UnsupportedMediaType {
                sent: format!("Content-Encoding: {}", shown(Some(encoding))),
            });
        }
    }
    match visitor {
        Visitor::Program => Ok(()),
        Visitor::Page { .. } | Visitor::SameOrigin => match only(headers, &CONTENT_TYPE) {
            Some(sent) if is_json(sent) => Ok(()),
            _ => Err(Refusal::UnsupportedMediaType {
                sent: shown(headers.get(CONTENT_TYPE)),
            }),
        },
    }
}

/// A desktop app's own window.
fn is_app(origin: &str) -> bool {
    let mut hosts = APP_SCHEMES
        .iter()
        .filter_map(|scheme| origin.strip_prefix(scheme));
    APP_ORIGINS.contains(&origin)
        || hosts.any(|authority| {
            let (host, port) = split_port(authority);
            let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            !host.is_empty() && host.bytes().all(is_host) && is_port(port)
        })
}

/// `http` or `https`, a loopback name, any port, nothing else.
fn is_loopback_page(origin: &str) -> bool {
    let authority = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    authority.is_some_and(|authority| {
        let (host, port) = split_port(authority);
        is_port(port) && is_loopback_name(host)
    })
}

/// `localhost` and names below it (no resolver may send those elsewhere), 127.0.0.0/8 and `[::1]`.
fn is_loopback_name(name: &str) -> bool {
    if name == "[::1]"
        || name
            .parse()
            .is_ok_and(|address: Ipv4Addr| address.is_loopback())
    {
        return true;
    }
    let mut labels = name.rsplit('.');
    let is_label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        !label.is_empty() && label.bytes().all(plain)
    };
    labels
        .next()
        .is_some_and(|last| last.eq_ignore_ascii_case("localhost"))
        && labels.all(is_label)
}

/// No port, or one of up to five digits.
fn is_port(port: Option<&str>) -> bool {
    port.is_none_or(|port| {
        (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Splits `host:port` at the colon that is not part of an IPv6 address.
fn split_port(host: &str) -> (&str, Option<&str>) {
    let name_end = host.rfind(']').map_or(0, |bracket| bracket + 1);
    match host[name_end..].split_once(':') {
        Some((rest, port)) => (&host[..name_end + rest.len()], Some(port)),
        None => (host, None),
    }
}

/// Whether a body of this type is JSON; parameters are allowed.
pub(super) fn is_json(content_type: &HeaderValue) -> bool {
    let bytes = content_type.as_bytes();
    let end = memchr::memchr(b';', bytes).unwrap_or(bytes.len());
    bytes[..end]
        .trim_ascii()
        .eq_ignore_ascii_case(b"application/json")
}

/// The value of a header that is there exactly once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Some(value),
        _ => None,
    }
}

/// A header as it may be shown: at most [`SHOWN`] characters, and "none" where there is none.
fn shown(value: Option<&HeaderValue>) -> String {
    value.map_or_else(
        || "none".to_owned(),
        |value| {
            let text = String::from_utf8_lossy(value.as_bytes());
            text.chars().take(SHOWN).collect()
        },
    )
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
