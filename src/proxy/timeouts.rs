//! Waiting for the upstream's answer under the right timeout.
//!
//! While the model is being loaded, the first-byte and total timeouts stand still and the loading
//! budget runs; progress that the server shows counts as a byte for the first-byte timeout.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::body::stream::until_next_look;
use super::dispatch::{Dispatch, Ended};
use crate::refusal::{Clock, Cut, Refusal};

/// Interval at which a model that is being loaded is polled.
const LOADING_POLL: Duration = Duration::from_secs(1);

impl Dispatch {
    /// Waits for `outcome` until the timeout of this kind of request.
    ///
    /// # Cancel safety
    /// Dropping it drops `outcome`.
    pub(super) async fn wait<T>(&self, outcome: impl Future<Output = T>) -> Result<T, Ended> {
        let mut outcome = pin!(outcome);
        let mut stop = self.guard.stop_signal();
        let (upstream, model) = (&self.link.upstream, self.chat.model());
        let (clock, limit) = self.timeout();
        let loading = self.settings.timeouts.loading;
        let start = Instant::now();
        let mut is_loading = self.is_loading;
        let mut deadline = start + limit;
        let mut progress = None;
        loop {
            let wake = if is_loading {
                Instant::now() + LOADING_POLL
            } else {
                deadline
            };
            tokio::select! {
                biased;
                outcome = &mut outcome => return Ok(outcome),
                cut = stop.wait_for(Option::is_some) => {
                    let cut = cut.ok().and_then(|cut| *cut);
                    return Err(Ended::Cut(cut.unwrap_or(Cut::Cancelled)));
                }
                () = sleep_until(wake) => {}
            }
            // Questions run concurrently with the outcome, so they never delay it.
            let loaded = tokio::select! {
                biased;
                outcome = &mut outcome => return Ok(outcome),
                loaded = upstream.is_loaded(model) => loaded,
            };
            if loaded == Some(false) {
                let waited = start.elapsed();
                if waited >= loading {
                    return Err(Ended::Over(Refusal::Loading { waited }));
                }
                is_loading = true;
                continue;
            }
            if is_loading {
                is_loading = false;
                deadline = Instant::now() + limit;
                continue;
            }
            if clock == Clock::FirstByte {
                let activity = tokio::select! {
                    biased;
                    outcome = &mut outcome => return Ok(outcome),
                    activity = upstream.activity(model) => activity,
                };
                let moved = activity.map(|activity| activity.progress);
                if moved.is_some() && moved != progress {
                    deadline = Instant::now() + until_next_look(progress, limit);
                    progress = moved;
                    continue;
                }
            }
            return Err(Ended::Over(Refusal::Timeout { clock, limit }));
        }
    }

    fn timeout(&self) -> (Clock, Duration) {
        let timeouts = &self.settings.timeouts;
        if self.chat.is_stream() {
            (Clock::FirstByte, timeouts.first_byte)
        } else {
            (Clock::Total, timeouts.total)
        }
    }
}
