//! What is wrong with a configuration, and what a person should be told about it.
//!
//! No text here repeats a value that may hold a credential.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In a file, at a line counted from 1.
    File {
        /// The file.
        file: PathBuf,
        /// The line, where it is known.
        line: Option<usize>,
    },
    /// In a variable of the environment.
    Variable(String),
    /// Behind a flag on the command line.
    Flag(&'static str),
}

/// Something that makes a configuration unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A member has a value it does not take.
    #[error("{place}: {member}: found {found}, expected {expected}")]
    Value {
        /// Where.
        place: Place,
        /// Which member.
        member: &'static str,
        /// What stands there, unless it may hold a credential.
        found: String,
        /// What should.
        expected: String,
    },
    /// A section stands where a value should, or a value where a section should.
    #[error("{place}: {name}: found {found}, expected {expected}")]
    Shape {
        /// Where.
        place: Place,
        /// What it is called there.
        name: String,
        /// What stands there.
        found: &'static str,
        /// What should.
        expected: &'static str,
    },
    /// The file is not TOML.
    #[error("{place}: {reason}")]
    Syntax {
        /// Where.
        place: Place,
        /// What the parser stumbled on.
        reason: String,
    },
    /// The file has no bytes, although one with settings was there before.
    #[error("{}: the file is empty, although it had settings before", file.display())]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// The file no longer says whether a key is required, although one was.
    #[error(
        "{}: it no longer says access.require_key, although a key was required: the settings in use stay, in case it is still being written. To serve without a key, write access.require_key = false",
        file.display()
    )]
    KeyUnsaid {
        /// The file.
        file: PathBuf,
    },
    /// The file is gone, although one with settings was there before.
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
        "upstream.base_url is {base_url}, which is OneSlot's own address; name the model server's"
    )]
    OwnAddress {
        /// The base URL.
        base_url: String,
    },
    /// Others could call without a key.
    #[error(
        "listen has {address}, which others can reach; that needs access.require_key = true and a key (`oneslotd key add NAME`)"
    )]
    OpenWithoutKey {
        /// The address.
        address: SocketAddr,
    },
}

/// Something a person should know about a configuration that is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A member nobody knows; it has no effect.
    Unknown {
        /// Where.
        place: Place,
        /// As written.
        name: String,
        /// The member it may have meant.
        nearest: Option<&'static str>,
    },
    /// A file that could not be used was copied, byte for byte; it is also still in its place.
    KeptAside {
        /// The file.
        file: PathBuf,
        /// The copy.
        copy: PathBuf,
    },
    /// A file that could not be used could not be copied either; it is still in its place.
    NotKeptAside {
        /// The file.
        file: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The last good copy serves in place of a file with faults.
    LastGoodServes {
        /// The copy.
        good: PathBuf,
        /// What is wrong with the file.
        faults: Vec<Fault>,
    },
    /// The defaults serve in place of a file with faults, since there is no good copy.
    DefaultsServe {
        /// What is wrong with the file.
        faults: Vec<Fault>,
    },
    /// No request is served in place of a file with faults that may ask for a key.
    Locked {
        /// What is wrong with the file.
        faults: Vec<Fault>,
    },
    /// The file was readable by others and is not any more.
    Tightened {
        /// The file.
        file: PathBuf,
        /// The mode it had.
        had: u32,
    },
    /// The file is readable by others, and that could not be changed.
    Open {
        /// The file.
        file: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A key is required and there is none, so that every request is refused.
    NoKey,
    /// The good copy could not be kept.
    GoodNotKept {
        /// The copy.
        good: PathBuf,
        /// Why not.
        reason: String,
    },
}

impl Notice {
    /// Whether the settings in use are not those the file asks for.
    pub fn is_fallback(&self) -> bool {
        match self {
            Self::LastGoodServes { .. } | Self::DefaultsServe { .. } | Self::Locked { .. } => true,
            Self::Unknown { .. }
            | Self::KeptAside { .. }
            | Self::NotKeptAside { .. }
            | Self::Tightened { .. }
            | Self::Open { .. }
            | Self::NoKey
            | Self::GoodNotKept { .. } => false,
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown {
                place,
                name,
                nearest,
            } => {
                write!(f, "{place}: {name} is not a setting and has no effect")?;
                nearest.map_or(Ok(()), |nearest| write!(f, "; did you mean {nearest}?"))
            }
            Self::KeptAside { file, copy } => {
                let (file, copy) = (file.display(), copy.display());
                write!(
                    f,
                    "{file} could not be used; it stays as it is, a copy is kept as {copy}"
                )
            }
            Self::NotKeptAside { file, reason } => {
                write!(
                    f,
                    "{} could not be used and stays as it is: {reason}",
                    file.display()
                )
            }
            Self::LastGoodServes { good, faults } => {
                write!(
                    f,
                    "the last good settings serve ({}), because: ",
                    good.display()
                )?;
                listed(f, faults)
            }
            Self::DefaultsServe { faults } => {
                f.write_str("the default settings serve, because: ")?;
                listed(f, faults)
            }
            Self::Locked { faults } => {
                f.write_str(
                    "every request is refused until the settings are mended, since they may ask for a key and cannot be used: ",
                )?;
                listed(f, faults)
            }
            Self::Tightened { file, had } => {
                write!(
                    f,
                    "{} could be read by others (mode {had:04o}) and is now 0600",
                    file.display()
                )
            }
            Self::Open { file, reason } => {
                write!(
                    f,
                    "{} can be read by others, and that could not be changed: {reason}",
                    file.display()
                )
            }
            Self::NoKey => f.write_str(
                "access.require_key is true and there is no key, so every request is refused; \
                 add one with `oneslotd key add NAME`",
            ),
            Self::GoodNotKept { good, reason } => {
                write!(
                    f,
                    "no copy of the settings could be kept as {}: {reason}",
                    good.display()
                )
            }
        }
    }
}

impl fmt::Display for Place {
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

/// The faults in one line, for a sentence.
fn listed(f: &mut fmt::Formatter<'_>, faults: &[Fault]) -> fmt::Result {
    for (at, fault) in faults.iter().enumerate() {
        let between = if at == 0 { "" } else { "; " };
        write!(f, "{between}{fault}")?;
    }
    Ok(())
}

/// An I/O error in the words a person knows.
pub(super) fn words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::IsADirectory => "a directory is in its place".to_owned(),
        io::ErrorKind::PermissionDenied => "this user may not read it".to_owned(),
        io::ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
        _ => error.to_string(),
    }
}
