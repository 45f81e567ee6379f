//! The life of the gateway's thread: serve, or be a daemon's face, or say why not and try again.
//!
//! Who holds the state directory's lock serves. Where a daemon has it, this is its face until the
//! daemon is gone for good; only then does this program take over.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use oneslot::config::Loaded;
use oneslot::server::{self, ListenError, Options, Running, StartError};
use oneslot::state::{Lock, LockError, read_running};
use oneslot::telemetry::log::{self, Log};
use oneslot::telemetry::message::Fact;
use tokio::time::sleep;

use super::remote::Remote;
use super::{Behind, Shared, chain, own};

/// As the lock names this program.
const PROGRAM: &str = "oneslot";
/// Between two attempts to serve, when nothing else says that there is reason to hope.
const BETWEEN_TRIES: Duration = Duration::from_secs(5);
/// A daemon that went may be back at once: it was updated, or its own settings made it start anew.
const DAEMON_RETURNS: Duration = Duration::from_secs(10);
/// Between two looks at a daemon that is not there, or does not serve yet.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

/// Runs until it is told to end, and an own gateway has stopped in order.
pub(super) async fn keep(shared: Arc<Shared>) {
    // Heard from the first moment on, so that a signal during the start is not lost.
    let heeding = crate::platform::asked_to_end();
    tokio::select! {
        () = rounds(&shared) => {}
        () = async {
            heeding.await;
            // A session bus that goes asks for it too.
            tracing::info!("a signal asks for the end");
            shared.asked.send_replace(true);
            std::future::pending::<()>().await;
        } => {}
    }
}

async fn rounds(shared: &Arc<Shared>) {
    let mut ends = shared.ends.subscribe();
    let mut log = None;
    while !*ends.borrow_and_update() {
        match Lock::acquire(&shared.plan.state, PROGRAM) {
            Ok(lock) => {
                if serve(shared, lock, &mut log).await {
                    return;
                }
                tokio::select! {
                    () = sleep(BETWEEN_TRIES) => {}
                    () = shared.again.notified() => {}
                    _ = ends.changed() => {}
                }
            }
            Err(LockError::Held { .. }) => tokio::select! {
                () = be_its_face(shared) => {}
                _ = ends.changed() => {}
            },
            Err(error) => {
                let error = chain(&error);
                shared.show_not_serving(Vec::new(), Fact::StartFailed { error });
                tokio::select! {
                    () = sleep(BETWEEN_TRIES) => {}
                    _ = ends.changed() => {}
                }
            }
        }
    }
}

/// Whether it served, and was told to end. Where it could not serve, what is shown says why.
async fn serve(shared: &Arc<Shared>, lock: Lock, log: &mut Option<Log>) -> bool {
    let loaded = match shared.plan.sources.start() {
        Ok(loaded) => loaded,
        Err(error) => {
            let error = error.to_string();
            shared.show_not_serving(Vec::new(), Fact::StartFailed { error });
            return false;
        }
    };
    if log.is_none() {
        *log = logging(&loaded, shared);
    }
    let listen: Vec<_> = loaded
        .settings
        .listen
        .iter()
        .map(ToString::to_string)
        .collect();
    let options = Options {
        loaded,
        state: shared.plan.state.clone(),
        lock,
        serve: shared.plan.serve,
        // Kept here, since a gateway that does not start would take it along.
        log: None,
    };
    match server::start(options).await {
        Ok(running) => {
            tracing::info!(addresses = ?running.addresses(), "serving");
            shared.reported.forget();
            announce(&running);
            follow(shared, running, log.as_ref()).await;
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

/// Shows the own gateway until it is told to end, then stops it in order.
async fn follow(shared: &Arc<Shared>, running: Running, log: Option<&Log>) {
    let mut ends = shared.ends.subscribe();
    tokio::select! {
        () = own::show(shared, running.context(), log) => {}
        () = async {
            say(&running.first_report().await);
            std::future::pending::<()>().await;
        } => {}
        _ = ends.wait_for(|ends| *ends) => {}
    }
    shared.put_behind(Behind::Nobody);
    running.shutdown().await;
}

/// Shows the daemon's state until it is gone for longer than a start anew takes. A program like
/// this one that ends does not come back.
async fn be_its_face(shared: &Arc<Shared>) {
    let mut missed = Duration::ZERO;
    let mut patience = DAEMON_RETURNS;
    while missed < patience {
        match read_running(&shared.plan.state) {
            Ok(Some(running)) if !running.names.addresses.is_empty() => {
                missed = Duration::ZERO;
                patience = if running.names.program == PROGRAM {
                    BETWEEN_LOOKS
                } else {
                    DAEMON_RETURNS
                };
                let shown = format!(
                    "showing the running {} at {}",
                    running.names.program,
                    running.names.addresses.join(", ")
                );
                if shared.reported.is_new(&shown) {
                    say(&shown);
                }
                let remote = Arc::new(Remote::new(running));
                shared.put_behind(Behind::Daemon(Arc::clone(&remote)));
                let reason = remote.follow(shared).await;
                shared.put_behind(Behind::Nobody);
                shared.show_gone(reason);
            }
            // The lock may be free for an instant, or its holder not serve yet.
            Ok(_) | Err(_) => {}
        }
        sleep(BETWEEN_LOOKS).await;
        missed += BETWEEN_LOOKS;
    }
}

/// Prints the addresses; the first line is what programs that start this one wait for.
fn announce(running: &Running) {
    for (at, address) in running.addresses().iter().enumerate() {
        let words = if at == 0 { "listening on" } else { "also on" };
        say(&format!("{words} http://{address}"));
    }
}

/// Prints one line on standard output, where there is one.
fn say(text: &str) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}

fn logging(loaded: &Loaded, shared: &Shared) -> Option<Log> {
    // Without a log it still serves; there is nowhere else to complain.
    log::init(loaded.settings.log.level.name(), shared.plan.state.path()).ok()
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
