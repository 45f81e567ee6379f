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
/// For a person who looks, an event is sent this often although nothing changed.
const QUIET_EVENT: Duration = Duration::from_secs(10);
/// The same where no person looks: a sign of life.
const UNSEEN_EVENT: Duration = Duration::from_secs(60);
/// A cooldown is shown in seconds.
const COUNTDOWN: Duration = Duration::from_secs(1);

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

/// The time until an event is due although nothing changed.
fn quiet(shown: &Snapshot, is_watched: bool) -> Duration {
    let by_viewer = match is_watched {
        true if shown.queue.running > 0 => RUNNING_EVENT,
        true => QUIET_EVENT,
        false => UNSEEN_EVENT,
    };
    time_left_changes(shown).map_or(by_viewer, |due| by_viewer.min(due))
}

/// The time until a cooldown or pause is shown with another time left, or ends.
fn time_left_changes(shown: &Snapshot) -> Option<Duration> {
    if shown.state == Face::Cooling {
        // Its end changes the state, and no other event reports that.
        let left = Duration::from_millis(shown.health.cooldown_ms.max(1));
        return Some(left.min(COUNTDOWN));
    }
    let left = shown.pause?.until_ms?.saturating_sub(shown.now_ms);
    // To the moment at which a whole minute less is left.
    Some(Duration::from_millis(left.saturating_sub(1) % 60_000 + 1))
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
        this.changes = Box::pin(next_change(
            changes,
            quiet(&snapshot, this.watcher.is_some()),
        ));
        this.pace.as_mut().reset(Instant::now() + BETWEEN_EVENTS);
        let snapshot = serde_json::to_string(&snapshot).unwrap_or_default();
        Poll::Ready(Some(Ok(Frame::data(
            format!("data: {snapshot}\n\n").into(),
        ))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::snapshot::Pause;

    fn snapshot(state: Face, left_ms: Option<u64>) -> Snapshot {
        Snapshot {
            state,
            now_ms: 1_000_000,
            pause: left_ms.map(|left| Pause {
                until_ms: Some(1_000_000 + left),
            }),
            ..Snapshot::default()
        }
    }

    #[test]
    fn an_idle_follower_gets_one_event_a_minute() {
        for state in [Face::Ready, Face::Down, Face::Busy] {
            assert_eq!(quiet(&snapshot(state, None), false), UNSEEN_EVENT);
        }
    }

    #[test]
    fn a_cooldown_counts_by_seconds_and_a_pause_by_minutes() {
        let mut cooling = snapshot(Face::Cooling, None);
        cooling.health.cooldown_ms = 2_500;
        assert_eq!(quiet(&cooling, false), COUNTDOWN);
        cooling.health.cooldown_ms = 300;
        assert_eq!(quiet(&cooling, false), Duration::from_millis(300));
        for (left, due) in [(61_000, 1_000), (60_000, 60_000), (900_000, 60_000)] {
            let paused = snapshot(Face::Paused, Some(left));
            assert_eq!(quiet(&paused, false), Duration::from_millis(due));
        }
        let paused = snapshot(Face::Paused, Some(900_000));
        assert_eq!(quiet(&paused, true), QUIET_EVENT);
    }

    #[test]
    fn only_a_viewer_gets_the_tokens_of_a_running_answer() {
        let mut running = snapshot(Face::Busy, None);
        running.queue.running = 1;
        assert_eq!(quiet(&running, true), RUNNING_EVENT);
        assert_eq!(quiet(&running, false), UNSEEN_EVENT);
    }
}
