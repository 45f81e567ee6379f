//! The composition root: builds the parts, opens the listeners, starts the background tasks, and
//! shuts down.
//!
//! The port is bound before anything else, so that a second program fails at once and the first
//! printed line is true. Shutdown refuses queued requests, lets running answers finish within the
//! grace time, and then ends their streams with an error event.

mod reload;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Once};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::admit::hop::Hop;
use crate::clock::Clock;
use crate::config::{BaseUrl, Loaded, Notice, Preset, Settings};
use crate::demo::Demo;
use crate::refusal::Cut;
use crate::scheduler::pause::Pause;
use crate::scheduler::{Effect, Event, Rules, SchedulerHandle};
use crate::state::{Lock, StateDir, StateError};
use crate::telemetry::Recorder;
use crate::telemetry::log::Log;
use crate::upstream::{BaseUrlError, Root};

use crate::context::{Context, Parts, lock};
use crate::gateway::doors::{self, listen};
use crate::monitor;
use crate::scheduler::health::{Backoff, Stretch};
use crate::upstream::current::CurrentUpstream;
use crate::upstream::handle::LinkError;

/// How long what is being written or read at the end may take.
const LAST_WRITES: Duration = Duration::from_secs(1);

/// What a context is made of.
pub struct Options {
    /// The settings and where they came from.
    pub loaded: Loaded,
    /// Where state is kept.
    pub state: StateDir,
    /// The right to serve with that state.
    pub lock: Lock,
    /// What is behind the context.
    pub serve: Serve,
    /// The log, so that a reloaded `log.level` takes effect; `None` for a context without one.
    pub log: Option<Log>,
}

/// What is behind the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serve {
    /// A model server.
    Upstream,
    /// The built-in simulated model, which says so in every answer.
    Demo,
}

/// Why a context did not start.
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
    /// The upstream would be the context itself.
    #[error("upstream.base_url {root} is this context's own address: point it at the model server")]
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

/// A context that serves.
pub struct Running {
    context: Arc<Context>,
    addresses: Vec<SocketAddr>,
    tasks: JoinSet<()>,
    _demo: Option<Demo>,
}

/// Starts a context on the current runtime.
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
    let (context, effects) = build(loaded, state, lock, log, demo_root);
    for (code, text) in notices {
        context.notices.add(code, &text);
    }
    report_settings(&context);
    let settings = context.settings();
    context
        .upstream
        .relink(&settings)
        .map_err(StartError::Link)?;
    context.reads.forget();
    for bound in listeners {
        context.doors.open(&context, bound);
    }
    context.publish().map_err(StartError::State)?;
    let mut tasks = monitor::spawn(&context, effects);
    monitor::restarting(&mut tasks, &context, doors::have_back);
    monitor::restarting(&mut tasks, &context, reload::watch);
    Ok(Running {
        context: context,
        addresses,
        tasks,
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

/// The shared parts, without listeners and without an upstream, and the effects that the
/// scheduler will ask for.
fn build(
    loaded: Loaded,
    state: StateDir,
    lock: Lock,
    log: Option<Log>,
    demo: Option<BaseUrl>,
) -> (Arc<Context>, UnboundedReceiver<Effect>) {
    report_permissions(&state);
    let pause = kept_pause(&state);
    let (scheduler, effects) = SchedulerHandle::new(rules(&loaded.settings), pause, Clock::start());
    let recorder = if loaded.settings.log.record {
        Recorder::in_directory(state.path())
    } else {
        Recorder::in_memory()
    };
    let hop = Hop::new(std::process::id(), random());
    let context = Context::new(Parts {
        scheduler,
        recorder,
        upstream: CurrentUpstream::new(hop.clone(), demo),
        hop,
        log,
        state,
        lock,
        loaded,
        first_id: first_id(),
    });
    (Arc::new(context), effects)
}

/// The scheduler's rules, from the settings.
pub(crate) fn rules(settings: &Settings) -> Rules {
    Rules {
        slots: settings.upstream.slots.max(1),
        max_waiting: settings.queue.max_waiting,
        max_bytes: usize::try_from(settings.limits.max_queued_bytes).unwrap_or(usize::MAX),
        max_wait_stream: settings.queue.max_wait,
        max_wait_whole: settings.queue.max_wait_whole,
        full_status: settings.queue.full_status,
        fresh: settings.limits.fresh,
        idle_interval: settings.health.idle_interval,
        backoff: Backoff {
            base: settings.health.cooldown,
            max: settings.limits.cooldown_max,
            stretch: match settings.preset {
                Preset::Balanced => Stretch::UnderPressure,
                Preset::Strict => Stretch::Never,
            },
        },
        loading: settings.timeouts.loading,
    }
}

/// Says how the directory was found, once however often the context is started in it.
fn report_permissions(state: &StateDir) {
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

/// Ends the runtime that a context ran on: whoever still reads from a disk that does not answer
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
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Ends within `timeouts.shutdown_s`: no new work, the line refused, running answers given
    /// the time to finish and then cut in their own form.
    pub async fn shutdown(mut self) {
        let limit = self.context.settings().limits.shutdown;
        let end = Instant::now() + limit;
        // The last part of the time is for telling those that are cut.
        let grace = limit.saturating_sub(limit / 6);
        tracing::info!(limit_s = limit.as_secs_f64(), "stopping");
        self.context.scheduler.send(Event::ShutDown);
        let closed = self.context.doors.close();
        let mut doors = std::pin::pin!(async {
            for door in closed {
                let _ = door.await;
            }
        });
        if timeout(grace, doors.as_mut()).await.is_err() {
            self.context
                .scheduler
                .send(Event::CancelAll(Cut::ShuttingDown));
            let rest = end.saturating_duration_since(Instant::now());
            // Whoever does not take the last event in time is cut off with the program.
            let _ = timeout(rest, doors).await;
        }
        self.tasks.abort_all();
        self.context.recorder.flush();
        tracing::info!("stopped");
        drop(lock(&self.context.instance).take());
    }
}

/// What a person should know of the settings. A lock is told apart, for it ends when they are
/// mended.
fn report_settings(context: &Context) {
    let loaded = context.loaded();
    let (missing, others): (Vec<&Notice>, Vec<&Notice>) = loaded
        .notices
        .iter()
        .partition(|notice| matches!(notice, Notice::Missing { .. }));
    for notice in missing {
        tracing::warn!("{notice}");
    }
    let (locks, others): (Vec<&Notice>, Vec<&Notice>) = others
        .into_iter()
        .partition(|notice| matches!(notice, Notice::Locked { .. }));
    for (code, notices) in [("configuration", others), ("configuration_locked", locks)] {
        if !notices.is_empty() {
            let texts: Vec<String> = notices.into_iter().map(Notice::to_string).collect();
            context.notices.add(code, &texts.join(". "));
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
