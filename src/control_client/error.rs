//! Why a control request failed.

use std::net::SocketAddr;
use std::time::Duration;

use http::StatusCode;

use crate::state::{HeldBy, StateError};

/// Why the gateway did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The state directory could not be read.
    #[error(transparent)]
    State(#[from] StateError),
    /// No gateway holds the state directory.
    #[error("no OneSlot is running")]
    NotRunning,
    /// It has no listener, or none yet.
    #[error("cannot reach {gateway}: it does not serve yet; try again in a moment")]
    NoListener {
        /// The gateway.
        gateway: Box<HeldBy>,
    },
    /// None of its addresses took a connection.
    #[error("cannot connect to OneSlot at {address}")]
    Connect {
        /// The address tried last.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The request could not be built.
    #[error("cannot build the request")]
    Build(#[source] http::Error),
    /// The connection broke.
    #[error("the connection to OneSlot broke")]
    Exchange(#[source] hyper::Error),
    /// No response within the time limit.
    #[error("OneSlot does not respond within {} s", limit.as_secs())]
    Timeout {
        /// The limit.
        limit: Duration,
    },
    /// The gateway refused it.
    #[error("{message}")]
    Refused {
        /// The status.
        status: StatusCode,
        /// The gateway's own message, or the status where it sent none.
        message: String,
    },
    /// The response or event is longer than any that a gateway sends.
    #[error("OneSlot sent more than a gateway ever sends")]
    TooLong,
    /// The response is not what this version expects.
    #[error("cannot read the response of OneSlot")]
    Decode(#[source] serde_json::Error),
}

impl ControlError {
    /// Whether the gateway does not know what was named, such as a request that has ended.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if *status == StatusCode::NOT_FOUND)
    }
}
