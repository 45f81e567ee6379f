//! What the gateway's thread and the others share.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use oneslot::config::Sources;
use oneslot::server::Serve;
use oneslot::state::StateDir;
use oneslot::telemetry::message::Fact;
use oneslot::telemetry::snapshot::{Face, Snapshot};
use tokio::sync::{Notify, watch};

use crate::startup_notices::Unlogged;
use crate::tray_face::Whose;

/// What is shown, at one moment.
#[derive(Debug, Clone, Default)]
pub struct Shown {
    /// Names the gateway's run: with another one the snapshot's numbers start again.
    pub run: String,
    /// Whose gateway it is; `None` while there is none.
    pub whose: Option<Whose>,
    /// Its state.
    pub snapshot: Arc<Snapshot>,
    /// Why its events do not come, while they do not.
    pub silent: Option<String>,
}

/// What a gateway is started with.
#[derive(Debug)]
pub struct Plan {
    /// Where settings come from.
    pub sources: Sources,
    /// Where state is kept.
    pub state: StateDir,
    /// What is behind an own gateway.
    pub serve: Serve,
}

/// What the threads share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) plan: Plan,
    pub(super) shown: watch::Sender<Shown>,
    /// How many viewers there are.
    pub(super) viewers: watch::Sender<usize>,
    /// The state that was logged or printed last.
    pub(super) reported: Reported,
    /// Notified after a change that may let it serve.
    pub(super) again: Notify,
    /// The gateway's thread is to end.
    pub(super) ends: watch::Sender<bool>,
    /// The program is to end.
    pub(super) asked: watch::Sender<bool>,
    /// The toolkit crashed, and the program is about to restart.
    pub(super) restarts: AtomicBool,
    unlogged: Unlogged,
}

/// The last state that was logged or printed, so that a state is reported once.
#[derive(Debug, Default)]
pub(super) struct Reported(Mutex<Option<String>>);

impl Shared {
    pub(super) fn new(plan: Plan) -> Self {
        Self {
            plan,
            shown: watch::Sender::new(Shown::default()),
            viewers: watch::Sender::new(0),
            reported: Reported::default(),
            again: Notify::new(),
            ends: watch::Sender::new(false),
            asked: watch::Sender::new(false),
            restarts: AtomicBool::new(false),
            unlogged: Unlogged::default(),
        }
    }

    /// Shows why no gateway serves, as a notice.
    pub(super) fn show_not_serving(&self, listen: Vec<String>, fact: Fact) {
        self.unlogged
            .tell(&fact.to_string(), self.plan.state.path());
        self.show_without_gateway("none".to_owned(), listen, fact, None);
    }

    /// Shows that the daemon has ended, for this reason; it may come back. A panel keeps what it
    /// shows.
    pub(super) fn show_gone(&self, reason: String) {
        let run = self.shown.borrow().run.clone();
        let silent = Some(reason.clone());
        self.show_without_gateway(run, Vec::new(), Fact::DaemonGone { reason }, silent);
    }

    /// Shows that the own gateway's events do not come, for this reason.
    pub(super) fn show_silent(&self, reason: String) {
        self.shown.send_modify(|shown| shown.silent = Some(reason));
    }

    fn show_without_gateway(
        &self,
        run: String,
        listen: Vec<String>,
        fact: Fact,
        silent: Option<String>,
    ) {
        let snapshot = Snapshot {
            seq: self.shown.borrow().snapshot.seq + 1,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            now_ms: u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0),
            state: Face::NotServing,
            listen,
            notices: vec![fact.message()],
            ..Snapshot::default()
        };
        self.shown.send_replace(Shown {
            run,
            whose: None,
            snapshot: Arc::new(snapshot),
            silent,
        });
    }
}

impl Reported {
    /// Whether `text` differs from what was reported last; it is what was reported last from now
    /// on.
    pub(super) fn is_new(&self, text: &str) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = last.as_deref() != Some(text);
        *last = Some(text.to_owned());
        is_new
    }

    /// The state that was reported is over.
    pub(super) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_reported_once_and_again_after_a_change() {
        let reported = Reported::default();
        assert!(reported.is_new("port taken"));
        assert!(!reported.is_new("port taken"), "every five seconds");
        assert!(reported.is_new("no such address"));
        reported.forget();
        assert!(reported.is_new("no such address"), "after it had served");
    }
}
