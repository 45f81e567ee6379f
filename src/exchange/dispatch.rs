//! From the grant to the first bytes of the answer: window, plan, send, and one second try
//! where the upstream's own words teach something.
//!
//! Tried again are only three things, and never after a byte of an answer: a server that says it
//! is still loading, a chat it says is too long (once), and a kept connection that turned out to
//! be dead. Nothing else is: a generation is never repeated behind the client's back.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::admit::headers::downward;
use crate::chat::{Chat, Edit, OlderLimit};
use crate::config::Settings;
use crate::desk::{Ending, Lease};
use crate::gateway::link::Link;
use crate::record::meter::Phase;
use crate::refusal::{Clock, Cut, Outage, Refusal};
use crate::relay::observe::{StreamEnd, StreamObserver, WholeEnd, observe_whole};
use crate::relay::stream::{Parts, StreamRelay};
use crate::relay::whole::{Held, Hold, WholeBody, hold};
use crate::upstream::send::{Connection, Outgoing, Sent};
use crate::upstream::{
    Kind, Overflow, Preload, PreloadError, WindowReading, error_of, overflow, runs_elsewhere,
};
use crate::window::{self, Fit, Ratio};

use super::account::ending_of;
use super::fit::{self, Conditions, Counts};
use super::patience::{Ended, Load, Patience};
use super::{Account, Answer, Call, Told, ms};

/// An upstream's error is read this far.
const ERROR_LIMIT: usize = 64 * 1024;

/// The way from the grant to the answer.
struct Dispatch {
    call: Call,
    chat: Chat,
    account: Account,
    counts: Counts,
    settings: Arc<Settings>,
    link: Arc<Link>,
    load: Load,
    wait_ms: u64,
}

/// What one try came to.
enum Try {
    Answered(Answer),
    TooLong(Overflow),
    StillLoading,
    Refused(Refusal, Ending),
}

/// Sends a chat that was granted and brings the first bytes of its answer.
pub(super) async fn dispatch(
    call: Call,
    chat: Chat,
    mut account: Account,
    counts: Counts,
) -> Result<Answer, Refusal> {
    let settings = call.gateway.settings();
    let Some(link) = call.gateway.link() else {
        let retry_in = call.gateway.cooldown_left();
        let refusal = Refusal::Unavailable {
            outage: Outage::NoneFound,
            retry_in,
        };
        account.refuse(&refusal, Ending::Failed(Outage::NoneFound));
        return Err(refusal);
    };
    let wait_ms = account.lease().map_or(0, |lease| ms(lease.grant().waited));
    if let Some(open) = &mut account.open {
        open.wait_ms = Some(wait_ms);
    }
    let load = Load::NotSeen;
    let dispatch = Dispatch {
        call,
        chat,
        account,
        counts,
        settings,
        link,
        load,
        wait_ms,
    };
    dispatch.run().await
}

impl Dispatch {
    async fn run(mut self) -> Result<Answer, Refusal> {
        if let Some(refusal) = self.blocked() {
            self.account.refuse(&refusal, Ending::Unsent);
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
                    self.account.refuse(&refusal, Ending::Unsent);
                    return Err(refusal);
                }
            };
            let window = lesson.map_or(conditions.terms.window, |lesson| lesson.window);
            self.write_down(&fit, &conditions);
            match self.attempt(&fit, window).await {
                Try::Answered(answer) => return Ok(answer),
                Try::StillLoading => self.wait_for_load().await?,
                Try::TooLong(said) => {
                    if lesson.is_some() {
                        let refusal = self.too_long(said, &fit, window);
                        self.account.refuse(&refusal, Ending::Answered);
                        return Err(refusal);
                    }
                    match said.window {
                        Some(tokens) => self.link.learn_window(self.model(), tokens),
                        // It may have loaded something else meanwhile: read anew.
                        None => self.link.forget_window(),
                    }
                    lesson = Some(self.learn(said, &fit, window).await);
                }
                Try::Refused(refusal, ending) => {
                    self.account.refuse(&refusal, ending);
                    return Err(refusal);
                }
            }
        }
    }

    fn blocked(&self) -> Option<Refusal> {
        let model = self.chat.model()?;
        (self.settings.access.block_remote_models
            && self.link.upstream.known_kind() == Some(Kind::Ollama)
            && runs_elsewhere(model))
        .then(|| Refusal::RemoteModelBlocked {
            model: model.to_owned(),
        })
    }

    fn model(&self) -> Option<&str> {
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
            .account
            .lease()
            .map(|lease| lease.grant())
            .unwrap_or_default();
        let kind = self.link.upstream.known_kind();
        let (gateway, settings) = (&self.call.gateway, &self.settings);
        Ok(Conditions::of(
            gateway, settings, &self.chat, window, kind, grant,
        ))
    }

    async fn preload(&mut self) -> Result<(), Refusal> {
        #[derive(Deserialize)]
        struct Own<'a> {
            #[serde(borrow, default)]
            options: Option<&'a RawValue>,
            #[serde(borrow, default)]
            keep_alive: Option<&'a RawValue>,
        }
        let Some(model) = self.model().map(str::to_owned) else {
            return Ok(());
        };
        let raw = self.chat.raw().clone();
        let own = serde_json::from_slice(&raw).unwrap_or(Own {
            options: None,
            keep_alive: None,
        });
        let request = Preload {
            model: &model,
            options: own.options,
            keep_alive: own.keep_alive,
        };
        self.account.enter(Phase::Loading);
        let budget = self.settings.timeouts.loading;
        let mut stop = self.stop_signal();
        self.sent();
        let loaded = tokio::select! {
            biased;
            cut = stop.wait_for(Option::is_some) => {
                let how = cut.ok().and_then(|cut| *cut).unwrap_or(Cut::Cancelled);
                let refusal = Refusal::Interrupted { how };
                self.account.refuse(&refusal, Ending::Abandoned);
                return Err(refusal);
            }
            loaded = self.link.upstream.preload(request, budget) => loaded,
        };
        let (refusal, ending) = match loaded {
            Ok(()) | Err(PreloadError::NotOllama | PreloadError::Elsewhere) => {
                if let Some(lease) = self.account.lease() {
                    lease.alive();
                    lease.unsent();
                }
                self.call.gateway.model_loaded();
                return Ok(());
            }
            Err(PreloadError::Budget(waited)) => (Refusal::Loading { waited }, Ending::Abandoned),
            Err(PreloadError::Reach(outage)) => {
                let retry_in = self.settings.health.cooldown;
                (
                    Refusal::Unavailable { outage, retry_in },
                    Ending::Died(outage),
                )
            }
            Err(PreloadError::Answer(error)) => {
                let ending = if error.status.is_server_error() {
                    Ending::Failed(Outage::ServerError)
                } else {
                    Ending::Answered
                };
                (Refusal::Upstream(*error), ending)
            }
        };
        self.account.refuse(&refusal, ending);
        Err(refusal)
    }

    async fn attempt(&mut self, fit: &Fit, window: Option<u64>) -> Try {
        let told = Told::of(fit, self.wait_ms, window);
        let outgoing = self.outgoing(fit);
        self.account.enter(match self.load {
            Load::UnderWay => Phase::Loading,
            Load::NotSeen => Phase::Prompt,
        });
        self.sent();
        let link = Arc::clone(&self.link);
        let mut patience = self.patience(&link);
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
        let first = match patience.wait(first).await {
            Ok(Ok(first)) => first,
            Ok(Err(outage)) => return self.broke(outage).await,
            Err(Ended::Cut(how)) => {
                return Try::Refused(Refusal::Interrupted { how }, Ending::Abandoned);
            }
            Err(Ended::Over(refusal)) => return Try::Refused(refusal, Ending::TimedOut),
        };
        if matches!(self.load, Load::UnderWay) {
            self.call.gateway.model_loaded();
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

    fn patience<'a>(&self, link: &'a Link) -> Patience<'a>
    where
        Self: 'a,
    {
        let timeouts = &self.settings.timeouts;
        let (clock, limit) = if self.chat.is_stream() {
            (Clock::FirstByte, timeouts.first_byte)
        } else {
            (Clock::Total, timeouts.total)
        };
        Patience {
            link,
            model: self.chat.model().map(str::to_owned),
            clock,
            limit,
            loading: timeouts.loading,
            load: self.load,
            stop: self.stop_signal(),
        }
    }

    fn stream(
        &mut self,
        head: HeaderMap,
        first: Bytes,
        rest: Incoming,
        connection: Connection,
        told: &Told,
    ) -> Try {
        let mut observer = StreamObserver::default();
        observer.feed(&first);
        if let StreamEnd::Error(error) = observer.verdict()
            && observer.observed().content_chunks == 0
            && let Some(said) = overflow(StatusCode::BAD_REQUEST, error.message.as_bytes())
        {
            let prompt = said.prompt.or(error.prompt_tokens);
            let window = said.window.or(error.window);
            return Try::TooLong(Overflow {
                prompt,
                window,
                excess: said.excess,
            });
        }
        self.account.first_byte();
        self.account.answered(observer.observed().content_chunks);
        let head = self.head(&head, told);
        let stop = self.stop_signal();
        let link = Arc::clone(&self.link);
        let model = self.chat.model().map(str::to_owned);
        let parts = Parts {
            first,
            observer,
            rest,
            connection,
            sender: Arc::clone(&self.link.sender),
            account: self.account.hand_over(),
            stop: Box::pin(cut(stop)),
            stall: self.settings.timeouts.stall,
            progress: Arc::new(move || {
                let (link, model) = (Arc::clone(&link), model.clone());
                Box::pin(async move {
                    let activity = link.upstream.activity(model.as_deref()).await;
                    activity.map(|activity| activity.progress)
                })
            }),
        };
        let relay = Box::new(StreamRelay::new(parts));
        Try::Answered(Answer::Stream {
            head,
            relay,
            remark: told.remark(),
        })
    }

    fn whole(&mut self, status: StatusCode, head: HeaderMap, held: Held, told: &Told) -> Try {
        self.account.first_byte();
        let head = self.head(&head, told);
        match held {
            Held::Whole { bytes, connection } => {
                let (end, observed) = observe_whole(&bytes);
                match end {
                    WholeEnd::Complete => {
                        self.link.sender.give_back(connection);
                        self.account.complete(&observed);
                        let body = WholeBody::ready(bytes);
                        Try::Answered(Answer::Whole { head, status, body })
                    }
                    WholeEnd::Error(error) => {
                        let said = overflow(StatusCode::BAD_REQUEST, &bytes);
                        match said {
                            Some(said) => Try::TooLong(said),
                            None => {
                                let upstream = error.to_upstream_error();
                                let kind = self.link.upstream.known_kind();
                                let ending = ending_of(kind, upstream.status, &bytes);
                                Try::Refused(Refusal::Upstream(upstream), ending)
                            }
                        }
                    }
                    WholeEnd::Garbled(_) => {
                        let error = error_of(status, &head, &bytes);
                        let ending = Ending::Failed(Outage::Garbled);
                        Try::Refused(Refusal::Upstream(error), ending)
                    }
                }
            }
            Held::Flowing {
                bytes,
                rest,
                connection,
            } => {
                let account = self.account.hand_over();
                let stop = Box::pin(cut(self.stop_signal()));
                let sender = Arc::clone(&self.link.sender);
                let body = WholeBody::flowing(bytes, rest, connection, sender, account, stop);
                Try::Answered(Answer::Whole { head, status, body })
            }
        }
    }

    fn judge_error(&mut self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Try {
        let kind = self.link.upstream.known_kind();
        if crate::upstream::says_loading(status, body) {
            return Try::StillLoading;
        }
        if let Some(said) = overflow(status, body) {
            return Try::TooLong(said);
        }
        let ending = ending_of(kind, status, body);
        Try::Refused(Refusal::Upstream(error_of(status, headers, body)), ending)
    }

    /// The connection was not made, or ended before the answer it owed.
    async fn broke(&self, outage: Outage) -> Try {
        let outage = self.call.gateway.explain(outage).await;
        let ending = match outage {
            Outage::Reset | Outage::Garbled | Outage::ProcessGone { .. } => Ending::Died(outage),
            Outage::NoneFound
            | Outage::Refused
            | Outage::ConnectTimeout
            | Outage::ProbeTimeout
            | Outage::ProbeFailed
            | Outage::WrongBaseUrl
            | Outage::Silent
            | Outage::ServerError => Ending::Failed(outage),
        };
        let retry_in = self.call.gateway.next_cooldown();
        Try::Refused(Refusal::Unavailable { outage, retry_in }, ending)
    }

    async fn wait_for_load(&mut self) -> Result<(), Refusal> {
        self.account.enter(Phase::Loading);
        let Some(lease) = self.account.take_lease() else {
            return Err(Refusal::Internal);
        };
        match Lease::wait_until_ready(lease).await {
            Ok(lease) => {
                self.account.hold(lease);
                Ok(())
            }
            Err(refusal) => {
                self.account.refuse(&refusal, Ending::Unsent);
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

    fn head(&self, from: &HeaderMap, told: &Told) -> HeaderMap {
        let mut head = downward(StatusCode::OK, from);
        told.write(&mut head);
        head
    }

    fn write_down(&mut self, fit: &Fit, conditions: &Conditions) {
        self.account.expect(fit.prompt_after, fit.certainty);
        let Some(open) = &mut self.account.open else {
            return;
        };
        open.budget = conditions.terms.window.map(|_| fit.budget);
        open.prompt_before = Some(fit.prompt_before);
        open.prompt_after = Some(fit.prompt_after);
        open.dropped = fit.dropped as u64;
        open.granted = fit.grant.write;
        open.grant_reason = fit.grant.reason.map(|reason| Cow::Borrowed(reason.word()));
        open.rung = Some(conditions.terms.plan.rung.number());
    }

    fn sent(&mut self) {
        if let Some(lease) = self.account.lease() {
            lease.sent();
        }
    }

    fn hold_bytes(&self) -> usize {
        usize::try_from(self.settings.relay.hold_bytes).unwrap_or(usize::MAX)
    }

    fn stop_signal(&self) -> tokio::sync::watch::Receiver<Option<Cut>> {
        self.account.stop_signal()
    }
}

/// What came first.
enum First {
    Refused {
        status: StatusCode,
        headers: HeaderMap,
        body: Bytes,
    },
    Stream {
        head: HeaderMap,
        bytes: Bytes,
        rest: Incoming,
        connection: Connection,
    },
    Whole {
        status: StatusCode,
        head: HeaderMap,
        held: Held,
    },
}

/// Reads an answer as far as it must be known before any of it goes on.
async fn first_bytes(sent: Sent, wanted: Hold) -> Result<First, Outage> {
    let (response, connection) = sent.into_parts();
    let (parts, mut body) = response.into_parts();
    if !parts.status.is_success() {
        let body = error_body(&mut body).await;
        return Ok(First::Refused {
            status: parts.status,
            headers: parts.headers,
            body,
        });
    }
    let is_stream = parts
        .headers
        .get(CONTENT_TYPE)
        .map(HeaderValue::as_bytes)
        .is_some_and(|value| value.starts_with(b"text/event-stream"));
    if !is_stream {
        let limit = match wanted {
            Hold::FirstBytes => usize::MAX >> 40,
            Hold::Whole(limit) => limit,
        };
        let held = hold(body, connection, limit).await?;
        return Ok(First::Whole {
            status: parts.status,
            head: parts.headers,
            held,
        });
    }
    loop {
        match body.frame().await {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(bytes) if !bytes.is_empty() => {
                    let head = parts.headers;
                    return Ok(First::Stream {
                        head,
                        bytes,
                        rest: body,
                        connection,
                    });
                }
                Ok(_) | Err(_) => {}
            },
            Some(Err(error)) => return Err(crate::upstream::send::outage_of(&error)),
            // A stream without a byte is no answer.
            None => return Err(Outage::Reset),
        }
    }
}

/// As much of an error as anyone needs; a body that breaks is the error so far.
async fn error_body(body: &mut Incoming) -> Bytes {
    let mut read = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        if let Some(bytes) = frame.data_ref() {
            let room = ERROR_LIMIT.saturating_sub(read.len());
            read.extend_from_slice(&bytes[..bytes.len().min(room)]);
            if room <= bytes.len() {
                break;
            }
        }
    }
    read.into()
}

async fn cut(mut stop: tokio::sync::watch::Receiver<Option<Cut>>) -> Cut {
    let cut = stop.wait_for(Option::is_some).await.map(|cut| *cut);
    match cut {
        Ok(cut) => cut.unwrap_or(Cut::Cancelled),
        // Nobody is left who could stop it.
        Err(_) => std::future::pending().await,
    }
}
