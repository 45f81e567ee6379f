//! PLACEHOLDER of the composition root, replaced when the branches are merged: exactly the
//! interface that `oneslotd serve` needs, serving nothing.

use std::io;
use std::net::SocketAddr;

use crate::config::Loaded;
use crate::state::{Lock, StateDir};

/// What a gateway is started with.
#[derive(Debug)]
pub struct Options {
    /// The settings, and where they came from.
    pub settings: Loaded,
    /// The state directory.
    pub state: StateDir,
    /// The right to serve with it; held until the gateway has stopped.
    pub lock: Lock,
    /// What is behind the gateway.
    pub demo: Upstream,
}

/// What is behind the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upstream {
    /// A model server.
    Real,
    /// The built-in simulated model, which says so in every answer.
    Demo,
}

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another program holds the port.
    #[error("{address} is held by {}", by.as_deref().unwrap_or("another program"))]
    PortHeld {
        /// The address.
        address: SocketAddr,
        /// The other program, where the system tells.
        by: Option<String>,
    },
    /// The address could not be bound for another reason.
    #[error("cannot serve on {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
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
        settings,
        state: _,
        lock,
        demo: _,
    } = options;
    Ok(Running {
        lock,
        addresses: settings.settings.listen,
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
