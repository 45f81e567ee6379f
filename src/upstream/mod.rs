//! The server behind the gateway: who it is, whether it lives, what it holds.

mod base_url;
mod remote;
pub mod process;

pub use base_url::{BaseUrlError, Root, Scheme};
pub use remote::runs_elsewhere;
