//! Processes on Linux from `/proc`: state, descendants, and listeners of other users.
//!
//! sysinfo shows neither the exit status of a zombie nor the user of a foreign socket. Nothing here
//! needs a privilege; a file that is gone, truncated or hidden is left out.

use std::collections::HashSet;
use std::path::PathBuf;

/// The most descendants that are followed, so that a wrong file cannot cause an endless loop.
const MOST_MEMBERS: usize = 256;

/// How a socket that listens is marked in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// The files of processes.
#[derive(Debug, Clone)]
pub(super) struct Proc {
    root: PathBuf,
}

/// One process, as its `stat` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) pid: u32,
    /// Its short name, at most 15 bytes.
    pub(super) name: String,
    pub(super) life: ProcessState,
    /// When it was started, in hundredths of a second since the machine was.
    pub(super) birth: u64,
}

/// Memory and user of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status {
    /// Bytes in memory.
    pub(super) resident: u64,
    /// The user's number.
    pub(super) user: u32,
}

/// Whether a process is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessState {
    Runs,
    /// It is a zombie; with its status as `wait` would give it.
    Ended(u32),
}

impl Default for Proc {
    fn default() -> Self {
        Self::new("/proc".into())
    }
}

impl Proc {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    fn read(&self, path: &str) -> Option<String> {
        let bytes = std::fs::read(self.root.join(path)).ok()?;
        // A name may hold any bytes.
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A process; `None` if there is none of this number.
    pub(super) fn stat(&self, pid: u32) -> Option<Stat> {
        let text = self.read(&format!("{pid}/stat"))?;
        // The name is in brackets and may hold brackets itself.
        let (head, tail) = (text.find('(')?, text.rfind(')')?);
        let name = text.get(head + 1..tail)?.to_owned();
        let fields: Vec<&str> = text.get(tail + 1..)?.split_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
        let life = match *fields.first()? {
            "Z" | "X" | "x" => {
                ProcessState::Ended(u32::try_from(number(49).unwrap_or(0)).unwrap_or_default())
            }
            _ => ProcessState::Runs,
        };
        Some(Stat {
            pid,
            name,
            life,
            birth: number(19)?,
        })
    }

    /// Its memory and its user.
    pub(super) fn status(&self, pid: u32) -> Option<Status> {
        let text = self.read(&format!("{pid}/status"))?;
        let member = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let bytes = |name: &str| Some(member(name)?.saturating_mul(1024));
        Some(Status {
            resident: bytes("VmRSS:").unwrap_or(0),
            user: u32::try_from(member("Uid:")?).ok()?,
        })
    }

    /// The program's file.
    pub(super) fn executable(&self, pid: u32) -> Option<PathBuf> {
        std::fs::read_link(self.root.join(format!("{pid}/exe"))).ok()
    }

    /// When the machine was started, in seconds of Unix time.
    pub(super) fn machine_started(&self) -> Option<u64> {
        let text = self.read("stat")?;
        let line = text.lines().find_map(|line| line.strip_prefix("btime "))?;
        line.trim().parse().ok()
    }

    /// All processes below one, nearest first, itself not among them.
    pub(super) fn descendants(&self, pid: u32) -> Vec<u32> {
        let mut known = HashSet::from([pid]);
        let mut found = vec![pid];
        let mut at = 0;
        while let Some(parent) = found.get(at).copied() {
            at += 1;
            let mut children = self.children(parent);
            children.sort_unstable();
            for child in children {
                if found.len() <= MOST_MEMBERS && known.insert(child) {
                    found.push(child);
                }
            }
        }
        found.remove(0);
        found
    }

    /// A child belongs to the thread that started it.
    fn children(&self, pid: u32) -> Vec<u32> {
        let tasks = self.root.join(format!("{pid}/task"));
        let Ok(tasks) = std::fs::read_dir(tasks) else {
            return Vec::new();
        };
        tasks
            .flatten()
            .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
            .flat_map(|text| {
                let pids = text.split_whitespace().map(str::parse);
                pids.filter_map(Result::ok).collect::<Vec<u32>>()
            })
            .collect()
    }

    /// The user whose process listens on a port of this machine.
    pub(super) fn listener_user(&self, port: u16) -> Option<u32> {
        ["net/tcp", "net/tcp6"]
            .iter()
            .filter_map(|file| self.read(file))
            .find_map(|text| {
                text.lines().skip(1).find_map(|line| {
                    let fields: Vec<&str> = line.split_whitespace().collect();
                    let (_, local) = fields.get(1)?.rsplit_once(':')?;
                    let here = u16::from_str_radix(local, 16).ok()? == port;
                    (here && *fields.get(3)? == LISTENING)
                        .then(|| fields.get(7)?.parse().ok())
                        .flatten()
                })
            })
    }

    /// The oldest process of a user with one of these names (as `comm` has them, cut at 15).
    pub(super) fn by_name(&self, user: u32, names: &[&str]) -> Option<Stat> {
        let entries = std::fs::read_dir(&self.root).ok()?;
        entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
            .filter_map(|pid| self.stat(pid))
            .filter(|stat| stat.life == ProcessState::Runs && names.contains(&stat.name.as_str()))
            .filter(|stat| self.status(stat.pid).is_some_and(|it| it.user == user))
            .min_by_key(|stat| stat.birth)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Proc) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let proc = Proc::new(folder.path().to_owned());
        (folder, proc)
    }

    fn stat(pid: u32, name: &str, state: char, birth: u64, code: u32) -> String {
        let middle = "0 ".repeat(17);
        let rest = "0 ".repeat(29);
        // Fields 3, 4…21, 22 and 52.
        format!("{pid} ({name}) {state} 1 {middle}{birth} {rest}{code}\n")
    }

    #[test]
    fn a_zombie_has_ended() {
        let (_folder, proc) = tree(&[
            ("7/stat", &stat(7, "a (b) c", 'S', 4242, 0)),
            ("8/stat", &stat(8, "killed", 'Z', 1, 9)),
            ("9/stat", "9 (cut"),
            ("10/stat", "10 (short) S 1 2"),
        ]);
        let seven = proc.stat(7).unwrap();
        assert_eq!((seven.name.as_str(), seven.birth), ("a (b) c", 4242));
        assert_eq!(seven.life, ProcessState::Runs);
        assert_eq!(proc.stat(8).unwrap().life, ProcessState::Ended(9));
        assert_eq!(proc.stat(9), None, "a file that was cut");
        assert_eq!(proc.stat(10), None, "a file without the start");
        assert_eq!(proc.stat(11), None, "no such process");
    }

    #[test]
    fn descendants_are_found_through_every_thread_and_only_once() {
        let (_folder, proc) = tree(&[
            ("1/task/1/children", "2 3 "),
            ("1/task/5/children", "4"),
            ("2/task/2/children", "6 1"),
            ("4/task/4/children", "x 99999999999"),
        ]);
        assert_eq!(proc.descendants(1), [2, 3, 4, 6]);
        assert_eq!(proc.descendants(77), Vec::<u32>::new());
    }

    #[test]
    fn another_users_server_is_found_by_socket_and_name() {
        let head = "  sl  local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode\n";
        let tcp = format!(
            "{head}   0: 0100007F:2CAA 00000000:0000 0A 0:0 0:0 0 998 0 1\n   1: 0100007F:1F90 00000000:0000 01 0:0 0:0 0 5 0 1\n"
        );
        let (_folder, proc) = tree(&[
            ("net/tcp", &tcp),
            ("net/tcp6", "head\nnonsense\n: : :\n"),
            ("20/stat", &stat(20, "ollama", 'S', 900, 0)),
            (
                "20/status",
                "Name:\tollama\nUid:\t998\t998\nVmRSS:\t  1024 kB\n",
            ),
            ("21/stat", &stat(21, "ollama", 'S', 100, 0)),
            ("21/status", "Name:\tollama\nUid:\t0\t0\n"),
        ]);
        assert_eq!(proc.listener_user(11434), Some(998));
        assert_eq!(proc.listener_user(8080), None, "connected, not listening");
        assert_eq!(proc.by_name(998, &["ollama"]).unwrap().pid, 20);
        assert_eq!(proc.by_name(998, &["llama-server"]), None);
        let status = |resident, user| Some(Status { resident, user });
        assert_eq!(proc.status(20), status(1 << 20, 998));
        assert_eq!(proc.status(21), status(0, 0), "a kernel that hides memory");
    }
}
