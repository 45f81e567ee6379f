//! Short requests to the model server: one small answer, whole, within a limit.
//!
//! Proxies of the environment are ignored, redirects are not followed (a key would follow them),
//! and nothing is decompressed. TLS is set up only for a root that needs it: the platform's own
//! verifier, by rustls with ring.
//!
//! Not here: the relayed request, which has a client of its own.

use std::error::Error as _;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::Value;
use tokio::time::timeout;

use super::base_url::{self, Root};
use super::send::is_framed_twice;
use super::tls::{self, tls_outage};
use crate::http::security::loop_detection::HOP;
use crate::refusal::Outage;

/// Longest answer: a list of thousands of models is about 1 MiB.
const LONGEST_ANSWER: usize = 8 * 1024 * 1024;

/// How long an idle connection is kept: for the next request of the same burst.
const KEPT_IDLE: Duration = Duration::from_secs(15);

/// UTF-8's byte order mark: some servers send it before their JSON.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Sends short requests to one server.
#[derive(Debug, Clone)]
pub(super) struct Client {
    http: Arc<Mutex<reqwest::Client>>,
    connect: Duration,
    root: Root,
    /// `Bearer …`, marked sensitive, so that no `Debug` prints it.
    authorization: Option<HeaderValue>,
    /// Names this gateway, so that it recognises its own requests when they come back.
    hop: Option<HeaderValue>,
}

/// A whole response.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The key has characters that no header can carry.
    #[error("upstream.api_key has characters that no HTTP header can carry")]
    Key,
    /// The platform's certificates could not be read.
    #[error("cannot read the system's certificates for https")]
    Tls(#[source] rustls::Error),
    /// The HTTP client could not be built.
    #[error("cannot build the HTTP client")]
    Http(#[source] reqwest::Error),
}

impl Client {
    /// A client for one root; `connect` is the limit of each connection attempt.
    pub(super) fn open(
        root: Root,
        key: Option<&str>,
        connect: Duration,
    ) -> Result<Self, OpenError> {
        let authorization = match key.map(str::trim).filter(|key| !key.is_empty()) {
            Some(key) => {
                let mut value =
                    HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| OpenError::Key)?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        Ok(Self {
            http: Arc::new(Mutex::new(http(&root, connect)?)),
            connect,
            root,
            authorization,
            hop: None,
        })
    }

    /// The same client, whose requests carry this mark.
    pub(super) fn marked(self, hop: HeaderValue) -> Self {
        Self {
            hop: Some(hop),
            ..self
        }
    }

    /// Closes idle connections: the other end may be gone without a notification.
    pub(super) fn forget_idle(&self) {
        // The library closes its connections only with the client. If no other client can be
        // built, the old one stays.
        if let Ok(new) = http(&self.root, self.connect) {
            *self.http.lock().unwrap_or_else(PoisonError::into_inner) = new;
        }
    }

    fn http(&self) -> reqwest::Client {
        let http = self.http.lock().unwrap_or_else(PoisonError::into_inner);
        http.clone()
    }

    /// The same connections' settings for another root on this machine, without the key: a key
    /// goes to no server but the one it was configured for.
    pub(super) fn keyless(&self, root: Root) -> Self {
        Self {
            http: Arc::new(Mutex::new(self.http())),
            connect: self.connect,
            root,
            authorization: None,
            hop: self.hop.clone(),
        }
    }

    pub(super) fn root(&self) -> &Root {
        &self.root
    }

    /// GET below the root.
    pub(super) async fn get(&self, path: &str, limit: Duration) -> Result<Reply, Outage> {
        self.exchange(self.http().get(self.root.join(path)), limit)
            .await
    }

    /// GET below the root, for a JSON answer with a 2xx.
    pub(super) async fn get_json(&self, path: &str, limit: Duration) -> Option<Value> {
        self.get(path, limit).await.ok()?.good_json()
    }

    /// POST of a JSON body below the root.
    pub(super) async fn post(
        &self,
        path: &str,
        body: Bytes,
        limit: Duration,
    ) -> Result<Reply, Outage> {
        let request = self
            .http()
            .post(self.root.join(path))
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(body);
        self.exchange(request, limit).await
    }

    async fn exchange(
        &self,
        mut request: reqwest::RequestBuilder,
        limit: Duration,
    ) -> Result<Reply, Outage> {
        request = request.header(HOST, self.root.authority());
        if let Some(value) = &self.authorization {
            request = request.header(AUTHORIZATION, value.clone());
        }
        if let Some(hop) = &self.hop {
            request = request.header(HOP, hop.clone());
        }
        match timeout(limit, self.whole(request)).await {
            Ok(reply) => reply,
            Err(_) => Err(Outage::ProbeTimeout),
        }
    }

    async fn whole(&self, request: reqwest::RequestBuilder) -> Result<Reply, Outage> {
        let mut response = request.send().await.map_err(|error| self.outage(&error))?;
        if is_framed_twice(response.headers()) {
            return Err(Outage::Garbled);
        }
        let mut body = BytesMut::new();
        while let Some(piece) = response
            .chunk()
            .await
            .map_err(|error| self.outage(&error))?
        {
            if body.len() + piece.len() > LONGEST_ANSWER {
                return Err(Outage::ProbeFailed);
            }
            body.extend_from_slice(&piece);
        }
        Ok(Reply {
            status: response.status(),
            headers: std::mem::take(response.headers_mut()),
            body: body.freeze(),
        })
    }

    /// What an error of the HTTP client says about the server.
    fn outage(&self, error: &reqwest::Error) -> Outage {
        let connecting = error.is_connect();
        if connecting && error.is_timeout() {
            return Outage::ConnectTimeout;
        }
        let mut cause = error.source();
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<io::Error>()
                && let Some(outage) =
                    tls_outage(error).or_else(|| self.outage_of_io(error.kind(), connecting))
            {
                return outage;
            }
            if let Some(error) = error.downcast_ref::<hyper::Error>() {
                if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
                    return Outage::Reset;
                }
                if error.is_parse() {
                    return Outage::Garbled;
                }
            }
            cause = error.source();
        }
        if connecting {
            Outage::ProbeFailed
        } else {
            Outage::Garbled
        }
    }

    fn outage_of_io(&self, kind: io::ErrorKind, connecting: bool) -> Option<Outage> {
        match kind {
            io::ErrorKind::ConnectionRefused => Some(Outage::Refused),
            io::ErrorKind::TimedOut if connecting => Some(Outage::ConnectTimeout),
            // A machine without IPv6 says so of `[::1]` after 127.0.0.1 refused.
            io::ErrorKind::AddrNotAvailable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::HostUnreachable
                if connecting && self.root.is_loopback() =>
            {
                Some(Outage::Refused)
            }
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof => Some(Outage::Reset),
            _ => None,
        }
    }
}

/// The HTTP client for one root.
fn http(root: &Root, connect: Duration) -> Result<reqwest::Client, OpenError> {
    let mut builder = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .http1_only()
        .connect_timeout(connect)
        .pool_max_idle_per_host(2)
        .pool_idle_timeout(KEPT_IDLE)
        .user_agent(concat!("oneslot/", env!("CARGO_PKG_VERSION")))
        .tls_backend_preconfigured(tls::config(root.scheme()).map_err(OpenError::Tls)?);
    if root.is_localhost() {
        builder = builder.resolve_to_addrs(root.host(), &base_url::localhost(root.port()));
    }
    builder.build().map_err(OpenError::Http)
}

impl Reply {
    /// The body as JSON, whatever its content type says. A byte order mark is skipped.
    pub(super) fn json(&self) -> Option<Value> {
        let body = self.body.strip_prefix(BYTE_ORDER_MARK);
        serde_json::from_slice(body.unwrap_or(&self.body)).ok()
    }

    /// The body of a 2xx as JSON.
    pub(super) fn good_json(&self) -> Option<Value> {
        self.status.is_success().then(|| self.json()).flatten()
    }

    /// A header as text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}
