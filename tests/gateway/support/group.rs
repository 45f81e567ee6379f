//! A group of processes with a memory limit, and a hog that eats within it.
//!
//! Making one needs root, or a sudo that does not ask. Versions 1 and 2 of the kernel's groups.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::live::python;
use super::process::in_tests;

const ROOT: &str = "/sys/fs/cgroup";
const MIB: u64 = 1 << 20;

static MADE: AtomicU32 = AtomicU32::new(0);

/// Gone with the value, and its processes before it.
pub(crate) struct Group {
    path: PathBuf,
    one: bool,
}

impl Group {
    /// With this limit, and without swap.
    pub(crate) fn with_limit(mib: u64) -> Self {
        let one = Path::new(ROOT).join("memory").is_dir();
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("oneslot-test-{}-{number}", std::process::id());
        let folder = if one { "memory" } else { "" };
        let path = Path::new(ROOT).join(folder).join(name);
        if !one {
            put(&Path::new(ROOT).join("cgroup.subtree_control"), "+memory");
        }
        if std::fs::create_dir(&path).is_err() {
            let made = sudo(&["mkdir", &path.display().to_string()], "");
            assert!(
                made,
                "a memory group needs root, or a sudo that does not ask"
            );
        }
        let group = Self { path, one };
        let limit = (mib * MIB).to_string();
        put(&group.file("memory.limit_in_bytes", "memory.max"), &limit);
        let swap = group.file("memory.memsw.limit_in_bytes", "memory.swap.max");
        if swap.exists() {
            put(&swap, if one { &limit } else { "0" });
        }
        group
    }

    /// Takes a process in.
    pub(crate) fn take(&self, pid: u32) {
        put(&self.path.join("cgroup.procs"), &pid.to_string());
    }

    /// What its processes hold that cannot be taken back, in MiB.
    pub(crate) fn held_mib(&self) -> u64 {
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        let used = read(self.file("memory.usage_in_bytes", "memory.current"));
        let mut used: u64 = used.trim().parse().unwrap_or(0);
        let prefix = if self.one { "total_" } else { "" };
        for line in read(self.path.join("memory.stat")).lines() {
            let Some((name, bytes)) = line.split_once(' ') else {
                continue;
            };
            let files = ["inactive_file", "active_file"].map(|name| format!("{prefix}{name}"));
            if files.iter().any(|file| file == name) {
                used = used.saturating_sub(bytes.parse().unwrap_or(0));
            }
        }
        used / MIB
    }

    fn file(&self, one: &str, two: &str) -> PathBuf {
        self.path.join(if self.one { one } else { two })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel needs a moment after the last process.
        for _ in 0..50 {
            if std::fs::remove_dir(&self.path).is_ok() || !self.path.exists() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        sudo(&["rmdir", &self.path.display().to_string()], "");
    }
}

/// Eats memory in a group.
pub(crate) struct Hog {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Hog {
    pub(crate) fn in_group(group: &Group) -> Self {
        let mut child = Command::new(python())
            .arg(in_tests("live/hog.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the hog starts");
        group.take(child.id());
        let said = BufReader::new(child.stdout.take().expect("its output is piped"));
        Self { child, said }
    }

    /// Holds so much, and waits until it does. Whoever the kernel kills meanwhile is not the hog.
    pub(crate) fn hold(&mut self, mib: u64) {
        assert!(self.press(mib), "the hog lives");
    }

    /// As [`Self::hold`], at the very limit: while a killed model's memory is not free yet the
    /// kernel may take the hog as well. Whether it lived.
    pub(crate) fn press(&mut self, mib: u64) -> bool {
        let stdin = self.child.stdin.as_mut().expect("its input is piped");
        let mut line = String::new();
        writeln!(stdin, "{mib}").is_ok()
            && self.said.read_line(&mut line).is_ok()
            && line.trim() == format!("held {mib}")
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn put(path: &Path, text: &str) {
    if std::fs::write(path, text).is_err() {
        let put = sudo(&["tee", &path.display().to_string()], text);
        assert!(put, "{} can be written: {text}", path.display());
    }
}

fn sudo(words: &[&str], input: &str) -> bool {
    let child = Command::new("sudo")
        .arg("-n")
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn();
    let Ok(mut child) = child else {
        return false;
    };
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait().is_ok_and(|status| status.success())
}
