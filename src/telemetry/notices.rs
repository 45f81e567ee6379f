//! Notices: what a person should know and can act on, one for each code.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::scheduler::SchedulerHandle;

use super::message::{Fact, Message};

/// Most notices kept at once.
const LIMIT: usize = 64;

/// The notices in force.
#[derive(Debug)]
pub struct Notices {
    shown: Mutex<Vec<Message>>,
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
    pub fn add(&self, fact: Fact) {
        let notice = fact.message();
        let mut shown = self.lock();
        if shown.contains(&notice) {
            return;
        }
        shown.retain(|old| old.code != notice.code);
        if shown.len() < LIMIT {
            shown.push(notice);
        }
        drop(shown);
        self.scheduler.touch();
    }

    /// Removes the notice with this code, since its cause is gone.
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
    pub fn all(&self) -> Vec<Message> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Message>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
