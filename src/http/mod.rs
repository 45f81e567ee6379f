//! The HTTP edge: hyper serves, this module limits, checks and routes.
//!
//! In the order of a request: [`listeners`] accept connections within a limit, [`connection`]
//! serves one and drops its work when the client disconnects, [`service`] turns one parsed request
//! into a response, [`admission`] and [`security`] decide who may ask, [`router`] where it goes, and [`body`] reads
//! the request body within its limits.
//!
//! Nothing of a client's bytes reaches the upstream unread: the upstream request is built from the
//! parsed request, the whole body and an allow-list of headers, so there is nothing to smuggle.
//!
//! Not here: what a route does ([`crate::api`]).

pub(crate) mod admission;
mod bind;
pub(crate) mod body;
pub(crate) mod catch_panic;
mod client_socket;
mod connection;
pub(crate) mod limits;
pub(crate) mod listeners;
mod open_files;
pub mod router;
pub mod security;
mod service;
