//! Where log lines go: standard error, for people, and a bounded `oneslot.log` beside the state.
//!
//! Only this program's own lines follow the configured level. Those of libraries are let through
//! from `warn` up: at lower levels some of them print addresses and headers. A panic is logged by
//! its location and never by its text, which may quote a prompt.

use std::io::{self, IsTerminal};
use std::panic::{self, Location};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::thread;

use tracing::level_filters::LevelFilter;
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

use crate::telemetry::async_writer::Lines;

/// The file's name in the state directory.
const FILE: &str = "oneslot.log";
/// Bytes of the file, and of the old one beside it.
const FILE_LIMIT: u64 = 4 << 20;
/// The crates whose lines follow the configured level.
const OURS: [&str; 3] = ["oneslot", "oneslotd", "oneslot_tray"];

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// `log.level` is none of the five words.
    #[error("log.level is \"{level}\"; it must be error, warn, info, debug or trace")]
    ReadLevel {
        /// As it was given.
        level: String,
    },
    /// The file cannot be opened.
    #[error("cannot open the log file {}", path.display())]
    OpenFile {
        /// Where it should be.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The thread that writes to standard error cannot be started.
    #[error("cannot start the thread that writes the log")]
    StartThread {
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// This process logs already.
    #[error("logging was set up before")]
    Install,
    /// The level cannot be changed any more.
    #[error("cannot change the log level")]
    Relevel,
}

/// The running log. Dropping it writes what is queued; keep it until the end of the program.
pub struct Log {
    filter: reload::Handle<Targets, Registry>,
    people: Arc<Lines>,
    file: Arc<Lines>,
}

/// Starts logging to standard error and to `oneslot.log` in `directory`, and logs panics.
///
/// # Errors
/// When `level` is none of the five words, the file cannot be opened, or logging was set up
/// before.
pub fn init(level: &str, directory: &Path) -> Result<Log, LogError> {
    let level = read_level(level)?;
    let people =
        Lines::to_stderr("oneslot-stderr").map_err(|source| LogError::StartThread { source })?;
    let (subscriber, log) = build(level, directory, people)?;
    subscriber.try_init().map_err(|_| LogError::Install)?;
    panic::set_hook(Box::new(|panic| {
        let thread = thread::current();
        log_panic(panic.location(), thread.name());
    }));
    Ok(log)
}

// === impl Log ===

impl Log {
    /// Follows another level from now on.
    ///
    /// # Errors
    /// When `level` is none of the five words.
    pub fn relevel(&self, level: &str) -> Result<(), LogError> {
        let level = read_level(level)?;
        self.filter
            .reload(targets(level))
            .map_err(|_| LogError::Relevel)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // The subscriber lives as long as the process and holds both ends open.
        self.file.flush();
        self.people.flush();
    }
}

fn build(
    level: Level,
    directory: &Path,
    people: Lines,
) -> Result<(impl Subscriber + Send + Sync + 'static, Log), LogError> {
    let path = directory.join(FILE);
    let file = Lines::to_file(path.clone(), FILE_LIMIT, "oneslot-log")
        .map_err(|source| LogError::OpenFile { path, source })?;
    let (people, file) = (Arc::new(people), Arc::new(file));
    let (filter, handle) = reload::Layer::new(targets(level));
    // Without colours both targets get the same formatted line.
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|word| !word.is_empty());
    let coloured = io::stderr().is_terminal() && !unwanted;
    let to_people = coloured.then(|| {
        let writer = LineWriter(vec![Arc::clone(&people)]);
        fmt::layer().with_writer(writer).with_ansi(true)
    });
    let mut plain = vec![Arc::clone(&file)];
    if !coloured {
        plain.push(Arc::clone(&people));
    }
    let to_file = fmt::layer().with_writer(LineWriter(plain)).with_ansi(false);
    let subscriber = tracing_subscriber::registry()
        .with(filter)
        .with(to_people)
        .with(to_file);
    let log = Log {
        filter: handle,
        people,
        file,
    };
    Ok((subscriber, log))
}

fn read_level(level: &str) -> Result<Level, LogError> {
    // `Level` also reads numbers; the configuration knows words only.
    let is_word = level.bytes().all(|byte| byte.is_ascii_alphabetic());
    Level::from_str(level)
        .ok()
        .filter(|_| is_word)
        .ok_or_else(|| LogError::ReadLevel {
            level: level.chars().take(32).collect(),
        })
}

fn targets(level: Level) -> Targets {
    let libraries = LevelFilter::from_level(level).min(LevelFilter::WARN);
    Targets::new()
        .with_default(libraries)
        .with_targets(OURS.map(|name| (name, level)))
}

/// Logs location and thread of a panic: its text may quote a prompt.
fn log_panic(place: Option<&Location<'_>>, thread: Option<&str>) {
    tracing::error!(
        target: "oneslot::panic",
        file = place.map(Location::file),
        line = place.map(Location::line),
        thread,
        "unexpected error in OneSlot; please report the location"
    );
}

/// Hands each event, formatted whole, to the threads that write it.
struct LineWriter(Vec<Arc<Lines>>);

impl<'a> MakeWriter<'a> for LineWriter {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

impl io::Write for &LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        for lines in &self.0 {
            lines.send(line.to_vec());
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
