//! Opens regular files only.
//!
//! A FIFO, a device or a link to one in a file's place could block the reader, or never end. Links
//! to regular files are followed. Not here: writing ([`super::durable`]).

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
/// The system's error, or what is wrong with a file that is not regular or too large.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open(path, OpenOptions::new().read(true))?;
    let mut bytes = Vec::new();
    // Some report a length of zero and have content all the same.
    let length = file.take(most + 1).read_to_end(&mut bytes)?;
    if length as u64 > most {
        let text = format!("it is larger than {most} bytes, so it is not what belongs there");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

/// Opens a regular file with these options. Never blocks on another process.
///
/// # Errors
///
/// As [`read`].
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    match fs::metadata(path) {
        // Opening a device may have an effect.
        Ok(about) => check_regular(about.file_type())?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // And again, for a file that was replaced meanwhile.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        options,
        rustix::fs::OFlags::NONBLOCK.bits().cast_signed(),
    );
    let file = options.open(path)?;
    check_regular(file.metadata()?.file_type())?;
    Ok(file)
}

fn check_regular(kind: FileType) -> io::Result<()> {
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
    "something that is not a regular file"
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
    fn a_file_that_is_not_regular_is_neither_opened_nor_read() {
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
        assert!(writing.is_err(), "without a reader it would block");
        let file = temp.path().join("file");
        fs::write(&file, "x").unwrap();
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(read(&link, KEPT).unwrap(), b"x", "a link to a file is one");
    }
}
