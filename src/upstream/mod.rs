//! The server behind the gateway: who it is, whether it lives, what it holds.
//!
//! Everything here is a short question beside the slot. None of it wakes, loads or keeps a model,
//! save the four that belong to a request or a person and say so: [`Upstream::count`],
//! [`Upstream::activity`], [`Upstream::preload`], [`Upstream::unload`]. The kind is proven before
//! anything of its own is asked, learned when first needed and learned again on demand, for another
//! server may be there now.
//!
//! Not here: what follows from an answer. Health, cooldown and plan are decided elsewhere.

mod base_url;
mod client;
mod tls;
mod detect;
mod discover;
mod probe;
mod window;
mod servers;
mod tokenize;
pub mod current;
pub mod handle;
mod unload;
mod errors;
mod redact;
mod request_fault;
mod overflow;
pub mod process;
pub mod send;
pub mod thinking;

#[cfg(test)]
#[expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
mod tests;

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::http::security::loop_detection::Hop;

pub use base_url::{BaseUrlError, Root, Scheme};
pub use client::OpenError;
pub use detect::{Identified, Identity};
pub use discover::{Found, PORTS, discover};
pub use errors::{ReportedError, error_of};
pub use overflow::{Overflow, overflow};
pub use probe::{Access, Probe};
pub use redact::{Redactor, sent_key, without_key, without_sent_keys};
pub use request_fault::{Fault5xx, fault_of};
pub use servers::llama_cpp::{Activity, BusySlots};
pub use servers::ollama::{Preload, PreloadError, is_same_ollama_model, runs_elsewhere};
pub use servers::{Kind, LoadedModel, WindowReading, WindowSource};
pub use unload::UnloadError;

use client::Client;
use probe::Prober;
use servers::llama_cpp::{SlotReader, says_loading as body_says_loading};
use servers::ollama;
use tokenize::Counter;

/// The TLS of the relay's own connections; `None` for a root that needs none.
///
/// # Errors
///
/// The platform's certificates could not be read.
pub fn tls_for(root: &Root) -> Result<Option<Arc<rustls::ClientConfig>>, OpenError> {
    match root.scheme() {
        Scheme::Http => Ok(None),
        Scheme::Https => tls::config(Scheme::Https)
            .map(|config| Some(Arc::new(config)))
            .map_err(OpenError::Tls),
    }
}

/// Whether an answer means "the model is being loaded": llama.cpp's 503.
pub fn says_loading(status: http::StatusCode, body: &[u8]) -> bool {
    status == http::StatusCode::SERVICE_UNAVAILABLE
        && serde_json::from_slice(body).is_ok_and(|body| body_says_loading(&body))
}

/// Whether an answer is another OneSlot's word that the request went in a circle.
pub fn says_loop(status: http::StatusCode, headers: &http::HeaderMap) -> bool {
    status == http::StatusCode::LOOP_DETECTED && headers.contains_key("x-oneslot-code")
}

/// How long the questions beside the slot may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// From the start of a connection attempt to its end.
    pub connect: Duration,
    /// From a question to the end of its answer, the probe's as well.
    pub question: Duration,
    /// The same for counting a prompt: the request waits for it.
    pub count: Duration,
    /// The same for an unload: the server frees memory before it answers.
    pub unload: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(2),
            question: Duration::from_secs(2),
            count: tokenize::LIMIT,
            unload: Duration::from_secs(30),
        }
    }
}

/// How long a server that proves nothing is not asked again for its kind by a mere request.
const UNPROVEN_FOR: Duration = Duration::from_secs(10);

/// The same for one that does not answer: it may be up again at the next probe.
const SILENT_FOR: Duration = Duration::from_secs(1);

/// One model server, asked by one gateway.
#[derive(Debug)]
pub struct Upstream {
    client: Client,
    limits: Limits,
    identity: RwLock<Option<Identity>>,
    /// Until when a proof is not tried again; several questions of one request need the kind.
    unproven_until: RwLock<Option<Instant>>,
    /// One proof at a time, however many need it.
    learning: tokio::sync::Mutex<()>,
    prober: Prober,
    counter: Counter,
    slots: SlotReader,
}

impl Upstream {
    /// A server at `root`, spoken to with `key` if there is one; nothing is asked yet.
    ///
    /// # Errors
    ///
    /// The key cannot be a header, or TLS cannot be set up for an https root.
    pub fn new(root: Root, key: Option<&str>, limits: Limits) -> Result<Self, OpenError> {
        Ok(Self {
            client: Client::open(root, key, limits.connect)?,
            limits,
            identity: RwLock::new(None),
            unproven_until: RwLock::new(None),
            learning: tokio::sync::Mutex::new(()),
            prober: Prober::default(),
            counter: Counter::default(),
            slots: SlotReader::default(),
        })
    }

    /// A server that was found, with what it proved then.
    ///
    /// # Errors
    ///
    /// As for [`Self::new`].
    pub fn found(found: Found, key: Option<&str>, limits: Limits) -> Result<Self, OpenError> {
        let mut upstream = Self::new(found.root, key, limits)?;
        upstream.identity = RwLock::new(Some(found.identity));
        Ok(upstream)
    }

    /// The same, with a mark on every question by which the gateway knows it again.
    #[must_use]
    pub fn marked(mut self, hop: &Hop) -> Self {
        self.client = self.client.marked(hop.own());
        self
    }

    /// Where the server is.
    pub fn root(&self) -> &Root {
        self.client.root()
    }

    /// Closes what is kept open for the next question: after the machine slept.
    pub fn forget_idle(&self) {
        self.client.forget_idle();
    }

    /// What was proven so far, without asking.
    pub fn known(&self) -> Option<Identity> {
        self.identity
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The kind proven so far, without asking.
    pub fn known_kind(&self) -> Option<Kind> {
        self.identity
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .map(|identity| identity.kind)
    }

    /// The kind, learned now if it was not yet; `None` while nothing is proven.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves nothing half learned.
    pub async fn kind(&self) -> Option<Kind> {
        if let Some(kind) = self.known_kind() {
            return Some(kind);
        }
        let _one = self.learning.lock().await;
        if let Some(kind) = self.known_kind() {
            return Some(kind);
        }
        let until = *self
            .unproven_until
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        if until.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        match self.ask_identity().await {
            Identified::Server(identity) => Some(identity.kind),
            Identified::OneSlot | Identified::Unproven | Identified::Silent(_) => None,
        }
    }

    /// Identifies the server again, and forgets which of its routes were missing.
    ///
    /// What was known stays known while nothing else is proven.
    pub async fn learn(&self) -> Identified {
        let _one = self.learning.lock().await;
        self.prober.forget();
        self.counter.forget();
        self.slots.forget();
        self.ask_identity().await
    }

    async fn ask_identity(&self) -> Identified {
        let found = detect::identify(&self.client, self.limits.question).await;
        let quiet = match &found {
            Identified::Server(identity) => {
                *self
                    .identity
                    .write()
                    .unwrap_or_else(PoisonError::into_inner) = Some(identity.clone());
                None
            }
            Identified::Silent(_) => Some(SILENT_FOR),
            Identified::OneSlot | Identified::Unproven => Some(UNPROVEN_FOR),
        };
        *self
            .unproven_until
            .write()
            .unwrap_or_else(PoisonError::into_inner) = quiet.map(|quiet| Instant::now() + quiet);
        found
    }

    /// The health probe, within `limit`.
    pub async fn probe(&self, limit: Duration) -> Probe {
        self.prober
            .probe(&self.client, self.known_kind(), limit)
            .await
    }

    /// The window that is loaded for `model`.
    pub async fn window(&self, model: Option<&str>) -> WindowReading {
        match self.kind().await {
            Some(kind) => window::window(&self.client, kind, model, self.limits.question).await,
            None => WindowReading::Unknown,
        }
    }

    /// Whether `model` is in memory; `None` where the server does not tell.
    pub async fn is_loaded(&self, model: Option<&str>) -> Option<bool> {
        let kind = self.kind().await?;
        window::is_loaded(&self.client, kind, model, self.limits.question).await
    }

    /// The models in memory; `None` where the server does not tell.
    pub async fn loaded_models(&self) -> Option<Vec<LoadedModel>> {
        let kind = self.kind().await?;
        window::models(&self.client, kind, self.limits.question).await
    }

    /// The server's own count of a chat body's prompt; `None` where it cannot or is too slow.
    ///
    /// It wakes a sleeping model: only for a request that is about to be sent.
    pub async fn count(&self, body: Bytes) -> Option<u64> {
        if self.kind().await? != Kind::LlamaCpp {
            return None;
        }
        self.counter
            .count(&self.client, body, self.limits.count)
            .await
    }

    /// What the server's slots show; `None` where it does not show them, or did not answer.
    ///
    /// It wakes a sleeping model and keeps an idle one awake: only around a request in flight.
    pub async fn activity(&self, model: Option<&str>) -> Option<Activity> {
        if self.kind().await? != Kind::LlamaCpp {
            return None;
        }
        let read = self
            .slots
            .read(&self.client, model, self.limits.question)
            .await;
        read.ok().flatten()
    }

    /// Whether the server is known to show how many of its slots work.
    pub fn shows_activity(&self) -> bool {
        self.known_kind() == Some(Kind::LlamaCpp) && self.slots.may_show()
    }

    /// How many of the server's slots work right now. As [`Self::activity`].
    pub async fn busy_slots(&self, model: Option<&str>) -> BusySlots {
        if self.kind().await != Some(Kind::LlamaCpp) {
            return BusySlots::NotShown;
        }
        let read = self
            .slots
            .read(&self.client, model, self.limits.question)
            .await;
        match read {
            Ok(Some(activity)) => BusySlots::Count(activity.busy),
            Ok(None) => BusySlots::NotShown,
            Err(_) => BusySlots::NoAnswer,
        }
    }

    /// Loads a model into Ollama, within the loading budget.
    ///
    /// # Errors
    ///
    /// Another kind of server, the budget, or the server's own refusal.
    ///
    /// # Cancel safety
    ///
    /// Dropping it closes the connection; Ollama then gives the load up.
    pub async fn preload(
        &self,
        request: Preload<'_>,
        budget: Duration,
    ) -> Result<(), PreloadError> {
        if self.kind().await != Some(Kind::Ollama) {
            return Err(PreloadError::NotOllama);
        }
        if runs_elsewhere(request.model) {
            return Err(PreloadError::Elsewhere);
        }
        ollama::preload(&self.client, request, budget).await
    }

    /// Unloads `model`, or everything; gives the names of what is seen to be gone.
    ///
    /// # Errors
    ///
    /// The server cannot do it (and the error says what does), refused, did not answer, or agreed
    /// and has the model all the same.
    pub async fn unload(&self, model: Option<&str>) -> Result<Vec<String>, UnloadError> {
        let kind = self.kind().await.ok_or(UnloadError::List)?;
        unload::unload(&self.client, kind, model, self.limits).await
    }

    /// The process behind the port, for a server on this machine.
    pub async fn process(&self) -> Option<process::Process> {
        if !self.root().is_loopback() {
            return None;
        }
        let port = self.root().port();
        tokio::task::spawn_blocking(move || process::of_port(port))
            .await
            .ok()
            .flatten()
    }

    /// Whether this root leads back to the gateway itself.
    pub async fn leads_to(&self, listen: &[SocketAddr]) -> bool {
        self.root().leads_to(listen).await
    }
}
