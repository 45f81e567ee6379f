//! The upstream in use: configured, found by `auto`, or none yet.
//!
//! A handle is replaced whole when the configuration names another server; requests that were
//! dispatched keep the one they have.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::config::{BaseUrl, Settings};
use crate::http::security::loop_detection::Hop;

use super::handle::{LinkError, UpstreamHandle};
use super::{Found, PORTS, discover};

/// The handle in use, and how it is chosen.
#[derive(Debug)]
pub struct CurrentUpstream {
    handle: RwLock<Option<Arc<UpstreamHandle>>>,
    /// Grows with every change of the configured upstream.
    generation: AtomicU64,
    hop: Hop,
    /// The built-in demo's address while it is served: no configuration replaces it.
    demo: Option<BaseUrl>,
}

/// What a search on the usual ports found.
#[derive(Debug)]
pub enum Search {
    /// The first server is in use; these are all that were found.
    Linked(Vec<String>),
    /// None was found.
    NoneFound,
    /// Another upstream was configured during the search; its result says nothing.
    Superseded,
}

impl CurrentUpstream {
    /// No upstream yet.
    pub fn new(hop: Hop, demo: Option<BaseUrl>) -> Self {
        Self {
            handle: RwLock::default(),
            generation: AtomicU64::new(0),
            hop,
            demo,
        }
    }

    /// The handle in use.
    pub fn get(&self) -> Option<Arc<UpstreamHandle>> {
        self.handle
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Whether `handle` is still the one in use.
    pub fn is_current(&self, handle: &UpstreamHandle) -> bool {
        self.get()
            .is_some_and(|current| current.generation == handle.generation)
    }

    /// Uses the configured server, or none while `auto` has to find one.
    ///
    /// # Errors
    /// The client for it could not be made; the old handle stays.
    pub fn relink(&self, settings: &Settings) -> Result<(), LinkError> {
        let generation = self.generation.load(Ordering::Relaxed) + 1;
        let base_url = self.demo.as_ref().unwrap_or(&settings.upstream.base_url);
        let handle = match base_url {
            BaseUrl::Auto => None,
            BaseUrl::At(root) => Some(UpstreamHandle::to(
                root.clone(),
                settings,
                generation,
                &self.hop,
            )?),
        };
        // Stored only now: a new handle supersedes a search in progress, a failed one does not.
        self.generation.store(generation, Ordering::Relaxed);
        self.set(handle);
        Ok(())
    }

    /// `auto`: uses the first server that proves what it is; the choice holds for the run.
    /// `own` are the gateway's own addresses, which are never asked.
    pub async fn find(&self, settings: &Settings, own: &[SocketAddr]) -> Search {
        let generation = self.generation.load(Ordering::Relaxed);
        let found = match discover(&PORTS, own).await {
            Ok(found) => found,
            Err(error) => {
                tracing::error!(%error, "search for model servers failed");
                Vec::new()
            }
        };
        if self.generation.load(Ordering::Relaxed) != generation {
            return Search::Superseded;
        }
        let roots = found.iter().map(|one| one.root.to_string()).collect();
        let first = found
            .into_iter()
            .next()
            .and_then(|first| self.handle_of(first, settings, generation));
        let Some(handle) = first else {
            return Search::NoneFound;
        };
        tracing::info!(upstream = %handle.upstream.root(), "model server found");
        self.set(Some(handle));
        Search::Linked(roots)
    }

    fn handle_of(
        &self,
        found: Found,
        settings: &Settings,
        generation: u64,
    ) -> Option<UpstreamHandle> {
        UpstreamHandle::found(found, settings, generation, &self.hop)
            .inspect_err(|error| tracing::error!(%error, "cannot use the model server found"))
            .ok()
    }

    fn set(&self, handle: Option<UpstreamHandle>) {
        *self.handle.write().unwrap_or_else(PoisonError::into_inner) = handle.map(Arc::new);
    }
}
