//! Estimates of a chat's tokens, and when no count is needed at all.
//!
//! The estimate is UTF-8 bytes ÷ 3, rounded up for each message, and 8 for each message: one
//! per Chinese character, about 1.6 × the truth for English. It is no upper bound: a small
//! English vocabulary spends two tokens on a Chinese character. Preset `strict` counts one token
//! per Unicode scalar value instead.

use crate::config::Counting;
use crate::request::{Chat, Message, Size};

/// Tokens of a message beside its text: the template's marks around it.
pub const PER_MESSAGE: u64 = 8;
/// Tokens of an attachment: Ollama's own figure for an image.
pub const PER_MEDIUM: u64 = 768;

/// Bytes a chat template may put around one message.
const TEMPLATE_PER_MESSAGE: u64 = 32;
/// Bytes a chat template may put around a chat, a default system prompt included.
const TEMPLATE: u64 = 512;

/// Server's count ÷ estimate. Positive and finite.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Ratio(f64);

// --- Ratio ---

impl Default for Ratio {
    fn default() -> Self {
        Self::ONE
    }
}

impl Ratio {
    /// The estimate as it is.
    pub const ONE: Self = Self(1.0);

    /// The ratio of `counted` tokens to an estimate; [`Ratio::ONE`] where either is 0.
    pub fn learned(counted: u64, estimated: u64) -> Self {
        if counted == 0 || estimated == 0 {
            return Self::ONE;
        }
        Self(counted as f64 / estimated as f64)
    }

    /// The larger of the two.
    pub fn at_least(self, other: Self) -> Self {
        if other.0 > self.0 { other } else { self }
    }

    /// An estimate scaled by it, rounded up.
    pub fn scale(self, estimate: u64) -> u64 {
        // A tiny amount is subtracted first, so that a learned count scales back to itself.
        (estimate as f64 * self.0 - 1e-6).ceil().max(0.0) as u64
    }
}

/// The estimate for one message.
pub fn message_cost(message: &Message, counting: Counting) -> u64 {
    let role = if counting == Counting::Scalar {
        message.role_scalars()
    } else {
        0
    };
    role + size_cost(message.size(), counting) + PER_MESSAGE
}

/// The estimate for everything beside the messages: tools, functions, response format.
pub fn outside_cost(chat: &Chat, counting: Counting) -> u64 {
    size_cost(chat.outside(), counting)
}

/// The estimate for the chat with only the messages `keep` (all for `None`), scaled by `ratio`.
pub fn estimate(chat: &Chat, keep: Option<&[usize]>, counting: Counting, ratio: Ratio) -> u64 {
    let messages = chat.messages();
    let cost = |message| message_cost(message, counting);
    let text: u64 = match keep {
        None => messages.iter().map(cost).sum(),
        Some(keep) => keep
            .iter()
            .filter_map(|index| messages.get(*index))
            .map(cost)
            .sum(),
    };
    ratio.scale(text + outside_cost(chat, counting))
}

/// Whether the chat fits into `budget` tokens whatever the vocabulary: no tokenizer makes more
/// tokens than there are bytes. Never said of attachments, nor of tool calls, tools and schemas,
/// which templates print in their own, longer form.
pub fn surely_fits(chat: &Chat, budget: u64) -> bool {
    let outside = chat.outside();
    let plain = |message: &Message| {
        message.size().media == 0 && message.calls().is_empty() && message.answers().is_none()
    };
    if outside != Size::default() || !chat.messages().iter().all(plain) {
        return false;
    }
    let text: u64 = chat
        .messages()
        .iter()
        .map(|message| message.size().bytes + TEMPLATE_PER_MESSAGE)
        .sum();
    text + TEMPLATE <= budget
}

fn size_cost(size: Size, counting: Counting) -> u64 {
    let text = if counting == Counting::Scalar {
        size.scalars
    } else {
        size.bytes.div_ceil(3)
    };
    text + size.media * PER_MEDIUM
}
