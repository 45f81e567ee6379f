//! The handlers, one file per family of routes. Each gets a request that passed the checks of the
//! edge, and its unread body.
//!
//! Not here: who may ask and which paths exist ([`crate::http`]).

pub(crate) mod admin;
mod commands;
pub(crate) mod events;
pub(crate) mod inference;
pub(crate) mod passthrough;
pub(crate) mod read_cache;
mod status;
