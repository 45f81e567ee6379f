//! Start and end of a gateway.
//!
//! The port is bound before anything else, so that a second program learns at once that it is
//! taken; the first line of service is true when it is printed. The end refuses what waits, lets
//! what runs finish within its grace time, and then says in the stream that it was cut.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, Once, RwLock};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::api::events::StreamPermits;
use crate::api::passthrough::Reads;
use crate::clock::Clock;
use crate::config::{BaseUrl, Loaded, Notice, Settings};
use crate::demo::Demo;
use crate::desk::{Effect, Event, Owner};
use crate::http::body::BodyBudget;
use crate::http::catch_panic::catch_panic;
use crate::http::limits::Limits;
use crate::http::listeners::{self, Listeners, listen};
use crate::http::security::blocked_origins::BlockedOrigins;
use crate::http::security::loop_detection::Hop;
use crate::pause::Pause;
use crate::record::Recorder;
use crate::record::log::Log;
use crate::refusal::Cut;
use crate::state::{Lock, StateDir, StateError};
use crate::upstream::{BaseUrlError, Root};

use super::link::LinkError;
use super::readings::Readings;
use super::sleep::{self, Battery, Pace};
use super::{Gateway, WatchedProcess, background, process as life, reload, rules};

/// How long what is being written or read at the end may take.
const LAST_WRITES: Duration = Duration::from_secs(1);
/// Between a panic of a task beside the requests and its next start.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What a gateway is made of.
pub struct Options {
    /// The settings and where they came from.
    pub loaded: Loaded,
    /// Where state is kept.
    pub state: StateDir,
    /// The right to serve with that state.
    pub lock: Lock,
    /// What is behind the gateway.
    pub serve: Serve,
    /// The log, so that a reloaded `log.level` takes effect; `None` for a gateway without one.
    pub log: Option<Log>,
}

/// What is behind the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serve {
    /// A model server.
    Upstream,
    /// The built-in simulated model, which says so in every answer.
    Demo,
}

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another program holds the port.
    #[error("{address} is held by {}", by.as_deref().unwrap_or("another program"))]
    PortHeld {
        /// The address.
        address: SocketAddr,
        /// The other program, where the system tells.
        by: Option<String>,
    },
    /// The address could not be bound for another reason: reserved, or not this machine's.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// No address to listen on.
    #[error("listen names no address")]
    NoAddress,
    /// Beyond loopback without a key.
    #[error(
        "{address} can be reached from other machines, so a key is required: run `oneslotd key add NAME` and set access.require_key = true, or listen on 127.0.0.1"
    )]
    Exposed {
        /// The address.
        address: SocketAddr,
    },
    /// The upstream would be the gateway itself.
    #[error("upstream.base_url {root} is this gateway's own address: point it at the model server")]
    Loop {
        /// The root.
        root: Root,
    },
    /// The base URL of the demo is not one.
    #[error("the built-in demo has no usable address")]
    DemoUrl(#[source] BaseUrlError),
    /// The demo could not be started.
    #[error("cannot start the built-in demo")]
    Demo(#[source] io::Error),
    /// The client for the upstream could not be made.
    #[error("cannot link to the upstream")]
    Link(#[source] LinkError),
    /// The state directory failed.
    #[error("cannot use the state directory")]
    State(#[source] StateError),
}

/// A gateway that serves.
pub struct Running {
    gateway: Arc<Gateway>,
    addresses: Vec<SocketAddr>,
    beside: JoinSet<()>,
    _demo: Option<Demo>,
}

/// Starts a gateway on the current runtime.
///
/// # Errors
/// Whatever keeps it from serving; nothing is left running then.
pub async fn start(options: Options) -> Result<Running, StartError> {
    let Options {
        mut loaded,
        state,
        lock,
        serve,
        log,
    } = options;
    let (listeners, notices) = listen(&loaded.settings.listen, None).await?;
    let addresses: Vec<SocketAddr> = listeners.iter().map(|bound| bound.address).collect();
    must_ask_strangers_for_a_key(&addresses, &loaded.settings)?;
    let demo = match serve {
        Serve::Upstream => None,
        Serve::Demo => Some(start_demo(&mut loaded).await?),
    };
    must_lead_elsewhere(&addresses, &loaded.settings).await?;
    let base_url = loaded.settings.upstream.base_url.clone();
    let demo_root = demo.as_ref().map(|_| base_url);
    let (gateway, effects) = build(loaded, state, lock, log, demo_root);
    for (code, text) in notices {
        gateway.notice(code, &text);
    }
    tell_of_settings(&gateway);
    let settings = gateway.settings();
    gateway.relink(&settings).map_err(StartError::Link)?;
    for bound in listeners {
        gateway.listeners.open(&gateway, bound);
    }
    gateway.publish().map_err(StartError::State)?;
    let beside = work_beside(&gateway, effects);
    Ok(Running {
        gateway,
        addresses,
        beside,
        _demo: demo,
    })
}

fn must_ask_strangers_for_a_key(
    addresses: &[SocketAddr],
    settings: &Settings,
) -> Result<(), StartError> {
    let asks = settings.access.require_key && !settings.access.keys.is_empty();
    match addresses.iter().find(|address| !address.ip().is_loopback()) {
        Some(address) if !asks => Err(StartError::Exposed { address: *address }),
        Some(_) | None => Ok(()),
    }
}

async fn must_lead_elsewhere(
    addresses: &[SocketAddr],
    settings: &Settings,
) -> Result<(), StartError> {
    match &settings.upstream.base_url {
        BaseUrl::At(root) if root.leads_to(addresses).await => {
            Err(StartError::Loop { root: root.clone() })
        }
        BaseUrl::At(_) | BaseUrl::Auto => Ok(()),
    }
}

/// The gateway without doors and without an upstream, and what its desk will want.
fn build(
    loaded: Loaded,
    state: StateDir,
    lock: Lock,
    log: Option<Log>,
    demo_root: Option<BaseUrl>,
) -> (Arc<Gateway>, UnboundedReceiver<Effect>) {
    let settings = Arc::new(loaded.settings.clone());
    tell_of_place(&state);
    let pause = kept_pause(&state);
    let (owner, effects) = Owner::new(rules(&settings, Pace::Usual), pause, Clock::start());
    let recorder = if settings.log.record {
        Recorder::in_directory(state.path())
    } else {
        Recorder::in_memory()
    };
    let limits = Limits::of_this_run();
    let gateway = Arc::new(Gateway {
        owner,
        recorder,
        reads: Reads::default(),
        blocked_origins: BlockedOrigins::default(),
        limits,
        bodies: BodyBudget::new(limits.held_bytes),
        readings: Readings::new(&settings.pressure),
        watched: WatchedProcess::new(),
        battery: Battery::default(),
        listeners: Listeners::new(&limits),
        loaded: RwLock::new(Arc::new(loaded)),
        settings: RwLock::new(settings),
        link: RwLock::new(None),
        generation: AtomicU64::new(0),
        reasoning: Mutex::new(HashSet::new()),
        notices: Mutex::new(Vec::new()),
        demo_root,
        log,
        token: lock.token().clone(),
        lock: Mutex::new(Some(lock)),
        state,
        writing: Mutex::default(),
        large: Semaphore::new(1),
        hop: Hop::new(std::process::id(), random()),
        next_id: AtomicU64::new(first_id()),
        watchers: AtomicUsize::new(0),
        streams: StreamPermits::new(),
    });
    (gateway, effects)
}

/// Says how the directory was found, once however often the gateway is started in it.
fn tell_of_place(state: &StateDir) {
    static TOLD: Once = Once::new();
    if let Some(mode) = state.was_open() {
        let (directory, mode) = (state.path().display(), format!("{mode:o}"));
        TOLD.call_once(|| {
            tracing::warn!(%directory, mode, "the state directory was open to others and was closed");
        });
    }
}

/// The pause that was kept.
fn kept_pause(state: &StateDir) -> Option<Pause> {
    state.pause().unwrap_or_else(|error| {
        tracing::warn!(%error, "a pause that was kept cannot be read");
        None
    })
}

/// What goes on beside requests for as long as the gateway lives.
fn work_beside(gateway: &Arc<Gateway>, effects: UnboundedReceiver<Effect>) -> JoinSet<()> {
    let mut beside = JoinSet::new();
    beside.spawn(background::carry_out(Arc::clone(gateway), effects));
    keep(&mut beside, gateway, background::watch_memory);
    keep(&mut beside, gateway, background::watch_process);
    keep(&mut beside, gateway, life::watch_life);
    #[cfg(target_os = "linux")]
    keep(&mut beside, gateway, background::hear_stalls);
    keep(&mut beside, gateway, listeners::retry_lost);
    keep(&mut beside, gateway, reload::watch);
    keep(&mut beside, gateway, sleep::watch);
    #[cfg(target_os = "linux")]
    keep(&mut beside, gateway, sleep::keep_awake);
    let ticking = gateway.owner.clone();
    beside.spawn(async move { ticking.run().await });
    beside
}

/// Ends the runtime that a gateway ran on: whoever still reads from a disk that does not answer
/// keeps nobody from ending.
pub fn end(runtime: Runtime) {
    runtime.shutdown_timeout(LAST_WRITES);
}

impl Running {
    /// The addresses served on; port 0 has become a real one.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What the stages share: for a face that shows it.
    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// Ends within `timeouts.shutdown_s`: no new work, the line refused, running answers given
    /// the time to finish and then cut in their own form.
    pub async fn shutdown(mut self) {
        let limit = self.gateway.settings().timeouts.shutdown;
        let end = Instant::now() + limit;
        // The last part of the time is for telling those that are cut.
        let grace = limit.saturating_sub(limit / 6);
        tracing::info!(limit_s = limit.as_secs_f64(), "stopping");
        self.gateway.owner.feed(Event::ShutDown);
        let listeners = &self.gateway.listeners;
        listeners.close();
        if timeout(grace, listeners.ended()).await.is_err() {
            self.gateway.owner.feed(Event::StopAll(Cut::ShuttingDown));
            let rest = end.saturating_duration_since(Instant::now());
            // A client that does not take the last event in time is cut off with the program.
            let _ = timeout(rest, listeners.ended()).await;
        }
        self.beside.abort_all();
        self.gateway.recorder.flush();
        tracing::info!("stopped");
        drop(super::lock(&self.gateway.lock).take());
    }
}

/// Runs a task for as long as the gateway lives, again if it panics: what it watches would else
/// stay as it was seen last.
fn keep<W, F>(beside: &mut JoinSet<()>, gateway: &Arc<Gateway>, work: W)
where
    W: Fn(Arc<Gateway>) -> F + Send + 'static,
    F: Future<Output = ()> + Send,
{
    let gateway = Arc::clone(gateway);
    beside.spawn(async move {
        while catch_panic(work(Arc::clone(&gateway))).await.is_none() {
            tracing::error!("a task beside the requests failed and is started again");
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    });
}

/// What a person should know of the settings. A lock is told apart, for it ends when they are
/// mended.
fn tell_of_settings(gateway: &Gateway) {
    let loaded = gateway.loaded();
    if let Some(good) = loaded.sources.good_copy_of_missing() {
        let (file, good) = (loaded.sources.file.display(), good.display());
        tracing::warn!(%file, %good, "there is no settings file, so the defaults serve; the last one that was read is kept");
    }
    let (locks, others): (Vec<&Notice>, Vec<&Notice>) = loaded
        .notices
        .iter()
        .partition(|notice| matches!(notice, Notice::Locked { .. }));
    for (code, notices) in [("configuration", others), ("configuration_locked", locks)] {
        if !notices.is_empty() {
            let texts: Vec<String> = notices.into_iter().map(Notice::to_string).collect();
            gateway.notice(code, &texts.join(". "));
        }
    }
}

async fn start_demo(loaded: &mut Loaded) -> Result<Demo, StartError> {
    let demo = crate::demo::start().await.map_err(StartError::Demo)?;
    let root = Root::parse(&demo.base_url).map_err(StartError::DemoUrl)?;
    loaded.settings.upstream.base_url = BaseUrl::At(root);
    Ok(demo)
}

/// The upper half differs from run to run, so that ids in a log do not repeat.
fn first_id() -> u64 {
    // Without random bytes ids repeat over runs, which only a reader of old logs would notice.
    random() << 32 | 1
}

/// Zero where the system has no random bytes: nothing secret hangs on it.
fn random() -> u64 {
    let mut bytes = [0; 8];
    let _ = getrandom::fill(&mut bytes);
    u64::from_le_bytes(bytes)
}
