//! Opening files of which only regular ones are meant: settings, and what is kept.
//!
//! Whatever else may be in a file's place, a FIFO, a device, a link to one, would block whoever
//! opens it or never end. Links to regular files are followed. Not here: writing
//! ([`super::durable`]).

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Read as _};
use std::path::Path;

/// The most bytes of a settings file that are read.
pub const SETTINGS: u64 = 1024 * 1024;

/// The most bytes of any other file that are read.
pub const KEPT: u64 = 64 * 1024;

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
///
/// What the system said; and with words of its own for what is no regular file or too large.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open(path, OpenOptions::new().read(true))?;
    let mut bytes = Vec::new();
    // Some say that they have no bytes, and go on.
    let length = file.take(most + 1).read_to_end(&mut bytes)?;
    if length as u64 > most {
        let text = format!("it is larger than {most} bytes, so it is not what belongs there");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

/// Opens a regular file with these options, and never waits for somebody at another end.
///
/// # Errors
///
/// As [`read`].
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    match fs::metadata(path) {
        // Some devices do something when they are opened.
        Ok(about) => is_meant(about.file_type())?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // And what was put there since.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        options,
        rustix::fs::OFlags::NONBLOCK.bits().cast_signed(),
    );
    let file = options.open(path)?;
    is_meant(file.metadata()?.file_type())?;
    Ok(file)
}

fn is_meant(kind: FileType) -> io::Result<()> {
    if kind.is_file() {
        return Ok(());
    }
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let text = format!(
        "{} is in its place: put a regular file there, or remove it",
        named(kind)
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

#[cfg(unix)]
fn named(kind: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt as _;
    if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(not(unix))]
fn named(_kind: FileType) -> &'static str {
    "something that is no regular file"
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_to_its_limit_and_not_beyond() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("file");
        fs::write(&path, [b'x'; 10]).unwrap();
        assert_eq!(read(&path, 10).unwrap().len(), 10);
        let error = read(&path, 9).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        let none = read(&temp.path().join("none"), 9).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
        let dir = read(temp.path(), 9).unwrap_err();
        assert_eq!(dir.kind(), io::ErrorKind::IsADirectory);
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_regular_file_is_neither_waited_for_nor_read() {
        let temp = tempfile::tempdir().unwrap();
        let fifo = temp.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        let link = temp.path().join("link");
        std::os::unix::fs::symlink(&fifo, &link).unwrap();
        let zero = temp.path().join("zero");
        std::os::unix::fs::symlink("/dev/zero", &zero).unwrap();
        for (path, word) in [(&fifo, "a FIFO"), (&link, "a FIFO"), (&zero, "a device")] {
            let error = read(path, KEPT).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        let writing = open(&fifo, OpenOptions::new().write(true).create(true));
        assert!(writing.is_err(), "nobody has to read at its other end");
        let file = temp.path().join("file");
        fs::write(&file, "x").unwrap();
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(read(&link, KEPT).unwrap(), b"x", "a link to a file is one");
    }
}
