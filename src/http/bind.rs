//! Binding of listen addresses.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::net::{TcpListener, TcpSocket};

use crate::telemetry::message::Fact;
use crate::upstream::process;

/// Why an address could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another program holds the port.
    #[error("{address} is held by {}", by.as_deref().unwrap_or("another program"))]
    PortHeld {
        /// The address.
        address: SocketAddr,
        /// The other program, where the system tells.
        by: Option<String>,
    },
    /// The address could not be bound for another reason: reserved, or not this machine's.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// No address to listen on.
    #[error("listen names no address")]
    NoAddress,
}

/// A bound listener, and the address that was asked for.
pub(crate) struct Bound {
    /// As configured.
    pub(crate) asked: SocketAddr,
    /// As bound: port 0 has become a real one.
    pub(crate) address: SocketAddr,
    pub(super) listener: TcpListener,
}

/// Listens on every address. The first must work; of the others there are notices of what is wrong.
///
/// # Errors
/// The first could not be bound.
pub(crate) async fn listen(
    addresses: &[SocketAddr],
    port: Option<u16>,
) -> Result<(Vec<Bound>, Vec<Fact>), ListenError> {
    let mut listeners = Vec::new();
    let mut notices = Vec::new();
    let first = *addresses.first().ok_or(ListenError::NoAddress)?;
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
                notices.push(Fact::OneFamily {
                    address: address.to_string(),
                });
            }
            Err(_) => {
                let program = holder(address).await;
                let (address, own) = (address.to_string(), first.to_string());
                notices.push(match program {
                    Some(program) => Fact::ForeignListener {
                        address,
                        program,
                        own,
                    },
                    None => Fact::ForeignListenerUnknown { address, own },
                });
            }
        }
    }
    Ok((listeners, notices))
}

pub(super) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    bound(address)?.listen(1024)
}

/// `SO_REUSEADDR` on Unix only, so that a restart does not wait; never a shared port.
pub(super) fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
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
pub(super) fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
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

async fn unbound(address: SocketAddr, source: io::Error) -> ListenError {
    if source.kind() == io::ErrorKind::AddrInUse {
        return ListenError::PortHeld {
            address,
            by: holder(address).await,
        };
    }
    ListenError::Bind { address, source }
}

async fn holder(address: SocketAddr) -> Option<String> {
    tokio::task::spawn_blocking(move || process::who_holds(address))
        .await
        .ok()
        .flatten()
}
