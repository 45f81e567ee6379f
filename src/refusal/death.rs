//! How the model server's process ended, as far as that is visible from outside.

use std::fmt;
use std::time::Duration;

use crate::memory::Size;

/// The end of the model server's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Death {
    /// How it ended.
    pub how: HowEnded,
    /// Whether memory was short at that moment.
    pub memory: MemoryThen,
    /// Bytes it held when last seen, children included.
    pub resident: Option<u64>,
    /// Bytes of RAM that were available when last read before.
    pub available: Option<u64>,
    /// From its start to its end.
    pub lived: Option<Duration>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HowEnded {
    /// By itself, with this status.
    Exited(u8),
    /// By this signal.
    Killed(u8),
    /// The kernel killed it because memory ran out, by its own cgroup's counter.
    OutOfMemory,
    /// The kernel killed some process at that time because memory ran out.
    LikelyOutOfMemory,
    /// Unknown.
    Unknown,
}

/// Whether memory was short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryThen {
    /// It was, by the level of pressure or a kill by the kernel.
    Short,
    /// It was not, or that is unknown.
    NotShort,
}

impl HowEnded {
    /// Its word in the status and the log.
    pub fn word(self) -> &'static str {
        match self {
            Self::Exited(_) => "exited",
            Self::Killed(_) => "killed",
            Self::OutOfMemory => "out_of_memory",
            Self::LikelyOutOfMemory => "likely_out_of_memory",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.how {
            HowEnded::Exited(code) => {
                write!(f, "The model server's process ended by itself with status {code}")?;
            }
            HowEnded::Killed(signal) => {
                write!(f, "The model server's process was ended by signal {signal}")?;
            }
            HowEnded::OutOfMemory => f.write_str(
                "The model server's process was killed by the system because memory ran out",
            )?,
            HowEnded::LikelyOutOfMemory => f.write_str(
                "The model server's process is gone, and the system killed a process at that time because memory ran out",
            )?,
            HowEnded::Unknown => f.write_str("The model server's process is gone")?,
        }
        let by_memory = matches!(
            self.how,
            HowEnded::OutOfMemory | HowEnded::LikelyOutOfMemory
        );
        if self.memory == MemoryThen::Short && !by_memory {
            f.write_str(", and memory was short at that moment")?;
        }
        if let Some(lived) = self.lived {
            write!(f, ", after {}", age(lived))?;
        }
        match (self.resident, self.available) {
            (Some(held), Some(left)) => write!(
                f,
                " (it held {}; {} of RAM was available)",
                Size(held),
                Size(left)
            ),
            (Some(held), None) => write!(f, " (it held {})", Size(held)),
            (None, Some(left)) => write!(f, " ({} of RAM was available)", Size(left)),
            (None, None) => Ok(()),
        }
    }
}

/// "5 seconds", "12 minutes", "3 hours": rounded down, for people.
fn age(lived: Duration) -> String {
    let seconds = lived.as_secs();
    match seconds {
        1 => "1 second".to_owned(),
        0..120 => format!("{seconds} seconds"),
        120..7200 => format!("{} minutes", seconds / 60),
        _ => format!("{} hours", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_is_described_by_what_is_known() {
        let all = Death {
            how: HowEnded::OutOfMemory,
            memory: MemoryThen::Short,
            resident: Some(512 << 20),
            available: Some(40 << 20),
            lived: Some(Duration::from_secs(720)),
        };
        assert_eq!(
            all.to_string(),
            "The model server's process was killed by the system because memory ran out, after 12 minutes (it held 512 MiB; 40 MiB of RAM was available)"
        );
        let least = Death {
            how: HowEnded::Unknown,
            memory: MemoryThen::NotShort,
            resident: None,
            available: None,
            lived: None,
        };
        assert_eq!(least.to_string(), "The model server's process is gone");
        let short = Death {
            how: HowEnded::Exited(1),
            memory: MemoryThen::Short,
            ..least
        };
        assert_eq!(
            short.to_string(),
            "The model server's process ended by itself with status 1, and memory was short at that moment"
        );
    }
}
