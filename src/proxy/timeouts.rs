//! Waiting for the upstream with the right clock running.
//!
//! While the model is still being loaded, first byte and total stand still and the loading
//! budget runs; progress that the server shows counts as a byte for the first-byte clock.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::refusal::{Clock, Cut, Refusal};
use crate::upstream::handle::UpstreamHandle;

/// Between two looks whether the model is loaded.
const LOADING_LOOK: Duration = Duration::from_secs(1);

/// From the first look at a silent server's progress to the second.
pub(crate) const SECOND_LOOK: Duration = Duration::from_secs(5);

/// Why waiting ended without an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    /// A person (or the way out) cut the request.
    Cut(Cut),
    /// A clock ran out.
    Over(Refusal),
}

/// What the waiting goes by.
pub(super) struct Deadlines<'a> {
    /// Asked whether the model is loaded and whether it makes progress.
    pub link: &'a UpstreamHandle,
    /// The model asked for.
    pub model: Option<String>,
    /// The clock that runs once the model is loaded.
    pub clock: Clock,
    /// Its limit.
    pub limit: Duration,
    /// The budget of a load.
    pub loading: Duration,
    /// Whether the model was known not to be loaded at dispatch.
    pub load: Load,
    /// Cuts the wait.
    pub stop: watch::Receiver<Option<Cut>>,
}

/// What is known of the model at dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// It is loaded, or nobody knows.
    NotSeen,
    /// It is not loaded: this request loads it.
    UnderWay,
}

impl Deadlines<'_> {
    /// Waits for `outcome`.
    ///
    /// # Cancel safety
    /// Dropping it drops `outcome`.
    pub(super) async fn wait<T>(&mut self, outcome: impl Future<Output = T>) -> Result<T, Ended> {
        let mut outcome = pin!(outcome);
        let start = Instant::now();
        let mut load = self.load;
        let mut deadline = start + self.limit;
        let mut progress = None;
        loop {
            let ring = match load {
                Load::UnderWay => Instant::now() + LOADING_LOOK,
                Load::NotSeen => deadline,
            };
            tokio::select! {
                biased;
                outcome = &mut outcome => return Ok(outcome),
                cut = self.stop.wait_for(Option::is_some) => {
                    let cut = cut.ok().and_then(|cut| *cut);
                    return Err(Ended::Cut(cut.unwrap_or(Cut::Cancelled)));
                }
                () = sleep_until(ring) => {}
            }
            // Questions run beside the outcome: a server that answers now is not kept waiting.
            let loaded = tokio::select! {
                biased;
                outcome = &mut outcome => return Ok(outcome),
                loaded = self.link.upstream.is_loaded(self.model.as_deref()) => loaded,
            };
            match (load, loaded) {
                (_, Some(false)) => {
                    if start.elapsed() >= self.loading {
                        return Err(Ended::Over(Refusal::Loading {
                            waited: start.elapsed(),
                        }));
                    }
                    load = Load::UnderWay;
                    continue;
                }
                (Load::UnderWay, Some(true) | None) => {
                    load = Load::NotSeen;
                    deadline = Instant::now() + self.limit;
                    continue;
                }
                (Load::NotSeen, Some(true) | None) => {}
            }
            if self.clock == Clock::FirstByte {
                let activity = tokio::select! {
                    biased;
                    outcome = &mut outcome => return Ok(outcome),
                    activity = self.link.upstream.activity(self.model.as_deref()) => activity,
                };
                let moved = activity.map(|activity| activity.progress);
                if moved.is_some() && moved != progress {
                    // The first reading has nothing to be compared with: look again soon.
                    let next = if progress.is_none() {
                        self.limit.min(SECOND_LOOK)
                    } else {
                        self.limit
                    };
                    progress = moved;
                    deadline = Instant::now() + next;
                    continue;
                }
            }
            let refusal = Refusal::Timeout {
                clock: self.clock,
                limit: self.limit,
            };
            return Err(Ended::Over(refusal));
        }
    }
}
