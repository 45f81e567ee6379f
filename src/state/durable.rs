//! Atomic file writes: temporary file, fsync, rename, fsync of the directory.
//!
//! Everything written here is for this user alone (0600, directories 0700). On Windows the
//! user's profile directory has that effect already, so modes are left alone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::regular;

/// What a file must survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outlives {
    /// A power cut.
    Everything,
    /// A crash of this program alone.
    Crash,
}

/// Replaces `path` by `bytes`, or leaves it unchanged. A missing directory is created for this user
/// alone.
///
/// A crash at any moment leaves the old content or the new. One writer at a time:
/// the temporary file has one name, so that a killed writer leaves at most one behind.
///
/// # Errors
///
/// The file system's error; the old content is then still there.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, bytes, Outlives::Everything)
}

/// The same for files that are valid only while this program runs: readers find them whole or not
/// at all, and nothing waits for the disk.
///
/// # Errors
///
/// As [`write`].
pub fn write_for_this_run(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, bytes, Outlives::Crash)
}

fn replace(path: &Path, bytes: &[u8], outlives: Outlives) -> io::Result<()> {
    let temp = temp_of(path)?;
    match fs::remove_file(&temp) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let filled = match fill(&temp, bytes, outlives) {
        // The directory was removed while we run.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_parent(path).and_then(|()| fill(&temp, bytes, outlives))
        }
        filled => filled,
    };
    let written = filled.and_then(|()| fs::rename(&temp, path));
    if written.is_err() {
        // The first error matters; the next write removes a leftover.
        let _ = fs::remove_file(&temp);
        return written;
    }
    match outlives {
        Outlives::Everything => sync_dir(path),
        Outlives::Crash => Ok(()),
    }
}

/// Copies a file that cannot be used to `<name>.corrupt-<time>` beside it, and gives the copy.
///
/// An equal copy that already exists is enough, so that repeated starts do not fill the directory.
/// The file itself stays, so that it can be fixed.
///
/// # Errors
///
/// The file system's error; there is then no copy.
pub fn keep_aside(file: &Path, now: jiff::Timestamp) -> io::Result<PathBuf> {
    let bytes = regular::read(file, regular::SETTINGS)?;
    let name = file
        .file_name()
        .ok_or(io::ErrorKind::InvalidInput)?
        .to_string_lossy()
        .into_owned();
    let prefix = format!("{name}.corrupt-");
    let directory = file.parent().filter(|path| !path.as_os_str().is_empty());
    for entry in fs::read_dir(directory.unwrap_or(Path::new(".")))? {
        let path = entry?.path();
        let is_copy = path
            .file_name()
            .is_some_and(|n| n.to_string_lossy().starts_with(&prefix));
        if is_copy && regular::read(&path, regular::SETTINGS).is_ok_and(|copy| copy == bytes) {
            return Ok(path);
        }
    }
    let time = now.strftime("%Y%m%dT%H%M%SZ");
    let mut copy = file.with_file_name(format!("{prefix}{time}"));
    let mut number = 1;
    while copy.exists() {
        number += 1;
        copy = file.with_file_name(format!("{prefix}{time}-{number}"));
    }
    write(&copy, &bytes)?;
    Ok(copy)
}

/// Creates `path` and its missing parents, each for this user alone.
///
/// # Errors
///
/// The file system's error, and [`io::ErrorKind::NotADirectory`] for a file in its place.
pub fn private_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Closes a directory to all but its owner; returns its earlier mode if that was looser.
///
/// # Errors
///
/// The file system's error.
pub fn close_dir(path: &Path) -> io::Result<Option<u32>> {
    tighten(path, 0o700)
}

/// Closes a file to all but its owner; returns its earlier mode if that was looser.
///
/// # Errors
///
/// The file system's error.
pub fn close_file(path: &Path) -> io::Result<Option<u32>> {
    tighten(path, 0o600)
}

/// Options that create a file for this user alone.
pub fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Opens a file to be locked, for this user alone; its content stays.
///
/// # Errors
///
/// As [`regular::open`].
pub fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = private();
    options.create(true).truncate(false).write(true);
    regular::open(path, &mut options)
}

#[cfg(unix)]
fn tighten(path: &Path, mode: u32) -> io::Result<Option<u32>> {
    use std::os::unix::fs::PermissionsExt as _;
    let had = fs::metadata(path)?.permissions().mode() & 0o777;
    if had & 0o077 == 0 {
        return Ok(None);
    }
    fs::set_permissions(path, fs::Permissions::from_mode(had & mode))?;
    Ok(Some(had))
}

#[cfg(not(unix))]
fn tighten(path: &Path, _mode: u32) -> io::Result<Option<u32>> {
    fs::metadata(path).map(|_| None)
}

fn create_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), private_dir)
}

fn temp_of(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut temp = std::ffi::OsString::from(".");
    temp.push(name);
    temp.push(".new");
    Ok(path.with_file_name(temp))
}

fn fill(temp: &Path, bytes: &[u8], outlives: Outlives) -> io::Result<()> {
    let mut file = private().write(true).create_new(true).open(temp)?;
    file.write_all(bytes)?;
    match outlives {
        Outlives::Everything => file.sync_all(),
        Outlives::Crash => Ok(()),
    }
}

#[cfg(unix)]
fn sync_dir(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

#[cfg(not(unix))]
fn sync_dir(_path: &Path) -> io::Result<()> {
    Ok(())
}
