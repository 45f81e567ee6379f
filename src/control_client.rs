//! The one client for a gateway's control routes; the command line and the tray share it.
//!
//! It finds the running gateway through the lock file in the state directory, and authenticates
//! with the control token of that run. Each request opens a connection of its own, so a client is
//! cheap to make: look the gateway up again for each request, and a changed `listen` is followed.
//! Not here: what the routes do ([`crate::api`]), and when to connect again.

mod error;
mod events;
mod response;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::memory::readings::Freed;
use crate::state::{HeldBy, Running, StateDir, read_running};

pub use error::ControlError;
pub use events::{Events, Viewing};
pub use response::Response;

/// The header that carries the control token.
const TOKEN: &str = "x-oneslot-token";
/// From the start of a connection attempt to its end.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// From sending a request to the response headers.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// The same for commands: unloading a model waits for the slot.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(660);

/// A running gateway.
#[derive(Debug)]
pub struct ControlClient {
    running: Running,
}

/// The body of `POST /oneslot/pause`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct PauseRequest {
    /// When the pause ends, in Unix milliseconds; `None` pauses until resumed.
    pub until_ms: Option<i64>,
    /// Stop the running answers as well.
    pub stop: bool,
    /// Unload the model as well, whatever runs.
    pub unload: bool,
}

/// What was unloaded.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Unloaded {
    /// The models' names; empty if none was loaded.
    #[serde(alias = "unloaded")]
    pub models: Vec<String>,
    /// The memory that this freed.
    pub freed: Freed,
}

/// What became of the unload that a pause included.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum PauseUnload {
    /// It was done.
    Done(Unloaded),
    /// The pause is in force, the model may still be loaded.
    Failed {
        /// What the model server said.
        error: String,
    },
}

impl ControlClient {
    /// Finds the gateway that holds this state directory.
    ///
    /// # Errors
    /// [`ControlError::State`] or [`ControlError::NotRunning`].
    pub fn find(state: &StateDir) -> Result<Self, ControlError> {
        let running = read_running(state)?.ok_or(ControlError::NotRunning)?;
        Ok(Self { running })
    }

    /// What the gateway's lock file says of it.
    pub fn gateway(&self) -> &HeldBy {
        &self.running.names
    }

    /// The lock file's content and the token.
    pub fn running(&self) -> &Running {
        &self.running
    }

    /// The snapshot of `GET /oneslot/status`, as `T` reads it.
    ///
    /// # Errors
    /// The gateway was not reached, or refused.
    pub async fn status<T: DeserializeOwned>(&self) -> Result<T, ControlError> {
        self.call(Method::GET, "/oneslot/status", None).await
    }

    /// Follows `GET /oneslot/events`.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn events(&self, viewing: Viewing) -> Result<Events, ControlError> {
        let response = self.request(Method::GET, viewing.path(), None).await?;
        Ok(Events::new(response.accepted().await?, viewing))
    }

    /// Pauses; gives what became of the unload, if one was asked for.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn pause(&self, pause: PauseRequest) -> Result<Option<PauseUnload>, ControlError> {
        #[derive(Deserialize)]
        struct Paused {
            unloaded: Option<PauseUnload>,
        }
        let body = serde_json::to_value(pause).map_err(ControlError::Decode)?;
        let call = self.call(Method::POST, "/oneslot/pause", Some(&body));
        call.await.map(|paused: Paused| paused.unloaded)
    }

    /// Resumes; returns whether it was paused.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn resume(&self) -> Result<bool, ControlError> {
        #[derive(Deserialize)]
        struct Resumed {
            // Older gateways do not send it.
            resumed: Option<bool>,
        }
        let call = self.call(Method::POST, "/oneslot/resume", None);
        call.await
            .map(|resumed: Resumed| resumed.resumed.unwrap_or(true))
    }

    /// Ends a cooldown and probes the model server; gives the snapshot after the probe.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn check<T: DeserializeOwned>(&self) -> Result<T, ControlError> {
        self.call(Method::POST, "/oneslot/check", None).await
    }

    /// Unloads the model once the slot is free.
    ///
    /// # Errors
    /// As [`status`](Self::status); also if the model server cannot do it.
    pub async fn unload(&self) -> Result<Unloaded, ControlError> {
        self.call(Method::POST, "/oneslot/unload", None).await
    }

    /// Cancels one request, queued or running.
    ///
    /// # Errors
    /// As [`status`](Self::status); [`is_not_found`](ControlError::is_not_found) if it has ended.
    pub async fn cancel(&self, id: &str) -> Result<(), ControlError> {
        if !Self::is_request_id(id) {
            return Err(ControlError::Refused {
                status: StatusCode::NOT_FOUND,
                message: format!("{id:?} is not the id of a request"),
            });
        }
        let path = format!("/oneslot/requests/{id}");
        let _: IgnoredAny = self.call(Method::DELETE, &path, None).await?;
        Ok(())
    }

    /// Whether this can be the id of a request.
    pub fn is_request_id(id: &str) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        !id.is_empty() && id.bytes().all(is_plain)
    }

    /// Sends one request, and gives the response once its headers have come, whatever its status.
    ///
    /// # Errors
    /// The gateway was not reached.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Response, ControlError> {
        let (address, mut sender, connection) = self.connect().await?;
        let limit = if method == Method::POST {
            COMMAND_TIMEOUT
        } else {
            READ_TIMEOUT
        };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            // Accepted whatever address is listened on.
            .header(header::HOST, format!("localhost:{}", address.port()))
            .header(
                header::USER_AGENT,
                concat!("oneslot/", env!("CARGO_PKG_VERSION")),
            )
            .header(TOKEN, self.running.token.expose());
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let text = body.map(Value::to_string).unwrap_or_default();
        let request = request.body(Full::new(Bytes::from(text)));
        let sent = sender.send_request(request.map_err(ControlError::Build)?);
        let response = timeout(limit, sent)
            .await
            .map_err(|_| ControlError::Timeout { limit })?
            .map_err(ControlError::Exchange)?;
        Ok(Response::new(response, connection))
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, ControlError> {
        let response = self.request(method, path, body).await?.accepted().await?;
        serde_json::from_slice(&response.bytes().await?).map_err(ControlError::Decode)
    }

    /// Connects to the first of its addresses that takes a connection.
    async fn connect(
        &self,
    ) -> Result<
        (
            SocketAddr,
            SendRequest<Full<Bytes>>,
            JoinSet<hyper::Result<()>>,
        ),
        ControlError,
    > {
        let mut failure = ControlError::NoListener {
            gateway: Box::new(self.running.names.clone()),
        };
        let urls = &self.running.names.addresses;
        for address in urls.iter().filter_map(|url| reachable(url)) {
            let connecting = timeout(CONNECT_TIMEOUT, TcpStream::connect(address));
            match connecting.await.unwrap_or_else(|late| Err(late.into())) {
                Ok(stream) => {
                    let (sender, connection) = http1::handshake(TokioIo::new(stream))
                        .await
                        .map_err(ControlError::Exchange)?;
                    let mut driver = JoinSet::new();
                    driver.spawn(connection);
                    return Ok((address, sender, driver));
                }
                Err(source) => failure = ControlError::Connect { address, source },
            }
        }
        Err(failure)
    }
}

/// The address of a base URL; one that means all addresses is reached on loopback.
fn reachable(url: &str) -> Option<SocketAddr> {
    let address = url.strip_prefix("http://")?.trim_end_matches('/');
    let address: SocketAddr = address.parse().ok()?;
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    Some(SocketAddr::new(ip, address.port()))
}

#[cfg(test)]
#[expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
mod tests;
