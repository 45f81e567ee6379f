//! Keeping a Linux machine awake: the program that comes with logind holds the lock for as long as
//! another below it runs. That one waits for the end of a pipe from us, so that the lock is let go
//! also if we are killed.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;

/// systemd's, and that of systems that took logind out of it.
const PROGRAMS: [&str; 2] = ["systemd-inhibit", "elogind-inhibit"];
/// What is prevented, by whom and why, as its `--list` shows it.
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
    holder: Option<Child>,
}

impl Awake {
    /// Asks for it. Blocks for as long as starting a program takes.
    ///
    /// # Errors
    /// There is no program for it. That it was not granted is told by [`Self::let_go`] only.
    pub fn keep() -> io::Result<Self> {
        let mut last = io::ErrorKind::NotFound.into();
        for program in PROGRAMS {
            match start(program) {
                Ok(holder) => {
                    let holder = Some(holder);
                    return Ok(Self { holder });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Lets the machine sleep again, and blocks until the lock is gone.
    ///
    /// # Errors
    /// It was not kept awake at all, in logind's words: nobody may ask, or nobody answers.
    pub fn let_go(mut self) -> io::Result<()> {
        let Some(holder) = self.holder.take() else {
            return Ok(());
        };
        // Closes the pipe first.
        let ended = holder.wait_with_output()?;
        if ended.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ended.stderr);
        Err(io::Error::other(said.trim().to_owned()))
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        if let Some(mut holder) = self.holder.take() {
            drop(holder.stdin.take());
            // Waited for, or it would stay in the table of processes for as long as we run.
            let _ = thread::Builder::new().spawn(move || holder.wait());
        }
    }
}

fn start(program: &str) -> io::Result<Child> {
    Command::new(program)
        .args(WORDS)
        .arg(WAITER)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // What a terminal sends to us is not for them: an answer may still have its time to end.
        .process_group(0)
        .spawn()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let missing = start("oneslot-no-such-program").map_err(|error| error.kind());
        assert!(matches!(missing, Err(io::ErrorKind::NotFound)));
    }
}
