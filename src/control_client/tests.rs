//! Against a gateway in this process, over its own listeners.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::config::Sources;
use crate::server::{self, Options, Serve};
use crate::state::{Lock, StateDir};
use crate::telemetry::snapshot::Snapshot;

struct Gateway {
    home: TempDir,
    state: StateDir,
    running: server::Running,
}

impl Gateway {
    async fn start(settings: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        write(home.path(), settings);
        let state = StateDir::open(home.path().join("state")).unwrap();
        let sources = Sources {
            file: home.path().join("oneslot.toml"),
            ..Sources::default()
        };
        let options = Options {
            loaded: sources.load().unwrap(),
            lock: Lock::acquire(&state, "test").unwrap(),
            state: state.clone(),
            serve: Serve::Upstream,
            log: None,
        };
        let running = server::start(options).await.unwrap();
        Self {
            home,
            state,
            running,
        }
    }

    fn client(&self) -> ControlClient {
        ControlClient::find(&self.state).unwrap()
    }
}

/// The upstream's port takes no connection.
fn write(home: &Path, settings: &str) {
    let text = format!("upstream.base_url = \"http://127.0.0.1:9\"\n{settings}\n");
    std::fs::write(home.join("oneslot.toml"), text).unwrap();
}

const LOOPBACK: &str = "listen = [\"127.0.0.1:0\"]";

#[test]
fn an_address_that_means_all_is_reached_on_loopback() {
    for (url, address) in [
        ("http://127.0.0.1:11411", Some("127.0.0.1:11411")),
        ("http://[::1]:5/", Some("[::1]:5")),
        ("http://0.0.0.0:5", Some("127.0.0.1:5")),
        ("http://[::]:5", Some("[::1]:5")),
        ("nonsense", None),
    ] {
        let reached = reachable(url).map(|address| address.to_string());
        assert_eq!(reached.as_deref(), address, "{url}");
    }
}

#[test]
fn without_a_gateway_there_is_no_client() {
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(home.path().join("state")).unwrap();
    let found = ControlClient::find(&state);
    assert!(matches!(found, Err(ControlError::NotRunning)));
}

#[tokio::test]
async fn a_gateway_without_a_listener_is_named() {
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(home.path().join("state")).unwrap();
    let _lock = Lock::acquire(&state, "oneslotd").unwrap();
    let client = ControlClient::find(&state).unwrap();
    let error = client.status::<Value>().await.unwrap_err();
    assert!(matches!(error, ControlError::NoListener { .. }), "{error}");
    assert!(error.to_string().contains("oneslotd"), "{error}");
}

#[tokio::test]
async fn each_command_reaches_the_gateway() {
    let gateway = Gateway::start(LOOPBACK).await;
    let client = gateway.client();
    let snapshot: Snapshot = client.status().await.unwrap();
    assert_eq!(snapshot.version, env!("CARGO_PKG_VERSION"));
    let paused = client.pause(PauseRequest::default()).await.unwrap();
    assert_eq!(paused, None, "no unload was asked for");
    let snapshot: Snapshot = client.check().await.unwrap();
    assert!(snapshot.pause.is_some(), "paused until resumed");
    assert!(client.resume().await.unwrap(), "it was paused");
    assert!(!client.resume().await.unwrap(), "it is not paused any more");
    let snapshot: Snapshot = client.status().await.unwrap();
    assert_eq!(snapshot.pause, None);
    for id in ["none", "", "../pause"] {
        let error = client.cancel(id).await.unwrap_err();
        assert!(error.is_not_found(), "{id:?}: {error}");
    }
    let error = client.unload().await.unwrap_err();
    assert!(matches!(error, ControlError::Refused { .. }), "{error}");
    gateway.running.shutdown().await;
}

#[tokio::test]
async fn a_pause_reports_an_unload_that_failed() {
    let gateway = Gateway::start(LOOPBACK).await;
    let pause = PauseRequest {
        unload: true,
        ..PauseRequest::default()
    };
    let unloaded = gateway.client().pause(pause).await.unwrap();
    let failed = matches!(unloaded, Some(PauseUnload::Failed { .. }));
    assert!(failed, "no server is there: {unloaded:?}");
    gateway.running.shutdown().await;
}

#[tokio::test]
async fn events_come_at_once_and_after_each_change_until_the_end() {
    let gateway = Gateway::start(LOOPBACK).await;
    let client = gateway.client();
    for viewing in [Viewing::Unwatched, Viewing::Watched] {
        let mut events = client.events(viewing).await.unwrap();
        let first: Snapshot = events.next().await.unwrap().unwrap();
        assert_eq!(first.pause, None, "{viewing:?}");
        client.pause(PauseRequest::default()).await.unwrap();
        while events
            .next::<Snapshot>()
            .await
            .unwrap()
            .unwrap()
            .pause
            .is_none()
        {}
        client.resume().await.unwrap();
    }
    let mut events = client.events(Viewing::Unwatched).await.unwrap();
    let end = async { while events.next::<Value>().await.unwrap().is_some() {} };
    tokio::join!(end, gateway.running.shutdown());
}

#[tokio::test]
async fn the_token_is_enough_where_a_key_is_required() {
    let hash = "0".repeat(64);
    let keys = format!(
        "{LOOPBACK}\naccess.require_key = true\naccess.keys = [{{ name = \"zed\", sha256 = \"{hash}\" }}]"
    );
    let gateway = Gateway::start(&keys).await;
    let client = gateway.client();
    client.status::<Snapshot>().await.unwrap();
    client.pause(PauseRequest::default()).await.unwrap();
    let mut events = client.events(Viewing::Watched).await.unwrap();
    assert!(events.next::<Snapshot>().await.unwrap().is_some());
    gateway.running.shutdown().await;
}

#[tokio::test]
async fn the_only_listener_may_be_of_ipv6() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    let gateway = Gateway::start("listen = [\"[::1]:0\"]").await;
    gateway.client().status::<Snapshot>().await.unwrap();
    gateway.running.shutdown().await;
}

#[tokio::test]
async fn a_changed_listen_address_is_found_through_the_lock_file() {
    let gateway = Gateway::start(LOOPBACK).await;
    let before = gateway.client().gateway().addresses.clone();
    let mut events = gateway.client().events(Viewing::Unwatched).await.unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let next = free.local_addr().unwrap();
    drop(free);
    write(gateway.home.path(), &format!("listen = [\"{next}\"]"));
    let moved = async {
        loop {
            let snapshot: Snapshot = events.next().await.unwrap().unwrap();
            if snapshot.listen == [next.to_string()] {
                return;
            }
        }
    };
    let moved = tokio::time::timeout(Duration::from_secs(30), moved).await;
    if moved.is_err() {
        panic!("the events of the old connection show the new address");
    }
    let client = gateway.client();
    assert_ne!(client.gateway().addresses, before);
    client.status::<Snapshot>().await.unwrap();
    gateway.running.shutdown().await;
}
