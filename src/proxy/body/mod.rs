//! Bytes to the client, holding the lease until their end.
//!
//! Invariant: relayed bytes are the upstream's bytes in order. Added are only complete events and
//! comments of the gateway, removed is only the upstream's key. Not here: changes to the request
//! ([`crate::proxy`]).

pub mod stream;
pub mod buffered;
pub mod keepalive;

use std::convert::Infallible;

use bytes::Bytes;
use http_body::Body;
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};

/// The body of every response.
pub type ResponseBody = UnsyncBoxBody<Bytes, Broken>;

/// An answer that broke after its status was sent and cannot report it in its own format: the
/// connection is aborted, so that no client takes it for complete.
#[derive(Debug, thiserror::Error)]
#[error("the answer broke in the middle")]
pub struct Broken;

/// Any body that cannot break, as a response body.
pub fn boxed<B>(body: B) -> ResponseBody
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Broken>,
{
    body.map_err(Into::into).boxed_unsync()
}

/// A complete body.
pub fn full(bytes: Bytes) -> ResponseBody {
    boxed(Full::new(bytes))
}

impl From<Infallible> for Broken {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
