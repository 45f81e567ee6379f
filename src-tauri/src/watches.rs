//! Panels that look: one channel each, numbered, at most four updates a second, none when closed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oneslot::record::snapshot::Snapshot;
use serde::Serialize;
use tauri::ipc::Channel;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::serving::{Serving, Shown};

/// Between two updates.
const PACE: Duration = Duration::from_millis(250);
/// An update comes this often although nothing changed, so that silence means something.
const QUIET: Duration = Duration::from_secs(10);

/// What the one channel carries.
#[derive(Debug, Clone, Serialize, ts_rs::TS)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Update {
    /// The state.
    Snapshot {
        /// Names the gateway's run: with another one the numbers begin anew.
        run: String,
        /// What it shows of itself.
        snapshot: Arc<Snapshot>,
    },
    /// The gateway cannot be heard.
    Lost {
        /// Why.
        reason: String,
    },
}

/// All that look now.
#[derive(Debug, Default)]
pub struct Watches {
    next: AtomicU64,
    running: Mutex<HashMap<u64, JoinHandle<()>>>,
}

impl Watches {
    /// Begins to send updates; gives the number that ends it.
    pub fn begin(&self, serving: &Serving, channel: Channel<Update>) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(number, "somebody looks");
        let viewer = serving.look();
        let mut shown = serving.shown();
        let sending = async move {
            let _viewer = viewer;
            loop {
                let update = Update::of(&shown.borrow_and_update());
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
        let task = serving.runtime().spawn(sending);
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

impl Update {
    fn of(shown: &Shown) -> Self {
        match &shown.silent {
            Some(reason) => Self::Lost {
                reason: reason.clone(),
            },
            None => Self::Snapshot {
                run: shown.run.clone(),
                snapshot: Arc::clone(&shown.snapshot),
            },
        }
    }
}
