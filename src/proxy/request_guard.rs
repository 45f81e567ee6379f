//! A request's two obligations: the slot is released, and one outcome is recorded.
//!
//! Lease and record are guards of their own; this keeps them consistent. Dropped without an
//! ending, the request is recorded as "left".

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::watch;

use crate::clock::ms;
use crate::context::Context;
use crate::monitor::process;
use crate::proxy::inspect::Observed;
use crate::refusal::{Cut, Fault, Outage, Refusal, UpstreamError};
use crate::scheduler::{Ending, Lease};
use crate::telemetry::live_stats::{LiveStats, Phase};
use crate::telemetry::message::Fact;
use crate::telemetry::snapshot::ItemPlan;
use crate::telemetry::{self, PendingRecord};
use crate::upstream;
use crate::window::{self, Certainty};

/// The lease, the unfinished record, and the live numbers of one request.
pub struct RequestGuard {
    /// Filled in on the way.
    pub open: Option<PendingRecord>,
    lease: Option<Lease>,
    stats: Arc<LiveStats>,
    context: Arc<Context>,
    /// The counted prompt, to detect a server that truncates silently.
    expected: Option<(u64, Certainty)>,
}

impl RequestGuard {
    /// A guard without a lease yet.
    pub fn new(open: PendingRecord, stats: Arc<LiveStats>, context: Arc<Context>) -> Self {
        Self {
            open: Some(open),
            lease: None,
            stats,
            context,
            expected: None,
        }
    }

    /// Moves everything into a body that outlives this stage.
    pub fn hand_over(&mut self) -> Self {
        Self {
            open: self.open.take(),
            lease: self.lease.take(),
            stats: Arc::clone(&self.stats),
            context: Arc::clone(&self.context),
            expected: self.expected,
        }
    }

    /// Notes the counted prompt tokens.
    pub fn expect(&mut self, tokens: u64, certainty: Certainty) {
        self.expected = Some((tokens, certainty));
    }

    /// Changes when the request is cancelled.
    pub fn stop_signal(&self) -> watch::Receiver<Option<Cut>> {
        self.lease
            .as_ref()
            .map_or_else(|| watch::channel(None).1, Lease::stop_signal)
    }

    /// Stores the lease.
    pub fn hold(&mut self, lease: Lease) {
        self.lease = Some(lease);
    }

    /// The lease, while it is held.
    pub fn lease(&mut self) -> Option<&mut Lease> {
        self.lease.as_mut()
    }

    /// Takes the lease out.
    pub fn take_lease(&mut self) -> Option<Lease> {
        self.lease.take()
    }

    /// Publishes the phase of the request.
    pub fn enter(&self, phase: Phase) {
        self.stats.enter(phase);
    }

    /// Publishes the plan of the request.
    pub fn planned(&self, plan: ItemPlan) {
        self.stats.planned(plan);
    }

    /// Notes the first bytes of the answer.
    pub fn first_byte(&mut self) {
        if let Some(lease) = &self.lease {
            lease.alive();
        }
        if let Some(open) = &mut self.open
            && open.first_token_ms.is_none()
        {
            open.first_token_ms = Some(ms(open.age()));
        }
    }

    /// Publishes the number of chunks received.
    pub fn answered(&self, pieces: u64) {
        self.stats
            .answered(pieces, self.context.scheduler.clock().at());
    }

    /// Finds out why the connection to the server broke.
    pub fn why_broken(&self) -> Pin<Box<dyn Future<Output = Outage> + Send>> {
        let context = Arc::clone(&self.context);
        Box::pin(async move { process::explain(&context, Outage::Reset).await })
    }

    /// The answer is complete.
    pub fn complete(&mut self, observed: &Observed) {
        self.note(observed);
        self.release(Ending::Complete);
        if let Some(open) = self.open.take() {
            open.end(telemetry::Ending::Done);
        }
    }

    /// The stream contained the upstream's own error.
    pub fn failed_inside(&mut self, error: UpstreamError, observed: &Observed) {
        let refusal = Refusal::Upstream(error);
        let ending = match refusal.fault() {
            Fault::Client => Ending::Answered,
            Fault::Upstream | Fault::Capacity | Fault::Gateway => {
                Ending::Failed(Outage::ServerError)
            }
        };
        self.cut(&refusal, ending, observed);
    }

    /// The answer began and did not complete.
    pub fn cut(&mut self, refusal: &Refusal, ending: Ending, observed: &Observed) {
        self.note(observed);
        self.release(ending);
        if let Some(open) = self.open.take() {
            open.end(telemetry::Ending::Failed(refusal));
        }
    }

    /// The request is refused before any byte of an answer was sent.
    pub fn refuse(&mut self, refusal: &Refusal, ending: Ending) {
        self.release(ending);
        if let Some(open) = self.open.take() {
            open.end(match ending {
                Ending::Unsent => telemetry::Ending::Refused(refusal),
                Ending::Complete
                | Ending::Answered
                | Ending::Failed(_)
                | Ending::Died(_)
                | Ending::TimedOut
                | Ending::Abandoned => telemetry::Ending::Failed(refusal),
            });
        }
    }

    fn release(&mut self, ending: Ending) {
        if let Some(lease) = self.lease.take() {
            if let Some(open) = &mut self.open {
                open.infer_ms = Some(ms(self
                    .context
                    .scheduler
                    .clock()
                    .at()
                    .saturating_sub(lease.since())));
            }
            lease.finish(ending);
        }
    }

    fn note(&mut self, observed: &Observed) {
        let Some(open) = &mut self.open else { return };
        if observed.reasoning {
            self.context.thinking.add(open.model.as_deref());
        }
        if let Some(usage) = observed.usage {
            open.prompt_tokens = usage.prompt_tokens;
            open.completion_tokens = usage.completion_tokens;
            if let (Some((counted, certainty)), Some(reported)) =
                (self.expected, usage.prompt_tokens)
                && window::cut_silently(counted, 0, certainty, reported)
            {
                tracing::warn!(counted, reported, "server truncated a prompt silently");
                self.context.notices.add(Fact::SilentTruncation);
            }
        }
        open.finish = observed.finish.map(|finish| Cow::Borrowed(finish.as_str()));
    }
}

/// How a refused dispatch ended for the scheduler, from the upstream's own error.
pub(super) fn ending_of(
    kind: Option<upstream::Kind>,
    status: http::StatusCode,
    body: &[u8],
) -> Ending {
    if !status.is_server_error() {
        return Ending::Answered;
    }
    match upstream::fault_of(kind, status, body) {
        upstream::Fault5xx::Request => Ending::Answered,
        upstream::Fault5xx::Server => Ending::Failed(Outage::ServerError),
    }
}
