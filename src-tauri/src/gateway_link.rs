//! The gateway behind the tray: one in this program, or a running `oneslotd`.
//!
//! Both are followed and commanded over HTTP with the control token
//! ([`oneslot::control_client`]), as the command line does. An own gateway runs on a thread and a
//! runtime of its own, so that no window can delay a request. Not here: what a command does in the
//! gateway.

mod fault;
mod follower;
mod output;
mod shared;
mod supervisor;

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use http::Method;
use oneslot::config::Sources;
use oneslot::control_client::{ControlClient, ControlError, PauseRequest, PauseUnload, Response};
use oneslot::server;
use oneslot::state::StateDir;
use oneslot::telemetry::snapshot::Snapshot;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::tray_face::Whose;
use shared::Shared;

pub use fault::{Fault, Reason, chain};
pub use shared::{Plan, Shown};

/// How long requests that arrive after a crash of the toolkit may delay the restart. Those that
/// were in flight delay it until they end.
const LATE_REQUESTS: Duration = Duration::from_secs(60);
/// Between two looks at what is in flight, while the main thread waits for it.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// How long the gateway may take to say what is in flight; then what was shown last counts.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the first attempt to serve may delay the toolkit: the port is bound before it.
const BEFORE_TOOLKIT: Duration = Duration::from_secs(2);

/// The gateway's thread, seen from the others.
#[derive(Debug)]
pub struct GatewayLink {
    shared: Arc<Shared>,
    runtime: Handle,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A person looks: events show running answers as they grow, and the gateway probes more often,
/// until it is dropped.
#[derive(Debug)]
pub struct Viewer(Arc<Shared>);

impl GatewayLink {
    /// Starts the thread, and waits until it serves, follows a daemon, or cannot serve.
    ///
    /// # Errors
    /// There is no thread or no runtime.
    pub fn start(plan: Plan) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let shared = Arc::new(Shared::new(plan));
        let supervised = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("oneslot-gateway".to_owned())
            .spawn(move || {
                runtime.block_on(supervisor::run(supervised));
                server::end(runtime);
            })?;
        let link = Self {
            shared,
            runtime: handle,
            thread: Mutex::new(Some(thread)),
        };
        link.wait_for_first();
        Ok(link)
    }

    fn wait_for_first(&self) {
        let mut shown = self.shown();
        let (sender, first) = mpsc::channel();
        self.runtime.spawn(async move {
            let known = |shown: &Shown| !shown.run.is_empty();
            let _ = shown.wait_for(known).await;
            let _ = sender.send(());
        });
        // What takes longer is shown when it comes.
        let _ = first.recv_timeout(BEFORE_TOOLKIT);
    }

    /// The latest state, and each one after it.
    pub fn shown(&self) -> watch::Receiver<Shown> {
        self.shared.shown.subscribe()
    }

    /// The gateway's runtime.
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Where state is kept, the logs too.
    pub fn state_path(&self) -> &Path {
        self.shared.plan.state.path()
    }

    /// Where settings come from.
    pub fn sources(&self) -> &Sources {
        &self.shared.plan.sources
    }

    /// Tries again to serve, where it does not.
    pub fn try_again(&self) {
        self.shared.again.notify_one();
    }

    /// Counts a viewer.
    pub fn view(&self) -> Viewer {
        self.shared.viewers.send_modify(|viewers| *viewers += 1);
        Viewer(Arc::clone(&self.shared))
    }
}

/// The end of the program, and its restart after a crash of the toolkit.
impl GatewayLink {
    /// Asks the program to end, as a signal does.
    pub fn ask_to_end(&self) {
        self.shared.asked.send_replace(true);
    }

    /// Whether the program was asked to end.
    pub fn is_asked_to_end(&self) -> bool {
        *self.shared.asked.borrow()
    }

    /// Resolves when the program is asked to end.
    pub async fn asked_to_end(&self) {
        let mut asked = self.shared.asked.subscribe();
        // The sender lives as long as `self`.
        let _ = asked.wait_for(|asked| *asked).await;
    }

    /// Waits, without a runtime, until an own gateway has nothing in flight or the program is
    /// asked to end. Requests that arrive meanwhile delay it by a minute at most.
    pub fn wait_to_restart(&self) {
        self.shared.restarts.store(true, Ordering::Relaxed);
        let early = self.in_flight();
        let mut waited = Duration::ZERO;
        while !self.is_asked_to_end() && delays_restart(&early, &self.in_flight(), waited) {
            thread::sleep(BETWEEN_LOOKS);
            waited += BETWEEN_LOOKS;
        }
    }

    /// Whether the toolkit crashed and the program is about to restart: nothing can be shown.
    pub fn restarts(&self) -> bool {
        self.shared.restarts.load(Ordering::Relaxed)
    }

    /// The ids of the requests that an own gateway has.
    fn in_flight(&self) -> Vec<String> {
        let shown = self.shared.shown.borrow().clone();
        if shown.whose != Some(Whose::Own) {
            return Vec::new();
        }
        let (sender, answer) = mpsc::channel();
        let state = self.shared.plan.state.clone();
        self.runtime.spawn(async move {
            let _ = sender.send(status(&state).await);
        });
        let queue = match answer.recv_timeout(STATUS_TIMEOUT) {
            Ok(Ok(snapshot)) => snapshot.queue,
            Ok(Err(_)) | Err(_) => shown.snapshot.queue.clone(),
        };
        queue.items.into_iter().map(|item| item.id).collect()
    }

    /// Shuts an own gateway down and ends the thread. Running requests get the shutdown timeout.
    /// A second caller waits for the same end.
    pub fn stop(&self) {
        self.shared.ends.send_replace(true);
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            // A gateway that panicked has nothing left to stop.
            let _ = thread.join();
        }
    }
}

/// Commands of a person. Each fails if no gateway serves, it is not reached, or it refuses.
impl GatewayLink {
    /// The gateway, as the lock file names it now.
    fn client(&self) -> Result<ControlClient, Fault> {
        Ok(ControlClient::find(&self.shared.plan.state)?)
    }

    /// Pauses, and unloads the model as well where that was asked for.
    ///
    /// # Errors
    /// See above; or the model server does not unload.
    pub async fn pause(&self, pause: PauseRequest) -> Result<(), Fault> {
        match self.client()?.pause(pause).await? {
            None | Some(PauseUnload::Done(_)) => Ok(()),
            Some(PauseUnload::Failed { error }) => Err(Fault::refused(error)),
        }
    }

    /// Resumes.
    ///
    /// # Errors
    /// See above.
    pub async fn resume(&self) -> Result<(), Fault> {
        self.client()?.resume().await?;
        Ok(())
    }

    /// Ends a cooldown and probes; returns when the probe was answered.
    ///
    /// # Errors
    /// See above.
    pub async fn check(&self) -> Result<(), Fault> {
        self.client()?.check::<IgnoredAny>().await?;
        Ok(())
    }

    /// Unloads the model once the slot is free; gives the names of the unloaded models.
    ///
    /// # Errors
    /// See above; or the model server does not unload.
    pub async fn unload(&self) -> Result<Vec<String>, Fault> {
        Ok(self.client()?.unload().await?.models)
    }

    /// Stops the running answers; queued requests stay queued.
    ///
    /// # Errors
    /// See above.
    pub async fn stop_answers(&self) -> Result<(), Fault> {
        let client = self.client()?;
        let items = client.status::<Snapshot>().await?.queue.items;
        for item in items.iter().filter(|item| item.position == 0) {
            match client.cancel(&item.id).await {
                // It has ended meanwhile.
                Err(error) if error.is_not_found() => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Cancels one request, queued or running.
    ///
    /// # Errors
    /// See above; or it has ended.
    pub async fn cancel(&self, id: &str) -> Result<(), Fault> {
        Ok(self.client()?.cancel(id).await?)
    }

    /// Sends a request as any app would, with the control token; gives the response once its
    /// headers have come, a refusal too.
    ///
    /// # Errors
    /// No gateway serves, or it is not reached.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Response, Fault> {
        let client = self.client()?;
        Ok(client.request(Method::POST, path, Some(body)).await?)
    }
}

async fn status(state: &StateDir) -> Result<Snapshot, ControlError> {
    ControlClient::find(state)?.status().await
}

/// Whether these requests, some of which were in flight early, delay the restart any longer.
fn delays_restart(early: &[String], now: &[String], waited: Duration) -> bool {
    now.iter()
        .any(|id| waited < LATE_REQUESTS || early.contains(id))
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.0.viewers.send_modify(|viewers| *viewers -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_requests_do_not_delay_a_restart_for_ever() {
        let ids = |ids: &[&str]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
        let early = ids(&["early"]);
        let soon = Duration::from_secs(59);
        let late = Duration::from_secs(60);
        assert!(delays_restart(&early, &ids(&["late"]), soon), "it may end");
        assert!(!delays_restart(&early, &ids(&["late"]), late));
        assert!(
            delays_restart(&early, &ids(&["late", "early"]), late),
            "an answer that ran when the toolkit crashed is never cut"
        );
        assert!(!delays_restart(&early, &[], Duration::ZERO), "none is left");
    }
}
