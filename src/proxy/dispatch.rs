//! From the grant to the first bytes of the answer: window, plan, send, and at most one retry.
//!
//! Only three things are sent again, and never after a byte of an answer: a request to a server
//! that is still loading, a chat that the server calls too long (once), and a request on a kept
//! connection that turned out to be dead. A generation is never repeated.

use std::borrow::Cow;
use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode};

use crate::clock::ms;
use crate::config::Settings;
use crate::degrade::Terms;
use crate::http::security::headers::downward;
use crate::proxy::body::buffered::Hold;
use crate::refusal::{Cut, Outage, Refusal};
use crate::request::{Chat, Edit};
use crate::scheduler::{Ending, Lease};
use crate::telemetry::live_stats::Phase;
use crate::telemetry::snapshot::ItemPlan;
use crate::upstream::handle::UpstreamHandle;
use crate::upstream::send::Outgoing;
use crate::upstream::{Kind, Overflow, WindowReading, runs_elsewhere};
use crate::window::{self, Fit, Ratio};

use super::fit::{self, Counts};
use super::{Call, RequestGuard, UpstreamResponse, disclosure};
use crate::proxy::response_head::{First, first_bytes};

/// Why waiting ended without an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    /// A person, or the shutdown, cancelled the request.
    Cut(Cut),
    /// A timeout elapsed.
    Over(Refusal),
}

/// A request from its grant to its answer.
pub(super) struct Dispatch {
    pub(super) call: Call,
    pub(super) chat: Chat,
    pub(super) guard: RequestGuard,
    counts: Counts,
    pub(super) settings: Arc<Settings>,
    pub(super) link: Arc<UpstreamHandle>,
    /// The model is known not to be loaded: this request loads it.
    pub(super) is_loading: bool,
    wait_ms: u64,
}

/// The outcome of one attempt.
pub(super) enum Attempt {
    Answered(UpstreamResponse),
    TooLong(Overflow),
    StillLoading,
    Refused(Refusal, Ending),
}

/// Sends a granted chat and returns the first bytes of its answer.
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
    let dispatch = Dispatch {
        call,
        chat,
        guard,
        counts,
        settings,
        link,
        is_loading: false,
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
            let terms = self.terms().await?;
            let (settings, chat) = (&self.settings, &self.chat);
            let fitted = match lesson {
                None => fit::fit(settings, &self.link, chat, terms, &mut self.counts).await,
                Some(lesson) => fit::fit_again(settings, chat, terms, lesson),
            };
            let fit = match fitted {
                Ok(fit) => fit,
                Err(overflow) => {
                    let refusal = fit::refusal_of(overflow);
                    self.guard.refuse(&refusal, Ending::Unsent);
                    return Err(refusal);
                }
            };
            let window = lesson.map_or(terms.window, |lesson| lesson.window);
            self.record(&fit, terms);
            match self.attempt(&fit, window).await {
                Attempt::Answered(answer) => return Ok(answer),
                Attempt::StillLoading => self.wait_for_load().await?,
                Attempt::TooLong(overflow) => {
                    if lesson.is_some() {
                        let refusal = self.too_long(overflow, &fit, window);
                        self.guard.refuse(&refusal, Ending::Answered);
                        return Err(refusal);
                    }
                    match overflow.window {
                        Some(tokens) => self.link.learn_window(self.model(), tokens),
                        // It may have loaded another model meanwhile: read it again.
                        None => self.link.forget_window(),
                    }
                    lesson = Some(self.learn(overflow, &fit, window).await);
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
        // A server that was not identified may be an Ollama server.
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

    /// The terms of the fit. On an Ollama server a model that is not loaded is loaded first, since
    /// the server would truncate the chat silently.
    async fn terms(&mut self) -> Result<Terms, Refusal> {
        let mut window = fit::window_for(&self.settings, &self.link, &self.chat).await;
        if window.is_none() || window == fit::assumed(&self.settings) {
            let kind = self.link.upstream.known_kind();
            let not_loaded = self.link.last_window() == Some(WindowReading::NotLoaded);
            match kind {
                Some(Kind::Ollama) if not_loaded => {
                    self.preload().await?;
                    window = fit::window_for(&self.settings, &self.link, &self.chat).await;
                }
                Some(Kind::LmStudio) if not_loaded => self.is_loading = true,
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
        Ok(fit::terms(
            context, settings, &self.chat, window, kind, grant,
        ))
    }

    async fn attempt(&mut self, fit: &Fit, window: Option<u64>) -> Attempt {
        let outgoing = self.outgoing(fit);
        self.guard.enter(if self.is_loading {
            Phase::Loading
        } else {
            Phase::Prompt
        });
        self.sent();
        let hold = if self.chat.is_stream() {
            Hold::FirstBytes
        } else {
            Hold::Whole(self.hold_bytes())
        };
        let sender = Arc::clone(&self.link.sender);
        let first = async { first_bytes(sender.send(&outgoing).await?, hold).await };
        let first = match self.wait(first).await {
            Ok(Ok(first)) => first,
            Ok(Err(outage)) => return self.broke(outage).await,
            Err(Ended::Cut(how)) => {
                return Attempt::Refused(Refusal::Interrupted { how }, Ending::Abandoned);
            }
            // A load that takes too long is not a failure, but the request is abandoned.
            Err(Ended::Over(refusal @ Refusal::Loading { .. })) => {
                return Attempt::Refused(refusal, Ending::Abandoned);
            }
            Err(Ended::Over(refusal)) => return Attempt::Refused(refusal, Ending::TimedOut),
        };
        if std::mem::take(&mut self.is_loading) {
            self.call.context.memory.model_loaded();
        }
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
            } => {
                let head = self.head(&head, fit, window);
                self.stream(head, bytes, rest, connection, disclosure::comment(fit))
            }
            First::Whole { status, head, held } => {
                let head = self.head(&head, fit, window);
                self.whole(status, head, held)
            }
        }
    }

    fn outgoing(&self, fit: &Fit) -> Outgoing {
        let edit = Edit {
            keep: fit.keep.clone(),
            limit: fit.grant.write,
            also_max_tokens: match self.link.upstream.known_kind() {
                Some(Kind::Ollama | Kind::LmStudio) => true,
                Some(Kind::LlamaCpp | Kind::Plain) | None => false,
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

    async fn learn(&self, overflow: Overflow, fit: &Fit, window: Option<u64>) -> window::Lesson {
        let reported = match overflow.window {
            Some(window) => Some(window),
            None => fit::window_for(&self.settings, &self.link, &self.chat).await,
        };
        let sent = window::Sent {
            chat: &self.chat,
            keep: fit.keep.as_deref(),
            ratio: Ratio::ONE,
            window,
        };
        window::relearn(sent, overflow.prompt, reported)
    }

    fn too_long(&self, overflow: Overflow, fit: &Fit, window: Option<u64>) -> Refusal {
        Refusal::ContextOverflow {
            needed: overflow.prompt.unwrap_or(fit.prompt_after),
            reserved: self.settings.limits.margin,
            window: overflow.window.or(window).unwrap_or(fit.prompt_after),
        }
    }

    fn head(&self, from: &HeaderMap, fit: &Fit, window: Option<u64>) -> HeaderMap {
        let mut head = downward(StatusCode::OK, from);
        disclosure::write(&mut head, fit, self.wait_ms, window);
        head
    }

    fn record(&mut self, fit: &Fit, terms: Terms) {
        self.guard.expect(fit.prompt_after, fit.certainty);
        let Some(open) = &mut self.guard.open else {
            return;
        };
        open.budget = terms.window.map(|_| fit.budget);
        open.prompt_before = Some(fit.prompt_before);
        open.prompt_after = Some(fit.prompt_after);
        open.dropped = fit.dropped as u64;
        open.granted = fit.grant.write;
        open.grant_reason = fit.grant.reason.map(|reason| Cow::Borrowed(reason.word()));
        open.rung = Some(terms.plan.rung.number());
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
        usize::try_from(self.settings.limits.hold_bytes).unwrap_or(usize::MAX)
    }

    pub(super) fn stop_signal(&self) -> tokio::sync::watch::Receiver<Option<Cut>> {
        self.guard.stop_signal()
    }
}
