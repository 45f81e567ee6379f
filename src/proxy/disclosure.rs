//! What the client is told of what was done to its request: headers, or one comment.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::window::{Certainty, Fit};

const WAIT: HeaderName = HeaderName::from_static("x-oneslot-wait-ms");
const WINDOW: HeaderName = HeaderName::from_static("x-oneslot-window");
const PROMPT: HeaderName = HeaderName::from_static("x-oneslot-prompt-tokens");
const DROPPED: HeaderName = HeaderName::from_static("x-oneslot-dropped-messages");
const LIMIT: HeaderName = HeaderName::from_static("x-oneslot-max-tokens");

/// What was done to one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Disclosure {
    /// From arrival in the line to the grant, in milliseconds.
    pub wait_ms: u64,
    /// The window, in tokens, if one is known.
    pub window: Option<u64>,
    /// Tokens of the prompt as sent; `~` in front when estimated.
    pub prompt: Option<String>,
    /// Messages dropped.
    pub dropped: usize,
    /// `512; asked=4096; reason=waiting`.
    pub limit: Option<String>,
}

impl Disclosure {
    /// What a fit means to the client.
    pub(crate) fn of(fit: &Fit, wait_ms: u64, window: Option<u64>) -> Self {
        let mark = match fit.certainty {
            Certainty::Certain => "",
            Certainty::Estimate => "~",
        };
        Self {
            wait_ms,
            window,
            prompt: Some(format!("{mark}{}", fit.prompt_after)),
            dropped: fit.dropped,
            limit: fit.grant.header(),
        }
    }

    /// As headers.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        headers.insert(WAIT, HeaderValue::from(self.wait_ms));
        if let Some(window) = self.window {
            headers.insert(WINDOW, HeaderValue::from(window));
        }
        if let Some(prompt) = self.prompt.as_deref().and_then(|text| text.parse().ok()) {
            headers.insert(PROMPT, prompt);
        }
        headers.insert(DROPPED, HeaderValue::from(self.dropped));
        if let Some(limit) = self.limit.as_deref().and_then(|text| text.parse().ok()) {
            headers.insert(LIMIT, limit);
        }
    }

    /// As the comment of a stream whose headers are out: only what was changed.
    pub(crate) fn remark(&self) -> Option<String> {
        let mut parts = Vec::new();
        if let Some(limit) = &self.limit {
            parts.push(format!("max-tokens={limit}"));
        }
        if self.dropped > 0 {
            parts.push(format!("dropped={}", self.dropped));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}
