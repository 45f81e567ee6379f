//! Memory pressure: readings in, one of four levels out.
//!
//! `thresholds` and `level` turn readings into a level and are pure: no clock, no I/O. `ram` reads
//! main memory, `cgroup` the limits of control groups, `psi` the time lost to memory stalls, `vram`
//! graphics cards; `readings` keeps the latest of each. Not here: what a level means for a request
//! (`degrade`, `scheduler`).

use std::fmt;

pub mod cgroup;
mod thresholds;
mod level;
mod ram;
pub mod psi;
pub mod vram;
pub mod readings;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod cgroup_tests;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

pub use level::{Judge, Threshold, Thresholds, Verdict};
pub use psi::StallReader;
pub use ram::{RamReader, Swap};
pub use thresholds::{Sample, Shortage, Stall};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const EIB: u64 = 1 << 60;

/// How short memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    /// Nothing to do.
    #[default]
    Normal,
    /// Answers get shorter.
    Elevated,
    /// Answers get much shorter.
    High,
    /// Nothing is dispatched.
    Critical,
}

/// One reading of memory: of the machine, or of a control group with a limit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Bytes in all.
    pub total: u64,
    /// Bytes that a process can still get without swapping: free memory, and what the kernel frees
    /// at once.
    pub available: u64,
}

impl Level {
    /// All of them, mildest first.
    pub const ALL: [Self; 4] = [Self::Normal, Self::Elevated, Self::High, Self::Critical];

    /// Its name in the status.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Elevated => "elevated",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

impl Reading {
    /// Whether the numbers can be true. Some systems report nothing available when they do not know;
    /// more available than there is, or more than any machine has, is a number that overflowed.
    pub fn is_plausible(&self) -> bool {
        self.available > 0 && self.available <= self.total && self.total < EIB
    }

    /// The available part of the total in whole percent, rounded down: 0…100.
    pub fn percent(&self) -> u8 {
        u8::try_from(self.share() / 10_000).unwrap_or(100)
    }

    /// The available part of the total in millionths: 0…1,000,000. Finer than percent, so that a
    /// slow decline is seen.
    fn share(&self) -> u32 {
        let total = u128::from(self.total.max(1));
        let share = u128::from(self.available) * 1_000_000 / total;
        u32::try_from(share.min(1_000_000)).unwrap_or(1_000_000)
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (available, total) = (Size(self.available), Size(self.total));
        write!(f, "{available} of {total} ({} %)", self.percent())
    }
}

/// Bytes as a person reads them, rounded down: whole MiB, from 1 GiB on GiB with one decimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < GIB {
            return write!(f, "{} MiB", self.0 / MIB);
        }
        let tenths = (self.0 % GIB) * 10 / GIB;
        write!(f, "{}.{tenths} GiB", self.0 / GIB)
    }
}
