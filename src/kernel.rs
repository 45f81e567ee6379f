//! What the Linux kernel tells through a file that becomes ready: the end of a process, the
//! beginning of a stall. Nothing is looked at meanwhile.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A file that tells something by becoming ready.
#[derive(Debug)]
pub struct Told<T: AsRawFd> {
    file: AsyncFd<T>,
    interest: Interest,
}

/// The end of a process, of any user.
///
/// # Errors
/// There is no such process, or the kernel is older than 5.3.
pub fn end_of(pid: u32) -> io::Result<Told<OwnedFd>> {
    let none = || io::Error::from(io::ErrorKind::NotFound);
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(none)?;
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    told(handle, Interest::READABLE)
}

/// Stalls for want of memory, as `trigger` describes them.
///
/// # Errors
/// The kernel does not count stalls, or does not let this user ask for them.
pub fn stalls(trigger: &str) -> io::Result<Told<File>> {
    let mut file = File::options()
        .read(true)
        .write(true)
        .open("/proc/pressure/memory")?;
    file.write_all(trigger.as_bytes())?;
    told(file, Interest::PRIORITY)
}

impl<T: AsRawFd> Told<T> {
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

#[expect(
    deprecated,
    reason = "its successor is unsafe for the sake of files that lie about their descriptor; these two own theirs"
)]
fn told<T: AsRawFd>(file: T, interest: Interest) -> io::Result<Told<T>> {
    let file = AsyncFd::with_interest(file, interest)?;
    Ok(Told { file, interest })
}
