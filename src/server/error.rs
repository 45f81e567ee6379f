//! Why a gateway did not start.

use std::io;
use std::net::SocketAddr;

use crate::http::listeners::ListenError;
use crate::state::StateError;
use crate::upstream::handle::LinkError;
use crate::upstream::{BaseUrlError, Root};

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No listener could be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Beyond loopback without a key.
    #[error(
        "{address} can be reached from other machines, so a key is required: run `oneslotd key add NAME` and set access.require_key = true, or listen on 127.0.0.1"
    )]
    Exposed {
        /// The address.
        address: SocketAddr,
    },
    /// The upstream would be the gateway itself.
    #[error("upstream.base_url {root} is this gateway's own address: point it at the model server")]
    Loop {
        /// The root.
        root: Root,
    },
    /// The base URL of the demo is not one.
    #[error("the built-in demo has no usable address")]
    DemoUrl(#[source] BaseUrlError),
    /// The demo could not be started.
    #[error("cannot start the built-in demo")]
    Demo(#[source] io::Error),
    /// The client for the upstream could not be made.
    #[error("cannot link to the upstream")]
    Link(#[source] LinkError),
    /// The state directory failed.
    #[error("cannot use the state directory")]
    State(#[source] StateError),
}
