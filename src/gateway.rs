//! PLACEHOLDER of the composition root, replaced when the branches are merged: exactly the
//! interface that `oneslotd serve` needs, serving nothing.

use std::io;
use std::net::SocketAddr;

use crate::config::Loaded;
use crate::state::{Lock, StateDir};
use crate::upstream::Root;

/// What a gateway is made of.
#[derive(Debug)]
pub struct Options {
    /// The settings and where they came from.
    pub loaded: Loaded,
    /// Where state is kept.
    pub state: StateDir,
    /// The right to serve with that state.
    pub lock: Lock,
    /// A real model server, or the built-in simulated one.
    pub serve: Serve,
}

/// What is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serve {
    /// The configured upstream.
    Upstream,
    /// The built-in demo, which says so in every answer.
    Demo,
}

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is taken, reserved or not ours.
    #[error("cannot listen on {address}{}", holder.as_ref().map(|who| format!(": {who} holds it")).unwrap_or_default())]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The program that holds it, if it can be told.
        holder: Option<String>,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// No address to listen on.
    #[error("listen names no address")]
    NoAddress,
    /// Beyond loopback without a key.
    #[error("{address} can be reached from other machines")]
    Exposed {
        /// The address.
        address: SocketAddr,
    },
    /// The upstream would be the gateway itself.
    #[error("upstream.base_url {root} is this gateway's own address")]
    Loop {
        /// The root.
        root: Root,
    },
}

/// A gateway that serves.
#[derive(Debug)]
pub struct Running {
    lock: Lock,
    addresses: Vec<SocketAddr>,
}

/// Starts a gateway.
///
/// # Errors
///
/// [`StartError`].
pub async fn start(options: Options) -> Result<Running, StartError> {
    let Options {
        loaded,
        state: _,
        lock,
        serve: _,
    } = options;
    Ok(Running {
        lock,
        addresses: loaded.settings.listen,
    })
}

impl Running {
    /// The addresses it serves on.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Stops serving: running answers end or are cut, and the lock is let go.
    pub async fn shutdown(self) {
        drop(self.lock);
    }
}
