//! Who may call, and what: the gates that stand before the body is read and before the line.
//!
//! Pure: heads in, verdicts out. In the order in which they are asked: the Host, the route, the
//! Origin and Fetch metadata, the key, the type of the body. Headers for either side are built
//! from lists of what may pass, never by removing what may not.
//!
//! Not here: whether the raw bytes are well formed ([`crate::accept::head`]), and whether a chat
//! can ever fit ([`crate::window`]).

pub mod caller;
pub mod cors;
mod disguise;
pub mod gate;
pub mod headers;
pub mod hop;
pub mod keys;
pub mod route;
