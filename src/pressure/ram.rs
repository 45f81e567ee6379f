//! Reads RAM: the machine's, and on Linux that of every group with a limit around this process.
//!
//! Reads on the caller's thread and keeps no time of its own. A reading costs a few small files;
//! swap is not asked for, since on Windows that alone can take seconds.

use std::error::Error;

use sysinfo::{MemoryRefreshKind, System};

use super::Reading;
use super::cgroup::Groups;

/// Reads RAM again and again.
#[derive(Debug)]
pub struct RamReader {
    system: Option<System>,
    groups: Option<Groups>,
    complaint: Complaint,
}

/// Whether the log has heard of a failure: every two seconds the same line helps nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Complaint {
    Open,
    Made,
}

impl RamReader {
    /// Reads nothing yet.
    pub fn new() -> Self {
        let groups = cfg!(target_os = "linux").then(Groups::default);
        Self::with_groups(groups)
    }

    /// A reader of the limits of `groups`; none where the system knows no groups.
    pub(super) fn with_groups(groups: Option<Groups>) -> Self {
        let (system, complaint) = match System::new() {
            Ok(system) => (Some(system), Complaint::Open),
            Err(error) => {
                let error: &dyn Error = &error;
                tracing::warn!(error, "RAM cannot be read on this system");
                (None, Complaint::Made)
            }
        };
        Self {
            system,
            groups,
            complaint,
        }
    }

    /// RAM now: first the machine, then the groups from this process's own outwards. Empty if
    /// nothing is known. The first failure is logged, the others are not.
    pub fn read(&mut self) -> Vec<Reading> {
        let machine = self.read_machine();
        if !machine.is_plausible() {
            let Reading { total, available } = machine;
            self.complain(|| {
                tracing::warn!(
                    total,
                    available,
                    "the system does not say how much RAM it has"
                );
            });
        }
        let mut readings = vec![machine];
        readings.extend(self.read_groups(machine));
        readings.retain(Reading::is_plausible);
        readings
    }

    /// Zeros if the system does not say.
    fn read_machine(&mut self) -> Reading {
        let Some(system) = &mut self.system else {
            return Reading {
                total: 0,
                available: 0,
            };
        };
        system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
        Reading {
            total: system.total_memory(),
            available: system.available_memory(),
        }
    }

    fn read_groups(&mut self, machine: Reading) -> Vec<Reading> {
        let groups = match &self.groups {
            Some(groups) => groups.read(machine),
            None => Vec::new(),
        };
        let mut readings = Vec::new();
        for group in groups {
            match group {
                Ok(group) => readings.extend(group.reading(machine)),
                Err(error) => self.complain(|| {
                    let error: &dyn Error = &error;
                    tracing::warn!(error, "a memory limit of this process is not known");
                }),
            }
        }
        readings
    }

    fn complain(&mut self, say: impl FnOnce()) {
        if self.complaint == Complaint::Open {
            self.complaint = Complaint::Made;
            say();
        }
    }
}

impl Default for RamReader {
    fn default() -> Self {
        Self::new()
    }
}
