//! Where the model server is: `auto`, or the root of a URL.
//!
//! Only the spelling is judged here; whether anything answers there is the upstream's business.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

/// Where the model server is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum BaseUrl {
    /// Looked for on the usual ports.
    #[default]
    Auto,
    /// This server.
    At(Root),
}

/// The root of a model server: scheme, host, port and any path in front of `/v1`.
///
/// It has no trailing slash, no `/v1`, no credentials, no query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    url: Url,
    text: String,
}

impl BaseUrl {
    /// Reads `auto` or a URL with or without `/v1`.
    ///
    /// # Errors
    ///
    /// What was expected instead, in words; it never repeats the text, which may hold a password.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("auto") {
            return Ok(Self::Auto);
        }
        Root::parse(text).map(Self::At)
    }

    /// The article's own base URL, `http://127.0.0.1:11434/v1`.
    pub(super) fn article() -> Self {
        Self::parse("http://127.0.0.1:11434/v1").unwrap_or_default()
    }
}

impl Root {
    /// Reads an `http` or `https` URL; a trailing `/v1` and slashes are cut off.
    ///
    /// # Errors
    ///
    /// What was expected instead, in words; it never repeats the text, which may hold a password.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let mut url =
            Url::parse(text).map_err(|_| "\"auto\" or a URL such as \"http://127.0.0.1:8080\"")?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err("a URL that begins with http:// or https://");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("a URL without user and password; put the key into upstream.api_key");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("a URL without a query or fragment");
        }
        let path = url.path().trim_end_matches('/');
        let path = path
            .strip_suffix("/v1")
            .unwrap_or(path)
            .trim_end_matches('/')
            .to_owned();
        url.set_path(&path);
        let text = url.as_str().trim_end_matches('/').to_owned();
        Ok(Self { url, text })
    }

    /// The root as a URL.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The root as text, without a trailing slash.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The port, the scheme's own where none is written.
    pub fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or(80)
    }

    /// Whether the host is `localhost`, which is tried on both families.
    pub fn is_localhost(&self) -> bool {
        matches!(self.url.host(), Some(Host::Domain(name)) if name.eq_ignore_ascii_case("localhost"))
    }

    /// The host where it is written as an address.
    pub fn ip(&self) -> Option<IpAddr> {
        match self.url.host()? {
            Host::Ipv4(ip) => Some(IpAddr::V4(ip)),
            Host::Ipv6(ip) => Some(IpAddr::V6(ip)),
            Host::Domain(_) => None,
        }
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

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
#[expect(clippy::panic, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn root(text: &str) -> String {
        match BaseUrl::parse(text) {
            Ok(BaseUrl::At(root)) => root.to_string(),
            other => panic!("{text} should be a root, but was {other:?}"),
        }
    }

    #[test]
    fn a_trailing_v1_and_slashes_are_cut_and_a_path_before_them_stays() {
        for (given, want) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
            ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080"),
            ("http://127.0.0.1:8080/v1//", "http://127.0.0.1:8080"),
            ("https://box.lan/llm/v1/", "https://box.lan/llm"),
            ("https://box.lan/v1beta", "https://box.lan/v1beta"),
            ("http://[::1]:1234/v1", "http://[::1]:1234"),
        ] {
            assert_eq!(
                root(given),
                want,
                "{given} names the same server with or without /v1"
            );
        }
    }

    #[test]
    fn a_url_that_cannot_be_a_server_is_refused_without_repeating_it() {
        for bad in [
            "",
            "127.0.0.1:8080",
            "ftp://127.0.0.1/",
            "http://user:hunter2@127.0.0.1/",
            "http://127.0.0.1/?key=hunter2",
            "http://127.0.0.1:70000",
        ] {
            let Err(expected) = BaseUrl::parse(bad) else {
                panic!("{bad:?} should be refused");
            };
            assert!(
                !expected.contains("hunter2"),
                "a password must not reach a message"
            );
        }
    }

    #[test]
    fn the_article_base_url_parses() {
        assert_eq!(BaseUrl::article().to_string(), "http://127.0.0.1:11434");
    }
}
