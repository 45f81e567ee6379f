//! The HTTP face: listeners, routes, and the gateway's own paths.

pub(crate) mod beside;
mod body;
pub(crate) mod control;
pub(crate) mod doors;
mod onward;
pub(crate) mod refused;
mod service;
mod status;
mod wishes;

pub(crate) use crate::context::lock;
pub use crate::context::{Context as Gateway, Watcher};
pub use crate::memory::readings::Freed;
pub use crate::server::{Options, Running, Serve, StartError, end, start};
pub(crate) use crate::upstream::handle as link;
