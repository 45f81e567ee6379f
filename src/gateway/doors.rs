//! The addresses served on: opened at start, changed while it runs, closed at the end.
//!
//! A change opens what is new before it lets go of what is old, and a failure keeps the old. Only
//! what holds the very port that a new one needs is closed first, and opened again on a failure. A
//! closed door takes no new connection; those that are open finish what they are doing. An old
//! address that somebody else took meanwhile is tried until it is free. Not here: what happens on
//! a connection ([`crate::accept`]).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Mutex as AsyncMutex, watch};
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

/// Between two tries to have a lost address back.
const BACK_LOOK: Duration = Duration::from_secs(1);
/// The notice of lost addresses.
const LOST: &str = "listen_lost";

/// A listener, and the address that was asked for.
pub(crate) struct Bound {
    pub(crate) asked: SocketAddr,
    pub(crate) address: SocketAddr,
    listener: TcpListener,
}

/// All listeners of a gateway.
pub(crate) struct Doors {
    crowd: Arc<Crowd>,
    open: Mutex<Opened>,
    lost: watch::Sender<Vec<Place>>,
    /// Held by a change and by each try to have an address back: each may need what the other has.
    turn: AsyncMutex<()>,
}

/// The doors, until all are closed for good.
#[derive(Default)]
struct Opened {
    doors: Vec<Open>,
    is_over: bool,
}

/// An address that was asked for, and what it became: port 0 picks one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    asked: SocketAddr,
    address: SocketAddr,
}

struct Open {
    asked: SocketAddr,
    address: SocketAddr,
    closing: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Doors {
    /// None open yet; `connections` may be held at once, over all of them.
    pub(crate) fn new(connections: usize) -> Self {
        Self {
            crowd: Crowd::of(descriptors::room_for(connections)),
            open: Mutex::default(),
            lost: watch::Sender::default(),
            turn: AsyncMutex::default(),
        }
    }

    /// The addresses served on, in the order in which they were opened.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let open = lock(&self.open);
        open.doors.iter().map(|open| open.address).collect()
    }

    /// Serves a listener, unless all is over.
    #[expect(
        clippy::disallowed_methods,
        reason = "the handle is kept until the door is closed"
    )]
    pub(crate) fn open(&self, gateway: &Arc<Gateway>, bound: Bound) {
        let mut opened = lock(&self.open);
        if opened.is_over {
            return;
        }
        let (closing, closed) = watch::channel(false);
        let door = door(gateway, &self.crowd, &closed);
        let task = tokio::spawn(accept::serve(bound.listener, door));
        let open = Open {
            asked: bound.asked,
            address: bound.address,
            closing,
            task,
        };
        opened.doors.push(open);
    }

    /// Serves on `wanted` from now on.
    ///
    /// # Errors
    /// A new address could not be opened; everything is then as it was.
    pub(crate) async fn change(
        &self,
        gateway: &Arc<Gateway>,
        wanted: &[SocketAddr],
    ) -> Result<(), StartError> {
        let _turn = self.turn.lock().await;
        let (new, port) = self.missing(wanted);
        let mut lost = self.lost.borrow().clone();
        if !new.is_empty() {
            let in_the_way = self.make_way(wanted, &new);
            let (listeners, notices) = match self.listen(&new, port, &in_the_way).await {
                Ok(listening) => listening,
                Err(error) => {
                    lost.extend(in_the_way);
                    self.open_again(gateway, lost);
                    return Err(error);
                }
            };
            for (code, text) in notices {
                gateway.notices.add(code, &text);
            }
            for bound in listeners {
                self.open(gateway, bound);
            }
        }
        self.close_all_but(wanted);
        let (missing, _) = self.missing(wanted);
        lost.retain(|place| missing.contains(&place.asked));
        self.lose(gateway, lost);
        Ok(())
    }

    fn close_all_but(&self, wanted: &[SocketAddr]) {
        let mut open = lock(&self.open);
        let is_wanted = |open: &Open| wanted.contains(&open.asked);
        for unwanted in open.doors.iter().filter(|open| !is_wanted(open)) {
            unwanted.closing.send_replace(true);
        }
        open.doors.retain(is_wanted);
    }

    /// Those of the wanted addresses that are not open, and the port of one that is.
    fn missing(&self, wanted: &[SocketAddr]) -> (Vec<SocketAddr>, Option<u16>) {
        let open = lock(&self.open);
        let is_open = |address: &SocketAddr| open.doors.iter().any(|open| open.asked == *address);
        let kept = open.doors.iter().find(|open| wanted.contains(&open.asked));
        let new = wanted.iter().filter(|address| !is_open(address));
        (new.copied().collect(), kept.map(|open| open.address.port()))
    }

    /// Closes those of the old doors that hold what a new one needs: a port is held once.
    fn make_way(&self, wanted: &[SocketAddr], new: &[SocketAddr]) -> Vec<Place> {
        let mut open = lock(&self.open);
        let is_in_the_way = |open: &Open| {
            !wanted.contains(&open.asked) && new.iter().any(|new| overlap(open.address, *new))
        };
        for old in open.doors.iter().filter(|open| is_in_the_way(open)) {
            old.closing.send_replace(true);
        }
        let place = |open: &Open| Place {
            asked: open.asked,
            address: open.address,
        };
        let closed = open.doors.iter().filter(|open| is_in_the_way(open));
        let closed = closed.map(place).collect();
        open.doors.retain(|open| !is_in_the_way(open));
        closed
    }

    /// Listens as [`listen`] does; what was closed for it is free a moment later.
    async fn listen(
        &self,
        new: &[SocketAddr],
        port: Option<u16>,
        closed: &[Place],
    ) -> Result<(Vec<Bound>, Vec<(&'static str, String)>), StartError> {
        let end = Instant::now() + FREED_WITHIN;
        loop {
            let is_free = closed.iter().all(|place| bound(place.address).is_ok());
            if is_free || Instant::now() >= end {
                return listen(new, port).await;
            }
            tokio::time::sleep(FREED_LOOK).await;
        }
    }

    /// Opens again what was closed in vain. What cannot be opened is lost for now, and that is
    /// said: [`have_back`] goes on trying.
    fn open_again(&self, gateway: &Arc<Gateway>, closed: Vec<Place>) {
        let mut lost = Vec::new();
        for place in closed {
            match bind(place.address) {
                Ok(listener) => {
                    let Place { asked, address } = place;
                    let bound = Bound {
                        asked,
                        address,
                        listener,
                    };
                    self.open(gateway, bound);
                }
                Err(error) => {
                    tracing::debug!(address = %place.address, %error, "not to be had now");
                    lost.push(place);
                }
            }
        }
        self.lose(gateway, lost);
    }

    /// These are lost now, and no others: a person is told, and nobody is sent there any more.
    fn lose(&self, gateway: &Gateway, lost: Vec<Place>) {
        if lost.is_empty() {
            gateway.notices.remove(LOST);
        } else {
            let addresses: Vec<String> = lost.iter().map(|one| one.address.to_string()).collect();
            let addresses = addresses.join(", ");
            gateway.notices.add(
                LOST,
                &format!(
                    "OneSlot no longer listens on {addresses}: it tries again every second, until \
                     `listen` names another address"
                ),
            );
        }
        let now = lost.clone();
        let before = self.lost.send_replace(lost);
        if now == before {
            return;
        }
        tracing::warn!(
            lost = now.len(),
            before = before.len(),
            "addresses were lost or had back"
        );
        if let Err(error) = gateway.publish() {
            tracing::warn!(%error, "the command line may not find the addresses");
        }
    }

    /// Closes all for good; each handle ends when the connections of its door have.
    pub(crate) fn close(&self) -> Vec<JoinHandle<()>> {
        let mut open = lock(&self.open);
        open.is_over = true;
        let doors = std::mem::take(&mut open.doors).into_iter();
        doors
            .map(|open| {
                open.closing.send_replace(true);
                open.task
            })
            .collect()
    }
}

/// Tries to have lost addresses back, for as long as the gateway lives.
pub(crate) async fn have_back(gateway: Arc<Gateway>) {
    let doors = &gateway.doors;
    let mut lost = doors.lost.subscribe();
    while lost.wait_for(|lost| !lost.is_empty()).await.is_ok() {
        tokio::time::sleep(BACK_LOOK).await;
        let _turn = doors.turn.lock().await;
        // Perhaps a change had them or no longer wants them.
        let closed = doors.lost.borrow().clone();
        doors.open_again(&gateway, closed);
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
pub(crate) async fn listen(
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::config::Sources;
    use crate::gateway::{Options, Running, Serve, start};
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
                tokio::time::sleep(FREED_LOOK).await;
            }
        };
        let seen = tokio::time::timeout(Duration::from_secs(60), tries).await;
        assert!(seen.is_ok(), "{what}");
    }

    /// An address that a stranger holds, as one that the gateway served on.
    fn taken() -> (std::net::TcpListener, Place) {
        let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = stranger.local_addr().unwrap();
        let asked = address;
        (stranger, Place { asked, address })
    }

    fn told(gateway: &Gateway) -> Option<String> {
        let notices = gateway.notices.all();
        let lost = notices.into_iter().find(|one| one.code == LOST);
        lost.map(|one| one.text)
    }

    #[tokio::test]
    async fn an_address_that_somebody_took_is_had_back_when_it_is_free() {
        let home = tempfile::tempdir().unwrap();
        let running = gateway(home.path()).await;
        let gateway = running.context();
        let (stranger, place) = taken();
        gateway.doors.open_again(gateway, vec![place]);
        let text = told(gateway).unwrap();
        assert!(text.contains(&place.address.to_string()), "named: {text}");
        let serves = || gateway.addresses().contains(&place.address);
        assert!(!serves(), "it is not served");
        drop(stranger);
        until("it is had back", serves).await;
        until("and no longer told", || told(gateway).is_none()).await;
        running.shutdown().await;
    }

    #[tokio::test]
    async fn a_change_keeps_trying_for_what_is_still_wanted_and_forgets_the_rest() {
        let home = tempfile::tempdir().unwrap();
        let running = gateway(home.path()).await;
        let gateway = running.context();
        let ((_one, wanted), (two, unwanted)) = (taken(), taken());
        gateway.doors.open_again(gateway, vec![wanted, unwanted]);
        let own = gateway.settings().listen.clone();
        let listen: Vec<SocketAddr> = own.iter().copied().chain([wanted.asked]).collect();
        // That one of them cannot be had makes no difference to the others.
        let _ = gateway.doors.change(gateway, &listen).await;
        let text = told(gateway).unwrap();
        assert!(text.contains(&wanted.address.to_string()), "{text}");
        gateway.doors.change(gateway, &own).await.unwrap();
        assert_eq!(told(gateway), None, "nobody wants any of them");
        drop(two);
        tokio::time::sleep(BACK_LOOK * 2).await;
        let serves = gateway.addresses().contains(&unwanted.address);
        assert!(!serves, "so they are not tried for");
        running.shutdown().await;
    }

    #[tokio::test]
    async fn what_falls_free_when_all_is_over_is_not_opened() {
        let home = tempfile::tempdir().unwrap();
        let running = gateway(home.path()).await;
        let gateway = Arc::clone(running.context());
        let (stranger, place) = taken();
        gateway.doors.close();
        drop(stranger);
        gateway.doors.open_again(&gateway, vec![place]);
        assert!(gateway.addresses().is_empty());
        running.shutdown().await;
    }
}
