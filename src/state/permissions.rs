//! Whether the state directory can be trusted: created, closed to other users, or refused.
//!
//! Not here: the files in it.

use std::fs;
use std::io;
use std::path::Path;

use super::durable;

/// Creates `directory` if it does not exist, and closes it to other users if it is ours: empty, or
/// with our `guard` in it. Returns its earlier mode if that was looser.
///
/// # Errors
///
/// The system's error; or, for a directory that other users own or can write to, what to do
/// instead. Its mode is then unchanged.
pub(super) fn prepare(directory: &Path, guard: &Path) -> io::Result<Option<u32>> {
    durable::private_dir(directory)?;
    // A link in the guard's place proves nothing.
    let is_guarded = fs::symlink_metadata(guard).is_ok_and(|about| about.is_file());
    #[cfg(unix)]
    check_owner(directory, is_guarded)?;
    let is_empty = fs::read_dir(directory)?.next().is_none();
    if is_empty || is_guarded {
        durable::close_dir(directory)
    } else {
        Ok(None)
    }
}

/// Refuses a directory of another user, and one that every user can write to.
#[cfg(unix)]
fn check_owner(directory: &Path, is_guarded: bool) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let about = fs::metadata(directory)?;
    let reason = if about.uid() != rustix::process::geteuid().as_raw() {
        "it belongs to another user"
    } else if about.permissions().mode() & 0o002 != 0 && !is_guarded {
        "every user can write to it"
    } else {
        return Ok(());
    };
    let text =
        format!("{reason}, so files in it would not be safe: choose another with --state DIR");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}
