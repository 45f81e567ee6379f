//! What the client learns about changes to its request: response headers, or one SSE comment.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::window::{Certainty, Fit};

const WAIT: HeaderName = HeaderName::from_static("x-oneslot-wait-ms");
const WINDOW: HeaderName = HeaderName::from_static("x-oneslot-window");
const PROMPT: HeaderName = HeaderName::from_static("x-oneslot-prompt-tokens");
const DROPPED: HeaderName = HeaderName::from_static("x-oneslot-dropped-messages");
const LIMIT: HeaderName = HeaderName::from_static("x-oneslot-max-tokens");

/// Writes the response headers. `wait_ms` is the time from arrival to the grant; `window` is in
/// tokens.
pub(super) fn write(headers: &mut HeaderMap, fit: &Fit, wait_ms: u64, window: Option<u64>) {
    headers.insert(WAIT, HeaderValue::from(wait_ms));
    if let Some(window) = window {
        headers.insert(WINDOW, HeaderValue::from(window));
    }
    let mark = match fit.certainty {
        Certainty::Certain => "",
        Certainty::Estimate => "~",
    };
    if let Ok(prompt) = format!("{mark}{}", fit.prompt_after).parse() {
        headers.insert(PROMPT, prompt);
    }
    headers.insert(DROPPED, HeaderValue::from(fit.dropped));
    if let Some(limit) = fit.grant.header().and_then(|text| text.parse().ok()) {
        headers.insert(LIMIT, limit);
    }
}

/// The comment for a stream whose headers are already sent, such as
/// `max-tokens=512; asked=4096; dropped=4`; `None` if nothing was changed.
pub(super) fn comment(fit: &Fit) -> Option<String> {
    let limit = fit
        .grant
        .header()
        .map(|limit| format!("max-tokens={limit}"));
    let dropped = (fit.dropped > 0).then(|| format!("dropped={}", fit.dropped));
    let parts: Vec<String> = limit.into_iter().chain(dropped).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}
