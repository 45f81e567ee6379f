//! One model server: how it is asked, how requests are sent to it, and what was read of it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::config::Settings;
use crate::http::security::loop_detection::Hop;
use crate::upstream::send::Sender;
use crate::upstream::{
    Found, Kind, Limits, OpenError, Root, Upstream, WindowReading, WindowSource,
};

/// A window read from a server that loads at start is good for this long; others are asked
/// before each dispatch, since they load and unload by themselves.
const WINDOW_FOR: Duration = Duration::from_secs(60);

/// One upstream.
#[derive(Debug)]
pub struct UpstreamHandle {
    /// Grows with every replacement, so that a late answer about an old one is recognised.
    pub generation: u64,
    /// Short questions to it.
    pub upstream: Upstream,
    /// Relays requests to it.
    pub sender: Arc<Sender>,
    window: Mutex<Option<(Instant, WindowReading)>>,
    learned: Mutex<Option<Learned>>,
}

/// A window the server named when a chat was too long for it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Learned {
    model: Option<String>,
    tokens: u64,
    /// What it had been read as: when that changes, something else is loaded.
    read_as: Option<WindowReading>,
}

/// Why no handle could be made.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The client could not be set up.
    #[error("cannot set up the client for upstream.base_url")]
    Open(#[source] OpenError),
    /// The authority cannot be a Host header.
    #[error("upstream.base_url has a host that no header can carry")]
    Host(#[source] http::header::InvalidHeaderValue),
}

impl UpstreamHandle {
    /// A handle for a configured server.
    ///
    /// # Errors
    /// The key cannot be a header, or TLS cannot be set up.
    pub fn to(
        root: Root,
        settings: &Settings,
        generation: u64,
        hop: &Hop,
    ) -> Result<Self, LinkError> {
        let key = settings.upstream.api_key.as_ref().map(|key| key.expose());
        let upstream = Upstream::new(root, key, limits(settings)).map_err(LinkError::Open)?;
        Self::with(upstream.marked(hop), settings, generation)
    }

    /// A handle for a server that was found and has proved what it is.
    ///
    /// # Errors
    /// As for [`Self::to`].
    pub fn found(
        found: Found,
        settings: &Settings,
        generation: u64,
        hop: &Hop,
    ) -> Result<Self, LinkError> {
        let key = settings.upstream.api_key.as_ref().map(|key| key.expose());
        let upstream = Upstream::found(found, key, limits(settings)).map_err(LinkError::Open)?;
        Self::with(upstream.marked(hop), settings, generation)
    }

    fn with(upstream: Upstream, settings: &Settings, generation: u64) -> Result<Self, LinkError> {
        let root = upstream.root().clone();
        let tls = crate::upstream::tls_for(&root).map_err(LinkError::Open)?;
        let sender = Sender::new(root, tls, settings.limits.connect).map_err(LinkError::Host)?;
        Ok(Self {
            generation,
            upstream,
            sender: Arc::new(sender),
            window: Mutex::default(),
            learned: Mutex::default(),
        })
    }

    /// The window that is loaded for `model`, as corrected by what the server said of it.
    pub async fn window(&self, model: Option<&str>) -> WindowReading {
        let reading = self.read_window(model).await;
        let learned = self
            .learned
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        match learned {
            Some(Learned {
                model: named,
                tokens,
                read_as,
            }) if named.as_deref() == model && read_as == Some(reading) => WindowReading::Loaded {
                tokens,
                source: WindowSource::Overflow,
            },
            Some(_) | None => reading,
        }
    }

    /// Notes the window the server named when a chat was too long for it.
    pub fn learn_window(&self, model: Option<&str>, tokens: u64) {
        let learned = Learned {
            model: model.map(str::to_owned),
            tokens,
            read_as: self.last_window(),
        };
        *self.learned.lock().unwrap_or_else(PoisonError::into_inner) = Some(learned);
    }

    /// The window the server named last, if it named one.
    pub fn learned_window(&self) -> Option<u64> {
        let learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        learned.as_ref().map(|learned| learned.tokens)
    }

    async fn read_window(&self, model: Option<&str>) -> WindowReading {
        let settled = matches!(
            self.upstream.known_kind(),
            Some(Kind::LlamaCpp | Kind::Plain)
        );
        if settled && let Some(reading) = self.cached_window() {
            return reading;
        }
        let reading = self.upstream.window(model).await;
        *self.window.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((Instant::now(), reading));
        reading
    }

    /// What was read last, however old: for the status.
    pub fn last_window(&self) -> Option<WindowReading> {
        self.window
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .map(|(_, r)| *r)
    }

    /// Forgets the window: the server died, was replaced, or said that it is another.
    pub fn forget_window(&self) {
        *self.learned.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.window.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn cached_window(&self) -> Option<WindowReading> {
        let cached = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        cached
            .as_ref()
            .filter(|(at, _)| at.elapsed() < WINDOW_FOR)
            .map(|(_, r)| *r)
    }
}

fn limits(settings: &Settings) -> Limits {
    Limits {
        connect: settings.limits.connect,
        question: settings.limits.probe,
        ..Limits::default()
    }
}
