//! The addresses served on: opened at start, changed by a reload, closed at the end.
//!
//! A change opens what is new before it closes what is old, and a failure keeps the old. Only an
//! old listener that holds the very port a new one needs is closed first, and reopened on a
//! failure; if another program took its address meanwhile, it is retried every second. A closed
//! listener accepts nothing; its connections finish the request in flight.
//!
//! Not here: what happens on a connection ([`super::connection`]).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Mutex as AsyncMutex, Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::context::{Context, lock};
use crate::telemetry::message::Fact;

use super::bind::{bind, bound, overlap};
use super::connection;
use super::limits::Limits;
use super::open_files::connections_allowed;

pub use super::bind::ListenError;
pub(crate) use super::bind::{Bound, listen};

/// After a failed accept (no open files left): long enough not to spin, short enough to recover.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A closed listener frees its address as soon as its task runs again.
const FREED_WITHIN: Duration = Duration::from_secs(2);
/// Between two checks meanwhile.
const FREED_CHECK: Duration = Duration::from_millis(5);

/// Between two tries to reopen a lost address.
const RETRY: Duration = Duration::from_secs(1);
/// The notice of lost addresses.
const LOST: &str = "listen_lost";

/// All listeners of a gateway and their connections.
pub(crate) struct Listeners {
    permits: Arc<Semaphore>,
    /// Accept loops and connections; closed at the end.
    tasks: TaskTracker,
    open: Mutex<Vec<Open>>,
    lost: watch::Sender<Vec<Address>>,
    /// Held by a change and by each retry: each may need what the other holds.
    changing: AsyncMutex<()>,
}

/// An address that was asked for, and what it became: port 0 picks one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Address {
    asked: SocketAddr,
    actual: SocketAddr,
}

/// A listener that accepts.
struct Open {
    address: Address,
    closing: CancellationToken,
}

impl Listeners {
    /// None open yet.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(connections_allowed(limits.connections))),
            tasks: TaskTracker::new(),
            open: Mutex::default(),
            lost: watch::Sender::default(),
            changing: AsyncMutex::default(),
        }
    }

    /// Serves a listener, unless all were closed.
    pub(crate) fn open(&self, context: &Arc<Context>, bound: Bound) {
        let mut open = lock(&self.open);
        if self.tasks.is_closed() {
            return;
        }
        let closing = CancellationToken::new();
        open.push(Open {
            address: Address {
                asked: bound.asked,
                actual: bound.address,
            },
            closing: closing.clone(),
        });
        let accepting = Accepting {
            context: Arc::clone(context),
            permits: Arc::clone(&self.permits),
            connections: self.tasks.clone(),
            closing,
        };
        self.tasks.spawn(accepting.run(bound.listener));
        set_addresses(context, &open);
    }

    /// Closes all for good. Requests in flight go on.
    pub(crate) fn close(&self, context: &Context) {
        let mut open = lock(&self.open);
        self.tasks.close();
        for open in open.drain(..) {
            open.closing.cancel();
        }
        context.set_addresses(Vec::new());
    }

    /// Resolves when all listeners were closed and every connection has ended.
    pub(crate) async fn ended(&self) {
        self.tasks.wait().await;
    }

    /// Serves on `wanted` from now on.
    ///
    /// # Errors
    /// A new address could not be opened; everything is then as it was.
    pub(crate) async fn change(
        &self,
        context: &Arc<Context>,
        wanted: &[SocketAddr],
    ) -> Result<(), ListenError> {
        let _changing = self.changing.lock().await;
        let (new, port) = self.missing(wanted);
        let mut lost = self.lost.borrow().clone();
        if !new.is_empty() {
            let in_the_way = self.close_where(context, |open| {
                let overlaps = |new: &SocketAddr| overlap(open.actual, *new);
                !wanted.contains(&open.asked) && new.iter().any(overlaps)
            });
            match listen_once_free(&new, port, &in_the_way).await {
                Ok((listeners, notices)) => {
                    for fact in notices {
                        context.notices.add(fact);
                    }
                    for bound in listeners {
                        self.open(context, bound);
                    }
                }
                Err(error) => {
                    lost.extend(in_the_way);
                    self.reopen(context, lost);
                    return Err(error);
                }
            }
        }
        self.close_where(context, |open| !wanted.contains(&open.asked));
        let (missing, _) = self.missing(wanted);
        lost.retain(|address| missing.contains(&address.asked));
        self.set_lost(context, lost);
        Ok(())
    }

    /// Those of the wanted addresses that are not open, and the port of one that is.
    fn missing(&self, wanted: &[SocketAddr]) -> (Vec<SocketAddr>, Option<u16>) {
        let open = lock(&self.open);
        let is_open = |address: &SocketAddr| open.iter().any(|open| open.address.asked == *address);
        let kept = open
            .iter()
            .find(|open| wanted.contains(&open.address.asked));
        let new = wanted.iter().filter(|address| !is_open(address));
        (
            new.copied().collect(),
            kept.map(|open| open.address.actual.port()),
        )
    }

    /// Closes the listeners for which this holds; their addresses.
    fn close_where(
        &self,
        context: &Context,
        mut closes: impl FnMut(&Address) -> bool,
    ) -> Vec<Address> {
        let mut open = lock(&self.open);
        let closed: Vec<Open> = open.extract_if(.., |open| closes(&open.address)).collect();
        for open in &closed {
            open.closing.cancel();
        }
        set_addresses(context, &open);
        closed.into_iter().map(|open| open.address).collect()
    }

    /// Reopens what a failed change closed, or what was lost. What cannot be opened is lost, and
    /// [`retry_lost`] goes on trying.
    fn reopen(&self, context: &Arc<Context>, closed: Vec<Address>) {
        let mut lost = Vec::new();
        for address in closed {
            match bind(address.actual) {
                Ok(listener) => {
                    let bound = Bound {
                        asked: address.asked,
                        address: address.actual,
                        listener,
                    };
                    self.open(context, bound);
                }
                Err(error) => {
                    tracing::debug!(address = %address.actual, %error, "address not available yet");
                    lost.push(address);
                }
            }
        }
        self.set_lost(context, lost);
    }

    /// These addresses are lost now, and no others.
    fn set_lost(&self, context: &Context, lost: Vec<Address>) {
        if lost.is_empty() {
            context.notices.remove(LOST);
        } else {
            let addresses: Vec<String> = lost.iter().map(|one| one.actual.to_string()).collect();
            let list = addresses.join(", ");
            context.notices.add(Fact::ListenLost { list });
        }
        let before = self.lost.send_replace(lost.clone());
        if lost == before {
            return;
        }
        tracing::warn!(
            lost = lost.len(),
            before = before.len(),
            "lost addresses changed"
        );
        if let Err(error) = context.publish() {
            tracing::warn!(%error, "the command line may not find the addresses");
        }
    }
}

/// Retries lost addresses, for as long as the gateway lives.
pub(crate) async fn retry_lost(context: Arc<Context>, listeners: Arc<Listeners>) {
    let mut lost = listeners.lost.subscribe();
    while lost.wait_for(|lost| !lost.is_empty()).await.is_ok() {
        tokio::time::sleep(RETRY).await;
        let _changing = listeners.changing.lock().await;
        // A change may have opened them, or no longer want them.
        let closed = listeners.lost.borrow().clone();
        listeners.reopen(&context, closed);
    }
}

/// Publishes the addresses in the order in which they were opened.
fn set_addresses(context: &Context, open: &[Open]) {
    context.set_addresses(open.iter().map(|open| open.address.actual).collect());
}

/// What an accept loop needs.
struct Accepting {
    context: Arc<Context>,
    permits: Arc<Semaphore>,
    connections: TaskTracker,
    closing: CancellationToken,
}

impl Accepting {
    /// Accepts until the listener is closed, each connection only once it has a permit: further
    /// ones wait with the system, so that open files cannot run out.
    async fn run(self, listener: TcpListener) {
        let next = async || {
            // The semaphore is never closed.
            let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
            (permit, listener.accept().await)
        };
        while let Some((permit, accepted)) = self.closing.run_until_cancelled(next()).await {
            match accepted {
                Ok((stream, remote)) => {
                    let context = Arc::clone(&self.context);
                    let closing = self.closing.clone();
                    self.connections.spawn(async move {
                        connection::serve(context, stream, remote, closing).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Listens as [`listen`] does, once what was closed for it is free.
async fn listen_once_free(
    new: &[SocketAddr],
    port: Option<u16>,
    closed: &[Address],
) -> Result<(Vec<Bound>, Vec<Fact>), ListenError> {
    let end = Instant::now() + FREED_WITHIN;
    let is_free = || closed.iter().all(|address| bound(address.actual).is_ok());
    while !is_free() && Instant::now() < end {
        tokio::time::sleep(FREED_CHECK).await;
    }
    listen(new, port).await
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::config::Sources;
    use crate::server::{Options, Running, Serve, start};
    use crate::state::{Lock, StateDir};

    async fn gateway(home: &std::path::Path) -> Running {
        let file = home.join("oneslot.toml");
        let text = "listen = [\"127.0.0.1:0\"]\nupstream.base_url = \"http://127.0.0.1:9\"";
        std::fs::write(&file, text).unwrap();
        let sources = Sources {
            file,
            ..Sources::default()
        };
        let state = StateDir::open(home.join("state")).unwrap();
        let options = Options {
            loaded: sources.load().unwrap(),
            lock: Lock::acquire(&state, "test").unwrap(),
            state,
            serve: Serve::Upstream,
            log: None,
        };
        start(options).await.unwrap()
    }

    async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
        let tries = async {
            while !is_so() {
                tokio::time::sleep(FREED_CHECK).await;
            }
        };
        let seen = tokio::time::timeout(Duration::from_secs(60), tries).await;
        assert!(seen.is_ok(), "{what}");
    }

    /// An address that another program holds, as one that the gateway served on.
    fn taken() -> (std::net::TcpListener, Address) {
        let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let actual = stranger.local_addr().unwrap();
        let asked = actual;
        (stranger, Address { asked, actual })
    }

    fn lost_notice(context: &Context) -> Option<String> {
        let notices = context.notices.all();
        let lost = notices.into_iter().find(|one| one.code == LOST);
        lost.map(|one| one.to_string())
    }

    #[tokio::test]
    async fn a_lost_address_is_reopened_once_it_is_free() {
        let home = tempfile::tempdir().unwrap();
        let running = gateway(home.path()).await;
        let context = running.context();
        let (stranger, lost) = taken();
        running.listeners().reopen(context, vec![lost]);
        let text = lost_notice(context).unwrap();
        assert!(text.contains(&lost.actual.to_string()), "named: {text}");
        let serves = || context.addresses().contains(&lost.actual);
        assert!(!serves(), "it is not served");
        drop(stranger);
        until("it is reopened", serves).await;
        until("the notice is gone", || lost_notice(context).is_none()).await;
        running.shutdown().await;
    }

    #[tokio::test]
    async fn a_change_forgets_lost_addresses_it_does_not_want() {
        let home = tempfile::tempdir().unwrap();
        let running = gateway(home.path()).await;
        let context = running.context();
        let ((_one, wanted), (two, unwanted)) = (taken(), taken());
        running.listeners().reopen(context, vec![wanted, unwanted]);
        let own = context.settings().listen.clone();
        let listen: Vec<SocketAddr> = own.iter().copied().chain([wanted.asked]).collect();
        // One that cannot be opened makes no difference to the others.
        let _ = running.listeners().change(context, &listen).await;
        let text = lost_notice(context).unwrap();
        assert!(text.contains(&wanted.actual.to_string()), "{text}");
        running.listeners().change(context, &own).await.unwrap();
        assert_eq!(lost_notice(context), None, "neither is wanted");
        drop(two);
        tokio::time::sleep(RETRY * 2).await;
        let serves = context.addresses().contains(&unwanted.actual);
        assert!(!serves, "so it is not retried");
        running.shutdown().await;
    }

    #[tokio::test]
    async fn nothing_is_opened_after_the_end() {
        let home = tempfile::tempdir().unwrap();
        let running = gateway(home.path()).await;
        let context = Arc::clone(running.context());
        let (stranger, lost) = taken();
        running.listeners().close(&context);
        drop(stranger);
        running.listeners().reopen(&context, vec![lost]);
        assert!(context.addresses().is_empty());
        running.shutdown().await;
    }
}
