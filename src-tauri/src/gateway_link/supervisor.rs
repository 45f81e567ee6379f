//! The life of the gateway's thread: serve, or show a daemon, or show why not and try again.
//!
//! The program that holds the state directory's lock serves. Where a daemon has it, this program
//! follows the daemon until it is gone for good, and only then serves itself.

use std::sync::Arc;
use std::time::Duration;

use oneslot::server::{self, ListenError, Options, Running, StartError};
use oneslot::state::{Lock, LockError};
use oneslot::telemetry::log::{self, Log};
use oneslot::telemetry::message::Fact;
use tokio::time::sleep;

use super::fault::chain;
use super::follower::PROGRAM;
use super::shared::Shared;
use super::{follower, output};

/// Between two attempts to serve, where nothing reported a change.
const BETWEEN_TRIES: Duration = Duration::from_secs(5);

/// Runs until the thread is to end, and an own gateway has shut down.
pub(super) async fn run(shared: Arc<Shared>) {
    // Registered first, so that a signal during the start is not lost.
    let signal = crate::platform::asked_to_end();
    tokio::select! {
        () = serve_or_follow(&shared) => {}
        () = async {
            signal.await;
            // The session bus is about to go as well.
            tracing::info!("a signal asks for the end");
            shared.asked.send_replace(true);
            std::future::pending::<()>().await;
        } => {}
    }
}

async fn serve_or_follow(shared: &Arc<Shared>) {
    let mut ends = shared.ends.subscribe();
    let mut log = None;
    while !*ends.borrow_and_update() {
        match Lock::acquire(&shared.plan.state, PROGRAM) {
            Ok(lock) => {
                if serve(shared, lock, &mut log).await {
                    return;
                }
            }
            Err(LockError::Held { .. }) => {
                tokio::select! {
                    () = follower::daemon(shared) => {}
                    _ = ends.changed() => {}
                }
                continue;
            }
            Err(error) => {
                let error = chain(&error);
                shared.show_not_serving(Vec::new(), Fact::StartFailed { error });
            }
        }
        tokio::select! {
            () = sleep(BETWEEN_TRIES) => {}
            () = shared.again.notified() => {}
            _ = ends.changed() => {}
        }
    }
}

/// Serves until the thread is to end. Returns `false` where it could not; the reason is shown.
async fn serve(shared: &Shared, lock: Lock, log: &mut Option<Arc<Log>>) -> bool {
    let loaded = match shared.plan.sources.start() {
        Ok(loaded) => loaded,
        Err(error) => {
            let error = error.to_string();
            shared.show_not_serving(Vec::new(), Fact::StartFailed { error });
            return false;
        }
    };
    if log.is_none() {
        // It serves without a log too; there is no place to report that.
        let level = loaded.settings.log.level.name();
        *log = log::init(level, shared.plan.state.path())
            .ok()
            .map(Arc::new);
    }
    let listen = loaded.settings.listen.iter();
    let listen = listen.map(ToString::to_string).collect();
    let options = Options {
        loaded,
        state: shared.plan.state.clone(),
        lock,
        serve: shared.plan.serve,
        log: log.clone(),
    };
    match server::start(options).await {
        Ok(running) => {
            tracing::info!(addresses = ?running.addresses(), "serving");
            shared.reported.forget();
            output::addresses(running.addresses());
            until_end(shared, running).await;
            true
        }
        Err(error) => {
            let fact = fact(&error);
            let text = fact.to_string();
            if shared.reported.is_new(&text) {
                tracing::warn!(
                    reason = %text,
                    "not serving; use --listen ADDRESS or \"Use another port\" in the panel, or stop the other program"
                );
            }
            shared.show_not_serving(listen, fact);
            false
        }
    }
}

/// Shows the own gateway until the thread is to end, then shuts it down.
async fn until_end(shared: &Shared, running: Running) {
    let mut ends = shared.ends.subscribe();
    tokio::select! {
        () = follower::own(shared) => {}
        () = async {
            output::line(&running.first_report().await);
            std::future::pending::<()>().await;
        } => {}
        _ = ends.wait_for(|ends| *ends) => {}
    }
    running.shutdown().await;
}

/// What keeps a gateway from serving.
fn fact(error: &StartError) -> Fact {
    match error {
        StartError::Listen(ListenError::PortHeld { address, by }) => {
            let address = address.to_string();
            match by.clone() {
                Some(program) => Fact::PortTaken { address, program },
                None => Fact::PortTakenUnknown { address },
            }
        }
        StartError::Listen(ListenError::Bind { address, source })
            if source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            let address = address.to_string();
            Fact::PortRefused { address }
        }
        StartError::Listen(ListenError::Bind { .. } | ListenError::NoAddress)
        | StartError::Exposed { .. }
        | StartError::Loop { .. }
        | StartError::DemoUrl(_)
        | StartError::Demo(_)
        | StartError::Link(_)
        | StartError::State(_) => Fact::StartFailed {
            error: chain(error),
        },
    }
}
