//! What a person should know and can act on, one notice for each code.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::scheduler::SchedulerHandle;

use super::snapshot::Notice;

/// Most notices kept at once.
const LIMIT: usize = 64;

/// The notices in force.
#[derive(Debug)]
pub struct Notices {
    shown: Mutex<Vec<Notice>>,
    /// Wakes the viewers after a change.
    scheduler: SchedulerHandle,
}

impl Notices {
    /// None yet.
    pub(crate) fn new(scheduler: SchedulerHandle) -> Self {
        Self {
            shown: Mutex::default(),
            scheduler,
        }
    }

    /// Adds a notice, or replaces the one with the same code.
    pub fn add(&self, code: &str, text: &str) {
        let mut shown = self.lock();
        if shown
            .iter()
            .any(|notice| (notice.code.as_str(), notice.text.as_str()) == (code, text))
        {
            return;
        }
        shown.retain(|notice| notice.code != code);
        if shown.len() < LIMIT {
            shown.push(Notice {
                code: code.to_owned(),
                text: text.to_owned(),
            });
        }
        drop(shown);
        self.scheduler.touch();
    }

    /// Removes a notice whose cause is gone.
    pub fn remove(&self, code: &str) {
        let mut shown = self.lock();
        let before = shown.len();
        shown.retain(|notice| notice.code != code);
        let changed = shown.len() < before;
        drop(shown);
        if changed {
            self.scheduler.touch();
        }
    }

    /// All of them, oldest first.
    pub fn all(&self) -> Vec<Notice> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Notice>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
