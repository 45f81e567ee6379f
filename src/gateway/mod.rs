//! The composition root: builds the stages, opens the doors, runs what goes on beside requests.
//!
//! [`start`] binds first and serves only when everything stands. [`Gateway`] is what the stages
//! share; it decides nothing. Not here: the stages' rules.

mod background;
pub mod link;
mod process;
mod readings;
mod reload;
mod sleep;
mod start;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::api::events::StreamPermits;
use crate::api::passthrough::Reads;
use crate::config::{BaseUrl, Loaded, Settings};
use crate::desk::{Event, Owner, Rules, Watched};
use crate::health::{Backoff, State, Stretch};
use crate::http::body::BodyBudget;
use crate::http::limits::Limits;
use crate::http::listeners::Listeners;
use crate::http::security::blocked_origins::BlockedOrigins;
use crate::http::security::loop_detection::Hop;
use crate::pause::{self, Pause};
use crate::queue::RequestId;
use crate::record::Recorder;
use crate::record::log::Log;
use crate::record::snapshot::Notice;
use crate::state::{ControlToken, Lock, StateDir, StateError};
use crate::upstream::{PORTS, discover};

use link::Link;
use process::Watched as WatchedProcess;
use readings::Readings;

pub use readings::Freed;
pub use start::{Options, Running, Serve, StartError, end, start};

/// Models seen to think before they answer, and notices, are remembered up to this many.
const REMEMBERED: usize = 64;

/// The notice of a pause, or of its end, that a restart would undo.
const UNKEPT: &str = "pause_unkept";
/// The notice of a base URL that leads back here.
const LOOP: &str = "loop";

/// What the stages share.
pub struct Gateway {
    /// Line, slots, health, pause and pressure.
    pub owner: Owner,
    /// Where outcomes go.
    pub recorder: Recorder,
    pub(crate) reads: Reads,
    pub(crate) blocked_origins: BlockedOrigins,
    pub(crate) limits: Limits,
    pub(crate) bodies: BodyBudget,
    loaded: RwLock<Arc<Loaded>>,
    settings: RwLock<Arc<Settings>>,
    link: RwLock<Option<Arc<Link>>>,
    generation: AtomicU64,
    readings: Readings,
    watched: WatchedProcess,
    battery: sleep::Battery,
    reasoning: Mutex<HashSet<String>>,
    notices: Mutex<Vec<Notice>>,
    pub(crate) listeners: Listeners,
    lock: Mutex<Option<Lock>>,
    /// The mark on what goes to the upstream.
    pub(crate) hop: Hop,
    /// Where the built-in demo is, when it is served: no configuration moves away from it.
    demo_root: Option<BaseUrl>,
    log: Option<Log>,
    pub(crate) token: ControlToken,
    state: StateDir,
    /// Held while the pause is written down: the last to write has the last word.
    writing: Mutex<()>,
    /// Taken while a large body is read, one at a time.
    pub(crate) large: Semaphore,
    next_id: AtomicU64,
    watchers: AtomicUsize,
    pub(crate) streams: StreamPermits,
}

/// Counts somebody who looks, so that probes come more often meanwhile.
pub struct Watcher(Arc<Gateway>);

impl Gateway {
    /// The settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The settings in force, and where each came from.
    pub fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.loaded.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The upstream, once one is configured or found.
    pub fn link(&self) -> Option<Arc<Link>> {
        self.link
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The addresses served on.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.addresses()
    }

    /// A name for a new request.
    pub fn next_id(&self) -> RequestId {
        RequestId(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// Cooldown left.
    pub fn cooldown_left(&self) -> Duration {
        self.owner
            .look(|desk, _, now| desk.health().cooldown_left(now.at))
    }

    /// The cooldown that the next failure will start: what a request that just failed is told.
    pub fn next_cooldown(&self) -> Duration {
        self.owner.look(|desk, _, _| desk.next_cooldown())
    }

    /// Whether a model was seen to think before it answers.
    pub(crate) fn reasons(&self, model: Option<&str>) -> bool {
        lock(&self.reasoning).contains(model.unwrap_or_default())
    }

    pub(crate) fn note_reasoning(&self, model: Option<&str>) {
        let mut models = lock(&self.reasoning);
        if models.len() < REMEMBERED {
            models.insert(model.unwrap_or_default().to_owned());
        }
    }

    /// The server read far less than it was sent: it cuts silently, and a person should know.
    pub(crate) fn note_silent_cut(&self, counted: u64, reported: u64) {
        tracing::warn!(counted, reported, "the server truncated a prompt silently");
        self.notice(
            "silent_truncation",
            "The model server read far fewer tokens than it was sent: it cut a chat silently. Set window.context to the window it really has",
        );
    }

    /// A request of this gateway's own came back to it.
    pub(crate) fn leads_back(&self) {
        self.notice(
            LOOP,
            "upstream.base_url leads back to this gateway, perhaps through another OneSlot: point it at the model server",
        );
    }

    /// Remembers what a person should know, once for each code.
    pub(crate) fn notice(&self, code: &str, text: &str) {
        let mut notices = lock(&self.notices);
        if notices
            .iter()
            .any(|notice| (notice.code.as_str(), notice.text.as_str()) == (code, text))
        {
            return;
        }
        notices.retain(|notice| notice.code != code);
        if notices.len() < REMEMBERED {
            notices.push(Notice {
                code: code.to_owned(),
                text: text.to_owned(),
            });
        }
        drop(notices);
        self.owner.touch();
    }

    /// Forgets a notice whose cause is gone.
    pub(crate) fn notice_over(&self, code: &str) {
        let mut notices = lock(&self.notices);
        let before = notices.len();
        notices.retain(|notice| notice.code != code);
        let is_news = notices.len() < before;
        drop(notices);
        if is_news {
            self.owner.touch();
        }
    }

    pub(crate) fn notices(&self) -> Vec<Notice> {
        lock(&self.notices).clone()
    }

    /// Counts somebody who looks.
    pub fn watch(self: &Arc<Self>) -> Watcher {
        if self.watchers.fetch_add(1, Ordering::Relaxed) == 0 {
            self.owner.feed(Event::Watched(Watched::Yes));
        }
        Watcher(Arc::clone(self))
    }

    /// Pauses inference; when it returns, a restart keeps the pause.
    pub async fn pause(self: &Arc<Self>, pause: Pause, running: pause::Running) {
        self.owner.feed(Event::Paused { pause, running });
        self.keep_pause().await;
    }

    /// Resumes inference; when it returns, a restart keeps it so.
    pub async fn resume(self: &Arc<Self>) {
        self.owner.feed(Event::Resumed);
        self.keep_pause().await;
    }

    /// Writes down the pause in force, whatever was asked for meanwhile. Beside the requests: a
    /// disk takes its time.
    async fn keep_pause(self: &Arc<Self>) {
        let gateway = Arc::clone(self);
        let keep = move || {
            let _one_at_a_time = lock(&gateway.writing);
            let pause = gateway.owner.look(|desk, _, _| desk.pause());
            match gateway.state.keep_pause(pause) {
                Ok(()) => gateway.notice_over(UNKEPT),
                Err(error) => gateway.tell_of_unkept(pause, &error),
            }
        };
        let _ = tokio::task::spawn_blocking(keep).await;
    }

    fn tell_of_unkept(&self, pause: Option<Pause>, error: &StateError) {
        let StateError::Write { path, source } = error else {
            tracing::warn!(%error, "what was wished about a pause will not survive a restart");
            return;
        };
        let path = path.display();
        if pause.is_some() {
            tracing::warn!(%error, cause = %source, "the pause will not survive a restart");
            let text = format!(
                "The pause will end if OneSlot is started again, since {path} cannot be written: {source}"
            );
            self.notice(UNKEPT, &text);
        } else {
            tracing::warn!(%error, cause = %source, "the end of the pause will not survive a restart");
            let text = format!(
                "OneSlot will be paused again if it is started again, since {path} cannot be removed: {source}"
            );
            self.notice(UNKEPT, &text);
        }
    }

    /// Names the addresses served on where the command line looks for them.
    pub(crate) fn publish(&self) -> Result<(), StateError> {
        let urls = self
            .addresses()
            .iter()
            .map(|address| format!("http://{address}"))
            .collect();
        match &mut *lock(&self.lock) {
            Some(lock) => lock.publish(urls),
            None => Ok(()),
        }
    }

    fn is_current(&self, link: &Link) -> bool {
        self.link()
            .is_some_and(|current| current.generation == link.generation)
    }

    fn is_cooling(&self) -> bool {
        self.owner
            .look(|desk, _, now| background::is_cooling(desk.health().state(), now.at))
    }

    fn was_down(&self) -> bool {
        self.owner
            .look(|desk, _, _| matches!(desk.health().state(), State::Down { .. }))
    }

    /// Between two readings of memory while somebody runs or waits.
    fn reading_interval(&self) -> Duration {
        self.pace().of(self.settings().pressure.interval)
    }

    /// A request is with the upstream.
    #[cfg(target_os = "linux")]
    fn is_answering(&self) -> bool {
        self.owner.look(|desk, _, _| desk.slots().running() > 0)
    }

    /// Nobody runs, waits or settles.
    fn is_idle(&self) -> bool {
        self.owner
            .look(|desk, _, _| desk.line().is_empty() && desk.slots().iter().next().is_none())
    }

    /// Links to the configured server, or to none while `auto` has to find one.
    fn relink(&self, settings: &Settings) -> Result<(), link::LinkError> {
        let generation = self.generation.load(Ordering::Relaxed) + 1;
        let base_url = self
            .demo_root
            .as_ref()
            .unwrap_or(&settings.upstream.base_url);
        let link = match base_url {
            BaseUrl::Auto => None,
            BaseUrl::At(root) => Some(Link::to(root.clone(), settings, generation, &self.hop)?),
        };
        // Only now: a search under way is overtaken by a new link, not by a failed one.
        self.generation.store(generation, Ordering::Relaxed);
        self.set_link(link);
        Ok(())
    }

    fn set_link(&self, link: Option<Link>) {
        *self.link.write().unwrap_or_else(PoisonError::into_inner) = link.map(Arc::new);
        self.reads.forget();
    }

    /// `auto`: takes the first server that proves what it is; the choice holds for the run.
    /// `None` when another upstream was configured while it looked: then nothing was found out.
    async fn find_upstream(&self) -> Option<bool> {
        let generation = self.generation.load(Ordering::Relaxed);
        let found = self.look_for_server().await;
        if self.generation.load(Ordering::Relaxed) != generation {
            return None;
        }
        Some(found.is_some_and(|link| {
            tracing::info!(upstream = %link.upstream.root(), "found a model server");
            self.set_link(Some(link));
            true
        }))
    }

    async fn look_for_server(&self) -> Option<Link> {
        let settings = self.settings();
        let found = match discover(&PORTS, &self.addresses()).await {
            Ok(found) => found,
            Err(error) => {
                tracing::error!(%error, "cannot look for model servers");
                return None;
            }
        };
        if found.len() > 1 {
            let roots: Vec<String> = found.iter().map(|one| one.root.to_string()).collect();
            self.notice(
                "several_servers",
                &format!("Several model servers run: {}. The first is used; set upstream.base_url to choose another", roots.join(", ")),
            );
        }
        let first = found.into_iter().next()?;
        let generation = self.generation.load(Ordering::Relaxed);
        Link::found(first, &settings, generation, &self.hop)
            .inspect_err(|error| {
                tracing::error!(%error, "cannot use the model server that was found");
            })
            .ok()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if self.0.watchers.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.owner.feed(Event::Watched(Watched::No));
        }
    }
}

/// The desk's rules, from the settings.
fn rules(settings: &Settings, pace: sleep::Pace) -> Rules {
    Rules {
        slots: settings.upstream.slots.max(1),
        max_waiting: settings.queue.max_waiting,
        max_bytes: usize::try_from(settings.queue.max_bytes).unwrap_or(usize::MAX),
        max_wait_stream: settings.queue.max_wait,
        max_wait_whole: settings.queue.max_wait_whole,
        full_status: settings.queue.full_status,
        fresh: settings.health.fresh,
        idle_interval: pace.of(settings.health.idle_interval),
        backoff: Backoff {
            base: settings.health.cooldown,
            max: settings.health.cooldown_max,
            stretch: match settings.preset {
                crate::config::Preset::Balanced => Stretch::UnderPressure,
                crate::config::Preset::Strict => Stretch::Never,
            },
        },
        loading: settings.timeouts.loading,
    }
}

/// A panic elsewhere must not take the gateway's notes with it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
