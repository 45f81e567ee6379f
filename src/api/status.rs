//! The snapshot of the gateway's state that status, events, panel and tray show.
//!
//! Reads only. Not here: how it is sent ([`super::admin`], [`super::events`]).

use std::collections::HashMap;
use std::time::Duration;

use crate::config::{Context as WindowContext, Counting, Preset, Settings};
use crate::context::Context;
use crate::degrade::{self, Cause, Ladder, QueueExempt};
use crate::http::security::origin_policy::OriginPolicy;
use crate::memory::Level;
use crate::refusal::Outage;
use crate::scheduler::health::State;
use crate::scheduler::queue::{Delivery, RequestId, Ticket};
use crate::scheduler::slots::Occupant;
use crate::scheduler::{Now, Scheduler, Waiter};
use crate::telemetry::live_stats::Phase;
use crate::telemetry::message::Fact;
use crate::telemetry::snapshot::{self, Face, HealthState, Item, RefusedKind, Snapshot};
use crate::upstream::handle::UpstreamHandle;
use crate::upstream::{Kind, WindowReading, WindowSource};

/// Requests shown of those that ended.
const RECENT: usize = 50;
/// An answer without a byte for this long is shown as stalled.
const STALLED: Duration = Duration::from_secs(15);

impl Context {
    /// Everything that is shown, at this moment.
    pub fn snapshot(&self) -> Snapshot {
        let settings = self.settings();
        let link = self.link();
        let now_ms = u64::try_from(crate::clock::unix_ms()).unwrap_or(0);
        let mut shown = self.scheduler.read(|scheduler, waiters, now| Snapshot {
            queue: queue(scheduler, waiters, now),
            health: health(scheduler, waiters, now, now_ms),
            pause: scheduler.pause().map(|pause| snapshot::Pause {
                until_ms: pause.until_ms.and_then(|ms| u64::try_from(ms).ok()),
            }),
            state: face(scheduler, waiters, now),
            ..Snapshot::default()
        });
        shown.plan = self.shown_plan(&settings, link.as_deref());
        shown.seq = *self.scheduler.changes().borrow();
        shown.version = env!("CARGO_PKG_VERSION").to_owned();
        shown.now_ms = now_ms;
        shown.listen = self.addresses().iter().map(ToString::to_string).collect();
        shown.latency = self.recorder.latency(now_ms);
        shown.recent = self.recorder.recent(RECENT);
        shown.pressure = self.memory.shown();
        shown.refused_origins = self.blocked(&settings);
        shown.notices = self.notices.all();
        if let Some(link) = &link {
            let identity = link.upstream.known();
            shown.upstream = snapshot::Upstream {
                base_url: Some(link.upstream.root().to_string()),
                kind: identity.as_ref().map(|identity| identity.kind.to_string()),
                model: identity.and_then(|identity| identity.models.into_iter().next()),
                process: self.process.shown(),
                last_death: self.process.last_death(),
                wants_key: self
                    .scheduler
                    .read(|scheduler, _, _| scheduler.health().wants_key()),
            };
            shown.window = window(
                link.learned_window(),
                link.last_window(),
                link.upstream.known_kind(),
                &settings,
            );
        }
        shown
    }

    /// Origins and hosts that were refused and would be again: those allowed since are not news.
    fn blocked(&self, settings: &Settings) -> Vec<snapshot::RefusedOrigin> {
        let policy = OriginPolicy {
            allowed_hosts: &settings.access.allowed_hosts,
            allowed_origins: &settings.access.allowed_origins,
        };
        let mut blocked = self.blocked_origins.list();
        blocked.retain(|one| match one.kind {
            RefusedKind::Origin => !policy.allows_origin(&one.value),
            RefusedKind::Host => !policy.allows_host(&one.value),
        });
        blocked
    }

    /// What a request that came now would be allowed.
    fn shown_plan(&self, settings: &Settings, link: Option<&UpstreamHandle>) -> snapshot::Plan {
        let ladder = if settings.degrade.ladder {
            Ladder::On
        } else {
            Ladder::Off
        };
        let size = known_window(settings, link);
        self.scheduler.read(|scheduler, _, _| {
            let (pressure, _) = scheduler.pressure();
            let plan = degrade::plan(scheduler.queue().len(), pressure, QueueExempt::No, ladder);
            snapshot::Plan {
                rung: plan.rung.number(),
                ceiling: degrade::ceiling(plan.rung, settings.preset, size),
                reason: plan.cause.map(|why| match why {
                    Cause::Waiting => "waiting".into(),
                    Cause::Pressure => "pressure".into(),
                }),
            }
        })
    }
}

/// The window, if one is known.
fn known_window(settings: &Settings, link: Option<&UpstreamHandle>) -> Option<u64> {
    if let WindowContext::Tokens(tokens) = settings.window.context {
        return Some(tokens);
    }
    let link = link?;
    match (link.learned_window(), link.last_window()) {
        (Some(tokens), _) | (None, Some(WindowReading::Loaded { tokens, .. })) => Some(tokens),
        (None, Some(WindowReading::NotLoaded | WindowReading::Unknown) | None) => None,
    }
}

fn queue(scheduler: &Scheduler, waiters: &HashMap<RequestId, Waiter>, now: Now) -> snapshot::Queue {
    let mut items = Vec::new();
    for occupant in scheduler.slots().iter() {
        match occupant {
            Occupant::Checking { ticket } | Occupant::Running { ticket, .. } => {
                items.push(item(ticket, 0, waiters, now));
            }
            Occupant::Settling { ticket, .. } => items.push(Item {
                id: ticket.id.to_string(),
                app: Some(ticket.app.to_string()),
                phase: snapshot::Phase::Settling,
                age_ms: crate::clock::ms(now.at.saturating_sub(ticket.arrived)),
                stream: ticket.delivery == Delivery::Stream,
                ..Item::default()
            }),
        }
    }
    for (place, ticket) in scheduler.queue().iter().enumerate() {
        items.push(item(ticket, place as u64 + 1, waiters, now));
    }
    let checking = usize::from(scheduler.slots().checking().is_some());
    snapshot::Queue {
        running: scheduler.slots().running() as u64,
        waiting: (scheduler.queue().len() + checking) as u64,
        max_waiting: scheduler.rules().max_waiting as u64,
        items,
    }
}

fn item(ticket: &Ticket, position: u64, waiters: &HashMap<RequestId, Waiter>, now: Now) -> Item {
    let stats = waiters.get(&ticket.id).map(|waiter| &waiter.stats);
    let phase = match stats.map(|stats| stats.phase()) {
        Some(Phase::Loading) => snapshot::Phase::Loading,
        Some(Phase::Prompt) => snapshot::Phase::Prompt,
        Some(Phase::Answering) => snapshot::Phase::Answer,
        Some(Phase::Waiting | Phase::Checking) | None => snapshot::Phase::Waiting,
    };
    let tokens = stats
        .map(|stats| stats.chunks())
        .filter(|chunks| *chunks > 0);
    let rate = stats.and_then(|stats| stats.rate());
    Item {
        id: ticket.id.to_string(),
        app: stats.map(|stats| stats.app.clone()),
        position,
        phase,
        age_ms: crate::clock::ms(now.at.saturating_sub(ticket.arrived)),
        model: stats.and_then(|stats| stats.model.clone()),
        stream: stats.is_some_and(|stats| stats.stream),
        tokens,
        tokens_per_s: rate,
        plan: stats.and_then(|stats| stats.plan()),
    }
}

fn health(
    scheduler: &Scheduler,
    waiters: &HashMap<RequestId, Waiter>,
    now: Now,
    now_ms: u64,
) -> snapshot::Health {
    let health = scheduler.health();
    let state = match health.state() {
        State::Unknown => HealthState::Unknown,
        State::Ready if is_stalled(waiters, now) => HealthState::Stalled,
        State::Ready => HealthState::Ready,
        State::Loading { .. } => HealthState::Loading,
        State::Down { .. } => HealthState::Down,
    };
    let last_ok_ms = health
        .evidence()
        .map(|at| now_ms.saturating_sub(crate::clock::ms(now.at.saturating_sub(at))));
    snapshot::Health {
        state,
        consecutive_failures: u64::from(health.consecutive_failures()),
        last_error: health
            .last_error()
            .map(|outage| Fact::from(outage).message()),
        cooldown_ms: crate::clock::ms(health.cooldown_left(now.at)),
        last_ok_ms,
    }
}

fn is_stalled(waiters: &HashMap<RequestId, Waiter>, now: Now) -> bool {
    waiters
        .values()
        .filter_map(|waiter| waiter.stats.last_byte())
        .any(|at| now.at.saturating_sub(at) >= STALLED)
}

fn face(scheduler: &Scheduler, waiters: &HashMap<RequestId, Waiter>, now: Now) -> Face {
    if scheduler.pause().is_some() {
        return Face::Paused;
    }
    match scheduler.health().state() {
        State::Unknown => return Face::Starting,
        State::Loading { .. } => return Face::Loading,
        State::Down {
            outage: Outage::NoneFound,
            ..
        } => return Face::NoServer,
        State::Down { until, .. } if until > now.at => return Face::Cooling,
        State::Down { .. } => return Face::Down,
        State::Ready => {}
    }
    let loads = waiters
        .values()
        .any(|waiter| waiter.stats.phase() == Phase::Loading);
    let waiting = !scheduler.queue().is_empty();
    if loads {
        Face::Loading
    } else if scheduler.pressure().0 > Level::Normal {
        Face::Degraded
    } else if waiting {
        Face::Waiting
    } else if scheduler.slots().iter().next().is_some() {
        Face::Busy
    } else {
        Face::Ready
    }
}

fn window(
    learned: Option<u64>,
    reading: Option<WindowReading>,
    kind: Option<Kind>,
    settings: &Settings,
) -> snapshot::Window {
    let exact = kind == Some(Kind::LlamaCpp) && settings.preset == Preset::Balanced;
    let counting = match settings.window.counting {
        Counting::Auto if exact => "exact",
        Counting::Scalar => "scalar",
        Counting::Auto | Counting::Bytes => "bytes",
    };
    let reading = match learned {
        Some(tokens) => Some(WindowReading::Loaded {
            tokens,
            source: WindowSource::Overflow,
        }),
        None => reading,
    };
    let (size, source) = match (settings.window.context, reading) {
        (WindowContext::Tokens(tokens), _) => (tokens, "config"),
        (
            _,
            Some(WindowReading::Loaded {
                tokens,
                source: WindowSource::Overflow,
            }),
        ) => (tokens, "learned"),
        (_, Some(WindowReading::Loaded { tokens, .. })) => (tokens, "loaded"),
        (_, Some(WindowReading::NotLoaded | WindowReading::Unknown) | None) => {
            (settings.window.fallback, "assumed")
        }
    };
    snapshot::Window {
        size: Some(size),
        source: Some(source.to_owned()),
        counting: Some(counting.to_owned()),
    }
}
