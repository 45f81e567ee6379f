//! The own gateway's state, shown whenever it changes and whenever time alone changes its words.

use std::sync::Arc;
use std::time::Duration;

use oneslot::context::Context as Gateway;
use oneslot::telemetry::log::Log;
use oneslot::telemetry::snapshot::{Face, Snapshot};
use tokio::time::{Sleep, sleep};

use crate::tray_face::Whose;

use super::{Behind, GatewayBox, Shared, Shown};

/// Between two pictures, however much changes: a change is seen well within a second also on a
/// machine whose processors the model has.
const PACE: Duration = Duration::from_millis(250);
/// While an answer runs an open panel sees its tokens come: they change nothing else.
const RUNNING: Duration = Duration::from_millis(500);
/// An open panel gets a picture this often although nothing changed.
const QUIET: Duration = Duration::from_secs(10);
/// A countdown in the tooltip moves this often.
const COUNTDOWN: Duration = Duration::from_secs(1);

/// Shows until it is dropped.
pub(super) async fn show(shared: &Arc<Shared>, gateway: &Arc<Gateway>, log: Option<&Log>) {
    shared.put_behind(Behind::Own(Arc::new(GatewayBox(Arc::clone(gateway)))));
    let run = format!("own-{}", jiff::Timestamp::now().as_millisecond());
    let mut changes = gateway.scheduler.changes();
    let mut level = gateway.settings().log.level;
    // An open panel is heard of by a change that it makes to what is shown.
    let mut looks = shared.shown.subscribe();
    loop {
        changes.mark_unchanged();
        let snapshot = Arc::new(gateway.snapshot());
        // Runs from now on, not from the end of the pace.
        let timer = next_by_time(&snapshot, shared.is_seen()).map(sleep);
        shared.shown.send_replace(Shown {
            run: run.clone(),
            whose: Some(Whose::Own),
            snapshot,
            silent: None,
        });
        looks.mark_unchanged();
        let now = gateway.settings().log.level;
        if now != level {
            level = now;
            // A level that cannot be changed is no reason to stop serving.
            let _ = log.map(|log| log.relevel(level.name()));
        }
        sleep(PACE).await;
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            _ = looks.changed() => {}
            () = due(timer) => {}
        }
    }
}

/// When the words change although nothing happens.
fn next_by_time(snapshot: &Snapshot, is_seen: bool) -> Option<Duration> {
    let by_state = match (snapshot.state, snapshot.pause) {
        // Its end is a change of the state that nothing else tells of.
        (Face::Cooling, _) => {
            let left = Duration::from_millis(snapshot.health.cooldown_ms.max(1));
            Some(COUNTDOWN.min(left))
        }
        (_, Some(pause)) => pause.until_ms.map(|until| {
            let left = until.saturating_sub(snapshot.now_ms);
            // To the moment in which a whole minute less is left.
            Duration::from_millis((left.saturating_sub(1)) % 60_000 + 1)
        }),
        _ => None,
    };
    let by_panel = is_seen.then_some(if snapshot.queue.running > 0 {
        RUNNING
    } else {
        QUIET
    });
    by_state.into_iter().chain(by_panel).min()
}

async fn due(timer: Option<Sleep>) {
    match timer {
        Some(timer) => timer.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use oneslot::telemetry::snapshot::Pause;

    use super::*;

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
    fn nothing_wakes_an_idle_tray() {
        assert_eq!(next_by_time(&snapshot(Face::Ready, None), false), None);
        assert_eq!(next_by_time(&snapshot(Face::Down, None), false), None);
    }

    #[test]
    fn a_countdown_moves_by_seconds_and_a_pause_by_minutes() {
        let next = |state, left, seen| next_by_time(&snapshot(state, left), seen);
        let in_ms = |ms| Some(Duration::from_millis(ms));
        let cooling = |left| {
            let mut cooling = snapshot(Face::Cooling, None);
            cooling.health.cooldown_ms = left;
            next_by_time(&cooling, false)
        };
        assert_eq!(cooling(2_500), Some(COUNTDOWN));
        assert_eq!(cooling(300), in_ms(300), "its end is seen when it comes");
        assert_eq!(next(Face::Paused, Some(61_000), false), in_ms(1_000));
        assert_eq!(next(Face::Paused, Some(60_000), false), in_ms(60_000));
        assert_eq!(next(Face::Paused, Some(900_000), true), Some(QUIET));
    }

    #[test]
    fn tokens_that_come_are_seen_by_an_open_panel_alone() {
        let mut running = snapshot(Face::Busy, None);
        running.queue.running = 1;
        assert_eq!(next_by_time(&running, true), Some(RUNNING));
        assert_eq!(next_by_time(&running, false), None);
    }
}
