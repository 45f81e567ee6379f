//! The commands of the running gateway: check, cancel and unload, for its control routes.
//!
//! Not here: pause and resume, which survive a restart ([`crate::monitor::pause`]), and what the
//! scheduler does then ([`crate::scheduler`]).

use std::sync::Arc;
use std::time::Duration;

use crate::context::Context;
use crate::memory::readings::Freed;
use crate::monitor;
use crate::refusal::Refusal;
use crate::scheduler::queue::{Delivery, RequestId};
use crate::scheduler::{Arrival, Ending, Event};
use crate::telemetry::live_stats::LiveStats;
use crate::upstream::UnloadError;

impl Context {
    /// Ends a cooldown and probes; returns when the probe is over or its time is up.
    pub async fn check(&self) {
        let mut changes = self.scheduler.changes();
        self.scheduler.send(Event::CheckNow);
        let limit = self.settings().limits.probe + Duration::from_secs(3);
        let answered = async {
            while self
                .scheduler
                .read(|scheduler, _, _| scheduler.is_probing())
            {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        // Without an answer in time the state itself says what is known.
        let _ = tokio::time::timeout(limit, answered).await;
    }

    /// Cancels one request, queued or running; `None` where there is none with that id.
    pub fn cancel(&self, id: &str) -> Option<()> {
        let id: RequestId = id.parse().ok()?;
        self.scheduler
            .read(|_, waiters, _| waiters.contains_key(&id))
            .then(|| self.scheduler.send(Event::Cancelled { id }))
    }

    /// Unloads the model, queued as the request `id`, so that a running answer is not cut for it.
    /// Returns what was unloaded, and the memory that was freed.
    ///
    /// # Errors
    /// The refusal of the queue; inside, what the server said.
    ///
    /// # Cancel safety
    /// Dropping it leaves the queue, or gives the slot back.
    pub async fn unload(
        self: &Arc<Self>,
        id: RequestId,
    ) -> Result<Result<(Vec<String>, Freed), UnloadError>, Refusal> {
        let at = self.scheduler.clock().at();
        let stats = LiveStats::new(id, "oneslot".to_owned(), None, false, at);
        let arrival = Arrival {
            id,
            bytes: 0,
            delivery: Delivery::Whole,
            body_hash: id.0,
        };
        let lease = self
            .scheduler
            .enqueue(arrival, Arc::new(stats))
            .acquire()
            .await?;
        let unloaded = self.free().await;
        lease.finish(Ending::Unsent);
        Ok(unloaded)
    }

    /// Unloads the model now, whatever runs. Returns what was unloaded, and the memory that was
    /// freed.
    ///
    /// # Errors
    /// There is no server, or it did not do it.
    pub async fn free(self: &Arc<Self>) -> Result<(Vec<String>, Freed), UnloadError> {
        let link = self.link().ok_or(UnloadError::List)?;
        let before = monitor::memory::held(self).await;
        let models = link.upstream.unload(None).await?;
        link.forget_window();
        let freed = if models.is_empty() {
            Freed::default()
        } else {
            monitor::memory::freed_since(self, before).await
        };
        self.memory.close_cards();
        tracing::info!(
            models = models.len(),
            ram = freed.ram,
            vram = freed.vram,
            "unloaded"
        );
        Ok((models, freed))
    }
}
