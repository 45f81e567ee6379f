//! The gateway behind the tray: this program's own, or a running `oneslotd`'s.
//!
//! It lives on a thread of its own with a runtime of its own, so that nothing a window does can
//! hold up a request. Everybody else sees it as the latest [`Shown`] and as wishes. Not here: what
//! the gateway does with a wish.

mod commands;
mod own;
mod remote;
mod supervisor;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use oneslot::config::Sources;
use oneslot::context::{Context as Gateway, Watcher};
use oneslot::server::{self, Serve};
use oneslot::state::StateDir;
use oneslot::telemetry::message::Fact;
use oneslot::telemetry::snapshot::{Face, Snapshot};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

use crate::startup_notices::Unlogged;
use crate::tray_face::Whose;
use remote::Remote;

pub use commands::{Fault, Reason, chain};

/// How long requests that came after the toolkit fell may hold up the start anew. Those that were
/// there hold it up for as long as they take; without a limit for the others it might never come.
const FOR_LATE_ONES: Duration = Duration::from_secs(60);
/// Between two looks at what is in flight, while the main thread waits for it.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// How long the first attempt to serve may hold up the toolkit: the port is bound before it.
const BEFORE_TOOLKIT: Duration = Duration::from_secs(2);

/// What is shown, at one moment.
#[derive(Debug, Clone, Default)]
pub struct Shown {
    /// Names the gateway's run: with another one the snapshot's numbers begin anew.
    pub run: String,
    /// Whose gateway it is; `None` while there is none.
    pub whose: Option<Whose>,
    /// What it shows of itself.
    pub snapshot: Arc<Snapshot>,
    /// Why it cannot be heard, while it cannot.
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

/// The gateway's thread, seen from the others.
#[derive(Debug)]
pub struct Serving {
    shared: Arc<Shared>,
    runtime: Handle,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the threads share.
#[derive(Debug)]
struct Shared {
    plan: Plan,
    shown: watch::Sender<Shown>,
    behind: RwLock<Behind>,
    /// How many look.
    viewers: watch::Sender<usize>,
    /// The state that was logged last.
    reported: Reported,
    /// Notified after a change that may let it serve.
    again: Notify,
    ends: watch::Sender<bool>,
    /// Somebody asked the program to end.
    asked: watch::Sender<bool>,
    unlogged: Unlogged,
    /// The toolkit fell, and the program starts anew.
    anew: AtomicBool,
}

/// The last state that was logged or printed, so that a state is reported once.
#[derive(Debug, Default)]
struct Reported(Mutex<Option<String>>);

impl Reported {
    /// Whether `text` differs from what was reported last; it is what was reported last from now
    /// on.
    fn is_new(&self, text: &str) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = last.as_deref() != Some(text);
        *last = Some(text.to_owned());
        is_new
    }

    /// The state that was reported is over.
    fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Who answers wishes now.
#[derive(Debug, Clone, Default)]
enum Behind {
    #[default]
    Nobody,
    Own(Arc<GatewayBox>),
    Daemon(Arc<Remote>),
}

/// The own gateway; it has no form to print.
struct GatewayBox(Arc<Gateway>);

/// Somebody who looks: updates come at full pace, and the gateway probes more often, until it is
/// dropped. A daemon is told by the way in which its events are followed.
pub struct Viewer {
    shared: Arc<Shared>,
    _watcher: Option<Watcher>,
}

impl Serving {
    /// Starts the thread, and waits until it serves, is the face of one that does, or cannot.
    ///
    /// # Errors
    /// There is no thread or no runtime to be had.
    pub fn start(plan: Plan) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let shared = Arc::new(Shared {
            plan,
            shown: watch::Sender::new(Shown::default()),
            behind: RwLock::default(),
            viewers: watch::Sender::new(0),
            reported: Reported::default(),
            again: Notify::new(),
            ends: watch::Sender::new(false),
            asked: watch::Sender::new(false),
            unlogged: Unlogged::default(),
            anew: AtomicBool::new(false),
        });
        let kept = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("oneslot-gateway".to_owned())
            .spawn(move || {
                runtime.block_on(supervisor::keep(kept));
                server::end(runtime);
            })?;
        let serving = Self {
            shared,
            runtime: handle,
            thread: Mutex::new(Some(thread)),
        };
        serving.wait_for_first();
        Ok(serving)
    }

    /// The latest state, and each one after it.
    pub fn shown(&self) -> watch::Receiver<Shown> {
        self.shared.shown.subscribe()
    }

    /// The gateway's runtime.
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Asks the program to end, as a signal does.
    pub fn ask_to_end(&self) {
        self.shared.asked.send_replace(true);
    }

    /// Whether somebody asked the program to end.
    pub fn is_asked_to_end(&self) -> bool {
        *self.shared.asked.borrow()
    }

    /// Resolves when somebody asks the program to end.
    pub async fn asked_to_end(&self) {
        let mut asked = self.shared.asked.subscribe();
        // The sender lives in what we hold.
        let _ = asked.wait_for(|asked| *asked).await;
    }

    /// Where state is kept.
    pub fn state(&self) -> &StateDir {
        &self.shared.plan.state
    }

    /// The settings in use and where they came from; as they are on disk where no own gateway
    /// runs.
    ///
    /// # Errors
    /// Environment or flags are at fault.
    pub fn loaded(&self) -> Result<oneslot::config::Loaded, oneslot::config::LoadError> {
        match self.shared.behind() {
            Behind::Own(gateway) => Ok((*gateway.0.loaded()).clone()),
            Behind::Nobody | Behind::Daemon(_) => self.shared.plan.sources.load(),
        }
    }

    /// Where settings come from.
    pub fn sources(&self) -> &Sources {
        &self.shared.plan.sources
    }

    /// Tries again to serve, where it does not.
    pub fn try_again(&self) {
        self.shared.again.notify_one();
    }

    /// Counts somebody who looks.
    pub fn look(&self) -> Viewer {
        let watcher = match self.shared.behind() {
            Behind::Own(gateway) => Some(gateway.0.watch()),
            Behind::Nobody | Behind::Daemon(_) => None,
        };
        self.shared.viewers.send_modify(|viewers| *viewers += 1);
        self.nudge();
        Viewer {
            shared: Arc::clone(&self.shared),
            _watcher: watcher,
        }
    }

    /// Looks at the gateway again although it changed nothing.
    fn nudge(&self) {
        self.shared.shown.send_modify(|_| {});
    }

    /// Waits, without a runtime, until an own gateway has nothing in flight or somebody asks the
    /// program to end. Requests that come meanwhile hold it up for a minute at most.
    pub fn wait_to_start_anew(&self) {
        self.shared.anew.store(true, Ordering::Relaxed);
        let early = self.in_flight();
        let mut waited = Duration::ZERO;
        while !self.is_asked_to_end() && holds_up(&early, &self.in_flight(), waited) {
            thread::sleep(BETWEEN_LOOKS);
            waited += BETWEEN_LOOKS;
        }
    }

    /// Whether the toolkit fell and the program is about to start anew: nothing can be shown.
    pub fn starts_anew(&self) -> bool {
        self.shared.anew.load(Ordering::Relaxed)
    }

    /// The requests that an own gateway has, by their ids.
    fn in_flight(&self) -> Vec<String> {
        match self.shared.behind() {
            Behind::Own(gateway) => {
                let items = gateway.0.snapshot().queue.items;
                items.into_iter().map(|item| item.id).collect()
            }
            Behind::Nobody | Behind::Daemon(_) => Vec::new(),
        }
    }

    /// Stops an own gateway in order and ends the thread. What runs gets `timeouts.shutdown_s`.
    /// Whoever calls it while another one does waits for the same end.
    pub fn stop(&self) {
        self.shared.ends.send_replace(true);
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            // A gateway that panicked has nothing left to stop.
            let _ = thread.join();
        }
    }

    /// Where the running gateway's lock, names and token are.
    pub(crate) fn log_dir(&self) -> PathBuf {
        self.shared.plan.state.path().to_owned()
    }

    fn wait_for_first(&self) {
        let mut shown = self.shown();
        let (told, first) = std::sync::mpsc::channel();
        self.runtime.spawn(async move {
            let known = |shown: &Shown| !shown.run.is_empty();
            let _ = shown.wait_for(known).await;
            let _ = told.send(());
        });
        // Whatever takes longer than this is shown when it comes.
        let _ = first.recv_timeout(BEFORE_TOOLKIT);
    }
}

impl Shared {
    fn behind(&self) -> Behind {
        let behind = self.behind.read().unwrap_or_else(PoisonError::into_inner);
        behind.clone()
    }

    fn put_behind(&self, behind: Behind) {
        *self.behind.write().unwrap_or_else(PoisonError::into_inner) = behind;
    }

    fn is_seen(&self) -> bool {
        *self.viewers.borrow() > 0
    }

    /// A state without a gateway: what keeps it from serving, as a notice.
    fn show_not_serving(&self, listen: Vec<String>, fact: Fact) {
        self.unlogged
            .tell(&fact.to_string(), self.plan.state.path());
        self.show_nobody("none".to_owned(), listen, fact, None);
    }

    /// The daemon has ended, for this reason; whether it comes back is not known yet. A panel keeps
    /// what it was told last.
    fn show_gone(&self, reason: String) {
        let run = self.shown.borrow().run.clone();
        let silent = Some(reason.clone());
        self.show_nobody(run, Vec::new(), Fact::DaemonGone { reason }, silent);
    }

    fn show_nobody(&self, run: String, listen: Vec<String>, fact: Fact, silent: Option<String>) {
        let snapshot = Snapshot {
            seq: self.shown.borrow().snapshot.seq + 1,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            now_ms: u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0),
            state: Face::NotServing,
            listen,
            notices: vec![fact.message()],
            ..Snapshot::default()
        };
        self.put_behind(Behind::Nobody);
        self.shown.send_replace(Shown {
            run,
            whose: None,
            snapshot: Arc::new(snapshot),
            silent,
        });
    }
}

/// Whether these requests, of which some were there early, are waited for any longer.
fn holds_up(early: &[String], now: &[String], waited: Duration) -> bool {
    now.iter()
        .any(|id| waited < FOR_LATE_ONES || early.contains(id))
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.shared.viewers.send_modify(|viewers| *viewers -= 1);
    }
}

impl std::fmt::Debug for GatewayBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gateway(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_keep_coming_do_not_hold_up_a_start_anew_for_ever() {
        let ids = |ids: &[&str]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
        let early = ids(&["early"]);
        let soon = Duration::from_secs(59);
        let late = Duration::from_secs(60);
        assert!(holds_up(&early, &ids(&["late"]), soon), "it may yet end");
        assert!(!holds_up(&early, &ids(&["late"]), late), "that is enough");
        assert!(
            holds_up(&early, &ids(&["late", "early"]), late),
            "an answer that ran when the toolkit fell is whole, however long it is"
        );
        assert!(!holds_up(&early, &[], Duration::ZERO), "nothing is left");
    }

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
