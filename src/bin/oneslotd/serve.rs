//! `serve`: takes the lock, loads the settings, runs the gateway until it is stopped.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use oneslot::config::Flag;
use oneslot::server::{self, ListenError, Options, StartError};
use oneslot::state::{Lock, LockError, StateDir};
use oneslot::telemetry::log::{self, Log};

use crate::args::{Paths, Serve};
use crate::{Failure, HELD, output};

/// Serves until a signal, then stops in order.
pub(crate) fn run(paths: &Paths, serve: &Serve) -> Result<(), Failure> {
    let state = StateDir::open(paths.state_path()?).map_err(|error| Failure::of(&error))?;
    // The lock comes first: a second one must not touch what the first one keeps.
    let lock = Lock::acquire(&state, "oneslotd").map_err(|error| refused(&error))?;
    let sources = paths.sources(flags(serve))?;
    let loaded = sources
        .start()
        .map_err(|error| Failure::misused(error.to_string()))?;
    for notice in &loaded.notices {
        output::tell(&format!("note: {notice}"));
    }
    let log = logging(loaded.settings.log.level.name(), &state);
    let serve = if serve.demo {
        server::Serve::Demo
    } else {
        server::Serve::Upstream
    };
    let options = Options {
        loaded,
        state,
        lock,
        serve,
        log: log.map(Arc::new),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::of(&error))?;
    let served = runtime.block_on(until_stopped(options, &sources.file));
    server::end(runtime);
    served
}

async fn until_stopped(options: Options, file: &Path) -> Result<(), Failure> {
    // Heard from the first moment on, so that a signal during the start is not lost.
    let mut stop = Stop::new().map_err(|error| Failure::of(&error))?;
    let running = tokio::select! {
        running = server::start(options) => running.map_err(|error| not_started(&error, file))?,
        () = stop.asked() => return Ok(()),
    };
    for (at, address) in running.addresses().iter().enumerate() {
        output::say(&if at == 0 {
            first(*address)
        } else {
            format!("also on http://{address}")
        });
    }
    tokio::select! {
        report = running.first_report() => {
            output::say(&report);
            stop.asked().await;
        }
        () = stop.asked() => {}
    }
    tokio::select! {
        () = running.shutdown() => {}
        // A second signal means: do not wait.
        () = stop.asked() => {}
    }
    Ok(())
}

/// The first line on standard output, which programs that start this one wait for.
fn first(address: SocketAddr) -> String {
    format!("listening on http://{address}")
}

/// What was typed, as members of the settings.
fn flags(serve: &Serve) -> Vec<Flag> {
    let mut flags = Vec::new();
    if !serve.listen.is_empty() {
        let text = serve.listen.join(",");
        flags.push(Flag {
            name: "--listen",
            member: "listen",
            text,
        });
    }
    if let Some(text) = serve.upstream.clone() {
        flags.push(Flag {
            name: "--upstream",
            member: "upstream.base_url",
            text,
        });
    }
    if let Some(text) = serve.preset.clone() {
        flags.push(Flag {
            name: "--preset",
            member: "preset",
            text,
        });
    }
    flags
}

fn refused(error: &LockError) -> Failure {
    let failure = Failure::of(error);
    match error {
        LockError::Held { .. } => Failure {
            text: format!("{}; use --state DIR for a second one", failure.text),
            code: HELD,
        },
        LockError::Random(_) | LockError::State(_) => failure,
    }
}

fn not_started(error: &StartError, file: &Path) -> Failure {
    let failure = Failure::of(error);
    match error {
        StartError::Listen(ListenError::PortHeld { .. } | ListenError::Bind { .. }) => {
            Failure::misused(format!(
                "{}; choose another address with --listen or in {}",
                failure.text,
                file.display()
            ))
        }
        StartError::Listen(ListenError::NoAddress)
        | StartError::Exposed { .. }
        | StartError::Loop { .. } => Failure::misused(failure.text),
        StartError::DemoUrl(_)
        | StartError::Demo(_)
        | StartError::Link(_)
        | StartError::State(_) => failure,
    }
}

/// Logs from here on. Without a log the gateway still serves.
fn logging(level: &str, state: &StateDir) -> Option<Log> {
    match log::init(level, state.path()) {
        Ok(log) => Some(log),
        Err(error) => {
            output::tell(&format!("note: {}", Failure::of(&error).text));
            None
        }
    }
}

/// The signals that ask a program to stop.
struct Stop {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Stop {
    #[cfg(unix)]
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    #[cfg(not(unix))]
    fn new() -> std::io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(unix)]
    async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    #[cfg(not(unix))]
    async fn asked(&mut self) {
        // Without a console there is no such signal.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
