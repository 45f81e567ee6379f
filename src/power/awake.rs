//! Keeping a Linux machine awake: `systemd-inhibit`, which comes with logind, holds the lock for as
//! long as the program below it runs. That one waits for the end of a pipe from us, so that the
//! lock is let go also if we are killed.

use std::io;
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = "systemd-inhibit";
/// What is prevented, by whom and why, as `systemd-inhibit --list` shows it.
const WORDS: [&str; 4] = [
    "--what=sleep:idle",
    "--who=OneSlot",
    "--why=A local model answers",
    "--mode=block",
];
/// Ends with its input.
const WAITER: &str = "cat";

/// A machine that does not fall asleep by itself until this is let go or dropped.
#[derive(Debug)]
pub struct Awake {
    holder: Child,
}

impl Awake {
    /// Asks for it. Blocks for as long as starting a program takes.
    ///
    /// # Errors
    /// There is no `systemd-inhibit`. That it was not granted is told by [`Self::let_go`] only.
    pub fn keep() -> io::Result<Self> {
        let holder = Command::new(PROGRAM)
            .args(WORDS)
            .arg(WAITER)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Self { holder })
    }

    /// Lets the machine sleep again, and blocks until the lock is gone.
    ///
    /// # Errors
    /// It was not kept awake at all, in logind's words: nobody may ask, or nobody answers.
    pub fn let_go(self) -> io::Result<()> {
        // Closes the pipe first.
        let ended = self.holder.wait_with_output()?;
        if ended.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ended.stderr);
        Err(io::Error::other(said.trim().to_owned()))
    }
}
