//! `upstream.base_url`: the server's root, and every spelling of it that means ourselves.
//!
//! Not here: what answers there ([`crate::upstream::detect`]) and the connection itself.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use url::{Host, Url};

/// Where a model server is: scheme, host, port and a path before `/v1`, if there is one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Root {
    scheme: Scheme,
    /// A name in lower case or an address without brackets.
    host: String,
    port: u16,
    /// Empty, or `/prefix` without a slash at its end.
    prefix: String,
}

/// How the root is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS.
    Https,
}

/// Why a text is not the root of a model server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BaseUrlError {
    /// Nothing was given.
    #[error("upstream.base_url is empty: give the server's address, or \"auto\"")]
    Empty,
    /// It does not begin with a scheme.
    #[error("upstream.base_url has to begin with http:// or https://")]
    Scheme,
    /// It is not a URL.
    #[error("upstream.base_url is not a URL")]
    Parse(#[source] url::ParseError),
    /// It carries a user name or a password.
    #[error(
        "upstream.base_url may not carry a user or a password: put the key into upstream.api_key"
    )]
    Credentials,
    /// It carries a query or a fragment.
    #[error("upstream.base_url may not carry a query (?) or a fragment (#)")]
    Query,
    /// It names no host, or port 0.
    #[error("upstream.base_url names no host and port to connect to")]
    Host,
}

impl Root {
    /// Reads a base URL with or without `/v1` at its end; a path before that stays.
    ///
    /// # Errors
    ///
    /// Anything but `http` and `https`, a user or password, a query, no host.
    pub fn parse(text: &str) -> Result<Self, BaseUrlError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(BaseUrlError::Empty);
        }
        // `localhost:8080` would parse, with `localhost` for its scheme.
        if !text.contains("://") {
            return Err(BaseUrlError::Scheme);
        }
        let url = Url::parse(text).map_err(BaseUrlError::Parse)?;
        let scheme = match url.scheme() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(BaseUrlError::Scheme),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BaseUrlError::Credentials);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(BaseUrlError::Query);
        }
        let host = match url.host() {
            Some(Host::Domain(name)) => name.trim_end_matches('.').to_owned(),
            Some(Host::Ipv4(ip)) => callable(IpAddr::V4(ip)).to_string(),
            Some(Host::Ipv6(ip)) => callable(IpAddr::V6(ip)).to_string(),
            None => return Err(BaseUrlError::Host),
        };
        let port = url.port_or_known_default().unwrap_or(0);
        if host.is_empty() || port == 0 {
            return Err(BaseUrlError::Host);
        }
        Ok(Self {
            scheme,
            host,
            port,
            prefix: prefix_of(url.path()).to_owned(),
        })
    }

    /// The root of a server at an address, spoken to in plain HTTP.
    pub fn at(address: SocketAddr) -> Self {
        Self {
            scheme: Scheme::Http,
            host: callable(address.ip()).to_string(),
            port: address.port(),
            prefix: String::new(),
        }
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host: a name in lower case, or an address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, the scheme's own if none was written.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The whole URL of a path below the root; `path` begins with a slash.
    pub fn join(&self, path: &str) -> String {
        format!("{self}{path}")
    }

    /// The request target of a path below the root, for a request in origin form.
    pub fn target(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }

    /// What the `Host` header has to say: the upstream's own authority, never the client's.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        match (self.scheme, self.port) {
            (Scheme::Http, 80) | (Scheme::Https, 443) => host,
            (Scheme::Http | Scheme::Https, port) => format!("{host}:{port}"),
        }
    }

    /// Whether the server is on this machine by its very name.
    pub fn is_loopback(&self) -> bool {
        self.is_localhost() || self.ip().is_some_and(|ip| ip.is_loopback())
    }

    /// Whether the host is `localhost` or a name below it, which never leaves the machine.
    pub fn is_localhost(&self) -> bool {
        self.host == "localhost" || self.host.ends_with(".localhost")
    }

    /// The addresses to try, in order; a connection falls through to the next.
    ///
    /// `localhost` is both loopbacks, whatever the system's resolver makes of it: servers listen
    /// on one of them, and it is not always the one the resolver names first.
    ///
    /// # Errors
    ///
    /// The name cannot be resolved.
    pub async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        if let Some(ip) = self.ip() {
            return Ok(vec![SocketAddr::new(ip, self.port)]);
        }
        if self.is_localhost() {
            return Ok(localhost(self.port).to_vec());
        }
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await?;
        let found: Vec<_> = found.collect();
        if found.is_empty() {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        Ok(found)
    }

    /// Whether this root is one of the gateway's own addresses: a loop.
    ///
    /// Every loopback spelling counts as every other, since `localhost` reaches either. A name
    /// that needs a resolver is not looked up: see [`Self::leads_to`].
    pub fn points_at(&self, listen: &[SocketAddr]) -> bool {
        match self.ip() {
            Some(ip) => self.meets(ip, listen),
            None => self.is_localhost() && self.meets(Ipv4Addr::LOCALHOST.into(), listen),
        }
    }

    /// [`Self::points_at`] for names as well: resolves the host first.
    ///
    /// A name that cannot be resolved leads nowhere.
    pub async fn leads_to(&self, listen: &[SocketAddr]) -> bool {
        match self.addresses().await {
            Ok(found) => found.iter().any(|address| self.meets(address.ip(), listen)),
            Err(_) => false,
        }
    }

    fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    fn meets(&self, ip: IpAddr, listen: &[SocketAddr]) -> bool {
        listen
            .iter()
            .filter(|own| own.port() == self.port)
            .any(|own| {
                let (ip, own) = (ip.to_canonical(), own.ip().to_canonical());
                ip == own
                    || (ip.is_loopback() && (own.is_loopback() || own.is_unspecified()))
                    || (own.is_unspecified() && is_of_this_machine(ip))
            })
    }
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        write!(f, "{scheme}://{}{}", self.authority(), self.prefix)
    }
}

/// Both loopbacks: IPv4 first, since most model servers listen there alone.
pub(super) fn localhost(port: u16) -> [SocketAddr; 2] {
    [
        SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port),
        SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port),
    ]
}

/// 0.0.0.0 and :: are addresses to listen on; people copy them from a server's own settings.
fn callable(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

/// The path without slashes at its end and without one trailing `/v1`.
fn prefix_of(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    path.strip_suffix("/v1")
        .unwrap_or(path)
        .trim_end_matches('/')
}

/// A socket can be bound to the machine's own addresses only, so a bind that works is the proof.
fn is_of_this_machine(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn root(text: &str) -> Root {
        Root::parse(text).unwrap()
    }

    #[test]
    fn a_trailing_v1_and_slashes_are_cut_and_a_path_before_them_stays() {
        for (text, whole) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
            ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080"),
            (" http://127.0.0.1:8080/v1// ", "http://127.0.0.1:8080"),
            ("https://Example.org/llm/v1/", "https://example.org/llm"),
            ("http://example.org:80/a/b", "http://example.org/a/b"),
            ("http://[::1]:1234/v1", "http://[::1]:1234"),
            ("http://0.0.0.0:11434", "http://127.0.0.1:11434"),
            ("http://[::]:11434", "http://[::1]:11434"),
            ("http://h:1/v12", "http://h:1/v12"),
            ("http://localhost.:1234", "http://localhost:1234"),
        ] {
            assert_eq!(root(text).to_string(), whole, "{text}");
        }
        let root = root("http://h:1/llm/v1");
        assert_eq!(root.join("/v1/models"), "http://h:1/llm/v1/models");
        assert_eq!(root.target("/api/ps"), "/llm/api/ps");
    }

    #[test]
    fn what_is_no_root_is_refused_with_its_reason() {
        for (text, why) in [
            ("", BaseUrlError::Empty),
            ("localhost:8080", BaseUrlError::Scheme),
            ("127.0.0.1:8080", BaseUrlError::Scheme),
            ("ftp://127.0.0.1", BaseUrlError::Scheme),
            ("http://user:pass@127.0.0.1", BaseUrlError::Credentials),
            ("http://key@127.0.0.1", BaseUrlError::Credentials),
            ("http://127.0.0.1/?a=b", BaseUrlError::Query),
            ("http://127.0.0.1:0/", BaseUrlError::Host),
        ] {
            assert_eq!(Root::parse(text), Err(why), "{text}");
        }
        assert!(matches!(
            Root::parse("http://"),
            Err(BaseUrlError::Parse(_))
        ));
        assert!(
            BaseUrlError::Credentials
                .to_string()
                .contains("upstream.api_key"),
            "the message says where a key belongs"
        );
    }

    #[test]
    fn the_host_header_names_the_upstream() {
        assert_eq!(
            root("http://localhost:11434/v1").authority(),
            "localhost:11434"
        );
        assert_eq!(root("http://[::1]:8080").authority(), "[::1]:8080");
        assert_eq!(root("https://example.org/v1").authority(), "example.org");
    }

    #[test]
    fn every_spelling_of_an_own_address_is_seen_as_a_loop() {
        let own: Vec<SocketAddr> = vec!["127.0.0.1:11411".parse().unwrap()];
        let all: Vec<SocketAddr> = vec!["0.0.0.0:11411".parse().unwrap()];
        for host in [
            "127.0.0.1",
            "localhost",
            "LOCALHOST",
            "app.localhost",
            "[::1]",
            "0.0.0.0",
            "[::]",
            "127.1",
            "0x7f.1",
            "127.0.0.2",
            "[::ffff:127.0.0.1]",
        ] {
            let root = root(&format!("http://{host}:11411/v1"));
            assert!(
                root.points_at(&own),
                "{host} reaches the loopback we listen on"
            );
            assert!(
                root.points_at(&all),
                "{host} reaches a gateway that listens everywhere"
            );
        }
        assert!(
            !root("http://127.0.0.1:11434").points_at(&own),
            "another port is another server"
        );
        assert!(
            !root("http://192.0.2.7:11411").points_at(&all),
            "another machine is no loop"
        );
    }

    #[tokio::test]
    async fn localhost_is_tried_on_both_families_ipv4_first() {
        let found = root("http://localhost:1234").addresses().await.unwrap();
        assert_eq!(found, localhost(1234).to_vec());
        let own = ["[::1]:1234".parse().unwrap()];
        assert!(root("http://localhost:1234").leads_to(&own).await);
    }
}
