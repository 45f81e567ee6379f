//! Writes lines on a thread of its own, which sleeps when there are none.
//!
//! Requests only put a line into a bounded queue and never wait for a disk or a terminal. A full
//! queue costs lines and one warning, never a request. `tracing-appender` does not fit: its
//! writer can neither be flushed while it runs nor report that a write failed.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use crate::telemetry::rotating_file::BoundedFile;

/// Lines that may be queued; at some 700 bytes each less than a megabyte.
const QUEUE: usize = 1024;
/// How long a shutdown waits for room in the queue, and then for the last lines: a dead network
/// disk must not hold it up.
const LAST_LINES: Duration = Duration::from_secs(1);
/// Time between two looks for room.
const ROOM_CHECK: Duration = Duration::from_millis(5);

/// The sending end. Dropping it writes what is queued, within two seconds.
pub(super) struct Lines {
    queue: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

enum Message {
    Line(Vec<u8>),
    /// Answered when all lines before it are written.
    Flush(SyncSender<()>),
}

// === impl Lines ===

impl Lines {
    /// Writes to the file at `path`, at most `limit` bytes and as much in an old one beside it.
    ///
    /// # Errors
    /// What the system says when the file cannot be opened or the thread not started.
    pub(super) fn to_file(path: PathBuf, limit: u64, name: &str) -> io::Result<Self> {
        let place = path.display().to_string();
        let mut file = BoundedFile::open(path, limit)?;
        Self::start(name, place, move |line| file.write_line(line))
    }

    /// Writes to standard error.
    ///
    /// # Errors
    /// What the system says when the thread cannot be started.
    pub(super) fn to_stderr(name: &str) -> io::Result<Self> {
        let mut stderr = io::stderr();
        Self::start(name, "standard error".to_owned(), move |line| {
            io::Write::write_all(&mut stderr, line)
        })
    }

    /// Starts the thread `name`, which calls `write` with each line; `place` names the target.
    ///
    /// # Errors
    /// What the system says when the thread cannot be started.
    pub(super) fn start(
        name: &str,
        place: String,
        write: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let (queue, messages) = sync_channel(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let missed = Arc::clone(&lost);
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || write_lines(write, &place, messages, &missed))?;
        Ok(Self { queue, lost })
    }

    /// Queues a line, which ends in a line feed. Never waits: with a full queue the line is lost
    /// and counted.
    pub(super) fn send(&self, line: Vec<u8>) {
        if self.queue.try_send(Message::Line(line)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until everything queued is written, two seconds at most.
    pub(super) fn flush(&self) {
        let (written, answer) = sync_channel(1);
        let mut tries = LAST_LINES.as_millis() / ROOM_CHECK.as_millis();
        while self
            .queue
            .try_send(Message::Flush(written.clone()))
            .is_err()
        {
            if tries == 0 {
                return;
            }
            tries -= 1;
            thread::sleep(ROOM_CHECK);
        }
        // Without an answer there is nothing more to do: the disk is stuck.
        let _ = answer.recv_timeout(LAST_LINES);
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.flush();
    }
}

fn write_lines(
    mut write: impl FnMut(&[u8]) -> io::Result<()>,
    place: &str,
    messages: Receiver<Message>,
    lost: &AtomicU64,
) {
    let mut failing = false;
    for message in messages {
        let line = match message {
            Message::Line(line) => line,
            Message::Flush(written) => {
                // The flush may have timed out.
                let _ = written.try_send(());
                continue;
            }
        };
        match write(&line) {
            Ok(()) if failing => {
                failing = false;
                tracing::info!(place, "log writer recovered");
            }
            Ok(()) => {}
            Err(_) if failing => {}
            Err(error) => {
                failing = true;
                tracing::warn!(place, %error, "log write failed; further failures are not reported until one succeeds");
            }
        }
        let missed = lost.swap(0, Ordering::Relaxed);
        if missed > 0 {
            tracing::warn!(
                place,
                missed,
                "log lines lost: they came faster than they could be written"
            );
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
