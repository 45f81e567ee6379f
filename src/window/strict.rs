//! The article's own trimming, for preset `strict`.
//!
//! Message by message from the oldest; system messages stay and are sent first; the last
//! message stays, an assistant's may come first. One addition the article has no word for: a
//! tool call and its results count as one message, so that no result is sent without its call.

use super::tokens::message_cost;
use super::turns::keep_pairs_together;
use crate::config::Counting;
use crate::request::{Message, Role};

/// Even the system messages and the last message do not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong {
    /// What they cost, one token per Unicode scalar value.
    pub needed: u64,
}

/// The indices of the messages to send, system messages first, at one token per Unicode scalar
/// value of role and content and 8 per message.
///
/// # Errors
///
/// [`TooLong`] when system messages and the last message cost more than `budget`.
pub fn strict_trim(messages: &[Message], budget: u64) -> Result<Vec<usize>, TooLong> {
    let cost = |list: &[usize]| -> u64 {
        let messages = list.iter().filter_map(|index| messages.get(*index));
        messages
            .map(|message| message_cost(message, Counting::Scalar))
            .sum()
    };
    let (system, speaking): (Vec<_>, Vec<_>) = messages
        .iter()
        .enumerate()
        .partition(|(_, message)| message.role() == Role::System);
    let mut order: Vec<usize> = system.into_iter().map(|(index, _)| index).collect();
    let mut pieces: Vec<Vec<usize>> = speaking.into_iter().map(|(index, _)| vec![index]).collect();
    keep_pairs_together(messages, &mut pieces);

    let mut total = cost(&order) + pieces.iter().map(|piece| cost(piece)).sum::<u64>();
    let mut dropped = 0;
    while total > budget && pieces.len() > dropped + 1 {
        total -= pieces.get(dropped).map_or(0, |piece| cost(piece));
        dropped += 1;
    }
    if total > budget {
        return Err(TooLong { needed: total });
    }
    order.extend(pieces.into_iter().skip(dropped).flatten());
    Ok(order)
}
