//! What request handlers and background tasks share.
//!
//! A [`Context`] holds the parts and hands them out; each part has its own methods. Not here:
//! building it ([`crate::server`]), the tasks that keep it current ([`crate::monitor`]), and
//! anything that handles a request.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::api::read_cache::ReadCache;
use crate::config::{Loaded, Settings};
use crate::http::body::BodyBudget;
use crate::http::limits::{FOLLOWERS, Limits};
use crate::http::security::blocked_origins::BlockedOrigins;
use crate::http::security::loop_detection::Hop;
use crate::memory::readings::Readings;
use crate::scheduler::health::State;
use crate::scheduler::queue::RequestId;
use crate::scheduler::{Event, SchedulerHandle};
use crate::state::{ControlToken, Lock, StateDir, StateError};
use crate::telemetry::Recorder;
use crate::telemetry::log::Log;
use crate::telemetry::notices::Notices;
use crate::upstream::current::CurrentUpstream;
use crate::upstream::handle::UpstreamHandle;
use crate::upstream::process::tracker::ProcessTracker;
use crate::upstream::thinking::ThinkingModels;

/// The shared parts of one gateway.
pub struct Context {
    /// Queue, slots, health, pause and memory level.
    pub scheduler: SchedulerHandle,
    /// Outcomes of requests.
    pub recorder: Recorder,
    /// What a person should know.
    pub notices: Notices,
    /// The model server, once one is configured or found.
    pub(crate) upstream: CurrentUpstream,
    /// The model server's process.
    pub(crate) process: ProcessTracker,
    /// The latest readings of memory.
    pub(crate) memory: Readings,
    /// Models that were seen to think before they answer.
    pub(crate) thinking: ThinkingModels,
    pub(crate) reads: ReadCache,
    /// Hosts and origins that were refused.
    pub(crate) blocked_origins: BlockedOrigins,
    /// What one client may use.
    pub(crate) limits: Limits,
    /// Bytes of request bodies that may be held.
    pub(crate) bodies: BodyBudget,
    /// Permits of clients that follow the events.
    pub(crate) followers: Arc<Semaphore>,
    addresses: RwLock<Vec<SocketAddr>>,
    /// The mark on requests to the upstream, by which a loop is recognised.
    pub(crate) hop: Hop,
    /// Taken while a large body is parsed, one at a time.
    pub(crate) large: Semaphore,
    /// Held while the pause is written: the last writer wins.
    pub(crate) writing_pause: Mutex<()>,
    pub(crate) log: Option<Arc<Log>>,
    pub(crate) token: ControlToken,
    pub(crate) state: StateDir,
    pub(crate) instance: Mutex<Option<Lock>>,
    settings: RwLock<Arc<Settings>>,
    loaded: RwLock<Arc<Loaded>>,
    next_id: AtomicU64,
    viewers: AtomicUsize,
}

/// The parts that exist before there is a [`Context`].
pub(crate) struct Parts {
    pub(crate) scheduler: SchedulerHandle,
    pub(crate) recorder: Recorder,
    pub(crate) upstream: CurrentUpstream,
    pub(crate) hop: Hop,
    pub(crate) log: Option<Arc<Log>>,
    pub(crate) state: StateDir,
    pub(crate) lock: Lock,
    pub(crate) loaded: Loaded,
    /// The number of the first request.
    pub(crate) first_id: u64,
}

/// Counts a viewer for as long as it lives; probes come more often meanwhile.
pub struct Watcher(Arc<Context>);

impl Context {
    pub(crate) fn new(parts: Parts) -> Self {
        let settings = Arc::new(parts.loaded.settings.clone());
        let limits = Limits::of_this_run();
        Self {
            notices: Notices::new(parts.scheduler.clone()),
            scheduler: parts.scheduler,
            recorder: parts.recorder,
            upstream: parts.upstream,
            process: ProcessTracker::new(),
            memory: Readings::new(&settings),
            thinking: ThinkingModels::default(),
            reads: ReadCache::default(),
            blocked_origins: BlockedOrigins::default(),
            limits,
            bodies: BodyBudget::new(limits.held_bytes),
            addresses: RwLock::default(),
            followers: Arc::new(Semaphore::new(FOLLOWERS)),
            hop: parts.hop,
            large: Semaphore::new(1),
            writing_pause: Mutex::default(),
            log: parts.log,
            token: parts.lock.token().clone(),
            state: parts.state,
            instance: Mutex::new(Some(parts.lock)),
            settings: RwLock::new(settings),
            loaded: RwLock::new(Arc::new(parts.loaded)),
            next_id: AtomicU64::new(parts.first_id),
            viewers: AtomicUsize::new(0),
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The settings in force, with the origin of each.
    pub fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.loaded.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other settings in force.
    pub(crate) fn set_loaded(&self, loaded: Loaded) -> Arc<Settings> {
        let settings = Arc::new(loaded.settings.clone());
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(loaded);
        *self
            .settings
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Arc::clone(&settings);
        settings
    }

    /// The upstream, once one is configured or found.
    pub fn link(&self) -> Option<Arc<UpstreamHandle>> {
        self.upstream.get()
    }

    /// The addresses of the open listeners.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Replaces the addresses of the open listeners.
    pub(crate) fn set_addresses(&self, addresses: Vec<SocketAddr>) {
        *self
            .addresses
            .write()
            .unwrap_or_else(PoisonError::into_inner) = addresses;
    }

    /// The id of a new request.
    pub fn next_id(&self) -> RequestId {
        RequestId(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// The cooldown that is left.
    pub fn cooldown_left(&self) -> Duration {
        self.scheduler
            .read(|scheduler, _, now| scheduler.health().cooldown_left(now.at))
    }

    /// The cooldown that the next failure starts: the retry advice of a request that just failed.
    pub fn next_cooldown(&self) -> Duration {
        self.scheduler
            .read(|scheduler, _, _| scheduler.next_cooldown())
    }

    /// Whether the upstream is in its cooldown, in which nothing may be sent to it.
    pub(crate) fn is_cooling(&self) -> bool {
        self.scheduler
            .read(|scheduler, _, now| match scheduler.health().state() {
                State::Down { until, .. } => until > now.at,
                State::Unknown | State::Ready | State::Loading { .. } => false,
            })
    }

    /// Whether no request is running, queued or settling.
    pub(crate) fn is_idle(&self) -> bool {
        self.scheduler.read(|scheduler, _, _| {
            scheduler.queue().is_empty() && scheduler.slots().iter().next().is_none()
        })
    }

    /// Counts a viewer.
    pub fn watch(self: &Arc<Self>) -> Watcher {
        if self.viewers.fetch_add(1, Ordering::Relaxed) == 0 {
            self.scheduler.send(Event::ViewersChanged { watched: true });
        }
        Watcher(Arc::clone(self))
    }

    /// Writes the addresses of the listeners where the command line finds them.
    ///
    /// # Errors
    /// The lock file could not be written.
    pub(crate) fn publish(&self) -> Result<(), StateError> {
        let urls = self
            .addresses()
            .iter()
            .map(|address| format!("http://{address}"))
            .collect();
        match &mut *lock(&self.instance) {
            Some(lock) => lock.publish(urls),
            None => Ok(()),
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if self.0.viewers.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0
                .scheduler
                .send(Event::ViewersChanged { watched: false });
        }
    }
}

/// Locks a mutex whose data is valid whatever panicked while it was held.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
