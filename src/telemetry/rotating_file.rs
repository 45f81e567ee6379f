//! A file of lines, bounded in size and readable by its owner only.
//!
//! When it is full it replaces the `.old` file, so at most twice the limit is on disk. Not here: threads and queues ([`crate::telemetry::async_writer`]).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A bounded file, open for appending.
pub(super) struct BoundedFile {
    path: PathBuf,
    old: PathBuf,
    file: Option<File>,
    size: u64,
    limit: u64,
    torn: bool,
}

// === impl BoundedFile ===

impl BoundedFile {
    /// Opens or creates `path`, readable by its owner only.
    ///
    /// # Errors
    /// What the system says when the file cannot be opened or its mode cannot be tightened.
    pub(super) fn open(path: PathBuf, limit: u64) -> io::Result<Self> {
        let mut old = path.clone().into_os_string();
        old.push(".old");
        let (mut file, size) = append(&path)?;
        // A link to a device is neither rotated nor counted.
        let limit = if file.metadata()?.is_file() {
            limit
        } else {
            u64::MAX
        };
        Ok(Self {
            old: old.into(),
            path,
            // A process that was killed may have left half a line.
            torn: size > 0 && last_byte(&mut file)? != b'\n',
            file: Some(file),
            size,
            limit,
        })
    }

    /// Appends `line`, which ends in a line feed and is shorter than the limit.
    ///
    /// # Errors
    /// The line could not be written: it is lost, and the next one begins on a line of its own.
    pub(super) fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        if self.size > 0 && self.size + line.len() as u64 > self.limit {
            self.rotate()?;
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let (file, size) = append(&self.path)?;
                self.size = size;
                self.file.insert(file)
            }
        };
        if self.torn {
            file.write_all(b"\n")?;
            self.size += 1;
            self.torn = false;
        }
        let written = file.write_all(line);
        self.torn = written.is_err();
        // How much of a failed line arrived is unknown; counted whole, the bound still holds.
        self.size += line.len() as u64;
        written
    }

    fn rotate(&mut self) -> io::Result<()> {
        // Closed first: some systems do not rename an open file.
        self.file = None;
        if fs::rename(&self.path, &self.old).is_err() {
            // The old file is in use. The bound matters more than these lines.
            File::create(&self.path)?;
        }
        self.torn = false;
        let (file, size) = append(&self.path)?;
        self.size = size;
        self.file = Some(file);
        Ok(())
    }
}

/// Opens `path` for appending and tells its size.
fn append(path: &Path) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // Opened for both ways, a FIFO does not wait for another end.
    let file = options.open(path)?;
    let about = file.metadata()?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::{FileTypeExt, PermissionsExt};
        if about.file_type().is_fifo() {
            let text = "it is a FIFO, on which a write can block for ever";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        // The target of a link may belong to another user, and keeps its mode.
        let is_here = fs::symlink_metadata(path)?.is_file();
        if is_here && about.permissions().mode() & 0o077 != 0 {
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
        }
    }
    Ok((file, about.len()))
}

fn last_byte(file: &mut File) -> io::Result<u8> {
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last[0])
}
