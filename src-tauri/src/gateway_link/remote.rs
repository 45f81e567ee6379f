//! A running `oneslotd`, over loopback, with the control token of its run.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use oneslot::state::Running;
use oneslot::telemetry::snapshot::Snapshot;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::tray_face::Whose;

use super::{Shared, Shown};

/// The header that carries the control token.
const TOKEN: &str = "x-oneslot-token";
const CONNECTS: Duration = Duration::from_secs(3);
/// How long an answer may take: unloading a model waits for the slot.
const PATIENCE: Duration = Duration::from_secs(660);
/// Its events while a panel is open: it says something every ten seconds.
const SEEN: Events = Events {
    path: "/oneslot/events?watched=yes",
    silence: Duration::from_secs(30),
};
/// The same while only the icon is seen: it says something every minute.
const UNSEEN: Events = Events {
    path: "/oneslot/events",
    silence: Duration::from_secs(150),
};
/// No event is longer: the list of requests in it is bounded.
const LONGEST_EVENT: usize = 4 << 20;

/// One way to follow a gateway's events.
#[derive(Clone, Copy)]
struct Events {
    path: &'static str,
    /// After this long without one it is gone.
    silence: Duration,
}

/// The gateway of another program.
#[derive(Debug)]
pub(super) struct Remote {
    running: Running,
}

/// Why another program's gateway did not do something.
#[derive(Debug, thiserror::Error)]
pub(super) enum RemoteError {
    #[error("cannot reach oneslotd")]
    Connect(#[source] std::io::Error),
    #[error("oneslotd cannot be asked")]
    Build(#[source] http::Error),
    #[error("the connection to oneslotd broke")]
    Exchange(#[source] hyper::Error),
    #[error("oneslotd does not answer")]
    Patience,
    #[error("{message}")]
    Refused { status: StatusCode, message: String },
}

/// An answer whose body still comes, and what moves it.
pub(crate) struct Coming {
    pub(crate) response: Response<Incoming>,
    moves: JoinSet<hyper::Result<()>>,
}

impl Coming {
    /// The answer, and what must be kept until it has been read.
    pub(crate) fn split(self) -> (Response<Incoming>, JoinSet<hyper::Result<()>>) {
        (self.response, self.moves)
    }
}

impl Remote {
    pub(super) fn new(running: Running) -> Self {
        Self { running }
    }

    /// Sends one command and gives its JSON answer, `null` if it had none.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, RemoteError> {
        let (response, _moves) = self.ask(method, path, body).await?.split();
        let status = response.status();
        let body = response.into_body().collect().await;
        let body = body.map_err(RemoteError::Exchange)?.to_bytes();
        let value: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if status.is_success() {
            return Ok(value);
        }
        let message = value.pointer("/error/message").and_then(Value::as_str);
        let message = message.map_or_else(|| format!("it answered {status}"), str::to_owned);
        Err(RemoteError::Refused { status, message })
    }

    /// Sends one request and gives the answer as soon as it begins.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Coming, RemoteError> {
        let address = self.address();
        let connected = timeout(CONNECTS, TcpStream::connect(address)).await;
        let stream = connected
            .map_err(|_| RemoteError::Patience)?
            .map_err(RemoteError::Connect)?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(RemoteError::Exchange)?;
        let mut moves = JoinSet::new();
        moves.spawn(connection);
        let text = body.map(Value::to_string).unwrap_or_default();
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, address.to_string())
            .header(
                header::USER_AGENT,
                concat!("oneslot/", env!("CARGO_PKG_VERSION")),
            )
            .header(TOKEN, self.running.token.expose());
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request
            .body(Full::new(Bytes::from(text)))
            .map_err(RemoteError::Build)?;
        let response = timeout(PATIENCE, sender.send_request(request))
            .await
            .map_err(|_| RemoteError::Patience)?
            .map_err(RemoteError::Exchange)?;
        Ok(Coming { response, moves })
    }

    /// Shows its events for as long as they come; says why they ended.
    pub(super) async fn follow(&self, shared: &Arc<Shared>) -> String {
        let mut viewers = shared.viewers.subscribe();
        loop {
            let is_seen = *viewers.borrow_and_update() > 0;
            let events = if is_seen { SEEN } else { UNSEEN };
            tokio::select! {
                reason = self.show(shared, events) => return reason,
                // Asked anew, so that it knows whether a person looks.
                _ = viewers.wait_for(|viewers| (*viewers > 0) != is_seen) => {}
            }
        }
    }

    async fn show(&self, shared: &Arc<Shared>, events: Events) -> String {
        let coming = match self.ask(Method::GET, events.path, None).await {
            Ok(coming) if coming.response.status().is_success() => coming,
            Ok(coming) => return format!("oneslotd answered {}", coming.response.status()),
            Err(error) => return error.to_string(),
        };
        let (response, _moves) = coming.split();
        let run = format!("daemon-{}", self.running.names.pid);
        let mut body = response.into_body();
        let mut pending = Vec::new();
        while let Ok(Some(Ok(frame))) = timeout(events.silence, body.frame()).await {
            if let Some(bytes) = frame.data_ref() {
                pending.extend_from_slice(bytes);
            }
            for snapshot in snapshots(&mut pending) {
                shared.shown.send_replace(Shown {
                    run: run.clone(),
                    whose: Some(Whose::Daemon),
                    snapshot: Arc::new(snapshot),
                    silent: None,
                });
            }
            if pending.len() > LONGEST_EVENT {
                return "oneslotd says more than can be understood".to_owned();
            }
        }
        "oneslotd has stopped".to_owned()
    }

    /// Its first address; one that means "all addresses" is reached on loopback.
    fn address(&self) -> SocketAddr {
        let mut urls = self.running.names.addresses.iter();
        urls.find_map(|url| url.strip_prefix("http://")?.parse().ok())
            .map_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0), here)
    }
}

fn here(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Takes every whole event out of `pending`; one that is no snapshot is passed over.
fn snapshots(pending: &mut Vec<u8>) -> Vec<Snapshot> {
    let mut found = Vec::new();
    while let Some(end) = pending.windows(2).position(|pair| pair == b"\n\n") {
        let event: Vec<u8> = pending.drain(..end + 2).collect();
        let text = String::from_utf8_lossy(&event);
        let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
        let data = data.collect::<String>();
        found.extend(serde_json::from_str::<Snapshot>(&data));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_taken_whole_and_strange_ones_are_passed_over() {
        let mut pending = b": ping\n\ndata: {\"seq\":1}\n\ndata: what\n\ndata: {\"s".to_vec();
        let seqs = |found: Vec<Snapshot>| found.iter().map(|s| s.seq).collect::<Vec<_>>();
        assert_eq!(seqs(snapshots(&mut pending)), [1]);
        pending.extend_from_slice(b"eq\":2}\n\n");
        assert_eq!(seqs(snapshots(&mut pending)), [2], "the rest came later");
        assert!(pending.is_empty());
    }
}
