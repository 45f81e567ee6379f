//! The gates every request passes: Host, Origin and Fetch metadata, the type of the body.
//!
//! A page in a browser can send requests to loopback, and a hostile name can be made to resolve
//! to it. The Host stops the second, Origin and `Sec-Fetch-Site` the first. `Sec-Fetch-Mode` is
//! never judged: Node's `fetch` sends it without being a browser.
//!
//! Not here: what an allowed page is told ([`super::cors`]).

use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::refusal::Refusal;

/// The lists the gates judge by.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gates {
    /// The ports the gateway listens on.
    pub ports: Vec<u16>,
    /// Names beyond loopback (`access.allowed_hosts`), each with a port or without.
    pub allowed_hosts: Vec<String>,
    /// Origins beyond loopback and the app schemes (`access.allowed_origins`), exact.
    pub allowed_origins: Vec<String>,
}

/// Which of the two rules for pages a path is under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Area {
    /// What is relayed: pages with an allowed Origin may.
    Relayed,
    /// The gateway's own state and control: no page may.
    Own,
}

/// Who is asking.
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

/// The names of loopback, as exact matches: no suffixes, no ranges, no trailing dot.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// The origin of a page that was opened as a file: it has no host.
const FILE: &str = "file://";

/// Schemes that only a desktop app's own window has, each with a host behind it.
const APP_SCHEMES: [&str; 4] = ["app://", "tauri://", "vscode-webview://", "vscode-file://"];

/// How much of a refused header is shown.
const SHOWN: usize = 100;

impl Gates {
    /// The Host gate, for every method and path, before anything else is judged.
    ///
    /// # Errors
    ///
    /// `ForbiddenHost` for every Host but loopback with the listening port and the configured
    /// names; also for none (HTTP/1.0) and for two.
    pub fn host(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let sent = only(headers, &HOST).and_then(|value| value.to_str().ok());
        match sent {
            Some(host) if self.serves(host) => Ok(()),
            _ => Err(Refusal::ForbiddenHost {
                host: shown(headers.get(HOST)),
            }),
        }
    }

    /// The page gate. Ask it with the area of the path ([`super::route::area`]).
    ///
    /// # Errors
    ///
    /// `ForbiddenOrigin` for a page that may not.
    pub fn visitor(&self, headers: &HeaderMap, area: Area) -> Result<Visitor, Refusal> {
        if headers.contains_key(ORIGIN) {
            let origin = only(headers, &ORIGIN)
                .filter(|origin| origin.to_str().is_ok_and(|origin| self.allows(origin)));
            return match (origin, area) {
                (Some(origin), Area::Relayed) => Ok(Visitor::Page {
                    origin: origin.clone(),
                }),
                _ => Err(Refusal::ForbiddenOrigin {
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

    /// Whether a request by this name is let in.
    pub fn serves(&self, host: &str) -> bool {
        let (name, port) = split_port(host);
        let listening = match port {
            Some(port) => self.ports.iter().any(|own| own.to_string() == port),
            None => self.ports.contains(&80),
        };
        if listening && LOOPBACK.iter().any(|own| own.eq_ignore_ascii_case(name)) {
            return true;
        }
        self.allowed_hosts.iter().any(|allowed| {
            // A name written without its port is served on the listening one, and without any
            // when something in front of the gateway took it away.
            allowed.eq_ignore_ascii_case(host)
                || (listening
                    && split_port(allowed).1.is_none()
                    && allowed.eq_ignore_ascii_case(name))
        })
    }

    /// Whether a page of this origin is let in to what is relayed.
    pub fn allows(&self, origin: &str) -> bool {
        let configured = self.allowed_origins.iter().any(|own| own == origin);
        configured || is_app(origin) || is_loopback(origin)
    }
}

/// The body gate: what a browser may send without asking first is never taken from one.
///
/// # Errors
///
/// `UnsupportedMediaType` for a browser's body that is not JSON, and for anybody's that is
/// compressed.
pub fn body_type(method: &Method, headers: &HeaderMap, visitor: &Visitor) -> Result<(), Refusal> {
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

/// A desktop app's own window: one of its schemes and a host that is one, and a port perhaps.
fn is_app(origin: &str) -> bool {
    let mut hosts = APP_SCHEMES
        .iter()
        .filter_map(|scheme| origin.strip_prefix(scheme));
    origin == FILE
        || hosts.any(|authority| {
            let (host, port) = split_port(authority);
            let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            !host.is_empty() && host.bytes().all(is_host) && is_port(port)
        })
}

/// `http` or `https`, a loopback host by exact match, any port, nothing else.
fn is_loopback(origin: &str) -> bool {
    let Some(authority) = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"))
    else {
        return false;
    };
    let (host, port) = split_port(authority);
    is_port(port) && LOOPBACK.iter().any(|own| own.eq_ignore_ascii_case(host))
}

/// No port, or one of up to five digits.
fn is_port(port: Option<&str>) -> bool {
    port.is_none_or(|port| {
        !port.is_empty() && port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Cuts `host:port` at the colon that is not part of an IPv6 address.
fn split_port(host: &str) -> (&str, Option<&str>) {
    let name_end = host.rfind(']').map_or(0, |bracket| bracket + 1);
    match host[name_end..].find(':') {
        Some(colon) => (
            &host[..name_end + colon],
            Some(&host[name_end + colon + 1..]),
        ),
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

/// A header as it may be shown: shortened, and "none" where there is none.
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
