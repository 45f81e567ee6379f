//! What an upstream's own numbers teach about counts and window.

use super::fitter::Certainty;
use super::tokens::{PER_MEDIUM, Ratio, estimate};
use crate::config::Counting;
use crate::request::Chat;

/// Tokens by which a report may differ from a count without meaning anything.
const SLACK: u64 = 64;

/// A chat as it was sent and refused.
#[derive(Debug, Clone, Copy)]
pub struct Sent<'a> {
    /// The chat.
    pub chat: &'a Chat,
    /// The messages that were sent; `None`: all.
    pub keep: Option<&'a [usize]>,
    /// The ratio the counts were scaled by; [`Ratio::ONE`] for exact counts.
    pub ratio: Ratio,
    /// The window it was taken to fit into, if one was known.
    pub window: Option<u64>,
}

/// What to fit by after an overflow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lesson {
    /// What estimates are to be scaled by.
    pub ratio: Ratio,
    /// The window to fit into; `None` while it is unknown.
    pub window: Option<u64>,
    /// Whether scaled estimates may now refuse.
    pub certainty: Certainty,
}

/// Learns from an upstream that said "too long": `tokens` and `window` are its own numbers,
/// where it gave them. Without `tokens` the ratio is raised until what was refused is as large
/// as the window (by a quarter where no window is known), and nothing is certain. The next fit
/// takes the lesson with [`ByteBound::Refuted`](super::ByteBound::Refuted).
pub fn relearn(sent: Sent<'_>, tokens: Option<u64>, window: Option<u64>) -> Lesson {
    let estimated = estimate(sent.chat, sent.keep, Counting::Bytes, Ratio::ONE);
    let window = window.or(sent.window);
    if let Some(tokens) = tokens.filter(|tokens| *tokens > 0) {
        let ratio = Ratio::learned(tokens, estimated);
        return Lesson {
            ratio,
            window,
            certainty: Certainty::Certain,
        };
    }
    let least = match window {
        Some(window) => window.saturating_add(1),
        None => {
            let scaled = sent.ratio.scale(estimated);
            scaled.saturating_add(scaled / 4)
        }
    };
    let ratio = sent.ratio.at_least(Ratio::learned(least, estimated));
    Lesson {
        ratio,
        window,
        certainty: Certainty::Estimate,
    }
}

/// Whether the upstream read far less than it was sent: it cut the prompt silently.
///
/// `counted` and `reported` are tokens, the latter with what came from the server's cache;
/// `media` the attachments among the counted. A certain count must be over twice the report. An
/// estimate, which is 1.6 × the truth for English and more for indented code, must be over 2.5
/// times, and attachments, which may cost a tenth of their figure, do not count towards it. In
/// both cases more than 64 tokens must be missing.
pub fn cut_silently(counted: u64, media: u64, certainty: Certainty, reported: u64) -> bool {
    let (counted, halves) = match certainty {
        Certainty::Certain => (counted, 4),
        Certainty::Estimate => (counted.saturating_sub(media * PER_MEDIUM), 5),
    };
    counted > reported.saturating_add(SLACK)
        && counted.saturating_mul(2) > reported.saturating_mul(halves)
}
