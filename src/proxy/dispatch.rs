//! From the grant to the first bytes of the answer: window, plan, send, and one second try
//! where the upstream's own words teach something.
//!
//! Tried again are only three things, and never after a byte of an answer: a server that says it
//! is still loading, a chat it says is too long (once), and a kept connection that turned out to
//! be dead. Nothing else is: a generation is never repeated behind the client's back.

use std::borrow::Cow;
use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode};

use crate::clock::ms;
use crate::config::Settings;
use crate::http::security::headers::downward;
use crate::proxy::body::buffered::Hold;
use crate::refusal::{Clock, Cut, Outage, Refusal};
use crate::request::{Chat, Edit, OlderLimit};
use crate::scheduler::{Ending, Lease};
use crate::telemetry::live_stats::Phase;
use crate::telemetry::snapshot::ItemPlan;
use crate::upstream::handle::UpstreamHandle;
use crate::upstream::send::Outgoing;
use crate::upstream::{Kind, Overflow, WindowReading, runs_elsewhere};
use crate::window::{self, Fit, Ratio};

use super::fit::{self, Conditions, Counts};
use super::{Call, Disclosure, RequestGuard, UpstreamResponse};
use crate::proxy::response_head::{First, first_bytes};
use crate::proxy::timeouts::{Deadlines, Ended, Load};

/// The way from the grant to the answer.
pub(super) struct Dispatch {
    pub(super) call: Call,
    pub(super) chat: Chat,
    pub(super) guard: RequestGuard,
    counts: Counts,
    pub(super) settings: Arc<Settings>,
    pub(super) link: Arc<UpstreamHandle>,
    load: Load,
    wait_ms: u64,
}

/// What one try came to.
pub(super) enum Attempt {
    Answered(UpstreamResponse),
    TooLong(Overflow),
    StillLoading,
    Refused(Refusal, Ending),
}

/// Sends a chat that was granted and brings the first bytes of its answer.
pub(super) async fn dispatch(
    call: Call,
    chat: Chat,
    mut guard: RequestGuard,
    counts: Counts,
) -> Result<UpstreamResponse, Refusal> {
    let settings = call.context.settings();
    let Some(link) = call.context.link() else {
        let retry_in = call.context.cooldown_left();
        let refusal = Refusal::Unavailable {
            outage: Outage::NoneFound,
            retry_in,
        };
        guard.refuse(&refusal, Ending::Failed(Outage::NoneFound));
        return Err(refusal);
    };
    let wait_ms = guard.lease().map_or(0, |lease| ms(lease.grant().waited));
    if let Some(open) = &mut guard.open {
        open.wait_ms = Some(wait_ms);
    }
    let load = Load::NotSeen;
    let dispatch = Dispatch {
        call,
        chat,
        guard,
        counts,
        settings,
        link,
        load,
        wait_ms,
    };
    dispatch.run().await
}

impl Dispatch {
    async fn run(mut self) -> Result<UpstreamResponse, Refusal> {
        if let Some(refusal) = self.blocked() {
            self.guard.refuse(&refusal, Ending::Unsent);
            return Err(refusal);
        }
        let mut lesson = None;
        loop {
            let conditions = self.conditions().await?;
            let fitted = match lesson {
                None => {
                    let (settings, link) = (&self.settings, &self.link);
                    fit::fit(settings, link, &self.chat, &conditions, &mut self.counts).await
                }
                Some(lesson) => fit::fit_again(&self.chat, &conditions, lesson),
            };
            let fit = match fitted {
                Ok(fit) => fit,
                Err(overflow) => {
                    let refusal = fit::refusal_of(overflow);
                    self.guard.refuse(&refusal, Ending::Unsent);
                    return Err(refusal);
                }
            };
            let window = lesson.map_or(conditions.terms.window, |lesson| lesson.window);
            self.write_down(&fit, &conditions);
            match self.attempt(&fit, window).await {
                Attempt::Answered(answer) => return Ok(answer),
                Attempt::StillLoading => self.wait_for_load().await?,
                Attempt::TooLong(said) => {
                    if lesson.is_some() {
                        let refusal = self.too_long(said, &fit, window);
                        self.guard.refuse(&refusal, Ending::Answered);
                        return Err(refusal);
                    }
                    match said.window {
                        Some(tokens) => self.link.learn_window(self.model(), tokens),
                        // It may have loaded something else meanwhile: read anew.
                        None => self.link.forget_window(),
                    }
                    lesson = Some(self.learn(said, &fit, window).await);
                }
                Attempt::Refused(refusal, ending) => {
                    self.guard.refuse(&refusal, ending);
                    return Err(refusal);
                }
            }
        }
    }

    fn blocked(&self) -> Option<Refusal> {
        let model = self.chat.model()?;
        // A server that has not proved what it is may well be an Ollama.
        let may_forward = match self.link.upstream.known_kind() {
            Some(Kind::Ollama) | None => true,
            Some(Kind::LlamaCpp | Kind::LmStudio | Kind::Plain) => false,
        };
        (self.settings.access.block_remote_models && may_forward && runs_elsewhere(model)).then(
            || Refusal::RemoteModelBlocked {
                model: model.to_owned(),
            },
        )
    }

    pub(super) fn model(&self) -> Option<&str> {
        self.chat
            .model()
            .or(self.settings.upstream.model.as_deref())
    }

    /// What the fit goes by. On Ollama a model that is not loaded is loaded first, since it would
    /// cut the chat silently.
    async fn conditions(&mut self) -> Result<Conditions, Refusal> {
        let mut window = fit::window_for(&self.settings, &self.link, &self.chat).await;
        if window.is_none() || window == fit::assumed(&self.settings) {
            let kind = self.link.upstream.known_kind();
            let not_loaded = self.link.last_window() == Some(WindowReading::NotLoaded);
            match kind {
                Some(Kind::Ollama) if not_loaded => {
                    self.preload().await?;
                    window = fit::window_for(&self.settings, &self.link, &self.chat).await;
                }
                Some(Kind::LmStudio) if not_loaded => self.load = Load::UnderWay,
                Some(Kind::Ollama | Kind::LmStudio | Kind::LlamaCpp | Kind::Plain) | None => {}
            }
        }
        let grant = self
            .guard
            .lease()
            .map(|lease| lease.grant())
            .unwrap_or_default();
        let kind = self.link.upstream.known_kind();
        let (context, settings) = (&self.call.context, &self.settings);
        Ok(Conditions::of(
            context, settings, &self.chat, window, kind, grant,
        ))
    }

    async fn attempt(&mut self, fit: &Fit, window: Option<u64>) -> Attempt {
        let told = Disclosure::of(fit, self.wait_ms, window);
        let outgoing = self.outgoing(fit);
        self.guard.enter(match self.load {
            Load::UnderWay => Phase::Loading,
            Load::NotSeen => Phase::Prompt,
        });
        self.sent();
        let link = Arc::clone(&self.link);
        let mut deadlines = self.deadlines(&link);
        let streams = self.chat.is_stream();
        let first = async {
            let sent = link.sender.send(&outgoing).await?;
            first_bytes(
                sent,
                if streams {
                    Hold::FirstBytes
                } else {
                    Hold::Whole(self.hold_bytes())
                },
            )
            .await
        };
        let first = match deadlines.wait(first).await {
            Ok(Ok(first)) => first,
            Ok(Err(outage)) => return self.broke(outage).await,
            Err(Ended::Cut(how)) => {
                return Attempt::Refused(Refusal::Interrupted { how }, Ending::Abandoned);
            }
            // A load that takes too long is no failure of the server's, but it must be let go of.
            Err(Ended::Over(refusal @ Refusal::Loading { .. })) => {
                return Attempt::Refused(refusal, Ending::Abandoned);
            }
            Err(Ended::Over(refusal)) => return Attempt::Refused(refusal, Ending::TimedOut),
        };
        if matches!(self.load, Load::UnderWay) {
            self.call.context.memory.model_loaded();
        }
        self.load = Load::NotSeen;
        match first {
            First::Refused {
                status,
                headers,
                body,
            } => self.judge_error(status, &headers, &body),
            First::Stream {
                head,
                bytes,
                rest,
                connection,
            } => self.stream(head, bytes, rest, connection, &told),
            First::Whole { status, head, held } => self.whole(status, head, held, &told),
        }
    }

    fn outgoing(&self, fit: &Fit) -> Outgoing {
        let edit = Edit {
            keep: fit.keep.clone(),
            limit: fit.grant.write,
            older_limit: match self.link.upstream.known_kind() {
                Some(Kind::Ollama | Kind::LmStudio) => OlderLimit::AlsoOlder,
                Some(Kind::LlamaCpp | Kind::Plain) | None => OlderLimit::AsSent,
            },
            model: self.settings.upstream.model.clone(),
        };
        Outgoing {
            method: Method::POST,
            path: self.call.path.to_owned(),
            headers: self.call.upward.clone(),
            body: self.chat.edited(&edit),
        }
    }

    fn deadlines<'a>(&self, link: &'a UpstreamHandle) -> Deadlines<'a>
    where
        Self: 'a,
    {
        let timeouts = &self.settings.timeouts;
        let (clock, limit) = if self.chat.is_stream() {
            (Clock::FirstByte, timeouts.first_byte)
        } else {
            (Clock::Total, timeouts.total)
        };
        Deadlines {
            link,
            model: self.chat.model().map(str::to_owned),
            clock,
            limit,
            loading: timeouts.loading,
            load: self.load,
            stop: self.stop_signal(),
        }
    }

    async fn wait_for_load(&mut self) -> Result<(), Refusal> {
        self.guard.enter(Phase::Loading);
        let Some(lease) = self.guard.take_lease() else {
            return Err(Refusal::Internal);
        };
        match Lease::wait_until_ready(lease).await {
            Ok(lease) => {
                self.guard.hold(lease);
                Ok(())
            }
            Err(refusal) => {
                self.guard.refuse(&refusal, Ending::Unsent);
                Err(refusal)
            }
        }
    }

    async fn learn(&self, said: Overflow, fit: &Fit, window: Option<u64>) -> window::Lesson {
        let said_window = match said.window {
            Some(window) => Some(window),
            None => fit::window_for(&self.settings, &self.link, &self.chat).await,
        };
        let sent = window::Sent {
            chat: &self.chat,
            keep: fit.keep.as_deref(),
            ratio: Ratio::ONE,
            window,
        };
        window::relearn(sent, said.prompt, said_window)
    }

    fn too_long(&self, said: Overflow, fit: &Fit, window: Option<u64>) -> Refusal {
        Refusal::ContextOverflow {
            needed: said.prompt.unwrap_or(fit.prompt_after),
            reserved: self.settings.window.margin,
            window: said.window.or(window).unwrap_or(fit.prompt_after),
        }
    }

    pub(super) fn head(&self, from: &HeaderMap, told: &Disclosure) -> HeaderMap {
        let mut head = downward(StatusCode::OK, from);
        told.write(&mut head);
        head
    }

    fn write_down(&mut self, fit: &Fit, conditions: &Conditions) {
        self.guard.expect(fit.prompt_after, fit.certainty);
        let Some(open) = &mut self.guard.open else {
            return;
        };
        open.budget = conditions.terms.window.map(|_| fit.budget);
        open.prompt_before = Some(fit.prompt_before);
        open.prompt_after = Some(fit.prompt_after);
        open.dropped = fit.dropped as u64;
        open.granted = fit.grant.write;
        open.grant_reason = fit.grant.reason.map(|reason| Cow::Borrowed(reason.word()));
        open.rung = Some(conditions.terms.plan.rung.number());
        let plan = ItemPlan {
            prompt_before: open.prompt_before,
            prompt_after: open.prompt_after,
            dropped: open.dropped,
            asked: open.asked,
            granted: open.granted,
            grant_reason: open.grant_reason.clone(),
        };
        self.guard.planned(plan);
    }

    pub(super) fn next_cooldown(&self) -> std::time::Duration {
        self.call.context.next_cooldown()
    }

    pub(super) fn sent(&mut self) {
        if let Some(lease) = self.guard.lease() {
            lease.sent();
        }
    }

    fn hold_bytes(&self) -> usize {
        usize::try_from(self.settings.relay.hold_bytes).unwrap_or(usize::MAX)
    }

    pub(super) fn stop_signal(&self) -> tokio::sync::watch::Receiver<Option<Cut>> {
        self.guard.stop_signal()
    }
}
