//! Reads a request body, whole and within its limits, before anything is done with it.
//!
//! A slow or huge upload therefore never holds a place in the queue. Bodies are counted from
//! their first byte until the queue counts them. Not here: the queue's own limit of bytes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::EXPECT;
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::refusal::{Part, Refusal};

use super::limits::{Limits, has_plain_framing};

/// Bodies up to this size count against a budget of their own, so that large uploads never keep
/// an ordinary request out.
const SMALL: u64 = 1024 * 1024;
/// All small bodies that are being read at once.
const SMALL_BUDGET: u64 = 64 * SMALL;
/// The unit in which bytes are counted.
const UNIT: u64 = 1024;

/// A refused request's body is read up to this many bytes, so that its connection can be kept.
const DISCARD_BYTES: u64 = 64 * 1024;
/// And for at most this long.
const DISCARD_WITHIN: Duration = Duration::from_secs(1);

/// The bytes that all request bodies may take together.
#[derive(Debug)]
pub(crate) struct BodyBudget {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
    large_bytes: u64,
}

/// A part of the budget; dropping it returns it.
#[derive(Debug)]
pub(crate) struct BodyPermit {
    _permit: OwnedSemaphorePermit,
}

/// A request's body that may not have been read yet.
pub(crate) struct RequestBody {
    incoming: Incoming,
    /// The client waits for `100 Continue`, which reading would send.
    waits_for_continue: bool,
    /// Its end is the same to every reader.
    is_plain: bool,
}

/// A whole body.
pub(crate) struct Received {
    /// All of it.
    pub(crate) bytes: Bytes,
    /// Keep it until something else counts the body.
    pub(crate) permit: BodyPermit,
}

// === impl BodyBudget ===

impl BodyBudget {
    /// So many bytes for all large bodies together.
    pub(crate) fn new(large_bytes: u64) -> Self {
        Self {
            small: Arc::new(Semaphore::new(units(SMALL_BUDGET) as usize)),
            large: Arc::new(Semaphore::new(units(large_bytes) as usize)),
            large_bytes,
        }
    }

    fn reserve(&self, bytes: u64) -> Result<BodyPermit, Refusal> {
        let budget = if bytes <= SMALL {
            &self.small
        } else {
            &self.large
        };
        let permit = Arc::clone(budget).try_acquire_many_owned(units(bytes));
        match permit {
            Ok(permit) => Ok(BodyPermit { _permit: permit }),
            Err(_) => Err(Refusal::TooLarge {
                part: Part::Uploads,
                limit: self.large_bytes,
            }),
        }
    }
}

fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

// === impl RequestBody ===

impl RequestBody {
    /// The body of a request with these headers.
    pub(crate) fn new(incoming: Incoming, headers: &HeaderMap) -> Self {
        Self {
            waits_for_continue: headers.contains_key(EXPECT),
            is_plain: has_plain_framing(headers),
            incoming,
        }
    }

    /// Reads all of it.
    ///
    /// # Errors
    /// `TooLarge` over a limit, `BadRequest` for a body that stops or breaks off.
    ///
    /// # Cancel safety
    /// What was read is lost.
    pub(crate) async fn receive(
        &mut self,
        limits: &Limits,
        budget: &BodyBudget,
    ) -> Result<Received, Refusal> {
        self.waits_for_continue = false;
        let reading = self.read(limits, budget);
        let stopped = || bad("The body did not arrive in time: send it without long pauses");
        timeout(limits.body_whole, reading)
            .await
            .unwrap_or_else(|_| Err(stopped()))
    }

    async fn read(&mut self, limits: &Limits, budget: &BodyBudget) -> Result<Received, Refusal> {
        let limit = limits.body_bytes;
        let announced = self.incoming.size_hint().exact();
        if announced.is_some_and(|length| length > limit) {
            return Err(too_large(limit));
        }
        // Chunks do not say how many are to come.
        let mut reserved = announced.unwrap_or(SMALL);
        let mut permit = budget.reserve(reserved)?;
        let capacity = usize::try_from(announced.unwrap_or(0)).unwrap_or(0);
        let mut bytes = BytesMut::with_capacity(capacity);
        loop {
            let piece = match timeout(limits.body_idle, self.incoming.frame()).await {
                Ok(None) => {
                    let bytes = bytes.freeze();
                    return Ok(Received { bytes, permit });
                }
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
                Ok(Some(Err(error))) if is_disconnect(&error) => {
                    // The connection notices it too, and drops this future: the client left.
                    std::future::pending().await
                }
                Ok(Some(Err(_))) => return Err(bad("The body is not framed as its header says")),
                Err(_) => return Err(bad("The body stopped coming: send it without long pauses")),
            };
            let length = bytes.len() as u64 + piece.len() as u64;
            if length > limit {
                return Err(too_large(limit));
            }
            if length > reserved {
                permit = budget.reserve(limit)?;
                reserved = limit;
            }
            bytes.extend_from_slice(&piece);
        }
    }

    /// Reads what is left of a body that nothing else reads, if it is small; whether the
    /// connection can be kept.
    pub(crate) async fn discard(&mut self) -> bool {
        if !self.is_plain {
            return false;
        }
        if self.incoming.is_end_stream() {
            return true;
        }
        if self.waits_for_continue || self.incoming.size_hint().lower() > DISCARD_BYTES {
            return false;
        }
        let reading = async {
            let mut read = 0;
            while let Some(frame) = self.incoming.frame().await {
                let Ok(frame) = frame else { return false };
                read += frame.data_ref().map_or(0, |data| data.len() as u64);
                if read > DISCARD_BYTES {
                    return false;
                }
            }
            true
        };
        timeout(DISCARD_WITHIN, reading).await.unwrap_or(false)
    }
}

/// Whether hyper reports that the connection ended inside the body.
fn is_disconnect(error: &hyper::Error) -> bool {
    let source = std::error::Error::source(error);
    let source = source.and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|error| {
        matches!(
            error.kind(),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
        )
    })
}

fn too_large(limit: u64) -> Refusal {
    Refusal::TooLarge {
        part: Part::Body,
        limit,
    }
}

fn bad(message: &str) -> Refusal {
    Refusal::BadRequest {
        message: message.to_owned(),
        param: None,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn large_bodies_are_capped_and_small_ones_pass() {
        let budget = BodyBudget::new(10 * SMALL);
        let first = budget.reserve(6 * SMALL).unwrap();
        let second = budget.reserve(5 * SMALL);
        assert!(matches!(
            second,
            Err(Refusal::TooLarge {
                part: Part::Uploads,
                ..
            })
        ));
        let small: Vec<_> = (0..64).map(|_| budget.reserve(SMALL).unwrap()).collect();
        assert!(budget.reserve(SMALL).is_err(), "small ones are capped too");
        drop((first, small));
        assert!(budget.reserve(10 * SMALL).is_ok(), "all of it is back");
    }
}
