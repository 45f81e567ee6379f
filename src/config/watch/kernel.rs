//! The Linux kernel's watch, asked for names and, in the file's own directory, for what is written.

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::inotify::{self, CreateFlags, Event, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::config::way::Stop;
use crate::fd_events::{self, FdWatch};

use super::WatchError;

/// Bytes of events that are taken at once: some dozens.
const BATCH: usize = 4096;

/// Another entry may have one of the names.
const NAMES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO);
/// Who writes in place says so by these, and who lets us read it by the last.
const CONTENT: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB);

/// Ends the watches when it is dropped.
#[derive(Debug)]
pub(super) struct Armed {
    told: FdWatch<OwnedFd>,
    names: Vec<(i32, OsString)>,
}

impl Armed {
    /// Watches each directory on the way.
    ///
    /// # Errors
    /// The kernel refuses for the last one: it is closed to this user, or the user's share of
    /// watches is used up.
    pub(super) fn on(stops: &[Stop]) -> Result<Self, WatchError> {
        let last = stops.last().map(|stop| stop.directory.as_path());
        let failed = |source: io::Error| WatchError::Watch {
            directory: last.unwrap_or("".as_ref()).to_owned(),
            source,
        };
        let flags = CreateFlags::NONBLOCK | CreateFlags::CLOEXEC;
        let handle = inotify::init(flags).map_err(|error| failed(told(error)))?;
        let mut names = Vec::new();
        for stop in stops {
            let is_last = Some(stop.directory.as_path()) == last;
            let wanted = if is_last { NAMES | CONTENT } else { NAMES };
            match inotify::add_watch(&handle, &stop.directory, wanted | WatchFlags::ONLYDIR) {
                Ok(watch) => names.push((watch, stop.name.clone())),
                Err(error) if is_last => return Err(failed(told(error))),
                // One further up may be closed to this user, who can then not replace it either.
                Err(_) => {}
            }
        }
        let told = fd_events::readable(handle).map_err(failed)?;
        Ok(Self { told, names })
    }

    /// Resolves when the file may be another, or have been written to.
    ///
    /// # Cancel safety
    /// May be dropped and called again.
    pub(super) async fn changed(&mut self) {
        while self.told.ready().await.is_ok() {
            if self.take() {
                return;
            }
        }
        std::future::pending().await
    }

    /// Takes all that the kernel has to tell; says whether any of it concerns the file.
    fn take(&self) -> bool {
        let mut batch = [MaybeUninit::uninit(); BATCH];
        let mut events = Reader::new(self.told.file(), &mut batch);
        let mut concerns = false;
        loop {
            match events.next() {
                Ok(event) => concerns |= self.concerns(&event),
                Err(Errno::INTR) => {}
                Err(_) => return concerns,
            }
        }
    }

    fn concerns(&self, event: &Event<'_>) -> bool {
        // Some were lost, or a directory is gone: everything is to be looked at anew.
        if event
            .events()
            .intersects(ReadFlags::QUEUE_OVERFLOW | ReadFlags::IGNORED)
        {
            return true;
        }
        let name = event
            .file_name()
            .map(|name| OsStr::from_bytes(name.to_bytes()));
        self.names
            .iter()
            .any(|(watch, stop)| *watch == event.wd() && Some(stop.as_os_str()) == name)
    }
}

/// What the kernel's word means here, where it is not what it usually means.
fn told(error: Errno) -> io::Error {
    match error {
        Errno::NOSPC => io::Error::other("no watch is left (sysctl fs.inotify.max_user_watches)"),
        Errno::MFILE => {
            io::Error::other("no watcher is left (sysctl fs.inotify.max_user_instances)")
        }
        other => other.into(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Duration;

    use super::*;
    use crate::config::way;

    #[tokio::test]
    async fn who_reads_and_writes_beside_the_settings_folder_wakes_nobody() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("oneslot/oneslot.toml");
        let (busy, beside) = (temp.path().join("busy"), temp.path().join("oneslot/other"));
        fs::create_dir(temp.path().join("oneslot")).unwrap();
        for file in [&file, &busy, &beside] {
            fs::write(file, "x").unwrap();
        }
        let mut armed = Armed::on(&way::stops(&file).unwrap()).unwrap();
        fs::write(&busy, "more").unwrap();
        fs::read(&busy).unwrap();
        fs::read(&file).unwrap();
        let woken = tokio::time::timeout(Duration::from_millis(50), armed.told.ready());
        assert!(woken.await.is_err(), "the kernel says nothing at all");
        fs::write(&beside, "more").unwrap();
        let changed = tokio::time::timeout(Duration::from_millis(50), armed.changed());
        assert!(changed.await.is_err(), "another file of the folder");
        let changed = async |armed: &mut Armed| {
            let limit = Duration::from_secs(60);
            tokio::time::timeout(limit, armed.changed()).await.is_ok()
        };
        fs::write(&file, "more").unwrap();
        assert!(changed(&mut armed).await, "this one");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(changed(&mut armed).await, "it may be read now");
    }

    #[tokio::test]
    async fn a_folder_that_is_removed_is_a_change() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("oneslot");
        fs::create_dir(&folder).unwrap();
        let mut armed = Armed::on(&way::stops(&folder.join("oneslot.toml")).unwrap()).unwrap();
        fs::remove_dir(&folder).unwrap();
        let changed = tokio::time::timeout(Duration::from_secs(60), armed.changed());
        assert!(changed.await.is_ok());
    }

    #[test]
    fn what_is_used_up_is_named() {
        let said = told(Errno::NOSPC).to_string();
        assert!(said.contains("max_user_watches"), "not a full disk: {said}");
        assert!(told(Errno::MFILE).to_string().contains("instances"));
    }
}
