//! The server's own busy signal, and whether it makes progress in silence.
//!
//! llama.cpp's `/slots` only; it may be switched off (501), and is then not asked again. It counts
//! as use: it wakes a sleeping model and restarts the idle timer. So it is for the time around a
//! request in flight and never for an idle watch.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::StatusCode;
use serde_json::Value;

use super::client::Client;
use crate::upstream::window::llama_cpp;

/// What the server's slots show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// Whether any slot works.
    pub state: SlotState,
    /// Opaque: two readings that differ mean that the server moved on in between, be it in
    /// reading a prompt or in answering.
    pub progress: u64,
}

/// The server's slots, taken together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotState {
    /// No slot works.
    Idle,
    /// At least one slot works.
    Busy,
}

/// Reads the slots, and remembers a server that does not show them.
#[derive(Debug, Default)]
pub(super) struct SlotReader {
    hidden: AtomicBool,
}

impl SlotReader {
    /// Forgets: another process may be there now.
    pub(super) fn forget(&self) {
        self.hidden.store(false, Ordering::Relaxed);
    }

    /// One look; `model` matters to a router only. `None` where nobody tells.
    pub(super) async fn read(
        &self,
        client: &Client,
        model: Option<&str>,
        limit: Duration,
    ) -> Option<Activity> {
        if self.hidden.load(Ordering::Relaxed) {
            return None;
        }
        let path = format!("/slots?{}", llama_cpp::query(model));
        let reply = client.get(&path, limit).await.ok()?;
        match reply.status {
            StatusCode::NOT_IMPLEMENTED | StatusCode::NOT_FOUND | StatusCode::FORBIDDEN => {
                self.hidden.store(true, Ordering::Relaxed);
                None
            }
            _ => activity(&reply.good_json()?),
        }
    }
}

fn activity(slots: &Value) -> Option<Activity> {
    let slots = slots.as_array()?;
    let mut state = SlotState::Idle;
    let mut progress = DefaultHasher::new();
    for slot in slots {
        if slot["is_processing"].as_bool()? {
            state = SlotState::Busy;
        }
        slot["is_processing"].as_bool().hash(&mut progress);
        for counter in [
            "id_task",
            "n_past",
            "n_decoded",
            "n_prompt_tokens",
            "n_prompt_tokens_processed",
        ] {
            slot[counter].as_i64().hash(&mut progress);
        }
        // An object in older builds, a list of one in newer ones.
        let next = match &slot["next_token"] {
            Value::Array(list) => list.first().unwrap_or(&Value::Null),
            other => other,
        };
        next["n_decoded"].as_i64().hash(&mut progress);
    }
    Some(Activity {
        state,
        progress: progress.finish(),
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;

    fn slot(task: i64, processed: u64, decoded: u64) -> Value {
        json!([
            {"id": 0, "is_processing": false},
            {"id": 1, "is_processing": true, "id_task": task, "n_prompt_tokens": 900,
             "n_prompt_tokens_processed": processed, "next_token": [{"n_decoded": decoded}]}])
    }

    #[test]
    fn one_working_slot_makes_the_server_busy() {
        assert_eq!(activity(&slot(1, 0, 0)).unwrap().state, SlotState::Busy);
        let idle = json!([{"id": 0, "is_processing": false}]);
        assert_eq!(activity(&idle).unwrap().state, SlotState::Idle);
        assert_eq!(activity(&json!({"error": {}})), None);
        assert_eq!(
            activity(&json!([{"id": 0}])),
            None,
            "an unknown shape proves nothing"
        );
    }

    #[test]
    fn a_silent_prompt_phase_is_seen_to_move() {
        let progress =
            |task, processed, decoded| activity(&slot(task, processed, decoded)).unwrap().progress;
        let start = progress(1, 512, 0);
        assert_eq!(
            start,
            progress(1, 512, 0),
            "the same numbers are a standstill"
        );
        assert_ne!(start, progress(1, 1024, 0), "it reads the prompt");
        assert_ne!(start, progress(1, 512, 1), "it answers");
        assert_ne!(start, progress(2, 512, 0), "it works on something else");
        let older =
            |decoded| json!([{"is_processing": true, "next_token": {"n_decoded": decoded}}]);
        assert_ne!(activity(&older(1)), activity(&older(2)));
    }
}
