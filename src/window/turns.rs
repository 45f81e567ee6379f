//! What may be dropped from a chat, in which pieces and in which order.
//!
//! System and developer messages stay. The last user message stays, and of what follows it the
//! last call-and-result group with everything behind it. The rest falls into units, oldest
//! first: whole exchanges (a user's message up to the next user's), then the older
//! call-and-result groups of the last exchange. What stands before the first user message goes
//! with the first unit, so that after any cut the first message that is not a system's is a
//! user's. A call and its results are never in different units.
//!
//! A chat without a user message has groups and single messages as units; its last group, or
//! its last message, stays with what follows.

use std::collections::HashMap;

use crate::request::{CallId, Chat, Message, Role};

/// The droppable pieces of a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Units {
    /// Message indices of each unit, oldest unit first, in order.
    droppable: Vec<Vec<usize>>,
    /// How many messages the chat has.
    total: usize,
}

impl Units {
    /// Nothing may be dropped.
    pub fn none(chat: &Chat) -> Self {
        Self {
            droppable: Vec::new(),
            total: chat.messages().len(),
        }
    }

    /// The units of a chat.
    pub fn of(chat: &Chat) -> Self {
        let messages = chat.messages();
        let speaking: Vec<usize> = indices(messages, |role| role != Role::System);
        let users = indices(messages, |role| role == Role::User);
        let mut pieces = match users.last() {
            Some(last) => with_user(messages, &speaking, *last),
            None => without_user(messages, &speaking),
        };
        keep_pairs_together(messages, &mut pieces);
        // The last piece is what may never go.
        pieces.pop();
        Self {
            droppable: pieces,
            total: messages.len(),
        }
    }

    /// How many units there are.
    pub fn len(&self) -> usize {
        self.droppable.len()
    }

    /// Whether nothing may be dropped.
    pub fn is_empty(&self) -> bool {
        self.droppable.is_empty()
    }

    /// The units, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &[usize]> {
        self.droppable.iter().map(Vec::as_slice)
    }

    /// The messages left when the `cut` oldest units are dropped, in order.
    pub fn kept(&self, cut: usize) -> Vec<usize> {
        let mut stays = vec![true; self.total];
        for index in self.droppable.iter().take(cut).flatten() {
            if let Some(slot) = stays.get_mut(*index) {
                *slot = false;
            }
        }
        (0..self.total)
            .filter(|index| stays.get(*index) == Some(&true))
            .collect()
    }
}

fn indices(messages: &[Message], wanted: impl Fn(Role) -> bool) -> Vec<usize> {
    let all = messages.iter().enumerate();
    all.filter(|(_, message)| wanted(message.role()))
        .map(|(index, _)| index)
        .collect()
}

fn is_call(messages: &[Message], index: usize) -> bool {
    messages
        .get(index)
        .is_some_and(|message| !message.calls().is_empty())
}

/// Splits `list` in front of every index that `starts` a piece; what stands before the first
/// start belongs to the first piece.
fn split(list: &[usize], starts: impl Fn(usize) -> bool) -> Vec<Vec<usize>> {
    let mut pieces: Vec<Vec<usize>> = Vec::new();
    let mut started = false;
    for index in list.iter().copied() {
        let begins = starts(index);
        match pieces.last_mut() {
            Some(piece) if !(begins && started) => piece.push(index),
            Some(_) | None => pieces.push(vec![index]),
        }
        started |= begins;
    }
    pieces
}

/// Exchanges, then the last exchange's groups; the last piece is what stays.
fn with_user(messages: &[Message], speaking: &[usize], last_user: usize) -> Vec<Vec<usize>> {
    let older: Vec<usize> = speaking
        .iter()
        .copied()
        .filter(|index| *index < last_user)
        .collect();
    let newer: Vec<usize> = speaking
        .iter()
        .copied()
        .filter(|index| *index > last_user)
        .collect();
    let is_user = |index: usize| {
        messages
            .get(index)
            .is_some_and(|message| message.role() == Role::User)
    };
    let mut pieces = split(&older, is_user);
    let last_group = newer
        .iter()
        .copied()
        .rfind(|index| is_call(messages, *index));
    let mut stays = vec![last_user];
    match last_group {
        None => stays.extend(newer),
        Some(group) => {
            let earlier: Vec<usize> = newer
                .iter()
                .copied()
                .filter(|index| *index < group)
                .collect();
            pieces.extend(split(&earlier, |index| is_call(messages, index)));
            stays.extend(newer.into_iter().filter(|index| *index >= group));
        }
    }
    pieces.push(stays);
    pieces
}

/// Groups and single messages; from the last group on everything stays.
fn without_user(messages: &[Message], speaking: &[usize]) -> Vec<Vec<usize>> {
    let last_group = speaking
        .iter()
        .copied()
        .rfind(|index| is_call(messages, *index));
    let Some(stays_from) = last_group.or(speaking.last().copied()) else {
        return vec![Vec::new()];
    };
    let mut pieces: Vec<Vec<usize>> = Vec::new();
    for index in speaking.iter().copied() {
        let result = messages
            .get(index)
            .is_some_and(|message| message.role() == Role::Tool);
        let joins = result || index > stays_from;
        match pieces.last_mut() {
            Some(piece) if joins => piece.push(index),
            Some(_) | None => pieces.push(vec![index]),
        }
    }
    pieces
}

/// Merges pieces until no call stands in another piece than its result.
pub(super) fn keep_pairs_together(messages: &[Message], pieces: &mut Vec<Vec<usize>>) {
    let mut piece_of = vec![None; messages.len()];
    for (number, piece) in pieces.iter().enumerate() {
        for index in piece {
            if let Some(slot) = piece_of.get_mut(*index) {
                *slot = Some(number);
            }
        }
    }
    // A pair that spans pieces a…b makes one piece of a…b: `joined[n]` glues n to n + 1.
    let mut joined = vec![false; pieces.len()];
    for (call, result) in pairs(messages) {
        let (Some(Some(from)), Some(Some(to))) = (piece_of.get(call), piece_of.get(result)) else {
            continue;
        };
        let (from, to) = (*from.min(to), *from.max(to));
        joined
            .iter_mut()
            .take(to)
            .skip(from)
            .for_each(|glue| *glue = true);
    }
    let mut merged: Vec<Vec<usize>> = Vec::with_capacity(pieces.len());
    let mut glued = false;
    for (piece, glue) in pieces.drain(..).zip(joined) {
        match merged.last_mut() {
            Some(last) if glued => last.extend(piece),
            Some(_) | None => merged.push(piece),
        }
        glued = glue;
    }
    *pieces = merged;
}

/// Every result with its call, as (call, result): the latest earlier one with its id, since ids
/// may repeat in a chat. Where one side has no id the order decides. A result that follows no
/// call of its own has no pair.
pub(super) fn pairs(messages: &[Message]) -> Vec<(usize, usize)> {
    let mut by_id: HashMap<&CallId, usize> = HashMap::new();
    let mut latest = None;
    let mut found = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let call = match message.answers() {
            Some(CallId::Unnamed) => latest,
            Some(id) => by_id
                .get(id)
                .or_else(|| by_id.get(&CallId::Unnamed))
                .copied(),
            None => None,
        };
        found.extend(call.map(|call| (call, index)));
        for id in message.calls() {
            by_id.insert(id, index);
            latest = Some(index);
        }
    }
    found
}
