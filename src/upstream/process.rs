//! The process behind a port: who it is, how much memory it holds, whether it still lives.
//!
//! Blocking (a look through all open sockets takes milliseconds): call it off the runtime. It
//! never fails loudly; another user's process is simply not seen.

use std::net::SocketAddr;

use listeners::{Listener, Protocol, SocketState};
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

/// A process that listens on a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its name, as the system has it.
    pub name: String,
    /// Bytes of it in memory.
    pub resident: Option<u64>,
    /// When it was started, in seconds of Unix time: a pid alone may be given again.
    pub started: Option<u64>,
}

/// Who listens on a TCP port of this machine, on any address.
pub fn of_port(port: u16) -> Option<Process> {
    let listener = listening(|socket| socket.port() == port)?;
    Some(described(listener))
}

/// Who holds an address that could not be bound, as `name (pid 123)`.
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

/// The same process as it is now; `None` once it is gone.
pub fn again(process: &Process) -> Option<Process> {
    let (resident, started) = memory_of(process.pid)?;
    let same = process.started.is_none_or(|before| before == started);
    same.then(|| Process {
        pid: process.pid,
        name: process.name.clone(),
        resident: Some(resident),
        started: Some(started),
    })
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

fn described(listener: Listener) -> Process {
    let process = listener.process;
    let memory = memory_of(process.pid);
    Process {
        pid: process.pid,
        name: process.name,
        resident: memory.map(|(resident, _)| resident),
        started: memory.map(|(_, started)| started),
    }
}

/// Resident bytes and start time.
fn memory_of(pid: u32) -> Option<(u64, u64)> {
    let pid = Pid::from_u32(pid);
    let mut system = System::new().ok()?;
    system.refresh_processes_specifics(
        ProcessesToUpdate::Some(&[pid]),
        true,
        ProcessRefreshKind::nothing().with_memory(),
    );
    let process = system.process(pid)?;
    Some((process.memory(), process.start_time()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    #[test]
    fn a_listening_port_leads_to_its_process() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let found = of_port(address.port()).unwrap();
        assert_eq!(found.pid, std::process::id());
        assert!(found.resident.unwrap() > 0, "a living process holds memory");
        assert!(found.started.is_some());
        assert_eq!(again(&found).unwrap().pid, found.pid);
        let holder = who_holds(address).unwrap();
        assert!(holder.contains(&format!("pid {}", found.pid)), "{holder}");
    }

    #[test]
    fn nobody_listening_is_no_failure() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        assert_eq!(of_port(port), None, "a UDP socket is no model server");
        let gone = Process {
            pid: u32::MAX - 1,
            name: "gone".to_owned(),
            resident: None,
            started: None,
        };
        assert_eq!(again(&gone), None);
    }
}
