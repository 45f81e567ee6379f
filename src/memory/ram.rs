//! Reads RAM: the machine's, and on Linux that of every group with a limit around this process
//! or around the model's.
//!
//! Reads on the caller's thread and keeps no time of its own. A reading costs a few small files;
//! on Windows swap is not asked for, since that alone can take seconds.

use std::error::Error;

use sysinfo::{MemoryRefreshKind, System};

use super::Reading;
use super::cgroup::Groups;

/// Reads RAM again and again.
#[derive(Debug)]
pub struct RamReader {
    system: Option<System>,
    groups: Option<Groups>,
    /// The groups of the model's process, which may have a limit that this one does not.
    model: Option<Model>,
    complaint: Complaint,
}

/// Where the model's process is.
#[derive(Debug)]
struct Model {
    groups: Groups,
    /// The groups it was in when last seen: a dying process is in none, and how short its memory
    /// was is asked right then.
    named: String,
}

/// Swap, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swap {
    /// All there is; 0 where there is none.
    pub total: u64,
    /// What is in use.
    pub used: u64,
}

/// Whether a failure was logged: it would be repeated every two seconds.
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
            model: None,
            complaint,
        }
    }

    /// Reads the limits around this living process as well from now on; `None` for none. Call it
    /// again while the process lives: it may have been put into another group.
    pub fn follow(&mut self, pid: Option<u32>) {
        if !cfg!(target_os = "linux") {
            return;
        }
        self.model = pid.and_then(|pid| {
            let named = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
            let groups = Groups::of(pid);
            Some(Model { groups, named })
        });
    }

    /// Swap as it was at the last [`Self::read`]; `None` where it was not asked for or the
    /// numbers cannot be true.
    pub fn swap(&self) -> Option<Swap> {
        let system = self.system.as_ref().filter(|_| !cfg!(windows))?;
        let (total, used) = (system.total_swap(), system.used_swap());
        (used <= total && total < super::EIB).then_some(Swap { total, used })
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
        let mut wanted = MemoryRefreshKind::nothing().with_ram();
        if !cfg!(windows) {
            wanted = wanted.with_swap();
        }
        system.refresh_memory_specifics(wanted);
        Reading {
            total: system.total_memory(),
            available: system.available_memory(),
        }
    }

    fn read_groups(&mut self, machine: Reading) -> Vec<Reading> {
        let mut groups = match &self.groups {
            Some(groups) => groups.read(machine),
            None => Vec::new(),
        };
        if let Some(model) = &self.model {
            groups.extend(model.groups.read_named(&model.named, machine));
        }
        let mut readings = Vec::new();
        for group in groups {
            match group {
                Ok(group) => readings.extend(group.reading(machine)),
                Err(error) => self.complain(|| {
                    let error: &dyn Error = &error;
                    tracing::warn!(
                        error,
                        "a memory limit around this process or the model's is not known"
                    );
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
