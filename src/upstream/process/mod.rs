//! The process behind a port: its name, the memory of it and its children, whether it still runs,
//! and how it ended.
//!
//! Blocking (reading all open sockets takes milliseconds): call it off the runtime. What cannot be
//! read is left out. Another user's process cannot be seen through its sockets: there the socket's
//! user and the usual names of model servers are a hint, and shown as one.

#[cfg(target_os = "linux")]
mod proc;
mod end;
pub mod tracker;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;

use listeners::{Listener, Protocol, SocketState};

pub use end::{Kills, ended, how};

/// A process that listens on a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its name, as the system has it.
    pub name: String,
    /// Its program, where the system tells.
    pub executable: Option<PathBuf>,
    /// Bytes of it and its children in memory.
    pub resident: Option<u64>,
    /// When it was started, in seconds of Unix time.
    pub started: Option<u64>,
    /// Tells it from another process of the same id.
    pub birth: Option<u64>,
    /// Processes below it: a server's runner or engine.
    pub children: Vec<Child>,
    /// How it was found.
    pub found: Found,
}

/// A process below the server's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// Its id.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Bytes of it in memory.
    pub resident: Option<u64>,
}

/// How a process was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It holds the socket.
    Surely,
    /// The socket is this user's, and this process of theirs has a model server's name.
    ByHint {
        /// The user's number.
        user: u32,
    },
}

/// A process as the system shows it now.
struct Now {
    resident: Option<u64>,
    started: Option<u64>,
    birth: Option<u64>,
    executable: Option<PathBuf>,
}

/// Process names of model servers, as Linux has them: cut at 15 bytes.
#[cfg(target_os = "linux")]
const SERVERS: [&str; 8] = [
    "ollama",
    "llama-server",
    "llama-swap",
    "lm-studio",
    "LM Studio",
    "lms",
    "llmster",
    "koboldcpp",
];

impl Process {
    /// All its processes, itself first.
    pub fn family(&self) -> Vec<u32> {
        let children = self.children.iter().map(|child| child.pid);
        std::iter::once(self.pid).chain(children).collect()
    }
}

/// The process that listens on a TCP port of this machine, on any address.
pub fn of_port(port: u16) -> Option<Process> {
    match listening(|socket| socket.port() == port) {
        Some(listener) => described(listener.process.pid, listener.process.name, Found::Surely),
        None => by_hint(port),
    }
}

/// The process that holds an address that could not be bound, as `name (pid 123)`.
pub fn who_holds(address: SocketAddr) -> Option<String> {
    let ip = address.ip().to_canonical();
    let listener = listening(|socket| {
        let other = socket.ip().to_canonical();
        socket.port() == address.port()
            && (other == ip || other.is_unspecified() || ip.is_unspecified())
    })?;
    let process = listener.process;
    Some(format!("{} (pid {})", process.name, process.pid))
}

/// The same process as it is now; `None` once it has ended, also while it is a zombie.
pub fn again(process: &Process) -> Option<Process> {
    let now = described(process.pid, process.name.clone(), process.found)?;
    let same = process.birth.is_none() || process.birth == now.birth;
    same.then_some(now)
}

fn listening(is_meant: impl Fn(&SocketAddr) -> bool) -> Option<Listener> {
    listeners::get_all()
        .ok()?
        .into_iter()
        .filter(|listener| {
            listener.protocol == Protocol::TCP
                && listener.state == SocketState::Listen
                && is_meant(&listener.socket)
        })
        // The set has no order; the lowest pid is the parent where several share a socket.
        .min_by_key(|listener| listener.process.pid)
}

fn described(pid: u32, name: String, found: Found) -> Option<Process> {
    let now = now(pid)?;
    let children = children(pid);
    let of_children = children.iter().filter_map(|child| child.resident);
    let resident = now
        .resident
        .map(|resident| of_children.fold(resident, u64::saturating_add));
    Some(Process {
        pid,
        name,
        executable: now.executable,
        resident,
        started: now.started,
        birth: now.birth,
        children,
        found,
    })
}

#[cfg(target_os = "linux")]
fn now(pid: u32) -> Option<Now> {
    let proc = proc::Proc::default();
    let stat = proc.stat(pid)?;
    if stat.life != proc::ProcessState::Runs {
        return None;
    }
    // Linux counts a hundred of these a second, whatever the machine.
    let started = proc.machine_started();
    let status = proc.status(pid);
    Some(Now {
        resident: status.map(|status| status.resident),
        started: started.map(|at| at + stat.birth / 100),
        birth: Some(stat.birth),
        executable: proc.executable(pid),
    })
}

#[cfg(target_os = "linux")]
fn children(pid: u32) -> Vec<Child> {
    let proc = proc::Proc::default();
    let members = proc.descendants(pid).into_iter();
    members
        .filter_map(|pid| {
            let stat = proc.stat(pid)?;
            let status = proc.status(pid);
            (stat.life == proc::ProcessState::Runs).then_some(Child {
                pid,
                name: stat.name,
                resident: status.map(|status| status.resident),
            })
        })
        .collect()
}

#[cfg(target_os = "linux")]
fn by_hint(port: u16) -> Option<Process> {
    let proc = proc::Proc::default();
    let user = proc.listener_user(port)?;
    let stat = proc.by_name(user, &SERVERS)?;
    described(stat.pid, stat.name, Found::ByHint { user })
}

#[cfg(not(target_os = "linux"))]
mod portable {
    //! The same by sysinfo, which knows a process's parent but not its children: those are found
    //! among all processes.

    use std::collections::HashSet;

    use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System, UpdateKind};

    use super::{Child, Now, Process};

    pub(super) fn now(pid: u32) -> Option<Now> {
        let pid = Pid::from_u32(pid);
        let mut system = System::new().ok()?;
        system.refresh_processes_specifics(
            ProcessesToUpdate::Some(&[pid]),
            true,
            ProcessRefreshKind::nothing()
                .with_memory()
                .with_exe(UpdateKind::Always),
        );
        let process = system.process(pid)?;
        Some(Now {
            resident: Some(process.memory()),
            started: Some(process.start_time()),
            birth: Some(process.start_time()),
            executable: process.exe().map(ToOwned::to_owned),
        })
    }

    pub(super) fn children(pid: u32) -> Vec<Child> {
        let Ok(mut system) = System::new() else {
            return Vec::new();
        };
        system.refresh_processes_specifics(
            ProcessesToUpdate::All,
            true,
            ProcessRefreshKind::nothing().with_memory(),
        );
        let mut family = HashSet::from([Pid::from_u32(pid)]);
        let mut found = Vec::new();
        loop {
            let before = found.len();
            for (child, process) in system.processes() {
                if process
                    .parent()
                    .is_some_and(|parent| family.contains(&parent))
                    && family.insert(*child)
                {
                    found.push(Child {
                        pid: child.as_u32(),
                        name: process.name().to_string_lossy().into_owned(),
                        resident: Some(process.memory()),
                    });
                }
            }
            if found.len() == before {
                return found;
            }
        }
    }

    pub(super) fn by_hint(_port: u16) -> Option<Process> {
        None
    }
}

#[cfg(not(target_os = "linux"))]
use portable::{by_hint, children, now};
