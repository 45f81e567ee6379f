//! relay.

pub mod observe;
pub mod sse;
