//! What one connection may use up before it is refused or closed.

use std::time::Duration;

use super::head::HeadLimits;

/// Header fields of one request: more than any known client sends.
pub const FIELDS: usize = 64;

/// What one connection may use up, in bytes and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Sizes of a request head.
    pub head: HeadLimits,
    /// Bytes kept behind a request until its answer is out; more of them fail the connection.
    pub kept: usize,
    /// From a head's first byte (of the first head: from accept) to its end.
    pub head_within: Duration,
    /// From the end of an answer to the first byte of the next request.
    pub idle: Duration,
    /// Between two pieces of a body, while it is being read.
    pub body_idle: Duration,
    /// For how long the client may take no byte of an answer.
    pub write_idle: Duration,
    /// After an answer that left request bytes unread: how long they are read and thrown away.
    /// Closing at once would reset the connection, and the client might lose the answer.
    pub linger: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: HeadLimits::default(),
            kept: 64 * 1024,
            head_within: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            body_idle: Duration::from_secs(30),
            write_idle: Duration::from_secs(60),
            linger: Duration::from_secs(1),
        }
    }
}
