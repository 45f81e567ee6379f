//! Whether a directory can be trusted with what is kept: made anew, closed, or refused.
//!
//! Not here: the files in it.

use std::fs;
use std::io;
use std::path::Path;

use super::durable;

/// Makes `directory` if it is not there, and closes it to others if it is ours: empty, or with
/// our `guard` in it. Returns the mode it had if that was looser.
///
/// # Errors
///
/// What the system said; and for a directory that others can change, or could have filled, what
/// to do instead. Its mode is then as it was.
pub(super) fn make(directory: &Path, guard: &Path) -> io::Result<Option<u32>> {
    durable::private_dir(directory)?;
    let is_empty = fs::read_dir(directory)?.next().is_none();
    #[cfg(unix)]
    judge(directory, guard, is_empty)?;
    // A link there is nobody's proof.
    let is_guarded = fs::symlink_metadata(guard).is_ok_and(|about| about.is_file());
    if is_empty || is_guarded {
        durable::close_dir(directory)
    } else {
        Ok(None)
    }
}

/// Refuses a directory of another user, and one that is shared: with the sticky bit, which says
/// that many write there, or open to everybody and with something in it that is not our own.
#[cfg(unix)]
fn judge(directory: &Path, guard: &Path, is_empty: bool) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let me = rustix::process::geteuid().as_raw();
    let about = fs::metadata(directory)?;
    if about.uid() != me {
        return Err(refusal("it belongs to another user"));
    }
    let mode = about.permissions().mode();
    if mode & 0o002 == 0 {
        return Ok(());
    }
    if mode & 0o1000 != 0 {
        return Err(refusal("many users share it"));
    }
    let is_mine = |about: fs::Metadata| about.uid() == me;
    let has_guard = fs::symlink_metadata(guard).is_ok_and(|about| about.is_file());
    let mut all_mine = is_empty || has_guard;
    for entry in fs::read_dir(directory)? {
        all_mine = all_mine && entry?.metadata().is_ok_and(is_mine);
    }
    if all_mine {
        Ok(())
    } else {
        Err(refusal("everybody may write into it, and it is in use"))
    }
}

#[cfg(unix)]
fn refusal(why: &str) -> io::Error {
    let text = format!(
        "{why}, so what is kept there would not be safe: name another one with --state DIR"
    );
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}
