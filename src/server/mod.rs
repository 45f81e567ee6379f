//! The composition root: builds the parts, opens the listeners, starts the background tasks, and
//! shuts down.
//!
//! The port is bound before anything else, so that a second program fails at once and the first
//! printed line is true. Shutdown refuses queued requests, lets running answers finish within the
//! grace time, and then ends their streams with an error event.

mod error;
mod reload;
mod report;

use std::net::SocketAddr;
use std::sync::{Arc, Once};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::clock::Clock;
use crate::config::{BaseUrl, Loaded, Notice, Preset, Settings};
use crate::context::{Context, Parts, lock};
use crate::demo::Demo;
use crate::http::listeners::{self, Listeners, listen};
use crate::http::security::loop_detection::Hop;
use crate::monitor;
use crate::refusal::Cut;
use crate::scheduler::health::{Backoff, Stretch};
use crate::scheduler::pause::Pause;
use crate::scheduler::{Effect, Event, Rules, SchedulerHandle};
use crate::state::{Lock, StateDir};
use crate::telemetry::Recorder;
use crate::telemetry::log::Log;
use crate::telemetry::message::Fact;
use crate::upstream::Root;
use crate::upstream::current::CurrentUpstream;

pub use crate::http::listeners::ListenError;
pub use error::StartError;

/// Time for disk operations at the end of the program.
const LAST_WRITES: Duration = Duration::from_secs(1);

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
    pub log: Option<Arc<Log>>,
}

/// What is behind the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serve {
    /// A model server.
    Upstream,
    /// The built-in simulated model, which says so in every answer.
    Demo,
}

/// A gateway that serves.
pub struct Running {
    context: Arc<Context>,
    listeners: Arc<Listeners>,
    addresses: Vec<SocketAddr>,
    tasks: JoinSet<()>,
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
    let (bound, notices) = listen(&loaded.settings.listen, None).await?;
    let addresses: Vec<SocketAddr> = bound.iter().map(|bound| bound.address).collect();
    require_key_beyond_loopback(&addresses, &loaded.settings)?;
    let demo = match serve {
        Serve::Upstream => None,
        Serve::Demo => Some(start_demo(&mut loaded).await?),
    };
    refuse_own_address(&addresses, &loaded.settings).await?;
    let base_url = loaded.settings.upstream.base_url.clone();
    let demo_root = demo.as_ref().map(|_| base_url);
    let (context, effects) = build(loaded, state, lock, log, demo_root);
    for fact in notices {
        context.notices.add(fact);
    }
    report_settings(&context, &context.loaded());
    let settings = context.settings();
    context
        .upstream
        .relink(&settings)
        .map_err(StartError::Link)?;
    context.reads.forget();
    let listeners = Arc::new(Listeners::new(&context.limits));
    for bound in bound {
        listeners.open(&context, bound);
    }
    context.publish().map_err(StartError::State)?;
    let mut tasks = monitor::spawn(&context, effects);
    let retried = Arc::clone(&listeners);
    monitor::restarting(&mut tasks, &context, move |context| {
        listeners::retry_lost(context, Arc::clone(&retried))
    });
    let changed = Arc::clone(&listeners);
    monitor::restarting(&mut tasks, &context, move |context| {
        reload::watch(context, Arc::clone(&changed))
    });
    Ok(Running {
        context,
        listeners,
        addresses,
        tasks,
        _demo: demo,
    })
}

fn require_key_beyond_loopback(
    addresses: &[SocketAddr],
    settings: &Settings,
) -> Result<(), StartError> {
    let asks = settings.access.require_key && !settings.access.keys.is_empty();
    match addresses.iter().find(|address| !address.ip().is_loopback()) {
        Some(address) if !asks => Err(StartError::Exposed { address: *address }),
        Some(_) | None => Ok(()),
    }
}

async fn refuse_own_address(
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
    log: Option<Arc<Log>>,
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
        misses: match settings.preset {
            Preset::Balanced => 3,
            Preset::Strict => 1,
        },
        loading: settings.timeouts.loading,
        settle: settings.timeouts.total,
    }
}

/// Reports once, however often the gateway restarts, that the state directory was open to others.
fn report_permissions(state: &StateDir) {
    static TOLD: Once = Once::new();
    if let Some(mode) = state.was_open() {
        let (directory, mode) = (state.path().display(), format!("{mode:o}"));
        TOLD.call_once(|| {
            tracing::warn!(%directory, mode, "state directory was open to others; permissions tightened");
        });
    }
}

/// The pause that survived the restart.
fn kept_pause(state: &StateDir) -> Option<Pause> {
    state.pause().unwrap_or_else(|error| {
        tracing::warn!(%error, "stored pause cannot be read");
        None
    })
}

/// Ends the runtime that a gateway ran on. A disk that does not respond delays it by
/// [`LAST_WRITES`] at most.
pub fn end(runtime: Runtime) {
    runtime.shutdown_timeout(LAST_WRITES);
}

impl Running {
    /// The addresses served on; port 0 has become a real one.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    #[cfg(test)]
    pub(crate) fn listeners(&self) -> &Arc<Listeners> {
        &self.listeners
    }

    /// Waits for the first probe and reports in one line which model server is in use, or that
    /// there is none.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing.
    pub async fn first_report(&self) -> String {
        report::first_report(&self.context).await
    }

    /// What handlers and background tasks share.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Shuts down within the shutdown timeout: refuses new and queued requests, lets running
    /// answers finish, and then ends them with an error in their own form.
    pub async fn shutdown(mut self) {
        let limit = self.context.settings().limits.shutdown;
        let end = Instant::now() + limit;
        // The last part of the time is for the error events of streams that are cut.
        let grace = limit.saturating_sub(limit / 6);
        tracing::info!(limit_s = limit.as_secs_f64(), "stopping");
        self.context.scheduler.send(Event::ShutDown);
        let listeners = &self.listeners;
        listeners.close(&self.context);
        if timeout(grace, listeners.ended()).await.is_err() {
            self.context
                .scheduler
                .send(Event::CancelAll(Cut::ShuttingDown));
            let rest = end.saturating_duration_since(Instant::now());
            // A client that does not take the last event in time is cut off with the program.
            let _ = timeout(rest, listeners.ended()).await;
        }
        self.tasks.abort_all();
        self.context.recorder.flush();
        tracing::info!("stopped");
        drop(lock(&self.context.instance).take());
    }
}

/// Turns what the settings report into notices. A lock has a code of its own, since fixing the
/// file ends it.
fn report_settings(context: &Context, loaded: &Loaded) {
    let mut details = Vec::new();
    for notice in &loaded.notices {
        match notice {
            Notice::Missing { file, copy } => {
                let (file, copy) = (file.display(), copy.display());
                tracing::warn!(%file, %copy, "there is no settings file; serving defaults, the last good copy is kept");
            }
            Notice::Locked { faults } => {
                let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
                let faults = faults.join("; ");
                context.notices.add(Fact::ConfigurationLocked { faults });
            }
            other => details.push(other.to_string()),
        }
    }
    if details.is_empty() {
        context.notices.remove("configuration");
    } else {
        let details = details.join(". ");
        context.notices.add(Fact::Configuration { details });
    }
}

async fn start_demo(loaded: &mut Loaded) -> Result<Demo, StartError> {
    let demo = crate::demo::start().await.map_err(StartError::Demo)?;
    let root = Root::parse(&demo.base_url).map_err(StartError::DemoUrl)?;
    loaded.settings.upstream.base_url = BaseUrl::At(root);
    Ok(demo)
}

/// Differs from run to run in the upper half, so that ids do not repeat in a log.
fn first_id() -> u64 {
    random() << 32 | 1
}

/// A random number, or zero where the system has none: nothing secret depends on it.
fn random() -> u64 {
    let mut bytes = [0; 8];
    let _ = getrandom::fill(&mut bytes);
    u64::from_le_bytes(bytes)
}
