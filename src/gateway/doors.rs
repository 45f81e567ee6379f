//! The addresses served on: opened at start, changed while it runs, closed at the end.
//!
//! A change opens what is new before it lets go of what is old, and a failure keeps the old. Only
//! what holds the very port that a new one needs is closed first, and opened again on a failure. A
//! closed door takes no new connection; those that are open finish what they are doing. Not
//! here: what happens on a connection ([`crate::accept`]).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::accept::crowd::Crowd;
use crate::accept::{self, Door, descriptors};
use crate::upstream::process;

use super::{Gateway, StartError, lock, service};

/// A door that closes lets go of its address as soon as its task is at it again.
const FREED_WITHIN: Duration = Duration::from_secs(2);
/// Between two looks meanwhile.
const FREED_LOOK: Duration = Duration::from_millis(5);

/// A listener, and the address that was asked for.
pub(super) struct Bound {
    pub(super) asked: SocketAddr,
    pub(super) address: SocketAddr,
    listener: TcpListener,
}

/// All listeners of a gateway.
pub(super) struct Doors {
    crowd: Arc<Crowd>,
    open: Mutex<Vec<Open>>,
}

struct Open {
    asked: SocketAddr,
    address: SocketAddr,
    closing: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Doors {
    /// None open yet; `connections` may be held at once, over all of them.
    pub(super) fn new(connections: usize) -> Self {
        Self {
            crowd: Crowd::of(descriptors::room_for(connections)),
            open: Mutex::default(),
        }
    }

    /// The addresses served on, in the order in which they were opened.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        lock(&self.open).iter().map(|open| open.address).collect()
    }

    /// Serves a listener.
    #[expect(
        clippy::disallowed_methods,
        reason = "the handle is kept until the door is closed"
    )]
    pub(super) fn open(&self, gateway: &Arc<Gateway>, bound: Bound) {
        let (closing, closed) = watch::channel(false);
        let door = door(gateway, &self.crowd, &closed);
        let task = tokio::spawn(accept::serve(bound.listener, door));
        let open = Open {
            asked: bound.asked,
            address: bound.address,
            closing,
            task,
        };
        lock(&self.open).push(open);
    }

    /// Serves on `wanted` from now on.
    ///
    /// # Errors
    /// A new address could not be opened; everything is then as it was.
    pub(super) async fn change(
        &self,
        gateway: &Arc<Gateway>,
        wanted: &[SocketAddr],
    ) -> Result<(), StartError> {
        let (kept, port) = {
            let open = lock(&self.open);
            let kept: Vec<SocketAddr> = open
                .iter()
                .map(|open| open.asked)
                .filter(|asked| wanted.contains(asked))
                .collect();
            let port = open.iter().find(|open| kept.contains(&open.asked));
            (kept.clone(), port.map(|open| open.address.port()))
        };
        let new: Vec<SocketAddr> = wanted
            .iter()
            .copied()
            .filter(|address| !kept.contains(address))
            .collect();
        if !new.is_empty() {
            let in_the_way = self.make_way(wanted, &new);
            let (listeners, notices) = match self.listen(&new, port, &in_the_way).await {
                Ok(listening) => listening,
                Err(error) => {
                    self.come_back(gateway, &in_the_way);
                    return Err(error);
                }
            };
            for (code, text) in notices {
                gateway.notice(code, &text);
            }
            for bound in listeners {
                self.open(gateway, bound);
            }
        }
        let mut open = lock(&self.open);
        for old in open.iter().filter(|open| !wanted.contains(&open.asked)) {
            old.closing.send_replace(true);
        }
        open.retain(|open| wanted.contains(&open.asked));
        Ok(())
    }

    /// Closes those of the old doors that hold what a new one needs: a port is held once.
    fn make_way(&self, wanted: &[SocketAddr], new: &[SocketAddr]) -> Vec<(SocketAddr, SocketAddr)> {
        let mut open = lock(&self.open);
        let is_in_the_way = |open: &Open| {
            !wanted.contains(&open.asked) && new.iter().any(|new| overlap(open.address, *new))
        };
        for old in open.iter().filter(|open| is_in_the_way(open)) {
            old.closing.send_replace(true);
        }
        let ends = |open: &Open| (open.asked, open.address);
        let closed = open.iter().filter(|open| is_in_the_way(open)).map(ends);
        let closed = closed.collect();
        open.retain(|open| !is_in_the_way(open));
        closed
    }

    /// Listens as [`listen`] does; what was closed for it is free a moment later.
    async fn listen(
        &self,
        new: &[SocketAddr],
        port: Option<u16>,
        closed: &[(SocketAddr, SocketAddr)],
    ) -> Result<(Vec<Bound>, Vec<(&'static str, String)>), StartError> {
        let end = Instant::now() + FREED_WITHIN;
        loop {
            let is_free = closed.iter().all(|(_, address)| bound(*address).is_ok());
            if is_free || Instant::now() >= end {
                return listen(new, port).await;
            }
            tokio::time::sleep(FREED_LOOK).await;
        }
    }

    /// Opens again what was closed in vain.
    fn come_back(&self, gateway: &Arc<Gateway>, closed: &[(SocketAddr, SocketAddr)]) {
        for (asked, address) in closed {
            match bind(*address) {
                Ok(listener) => self.open(
                    gateway,
                    Bound {
                        asked: *asked,
                        address: *address,
                        listener,
                    },
                ),
                Err(error) => {
                    tracing::error!(%address, %error, "an address that was served on is lost");
                }
            }
        }
    }

    /// Closes all; each handle ends when the connections of its door have.
    pub(super) fn close(&self) -> Vec<JoinHandle<()>> {
        let open = std::mem::take(&mut *lock(&self.open));
        open.into_iter()
            .map(|open| {
                open.closing.send_replace(true);
                open.task
            })
            .collect()
    }
}

fn door(
    gateway: &Arc<Gateway>,
    crowd: &Arc<Crowd>,
    closing: &watch::Receiver<bool>,
) -> Arc<Door<impl Fn(accept::Accepted) -> service::Answer + Send + Sync + use<>>> {
    let limits = Arc::clone(gateway);
    let handle = Arc::clone(gateway);
    Arc::new(Door {
        handle: move |accepted| service::answer(Arc::clone(&handle), accepted),
        limits: Box::new(move || service::limits(&limits.settings())),
        crowd: Arc::clone(crowd),
        closing: closing.clone(),
    })
}

/// Listens on every address. The first must work; of the others it is said what is wrong.
pub(super) async fn listen(
    addresses: &[SocketAddr],
    port: Option<u16>,
) -> Result<(Vec<Bound>, Vec<(&'static str, String)>), StartError> {
    let mut listeners = Vec::new();
    let mut notices = Vec::new();
    let first = *addresses.first().ok_or(StartError::NoAddress)?;
    let mut port = port;
    for asked in addresses {
        let (asked, mut address) = (*asked, *asked);
        // Port 0 picks one; the other family then gets the same.
        if address.port() == 0
            && let Some(port) = port
        {
            address.set_port(port);
        }
        match bind(address) {
            Ok(listener) => {
                let bound = listener.local_addr().unwrap_or(address);
                port = port.or(Some(bound.port()));
                listeners.push(Bound {
                    asked,
                    address: bound,
                    listener,
                });
            }
            Err(source) if asked == first => return Err(unbound(address, source).await),
            Err(error) if is_no_family(&error) => {
                notices.push((
                    "one_family",
                    format!("Not listening on {address}: this machine has no such addresses"),
                ));
            }
            Err(_) => {
                let who = holder(address)
                    .await
                    .unwrap_or_else(|| "another program".to_owned());
                notices.push(("foreign_listener", format!("{who} listens on {address}: clients that say localhost may reach it instead of OneSlot. Use {first} in their base URL")));
            }
        }
    }
    Ok((listeners, notices))
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    bound(address)?.listen(1024)
}

/// `SO_REUSEADDR` on Unix only, so that a restart does not wait; never a shared port.
fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Whether two addresses cannot be listened on at once.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let (a, b) = (one.ip(), other.ip());
    let all = |ip: IpAddr, of: IpAddr| {
        // `[::]` takes both families where the system says so.
        ip.is_unspecified() && (ip.is_ipv6() || of.is_ipv4())
    };
    one.port() == other.port() && (a == b || all(a, b) || all(b, a))
}

fn is_no_family(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported)
        // Linux without IPv6 says "address family not supported", which has no kind of its own.
        || error.raw_os_error() == Some(97)
}

async fn unbound(address: SocketAddr, source: io::Error) -> StartError {
    if source.kind() == io::ErrorKind::AddrInUse {
        return StartError::PortHeld {
            address,
            by: holder(address).await,
        };
    }
    StartError::Bind { address, source }
}

async fn holder(address: SocketAddr) -> Option<String> {
    tokio::task::spawn_blocking(move || process::who_holds(address))
        .await
        .ok()
        .flatten()
}
