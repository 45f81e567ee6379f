//! Open panels: one channel each, numbered, at most four updates a second, none when closed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oneslot::telemetry::snapshot::Snapshot;
use serde::Serialize;
use tauri::ipc::Channel;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::gateway_link::{GatewayLink, Shown};

/// Between two updates.
const PACE: Duration = Duration::from_millis(250);
/// An update comes this often although nothing changed, so that silence means something.
const QUIET: Duration = Duration::from_secs(10);

/// What the one channel carries.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Update {
    /// The state.
    Snapshot {
        /// Names the gateway's run: with another one the counters restart.
        run: String,
        /// What it shows of itself.
        snapshot: Arc<Snapshot>,
        /// The requests that ended are those of the update before and are left out of this one:
        /// they are most of it, and seldom change.
        same_recent: bool,
    },
    /// The gateway cannot be heard.
    Lost {
        /// Why.
        reason: String,
    },
}

/// The open panels' subscriptions; the toolkit keeps them.
#[derive(Debug, Default)]
pub struct Subscriptions {
    next: AtomicU64,
    running: Mutex<HashMap<u64, JoinHandle<()>>>,
}

impl Subscriptions {
    /// Begins to send updates; gives the number that ends it.
    pub fn begin(&self, link: &GatewayLink, channel: Channel<Update>) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(number, "a panel subscribed");
        let viewer = link.view();
        let mut shown = link.shown();
        let sending = async move {
            let _viewer = viewer;
            let mut sent = Sent::default();
            loop {
                let update = sent.update(&shown.borrow_and_update());
                if channel.send(update).is_err() {
                    return;
                }
                sleep(PACE).await;
                // Ends when the program does; silence is broken by saying the same again.
                if let Ok(Err(_)) = timeout(QUIET, shown.changed()).await {
                    return;
                }
            }
        };
        let task = link.runtime().spawn(sending);
        self.lock().insert(number, task);
        number
    }

    /// Ends one; a number that has ended already is as good.
    pub fn end(&self, number: u64) {
        if let Some(task) = self.lock().remove(&number) {
            task.abort();
        }
    }

    /// Ends all: their panel is gone.
    pub fn end_all(&self) {
        for (_, task) in self.lock().drain() {
            task.abort();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, JoinHandle<()>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which ended requests were sent to a panel: the run, how many, and the latest one's id.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sent {
    run: String,
    count: usize,
    latest: Option<String>,
}

impl Sent {
    /// What is to be sent now.
    fn update(&mut self, shown: &Shown) -> Update {
        if let Some(reason) = &shown.silent {
            let reason = reason.clone();
            return Update::Lost { reason };
        }
        let recent = &shown.snapshot.recent;
        let now = Self {
            run: shown.run.clone(),
            count: recent.len(),
            latest: recent.first().map(|record| record.id.clone()),
        };
        let same_recent = *self == now;
        let mut snapshot = Arc::clone(&shown.snapshot);
        if same_recent {
            Arc::make_mut(&mut snapshot).recent = Vec::new();
        }
        let run = now.run.clone();
        *self = now;
        Update::Snapshot {
            run,
            snapshot,
            same_recent,
        }
    }
}

#[cfg(test)]
#[expect(clippy::panic, reason = "a test fails by panicking")]
mod tests {
    use oneslot::telemetry::Record;

    use super::*;

    fn shown(run: &str, ids: &[&str]) -> Shown {
        let record = |id: &&str| {
            Arc::new(Record {
                id: (*id).to_owned(),
                ..Record::default()
            })
        };
        Shown {
            run: run.to_owned(),
            snapshot: Arc::new(Snapshot {
                recent: ids.iter().map(record).collect(),
                ..Snapshot::default()
            }),
            ..Shown::default()
        }
    }

    #[test]
    fn requests_that_ended_are_sent_when_there_are_others_and_not_again() {
        let mut sent = Sent::default();
        let mut sent = |run, ids: &[&str]| match sent.update(&shown(run, ids)) {
            Update::Snapshot {
                snapshot,
                same_recent,
                ..
            } => (snapshot.recent.len(), same_recent),
            Update::Lost { reason } => panic!("{reason}"),
        };
        assert_eq!(sent("a", &["1"]), (1, false), "the first time");
        assert_eq!(sent("a", &["1"]), (0, true), "they are known");
        assert_eq!(sent("a", &["2", "1"]), (2, false), "there is another");
        assert_eq!(sent("a", &["2", "1"]), (0, true), "and it is known");
        assert_eq!(sent("b", &["2", "1"]), (2, false), "another run has others");
    }
}
