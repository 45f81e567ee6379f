//! The event stream: whole snapshots out of the bytes of `GET /oneslot/events`.

use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::error::ControlError;
use super::response::{MAX_RESPONSE, Response};

/// Whether a person looks at what the events show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Viewing {
    /// A person does: running answers are shown as they grow, and the model server is probed more
    /// often.
    Watched,
    /// Only changes matter.
    Unwatched,
}

impl Viewing {
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Watched => "/oneslot/events?watched=yes",
            Self::Unwatched => "/oneslot/events",
        }
    }

    /// Between two events the gateway is silent for 10 s at most, or 60 s; after this long it is
    /// gone.
    fn silence(self) -> Duration {
        match self {
            Self::Watched => Duration::from_secs(30),
            Self::Unwatched => Duration::from_secs(150),
        }
    }
}

/// The events of a running gateway.
#[derive(Debug)]
pub struct Events {
    response: Response,
    silence: Duration,
    pending: Vec<u8>,
}

impl Events {
    pub(super) fn new(response: Response, viewing: Viewing) -> Self {
        Self {
            response,
            silence: viewing.silence(),
            pending: Vec::new(),
        }
    }

    /// The next snapshot, as `T` reads it; `None` once the gateway has stopped. Events that are no
    /// snapshot are skipped.
    ///
    /// # Errors
    /// [`ControlError::Exchange`], [`ControlError::TooLong`], or [`ControlError::Timeout`] after a
    /// longer silence than a running gateway keeps.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing.
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ControlError> {
        loop {
            while let Some(event) = next_event(&mut self.pending) {
                if let Ok(snapshot) = serde_json::from_str(&event) {
                    return Ok(Some(snapshot));
                }
            }
            if self.pending.len() > MAX_RESPONSE {
                return Err(ControlError::TooLong);
            }
            let limit = self.silence;
            let chunk = timeout(limit, self.response.chunk()).await;
            match chunk.map_err(|_| ControlError::Timeout { limit })?? {
                Some(bytes) => self.pending.extend_from_slice(&bytes),
                None => return Ok(None),
            }
        }
    }
}

/// Takes the first whole event out of `pending` and gives its data; comments have none.
fn next_event(pending: &mut Vec<u8>) -> Option<String> {
    let end = memchr::memmem::find(pending, b"\n\n")?;
    let event: Vec<u8> = pending.drain(..end + 2).collect();
    let text = String::from_utf8_lossy(&event);
    let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
    Some(data.map(str::trim_start).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_taken_whole_and_comments_have_no_data() {
        let mut pending = b": ping\n\ndata: {\"seq\":1}\n\nevent: x\ndata: {\"s".to_vec();
        assert_eq!(next_event(&mut pending).as_deref(), Some(""));
        assert_eq!(next_event(&mut pending).as_deref(), Some("{\"seq\":1}"));
        assert_eq!(next_event(&mut pending), None, "the rest is to come");
        pending.extend_from_slice(b"eq\":2}\n\n");
        assert_eq!(next_event(&mut pending).as_deref(), Some("{\"seq\":2}"));
        assert!(pending.is_empty());
    }
}
