//! A gateway's response, read as it comes or whole.

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::task::JoinSet;

use super::error::ControlError;

/// Bytes of a response or event that is read whole; a snapshot is bounded far below it.
pub(super) const MAX_RESPONSE: usize = 4 << 20;

/// A response whose body may still come.
#[derive(Debug)]
pub struct Response {
    status: StatusCode,
    body: Incoming,
    // Drives the connection; it ends when this is dropped.
    _connection: JoinSet<hyper::Result<()>>,
}

impl Response {
    pub(super) fn new(
        response: http::Response<Incoming>,
        connection: JoinSet<hyper::Result<()>>,
    ) -> Self {
        Self {
            status: response.status(),
            body: response.into_body(),
            _connection: connection,
        }
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The next piece of the body; `None` at its end.
    ///
    /// # Errors
    /// [`ControlError::Exchange`].
    ///
    /// # Cancel safety
    /// Dropping it loses nothing.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ControlError> {
        while let Some(frame) = self.body.frame().await {
            // Trailers carry nothing.
            if let Ok(data) = frame.map_err(ControlError::Exchange)?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// The rest of the body.
    pub(super) async fn bytes(mut self) -> Result<Vec<u8>, ControlError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_RESPONSE {
                return Err(ControlError::TooLong);
            }
        }
        Ok(bytes)
    }

    /// Itself where the status is a success, otherwise the gateway's refusal.
    pub(super) async fn accepted(self) -> Result<Self, ControlError> {
        let status = self.status;
        if status.is_success() {
            return Ok(self);
        }
        let message = message(&self.bytes().await?);
        let message = message.unwrap_or_else(|| format!("OneSlot answered {status}"));
        Err(ControlError::Refused { status, message })
    }
}

/// The message in an error body.
fn message(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let message = body.pointer("/error/message").and_then(Value::as_str)?;
    Some(message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_the_message_of_the_gateway() {
        let body = br#"{"error":{"message":"No such request","code":"NOT_FOUND"}}"#;
        assert_eq!(message(body).as_deref(), Some("No such request"));
        for other in [b"<html>".as_slice(), b"", b"{}", br#"{"error":7}"#] {
            assert_eq!(message(other), None);
        }
    }
}
