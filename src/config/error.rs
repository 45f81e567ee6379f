//! What is wrong with a configuration, and what a person should know about one that is used.
//!
//! No text here repeats a value that may hold a credential.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where a value was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// In a file, at a line counted from 1.
    File {
        /// The file.
        file: PathBuf,
        /// The line, where it is known.
        line: Option<usize>,
    },
    /// In an environment variable.
    Variable(String),
    /// By a flag on the command line.
    Flag(&'static str),
}

/// Something that makes a configuration unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A setting has a value it does not take.
    #[error("{location}: {member}: found {found}, expected {expected}")]
    Value {
        /// Where.
        location: Location,
        /// The setting.
        member: &'static str,
        /// What is there, unless it may hold a credential.
        found: String,
        /// What should be there.
        expected: String,
    },
    /// There is a value where a section should be.
    #[error("{location}: {name}: found {found}, expected a section of settings")]
    Shape {
        /// Where.
        location: Location,
        /// The name of the section.
        name: String,
        /// The type that is there.
        found: &'static str,
    },
    /// The file is not TOML.
    #[error("{location}: {reason}")]
    Syntax {
        /// Where.
        location: Location,
        /// The parser's message.
        reason: String,
    },
    /// The file is empty, although it had settings before.
    #[error("{}: the file is empty, although it had settings before", file.display())]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// The file no longer says whether a key is required, although one was.
    #[error(
        "{}: it no longer contains access.require_key, although a key was required; the file may be half written, so the settings in use stay. To serve without a key, write access.require_key = false",
        file.display()
    )]
    KeyUnsaid {
        /// The file.
        file: PathBuf,
    },
    /// The file is missing, although settings from it are in use.
    #[error("{}: the file is gone; the settings in use stay until the next start", file.display())]
    Gone {
        /// The file.
        file: PathBuf,
    },
    /// The file could not be read.
    #[error("{}: {reason}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why, in words.
        reason: String,
    },
    /// The model server would be the gateway itself.
    #[error(
        "upstream.base_url is {base_url}, which is OneSlot's own address; set the model server's"
    )]
    OwnAddress {
        /// The base URL.
        base_url: String,
    },
    /// Other machines could send requests without a key.
    #[error(
        "listen has {address}, which other machines can reach; that needs access.require_key = true and a key (`oneslotd key add NAME`)"
    )]
    OpenWithoutKey {
        /// The address.
        address: SocketAddr,
    },
}

/// Something a person should know about a configuration that is used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Notice {
    /// This is not a setting; it has no effect.
    #[error(
        "{location}: {name} is not a setting and has no effect{}",
        nearest.map_or(String::new(), |nearest| format!("; did you mean {nearest}?"))
    )]
    Unknown {
        /// Where.
        location: Location,
        /// As written.
        name: String,
        /// The setting it may have meant.
        nearest: Option<&'static str>,
    },
    /// This was a setting of an earlier version; it has no effect any more.
    #[error("{location}: {name} is no longer a setting and has no effect")]
    Removed {
        /// Where.
        location: Location,
        /// As written.
        name: String,
    },
    /// A file that could not be used was copied, byte for byte; it also stays where it is.
    #[error("{} could not be used; it is unchanged, and a copy is {}", file.display(), copy.display())]
    KeptAside {
        /// The file.
        file: PathBuf,
        /// The copy.
        copy: PathBuf,
    },
    /// The last good settings are in use instead of a file with faults.
    #[error("the last good settings are in use ({}), because: {}", good.display(), joined(faults, "; "))]
    LastGoodServes {
        /// The copy they are read from.
        good: PathBuf,
        /// What is wrong with the file.
        faults: Vec<Fault>,
    },
    /// The defaults are in use instead of a file with faults, since there is no good copy.
    #[error("the default settings are in use, because: {}", joined(faults, "; "))]
    DefaultsServe {
        /// What is wrong with the file.
        faults: Vec<Fault>,
    },
    /// Every request is refused, since a file with faults may require a key.
    #[error(
        "every request is refused until the settings are fixed, since they may require a key and cannot be used: {}",
        joined(faults, "; ")
    )]
    Locked {
        /// What is wrong with the file.
        faults: Vec<Fault>,
    },
    /// The file is missing, although there was one at an earlier start; the defaults are in use.
    #[error(
        "there is no settings file {}, so the defaults are in use; the last good one is kept as {}",
        file.display(),
        copy.display()
    )]
    Missing {
        /// The file.
        file: PathBuf,
        /// Its last good copy.
        copy: PathBuf,
    },
    /// Other users could read the file, and cannot any more.
    #[error("{} was readable by others (mode {had:04o}) and is now 0600", file.display())]
    Tightened {
        /// The file.
        file: PathBuf,
        /// The mode it had.
        had: u32,
    },
    /// A key is required and there is none, so every request is refused.
    #[error(
        "access.require_key is true and there is no key, so every request is refused; add one with `oneslotd key add NAME`"
    )]
    NoKey,
    /// A copy could not be written, or a file could not be closed to other users.
    #[error("could not {action} {}: {reason}", file.display())]
    NotDone {
        /// What could not be done, such as `copy`.
        action: &'static str,
        /// The file.
        file: PathBuf,
        /// Why not.
        reason: String,
    },
}

impl Notice {
    /// Why the file as it stands is not in use; empty if it is.
    pub fn faults(&self) -> &[Fault] {
        match self {
            Self::LastGoodServes { faults, .. }
            | Self::DefaultsServe { faults }
            | Self::Locked { faults } => faults,
            Self::Unknown { .. }
            | Self::Removed { .. }
            | Self::KeptAside { .. }
            | Self::Missing { .. }
            | Self::Tightened { .. }
            | Self::NoKey
            | Self::NotDone { .. } => &[],
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File {
                file,
                line: Some(line),
            } => write!(f, "{}:{line}", file.display()),
            Self::File { file, line: None } => file.display().fmt(f),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

pub(super) fn joined(faults: &[Fault], separator: &str) -> String {
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    faults.join(separator)
}

/// An I/O error in words for a user.
pub(super) fn words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
        io::ErrorKind::PermissionDenied => "this user may not read it".to_owned(),
        io::ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
        _ => error.to_string(),
    }
}
