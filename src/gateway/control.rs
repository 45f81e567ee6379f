//! The gateway's own paths: its state for those who look, control for who holds the token.
//!
//! No page reaches them ([`crate::admit::gate`]). Not here: what a pause or a cancellation does
//! ([`crate::scheduler`]).

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body::{Body, Frame};
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, Sleep};

use crate::admit::route::Own;
use crate::proxy::body::{ResponseBody, boxed, full};
use crate::refusal::{Part, Refusal};
use crate::scheduler::pause::{Pause, Running};
use crate::scheduler::queue::RequestId;
use crate::telemetry::metrics;
use crate::telemetry::snapshot::{Face, Snapshot};

use crate::monitor;

use super::service::{AdmittedRequest, Holder};
use super::{Gateway, Watcher, body};

/// Between two events: a panel needs no more than four pictures a second.
const BETWEEN_EVENTS: Duration = Duration::from_millis(250);
/// While an answer runs and a person looks its tokens are told this often: they change nothing
/// else.
const RUNNING_EVENT: Duration = Duration::from_millis(500);
/// An event is sent this often although nothing changed, so that ages and countdowns go on …
const QUIET_EVENT: Duration = Duration::from_secs(10);
/// … and this often where nothing counts down and nobody sees it.
const UNSEEN_EVENT: Duration = Duration::from_secs(60);

/// So many may follow the events at once, whoever they are: a panel, a terminal, some programs.
const FOR_ANYBODY: usize = 12;
/// And so many more who hold the control token: any program may take the others, and the tray and
/// whoever is at the scheduler must still see what goes on.
const FOR_HOLDERS: usize = 4;

/// What a pause is asked for with.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PauseWish {
    /// Unix milliseconds; `null`: until resumed.
    until_ms: Option<i64>,
    /// Stop running answers as well.
    stop: bool,
    /// Unload the model as well.
    unload: bool,
}

/// The places of those who follow the events.
#[derive(Debug)]
pub(crate) struct Streams {
    anybody: Arc<Semaphore>,
    holders: Arc<Semaphore>,
}

/// Answers one of the gateway's own paths.
pub(super) async fn own(
    gateway: Arc<Gateway>,
    passed: AdmittedRequest,
    own: Own,
) -> Result<Response<ResponseBody>, Refusal> {
    match own {
        Own::Alive => Ok(json(StatusCode::OK, &serde_json::json!({ "ok": true }))),
        Own::Status => {
            monitor::memory::read(&gateway);
            Ok(json(StatusCode::OK, &gateway.snapshot()))
        }
        Own::Events => {
            let watched = watched(passed.parts.uri.query().unwrap_or_default());
            let holder = Holder::of(&gateway, &passed.parts.headers);
            events(&gateway, watched, gateway.streams.place(holder)?)
        }
        Own::Metrics => {
            monitor::memory::read(&gateway);
            let text = metrics::render(&gateway.snapshot(), &gateway.recorder.counts());
            let mut response = Response::new(full(text.into()));
            let kind = HeaderValue::from_static(metrics::CONTENT_TYPE);
            response.headers_mut().insert(CONTENT_TYPE, kind);
            Ok(response)
        }
        Own::Pause => pause(&gateway, passed).await,
        Own::Resume => {
            let resumed = monitor::pause::resume(&gateway).await;
            let mut shown = serde_json::to_value(gateway.snapshot()).unwrap_or_default();
            shown["resumed"] = resumed.into();
            Ok(json(StatusCode::OK, &shown))
        }
        Own::Check => {
            gateway.check().await;
            Ok(json(StatusCode::OK, &gateway.snapshot()))
        }
        Own::Cancel { id } => cancel(&gateway, &id),
        Own::Unload => unload(&gateway, passed.id).await,
    }
}

/// No body is the wish for a pause until resumed.
fn wish(body: &[u8]) -> Result<PauseWish, serde_json::Error> {
    match body.trim_ascii_start().first() {
        None => Ok(PauseWish::default()),
        Some(b'{') => serde_json::from_slice(body),
        // A list would set the members by their place.
        Some(_) => Err(serde::de::Error::custom("it is not an object")),
    }
}

async fn pause(
    gateway: &Arc<Gateway>,
    passed: AdmittedRequest,
) -> Result<Response<ResponseBody>, Refusal> {
    let turn = crate::accept::turn::Turn::new();
    let received = body::receive(gateway, passed.body, &passed.settings, &turn).await?;
    let body = received.bytes;
    let wish = wish(&body).map_err(|error| Refusal::BadRequest {
        message: format!(
            "Send {{\"until_ms\": number or null, \"stop\": bool, \"unload\": bool}}: {error}"
        ),
        param: Some("until_ms"),
    })?;
    if wish
        .until_ms
        .is_some_and(|until| until <= crate::clock::unix_ms())
    {
        return Err(Refusal::BadRequest {
            message:
                "until_ms has passed already: give a time to come, or null to pause until resumed"
                    .to_owned(),
            param: Some("until_ms"),
        });
    }
    let running = if wish.stop {
        Running::Stop
    } else {
        Running::Finish
    };
    let until_ms = wish.until_ms;
    monitor::pause::pause(gateway, Pause { until_ms }, running).await;
    let unloaded = if wish.unload {
        Some(gateway.free().await)
    } else {
        None
    };
    let mut shown = serde_json::to_value(gateway.snapshot()).unwrap_or_default();
    if let Some(unloaded) = unloaded {
        shown["unloaded"] = match unloaded {
            Ok((models, freed)) => serde_json::json!({ "models": models, "freed": freed }),
            Err(error) => serde_json::json!({ "error": error.to_string() }),
        };
    }
    Ok(json(StatusCode::OK, &shown))
}

fn cancel(gateway: &Gateway, id: &str) -> Result<Response<ResponseBody>, Refusal> {
    if gateway.cancel(id).is_none() {
        return Err(Refusal::NotFound {
            path: format!("/oneslot/requests/{id}"),
        });
    }
    Ok(json(
        StatusCode::OK,
        &serde_json::json!({ "cancelled": id }),
    ))
}

async fn unload(gateway: &Arc<Gateway>, id: RequestId) -> Result<Response<ResponseBody>, Refusal> {
    match gateway.unload(id).await? {
        Ok((models, freed)) => Ok(json(
            StatusCode::OK,
            &serde_json::json!({ "unloaded": models, "freed": freed }),
        )),
        Err(error) => Err(Refusal::BadRequest {
            message: error.to_string(),
            param: None,
        }),
    }
}

/// Whether a person sees the events: only then is the server asked more often how it is. A program
/// that follows them for itself leaves it out.
fn watched(query: &str) -> bool {
    query.split('&').any(|member| member == "watched=yes")
}

impl Streams {
    /// All of them free.
    pub(crate) fn new() -> Self {
        Self {
            anybody: Arc::new(Semaphore::new(FOR_ANYBODY)),
            holders: Arc::new(Semaphore::new(FOR_HOLDERS)),
        }
    }

    /// A place; one of those that are kept for holders only when the others are taken.
    fn place(&self, holder: Holder) -> Result<OwnedSemaphorePermit, Refusal> {
        let (more, limit) = match holder {
            Holder::Token => (Some(&self.holders), FOR_ANYBODY + FOR_HOLDERS),
            Holder::Nothing => (None, FOR_ANYBODY),
        };
        let mut places = std::iter::once(&self.anybody).chain(more);
        let place = places.find_map(|places| Arc::clone(places).try_acquire_owned().ok());
        place.ok_or(Refusal::TooLarge {
            part: Part::Watchers,
            limit: limit as u64,
        })
    }
}

/// An event stream of snapshots: one at once, then one per change, coalesced. It has no end, so
/// there are only so many: those who watch must leave places for those who ask.
fn events(
    gateway: &Arc<Gateway>,
    watched: bool,
    place: OwnedSemaphorePermit,
) -> Result<Response<ResponseBody>, Refusal> {
    let mut changes = gateway.scheduler.changes();
    changes.mark_changed();
    let watcher = watched.then(|| gateway.watch());
    let body = Events {
        changes: Box::pin(next_change(changes, Duration::ZERO)),
        pace: Box::pin(tokio::time::sleep_until(Instant::now())),
        _place: place,
        watcher,
        gateway: Arc::clone(gateway),
    };
    let mut response = Response::new(boxed(body));
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream; charset=utf-8"),
    );
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

type NextChange = Pin<Box<dyn Future<Output = watch::Receiver<u64>> + Send>>;

struct Events {
    changes: NextChange,
    pace: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
    watcher: Option<Watcher>,
    gateway: Arc<Gateway>,
}

impl Events {
    /// When there is an event although nothing changed.
    fn quiet(&self, shown: &Snapshot) -> Duration {
        let counts_down = shown.state == Face::Cooling || shown.pause.is_some();
        match &self.watcher {
            Some(_) if shown.queue.running > 0 => RUNNING_EVENT,
            Some(_) => QUIET_EVENT,
            None if counts_down => QUIET_EVENT,
            None => UNSEEN_EVENT,
        }
    }
}

async fn next_change(mut changes: watch::Receiver<u64>, quiet: Duration) -> watch::Receiver<u64> {
    let _ = tokio::time::timeout(quiet, changes.changed()).await;
    changes.mark_unchanged();
    changes
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if this.pace.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        let Poll::Ready(changes) = this.changes.as_mut().poll(cx) else {
            return Poll::Pending;
        };
        // An event stream has no end of its own, and must not hold up the program's.
        if this
            .gateway
            .scheduler
            .read(|scheduler, _, _| scheduler.is_closing())
        {
            return Poll::Ready(None);
        }
        let snapshot = this.gateway.snapshot();
        this.changes = Box::pin(next_change(changes, this.quiet(&snapshot)));
        this.pace.as_mut().reset(Instant::now() + BETWEEN_EVENTS);
        let snapshot = serde_json::to_string(&snapshot).unwrap_or_default();
        Poll::Ready(Some(Ok(Frame::data(
            format!("data: {snapshot}\n\n").into(),
        ))))
    }
}

fn json<T: serde::Serialize>(status: StatusCode, value: &T) -> Response<ResponseBody> {
    let body = serde_json::to_vec(value).unwrap_or_default();
    let mut response = Response::new(full(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
