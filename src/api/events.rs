//! `GET /oneslot/events`: snapshots of the gateway's state as an event stream.
//!
//! One event at once, then one per change, coalesced. The stream has no end, so only so many
//! clients may follow it. Not here: what a snapshot holds ([`super::status`]).

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use http_body::{Body, Frame};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, Sleep};

use crate::context::{Context, Watcher};
use crate::http::limits::FOLLOWERS;
use crate::proxy::body::{ResponseBody, boxed};
use crate::refusal::{Part, Refusal};
use crate::telemetry::snapshot::{Face, Snapshot};

/// Between two events: a panel needs no more than four snapshots a second.
const BETWEEN_EVENTS: Duration = Duration::from_millis(250);
/// While an answer runs and a person looks its tokens are shown this often: they change nothing
/// else.
const RUNNING_EVENT: Duration = Duration::from_millis(500);
/// An event is sent this often although nothing changed, so that ages and countdowns go on …
const QUIET_EVENT: Duration = Duration::from_secs(10);
/// … and this often where nothing counts down and no person looks.
const UNSEEN_EVENT: Duration = Duration::from_secs(60);

/// Begins an event stream. With `watched=yes` in the query a person looks at it: only then is the
/// server probed more often.
///
/// # Errors
/// `TooLarge` where too many clients follow already.
pub(super) fn stream(
    context: &Arc<Context>,
    query: &str,
) -> Result<Response<ResponseBody>, Refusal> {
    let permit = Arc::clone(&context.followers)
        .try_acquire_owned()
        .map_err(|_| Refusal::TooLarge {
            part: Part::Watchers,
            limit: FOLLOWERS as u64,
        })?;
    let mut changes = context.scheduler.changes();
    changes.mark_changed();
    let is_watched = query.split('&').any(|member| member == "watched=yes");
    let body = Events {
        changes: Box::pin(next_change(changes, Duration::ZERO)),
        pace: Box::pin(tokio::time::sleep_until(Instant::now())),
        _permit: permit,
        watcher: is_watched.then(|| context.watch()),
        context: Arc::clone(context),
    };
    let mut response = Response::new(boxed(body));
    let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}

type NextChange = Pin<Box<dyn Future<Output = watch::Receiver<u64>> + Send>>;

struct Events {
    changes: NextChange,
    pace: Pin<Box<Sleep>>,
    _permit: OwnedSemaphorePermit,
    watcher: Option<Watcher>,
    context: Arc<Context>,
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
        cx: &mut task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if this.pace.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        let Poll::Ready(changes) = this.changes.as_mut().poll(cx) else {
            return Poll::Pending;
        };
        // An event stream has no end of its own, and must not delay the shutdown.
        if this
            .context
            .scheduler
            .read(|scheduler, _, _| scheduler.is_closing())
        {
            return Poll::Ready(None);
        }
        let snapshot = this.context.snapshot();
        this.changes = Box::pin(next_change(changes, this.quiet(&snapshot)));
        this.pace.as_mut().reset(Instant::now() + BETWEEN_EVENTS);
        let snapshot = serde_json::to_string(&snapshot).unwrap_or_default();
        Poll::Ready(Some(Ok(Frame::data(
            format!("data: {snapshot}\n\n").into(),
        ))))
    }
}
