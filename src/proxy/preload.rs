//! Loads a model into an Ollama server before the plan: only a loaded model has a known window, to
//! which the server would truncate the chat silently.
//!
//! The request would cause the same load, so it holds the slot, and the server settles if the load
//! is abandoned. Not here: the request for the load ([`crate::upstream`]).

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::refusal::{Cut, Outage, Refusal};
use crate::scheduler::Ending;
use crate::telemetry::live_stats::Phase;
use crate::upstream::{Preload, PreloadError, without_key};

use super::dispatch::Dispatch;
use crate::proxy::classify::ending_without_answer;

impl Dispatch {
    pub(super) async fn preload(&mut self) -> Result<(), Refusal> {
        #[derive(Deserialize)]
        struct Own<'a> {
            #[serde(borrow, default)]
            options: Option<&'a RawValue>,
            #[serde(borrow, default)]
            keep_alive: Option<&'a RawValue>,
        }
        let Some(model) = self.model().map(str::to_owned) else {
            return Ok(());
        };
        let raw = self.chat.raw().clone();
        let own = serde_json::from_slice(&raw).unwrap_or(Own {
            options: None,
            keep_alive: None,
        });
        let request = Preload {
            model: &model,
            options: own.options,
            keep_alive: own.keep_alive,
        };
        self.guard.enter(Phase::Loading);
        let budget = self.settings.timeouts.loading;
        let mut stop = self.stop_signal();
        self.sent();
        let loaded = tokio::select! {
            biased;
            cut = stop.wait_for(Option::is_some) => {
                let how = cut.ok().and_then(|cut| *cut).unwrap_or(Cut::Cancelled);
                let refusal = Refusal::Interrupted { how };
                self.guard.refuse(&refusal, Ending::Abandoned);
                return Err(refusal);
            }
            loaded = self.link.upstream.preload(request, budget) => loaded,
        };
        let (refusal, ending) = match loaded {
            Ok(()) | Err(PreloadError::NotOllama | PreloadError::Elsewhere) => {
                if let Some(lease) = self.guard.lease() {
                    lease.alive();
                    lease.unsent();
                }
                self.call.context.memory.model_loaded();
                return Ok(());
            }
            Err(PreloadError::Budget(waited)) => (Refusal::Loading { waited }, Ending::Abandoned),
            Err(PreloadError::Reach(outage)) => {
                let retry_in = self.next_cooldown();
                let refusal = Refusal::Unavailable { outage, retry_in };
                (refusal, ending_without_answer(outage, outage))
            }
            Err(PreloadError::Answer(error)) => {
                let ending = if error.status.is_server_error() {
                    Ending::Failed(Outage::ServerError)
                } else {
                    Ending::Answered
                };
                let key = self.settings.upstream.api_key.as_ref();
                let error = without_key(*error, key.map(|key| key.expose()));
                (Refusal::Upstream(error), ending)
            }
        };
        self.guard.refuse(&refusal, ending);
        Err(refusal)
    }
}
