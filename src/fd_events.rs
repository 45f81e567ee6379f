//! What the Linux kernel tells through a file that becomes ready: the end of a process, the
//! beginning of a stall, a step of the wall clock, a change of a directory. Nothing is looked at
//! meanwhile.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A file that tells something by becoming ready.
#[derive(Debug)]
pub struct FdWatch<T: AsRawFd> {
    file: AsyncFd<T>,
    interest: Interest,
}

/// The end of a process, of any user.
///
/// # Errors
/// There is no such process, or the kernel is older than 5.3.
pub fn end_of(pid: u32) -> io::Result<FdWatch<OwnedFd>> {
    let none = || io::Error::from(io::ErrorKind::NotFound);
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(none)?;
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    told(handle)
}

/// Stalls for want of memory, as `trigger` describes them.
///
/// # Errors
/// The kernel does not count stalls, or does not let this user ask for them.
pub fn stalls(trigger: &str) -> io::Result<FdWatch<File>> {
    let mut file = File::options()
        .read(true)
        .write(true)
        .open("/proc/pressure/memory")?;
    // The kernel puts a zero in the place of the last byte, whatever that is.
    file.write_all(format!("{trigger}\0").as_bytes())?;
    ready(file, Interest::PRIORITY)
}

/// Steps of the wall clock: somebody set it, or the machine slept meanwhile (`timerfd_create(2)`,
/// `TFD_TIMER_CANCEL_ON_SET`).
///
/// # Errors
/// The kernel gives no such timer.
pub fn clock_steps() -> io::Result<FdWatch<OwnedFd>> {
    let timer = timerfd_create(
        TimerfdClockId::Realtime,
        TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
    )?;
    let none = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // Its end is not waited for: the kernel's clocks do not reach as far.
    let never = Timespec {
        tv_sec: i64::MAX,
        ..none
    };
    let until = Itimerspec {
        it_interval: none,
        it_value: never,
    };
    let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
    timerfd_settime(&timer, flags, &until)?;
    told(timer)
}

impl<T: AsRawFd> FdWatch<T> {
    /// The file itself.
    pub fn file(&self) -> &T {
        self.file.get_ref()
    }

    /// Resolves when the kernel says it (again).
    ///
    /// # Errors
    /// The runtime cannot wait for it any more.
    ///
    /// # Cancel safety
    /// May be dropped and called again.
    pub async fn heard(&self) -> io::Result<()> {
        self.file.ready(self.interest).await?.clear_ready();
        Ok(())
    }
}

/// What becomes readable when there is something to hear.
///
/// # Errors
/// The runtime cannot wait for it.
pub fn told(file: OwnedFd) -> io::Result<FdWatch<OwnedFd>> {
    ready(file, Interest::READABLE)
}

#[expect(
    deprecated,
    reason = "its successor is unsafe for the sake of files that lie about their descriptor; these own theirs"
)]
fn ready<T: AsRawFd>(file: T, interest: Interest) -> io::Result<FdWatch<T>> {
    let file = AsyncFd::with_interest(file, interest)?;
    Ok(FdWatch { file, interest })
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::memory::psi::TRIGGER;

    #[tokio::test]
    async fn the_kernel_takes_our_words_for_a_stall_and_no_others() {
        if !std::path::Path::new("/proc/pressure/memory").exists() {
            // A kernel that counts no stalls says so, and is looked at.
            assert!(stalls(TRIGGER).is_err());
            return;
        }
        let told = stalls(TRIGGER);
        assert!(
            told.is_ok(),
            "a window that is open to every user: {told:?}"
        );
        assert!(stalls("full 200000 3").is_err(), "not a window");
    }

    #[tokio::test]
    async fn a_clock_that_nobody_sets_tells_nothing() {
        let steps = clock_steps().expect("every kernel has such a timer");
        let left = rustix::time::timerfd_gettime(steps.file()).expect("it can be asked");
        assert!(left.it_value.tv_sec > 0, "it is armed: {left:?}");
        let heard = tokio::time::timeout(std::time::Duration::from_millis(50), steps.heard());
        assert!(heard.await.is_err(), "and far from its end");
    }
}
