//! What Linux lets a group of processes have: the memory limits from one's own control group up
//! to the root, versions 1 and 2; and how often the kernel killed for memory in them.
//!
//! Parsing is apart from reading and knows no files. Swap is never looked at. Which of several
//! limits matters is for the judge to say: a tight small group and a tight machine can both.

use std::io;
use std::num::ParseIntError;
use std::path::{Path, PathBuf};

use super::Reading;

/// A page. A group filled to its limit still reports this much as available: there the kernel
/// counted, so it is not the zero of a system that does not know.
const PAGE: u64 = 4096;

/// The memory of one group that has a limit, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// The most it may have.
    pub limit: u64,
    /// What it has, file cache included.
    pub used: u64,
    /// What of that the kernel takes back when it is needed: file cache, reclaimable slab.
    pub reclaimable: u64,
}

/// The two layouts of the group file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One tree for each controller.
    One,
    /// One tree for all of them.
    Two,
}

/// Where the groups are read.
#[derive(Debug)]
pub struct Groups {
    own: PathBuf,
    mount: PathBuf,
}

/// Why a group's memory is not known.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// A file that should be there could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file held something that is not a number of bytes.
    #[error("cannot understand {}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: ParseIntError,
    },
}

/// The names of a version's files.
struct Files {
    limit: &'static str,
    used: &'static str,
    /// Members of `memory.stat` that count what can be taken back, children included.
    reclaimable: &'static [&'static str],
}

impl Group {
    /// The group as a machine of its own, on the host it runs on. `None` if its limit is none:
    /// nothing at all, or no less than the host has.
    pub fn reading(&self, host: Reading) -> Option<Reading> {
        let held = self.used.saturating_sub(self.reclaimable);
        let headroom = self.limit.saturating_sub(held).max(PAGE.min(self.limit));
        // A limit above what the host has is no limit.
        let available = if host.is_plausible() {
            headroom.min(host.available)
        } else {
            headroom
        };
        is_limit(self.limit, host).then_some(Reading {
            total: self.limit,
            available,
        })
    }
}

impl Version {
    fn files(self) -> Files {
        match self {
            Self::One => Files {
                limit: "memory.limit_in_bytes",
                used: "memory.usage_in_bytes",
                reclaimable: &["total_inactive_file", "total_active_file"],
            },
            Self::Two => Files {
                limit: "memory.max",
                used: "memory.current",
                reclaimable: &["inactive_file", "active_file", "slab_reclaimable"],
            },
        }
    }

    /// What of a group's memory can be taken back, in bytes, by the text of its `memory.stat`.
    pub fn reclaimable(self, stat: &str) -> u64 {
        let wanted = self.files().reclaimable;
        stat.lines()
            .filter_map(|line| line.split_once(' '))
            .filter(|(name, _)| wanted.contains(name))
            .filter_map(|(_, bytes)| bytes.trim().parse::<u64>().ok())
            .fold(0, u64::saturating_add)
    }
}

/// A limit in bytes, by the text of a limit file: `None` for `max` and for version 1's largest
/// numbers.
///
/// # Errors
/// If the text is neither a number of bytes, `max`, nor `-1`.
pub fn limit(text: &str) -> Result<Option<u64>, ParseIntError> {
    match text.trim() {
        "max" | "-1" => Ok(None),
        // Version 1 says "unlimited" with the largest number of whole pages, and pages differ.
        bytes => Ok(Some(bytes.parse()?).filter(|&bytes: &u64| bytes < 1 << 60)),
    }
}

/// The version in charge of memory and one's own group in it, by the text of
/// `/proc/self/cgroup`.
pub fn own_group(text: &str) -> Option<(Version, &str)> {
    let mut unified = None;
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        if controllers.split(',').any(|name| name == "memory") {
            return Some((Version::One, path));
        }
        if controllers.is_empty() {
            unified = Some((Version::Two, path));
        }
    }
    unified
}

impl Default for Groups {
    fn default() -> Self {
        Self::new("/proc/self/cgroup".into(), "/sys/fs/cgroup".into())
    }
}

impl Groups {
    /// The groups of another process; none once it is gone.
    pub fn of(pid: u32) -> Self {
        Self::new(
            format!("/proc/{pid}/cgroup").into(),
            "/sys/fs/cgroup".into(),
        )
    }

    /// Processes that the kernel killed for memory in the process's own group, so far; `None`
    /// where that is not counted. Read it while the process lives: a dead one has no group.
    pub fn kills(&self) -> Option<(PathBuf, u64)> {
        let text = std::fs::read_to_string(&self.own).ok()?;
        let (version, path) = own_group(&text)?;
        let (root, file) = match version {
            Version::One => (self.mount.join("memory"), "memory.oom_control"),
            Version::Two => (self.mount.clone(), "memory.events"),
        };
        let folder = folders(&root, path).into_iter().next()?;
        let file = folder.join(file);
        let count = kills_in(&file)?;
        Some((file, count))
    }

    /// Groups as named by the file `own`, in the group file system mounted at `mount`.
    pub fn new(own: PathBuf, mount: PathBuf) -> Self {
        Self { own, mount }
    }

    /// The groups with a limit below what `host` has, from one's own up to the root. A system
    /// without groups has none. One that cannot be read does not hide the others.
    pub fn read(&self, host: Reading) -> Vec<Result<Group, GroupError>> {
        match read_if_there(&self.own) {
            Ok(Some(text)) => self.read_named(&text, host),
            Ok(None) => Vec::new(),
            Err(error) => vec![Err(error)],
        }
    }

    /// The same for the groups that a text like that of `/proc/self/cgroup` names.
    pub fn read_named(&self, text: &str, host: Reading) -> Vec<Result<Group, GroupError>> {
        let Some((version, path)) = own_group(text) else {
            return Vec::new();
        };
        let root = match version {
            Version::One => self.mount.join("memory"),
            Version::Two => self.mount.clone(),
        };
        folders(&root, path)
            .iter()
            .filter_map(|folder| read_group(folder, version, host).transpose())
            .collect()
    }
}

/// `oom_kill 3` in a file of events, or in the kernel's own `/proc/vmstat`.
pub fn kills_in(file: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("oom_kill "))
        .and_then(|count| count.trim().parse().ok())
}

fn is_limit(limit: u64, host: Reading) -> bool {
    // A host of unknown size does not make its groups' limits unknown.
    limit > 0 && (limit < host.total || host.total == 0)
}

/// The folders from the group `path` up to `root`. Inside a container the path may be one of the
/// host's, which is not there; the root then is the container's own group.
fn folders(root: &Path, path: &str) -> Vec<PathBuf> {
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    if names.contains(&"..") {
        return vec![root.to_owned()];
    }
    let mut folders = vec![root.to_owned()];
    for name in names {
        let deeper = folders.last().map(|folder| folder.join(name));
        folders.extend(deeper);
    }
    folders.reverse();
    folders
}

fn read_group(folder: &Path, version: Version, host: Reading) -> Result<Option<Group>, GroupError> {
    let files = version.files();
    let path = folder.join(files.limit);
    // The root of a machine has no limit file, nor has a group for which memory is not counted.
    let Some(text) = read_if_there(&path)? else {
        return Ok(None);
    };
    let limit = limit(&text).map_err(|source| GroupError::Parse { path, source })?;
    // Most groups have no limit: then one file was all there is to read.
    let Some(limit) = limit.filter(|&limit| is_limit(limit, host)) else {
        return Ok(None);
    };
    let path = folder.join(files.used);
    let used = match read(&path)?.trim().parse() {
        Ok(used) => used,
        Err(source) => return Err(GroupError::Parse { path, source }),
    };
    let reclaimable = version.reclaimable(&read(&folder.join("memory.stat"))?);
    Ok(Some(Group {
        limit,
        used,
        reclaimable,
    }))
}

fn read(path: &Path) -> Result<String, GroupError> {
    std::fs::read_to_string(path).map_err(|source| GroupError::Read {
        path: path.to_owned(),
        source,
    })
}

fn read_if_there(path: &Path) -> Result<Option<String>, GroupError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(GroupError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}
