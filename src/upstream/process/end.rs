//! The end of a process: a notification where the system has one, and an explanation.
//!
//! Only a parent can wait for the exit status. Other processes see the kernel's counts of kills for
//! lack of memory (in the process's control group and in the machine) and, until its parent has
//! waited, the status of the zombie.

use std::path::PathBuf;

use super::Process;
use crate::memory::cgroup::{Groups, kills_in};
use crate::refusal::HowEnded;

/// The kernel's counts of kills for lack of memory while the process was still running.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kills {
    /// In the process's own group: the file that counts them, and the count.
    group: Option<(PathBuf, u64)>,
    /// In the whole machine.
    machine: Option<u64>,
}

/// The kernel's own count for the machine.
const MACHINE: &str = "/proc/vmstat";

impl Kills {
    /// The counts now; nothing where the system does not count.
    pub fn around(pid: u32) -> Self {
        if !cfg!(target_os = "linux") {
            return Self::default();
        }
        Self {
            group: Groups::of(pid).kills(),
            machine: kills_in(MACHINE.as_ref()),
        }
    }

    /// The kind of end that the counts show since then.
    fn since(&self) -> Option<HowEnded> {
        if let Some((file, before)) = &self.group
            && kills_in(file).is_some_and(|now| now > *before)
        {
            return Some(HowEnded::OutOfMemory);
        }
        let before = self.machine?;
        kills_in(MACHINE.as_ref())
            .is_some_and(|now| now > before)
            .then_some(HowEnded::LikelyOutOfMemory)
    }
}

/// How a process ended; `before` was counted while it was running.
pub fn how(process: &Process, before: &Kills) -> HowEnded {
    let status = status(process);
    let by_memory = before.since();
    match (status, by_memory) {
        // The kernel kills for lack of memory by signal 9 only.
        (Some(HowEnded::Killed(9)) | None, Some(by_memory)) => by_memory,
        (Some(status), _) => status,
        (None, None) => HowEnded::Unknown,
    }
}

/// The zombie's status, while its parent has not waited for it.
#[cfg(target_os = "linux")]
fn status(process: &Process) -> Option<HowEnded> {
    use super::proc::{Proc, ProcessState};
    let proc = Proc::default();
    let stat = proc.stat(process.pid)?;
    if process.birth.is_some_and(|birth| birth != stat.birth) {
        return None;
    }
    let ProcessState::Ended(status) = stat.life else {
        return None;
    };
    let owner = proc.status(process.pid).map(|status| status.user);
    let me = rustix::process::geteuid().as_raw();
    let shown = if me == 0 || owner == Some(me) {
        Shown::AsItIs
    } else {
        Shown::AsZero
    };
    of_status(status, shown)
}

/// Whether the kernel shows this user the exit status.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    AsItIs,
    /// For another user's process it shows 0, which may also be the real status.
    AsZero,
}

#[cfg(target_os = "linux")]
fn of_status(status: u32, shown: Shown) -> Option<HowEnded> {
    let byte = |number: u32| u8::try_from(number & 0xff).unwrap_or(u8::MAX);
    match (status, status & 0x7f) {
        (0, _) if shown == Shown::AsZero => None,
        (_, 0) => Some(HowEnded::Exited(byte(status >> 8))),
        (_, signal) => Some(HowEnded::Killed(byte(signal))),
    }
}

#[cfg(not(target_os = "linux"))]
fn status(_process: &Process) -> Option<HowEnded> {
    None
}

/// Resolves when the process ends, by the kernel's notification. Never resolves where there is none.
///
/// # Cancel safety
/// May be dropped and called again.
pub async fn ended(process: &Process) {
    #[cfg(target_os = "linux")]
    if let Ok(end) = crate::fd_events::end_of(process.pid) {
        // The pid may be another process's by then.
        if super::again(process).is_some() {
            let _ = end.ready().await;
        }
        return;
    }
    let _ = process;
    std::future::pending::<()>().await;
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_status_is_not_taken_for_success() {
        let own = |status| of_status(status, Shown::AsItIs);
        assert_eq!(own(0), Some(HowEnded::Exited(0)));
        assert_eq!(own(0x0100), Some(HowEnded::Exited(1)));
        assert_eq!(own(0xff00), Some(HowEnded::Exited(255)));
        assert_eq!(own(9), Some(HowEnded::Killed(9)));
        assert_eq!(own(0x80 | 6), Some(HowEnded::Killed(6)), "with a core file");
        assert_eq!(of_status(0, Shown::AsZero), None);
        assert_eq!(of_status(9, Shown::AsZero), Some(HowEnded::Killed(9)));
    }
}
