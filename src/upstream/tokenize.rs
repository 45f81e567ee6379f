//! The exact length of a prompt, by the server's own template and tokenizer.
//!
//! llama.cpp only. It counts while its slot is busy (22 ms for 8,000 tokens, measured). A server
//! that lacks the route is not asked again; one that is slow three times in a row is left alone
//! for a while. Not here: the estimates that take over.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tokio::time::Instant;

use super::client::Client;
use super::servers::llama_cpp;
use crate::refusal::Outage;

/// How long a count may take before the request goes on without it.
pub(super) const LIMIT: Duration = Duration::from_secs(1);

/// Slow answers in a row after which the server is not asked for a while.
const SLOW_IN_A_ROW: u32 = 3;

/// How long a slow server is left alone.
const OFF_FOR: Duration = Duration::from_secs(60);

/// What is known of the server's ability to count.
#[derive(Debug, Default)]
pub(super) struct Counter {
    ability: Mutex<Ability>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ability {
    /// Counts, or was never asked.
    Counts {
        /// Slow answers since the last good one.
        slow: u32,
    },
    /// Was slow too often.
    OffUntil(Instant),
    /// Has no such route.
    Missing,
}

/// How one question ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CountReply {
    Counted,
    Slow,
    NoRoute,
    /// It is down, or refused this one body: that says nothing about its ability.
    Other,
}

impl Default for Ability {
    fn default() -> Self {
        Self::Counts { slow: 0 }
    }
}

impl Ability {
    fn asks(self, now: Instant) -> bool {
        match self {
            Self::Counts { .. } => true,
            Self::OffUntil(until) => now >= until,
            Self::Missing => false,
        }
    }

    fn after(self, answer: CountReply, now: Instant) -> Self {
        match answer {
            CountReply::Counted => Self::Counts { slow: 0 },
            CountReply::NoRoute => Self::Missing,
            CountReply::Other => self,
            CountReply::Slow => match self {
                Self::Counts { slow } if slow + 1 < SLOW_IN_A_ROW => {
                    Self::Counts { slow: slow + 1 }
                }
                // The try after a quiet period was slow as well.
                Self::Counts { .. } | Self::OffUntil(_) => Self::OffUntil(now + OFF_FOR),
                Self::Missing => Self::Missing,
            },
        }
    }
}

impl Counter {
    /// Forgets: another process may be there now.
    pub(super) fn forget(&self) {
        *self.ability.lock().unwrap_or_else(PoisonError::into_inner) = Ability::default();
    }

    /// Tokens of the prompt in a chat body, template and tools included; `None` without an answer
    /// within `limit`.
    pub(super) async fn count(&self, client: &Client, body: Bytes, limit: Duration) -> Option<u64> {
        if !self.ability().asks(Instant::now()) {
            return None;
        }
        // A router may not load a model for a question about it, least of all over the one that
        // is in use right now.
        let path = format!(
            "/v1/chat/completions/input_tokens?{}",
            llama_cpp::query(None)
        );
        let (answer, tokens) = match client.post(&path, body, limit).await {
            Ok(reply) => {
                let tokens = reply
                    .good_json()
                    .and_then(|body| body["input_tokens"].as_u64());
                (answer(reply.status, tokens), tokens)
            }
            Err(Outage::ProbeTimeout) => (CountReply::Slow, None),
            Err(_) => (CountReply::Other, None),
        };
        let mut ability = self.ability.lock().unwrap_or_else(PoisonError::into_inner);
        *ability = ability.after(answer, Instant::now());
        tokens
    }

    fn ability(&self) -> Ability {
        *self.ability.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answer(status: StatusCode, tokens: Option<u64>) -> CountReply {
    match status {
        _ if tokens.is_some() => CountReply::Counted,
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
            CountReply::NoRoute
        }
        // It has a route of that name, which means something else.
        status if status.is_success() => CountReply::NoRoute,
        _ => CountReply::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_slow_answers_in_a_row_buy_a_minute_of_silence() {
        let start = Instant::now();
        let mut ability = Ability::default();
        for _ in 0..2 {
            ability = ability.after(CountReply::Slow, start);
            assert!(ability.asks(start), "one or two slow answers happen");
        }
        ability = ability.after(CountReply::Counted, start);
        for _ in 0..3 {
            ability = ability.after(CountReply::Slow, start);
        }
        assert!(!ability.asks(start + OFF_FOR - Duration::from_millis(1)));
        assert!(ability.asks(start + OFF_FOR), "then it is tried again");
        let later = start + OFF_FOR;
        assert!(
            !ability.after(CountReply::Slow, later).asks(later),
            "one slow try is enough to be left alone again"
        );
    }

    #[test]
    fn a_missing_route_is_not_asked_again_and_other_failures_prove_nothing() {
        let now = Instant::now();
        let ability = Ability::default();
        assert_eq!(
            ability.after(answer(StatusCode::NOT_FOUND, None), now),
            Ability::Missing
        );
        assert!(!Ability::Missing.asks(now + OFF_FOR));
        for status in [StatusCode::BAD_REQUEST, StatusCode::SERVICE_UNAVAILABLE] {
            assert_eq!(ability.after(answer(status, None), now), ability);
        }
        assert_eq!(answer(StatusCode::OK, Some(7)), CountReply::Counted);
        assert_eq!(answer(StatusCode::OK, None), CountReply::NoRoute);
    }
}
