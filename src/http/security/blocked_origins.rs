//! Origins and hosts that were refused, so that a person can allow one: a bounded list, the latest
//! first.

use std::sync::{Mutex, PoisonError};

use crate::refusal::Refusal;
use crate::telemetry::snapshot::{RefusedKind, RefusedOrigin};

/// How many are remembered.
const KEPT: usize = 32;

/// The list.
#[derive(Debug, Default)]
pub(crate) struct BlockedOrigins {
    seen: Mutex<Vec<RefusedOrigin>>,
}

impl BlockedOrigins {
    /// Remembers a refusal that was about an origin or a host; returns whether it was.
    pub(crate) fn note(&self, refusal: &Refusal, now_ms: u64) -> bool {
        let (kind, value) = if let Refusal::ForbiddenOrigin { origin } = refusal {
            // `null` is the origin of every sandboxed page: it must not be allowed.
            if origin == "null" {
                return false;
            }
            (RefusedKind::Origin, origin)
        } else if let Refusal::ForbiddenHost { host } = refusal {
            (RefusedKind::Host, host)
        } else {
            return false;
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let known = seen
            .iter()
            .position(|one| one.kind == kind && one.value == *value);
        let mut one = match known {
            Some(at) => seen.remove(at),
            None => RefusedOrigin {
                kind,
                value: value.clone(),
                ..RefusedOrigin::default()
            },
        };
        one.count += 1;
        one.last_ms = now_ms;
        seen.insert(0, one);
        seen.truncate(KEPT);
        true
    }

    /// The list, latest first.
    pub(crate) fn list(&self) -> Vec<RefusedOrigin> {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
