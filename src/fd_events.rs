//! Notifications of the Linux kernel through a file descriptor that becomes ready: the end of a
//! process, a memory stall, a step of the wall clock. Nothing is polled meanwhile.

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

/// A file descriptor that becomes ready at each notification.
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
    readable(handle)
}

/// Memory stalls, as `trigger` describes them.
///
/// # Errors
/// The kernel does not count stalls, or this user may not ask for them.
pub fn stalls(trigger: &str) -> io::Result<FdWatch<File>> {
    let mut file = File::options()
        .read(true)
        .write(true)
        .open("/proc/pressure/memory")?;
    // The kernel replaces the last byte by a zero, whatever it is.
    file.write_all(format!("{trigger}\0").as_bytes())?;
    watch(file, Interest::PRIORITY)
}

/// Steps of the wall clock: it was set, or the machine slept (`timerfd_create(2)`,
/// `TFD_TIMER_CANCEL_ON_SET`).
///
/// # Errors
/// The kernel has no such timer.
pub fn clock_steps() -> io::Result<FdWatch<OwnedFd>> {
    let timer = timerfd_create(
        TimerfdClockId::Realtime,
        TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
    )?;
    let none = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // Its expiry never comes: the kernel's clocks do not reach that far.
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
    readable(timer)
}

impl<T: AsRawFd> FdWatch<T> {
    /// The file itself.
    pub fn file(&self) -> &T {
        self.file.get_ref()
    }

    /// Resolves at the next notification.
    ///
    /// # Errors
    /// The runtime cannot wait for it any more.
    ///
    /// # Cancel safety
    /// May be dropped and called again.
    pub async fn ready(&self) -> io::Result<()> {
        self.file.ready(self.interest).await?.clear_ready();
        Ok(())
    }
}

/// Notifications of a file descriptor that becomes readable.
///
/// # Errors
/// The runtime cannot wait for it.
pub fn readable(file: OwnedFd) -> io::Result<FdWatch<OwnedFd>> {
    watch(file, Interest::READABLE)
}

#[expect(
    deprecated,
    reason = "its successor is unsafe, for types that do not own their descriptor; these do"
)]
fn watch<T: AsRawFd>(file: T, interest: Interest) -> io::Result<FdWatch<T>> {
    let file = AsyncFd::with_interest(file, interest)?;
    Ok(FdWatch { file, interest })
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::memory::psi::TRIGGER;

    #[tokio::test]
    async fn the_kernel_accepts_the_stall_trigger() {
        if !std::path::Path::new("/proc/pressure/memory").exists() {
            assert!(stalls(TRIGGER).is_err());
            return;
        }
        let watch = stalls(TRIGGER);
        assert!(
            watch.is_ok(),
            "a window that is open to every user: {watch:?}"
        );
        assert!(stalls("full 200000 3").is_err(), "not a window");
    }

    #[tokio::test]
    async fn an_untouched_clock_reports_nothing() {
        let steps = clock_steps().expect("every kernel has such a timer");
        let left = rustix::time::timerfd_gettime(steps.file()).expect("it can be asked");
        assert!(left.it_value.tv_sec > 0, "it is armed: {left:?}");
        let step = tokio::time::timeout(std::time::Duration::from_millis(50), steps.ready());
        assert!(step.await.is_err(), "and far from its end");
    }
}
