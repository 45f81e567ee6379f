//! Models that were seen to think before they answer: their answers are not shortened for the
//! queue's sake.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// Most models remembered.
const LIMIT: usize = 64;

/// The models, by the name that requests use; empty for requests that name none.
#[derive(Debug, Default)]
pub struct ThinkingModels(Mutex<HashSet<String>>);

impl ThinkingModels {
    /// Whether `model` was seen to think.
    pub fn contains(&self, model: Option<&str>) -> bool {
        let models = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        models.contains(model.unwrap_or_default())
    }

    /// Notes that `model` thinks.
    pub fn add(&self, model: Option<&str>) {
        let mut models = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if models.len() < LIMIT {
            models.insert(model.unwrap_or_default().to_owned());
        }
    }
}
