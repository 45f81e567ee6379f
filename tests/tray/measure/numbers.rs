//! What the system tells of processes.

use std::fs;
use std::time::Duration;

/// What processes hold together, in MiB.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    pub(super) private: f64,
    pub(super) proportional: f64,
    pub(super) resident: f64,
}

/// What processes did in a while.
pub(super) struct Work {
    /// Context switches in a second.
    pub(super) switches: f64,
    /// Percent of one processor.
    pub(super) percent: f64,
}

/// What these hold.
pub(super) fn memory(tree: &[u32]) -> Memory {
    let sum = |name: &str| {
        let kib: u64 = tree.iter().map(|pid| rollup(*pid, name)).sum();
        kib as f64 / 1024.0
    };
    Memory {
        private: sum("Private_Dirty:"),
        proportional: sum("Pss:"),
        resident: sum("Rss:"),
    }
}

/// What these do in so long.
pub(super) fn work(tree: &[u32], time: Duration) -> Work {
    let before = done(tree);
    std::thread::sleep(time);
    let after = done(tree);
    let of = |before: u64, after: u64| after.saturating_sub(before) as f64 / time.as_secs_f64();
    Work {
        switches: of(before.0, after.0),
        percent: of(before.1, after.1) / 1e9 * 100.0,
    }
}

fn rollup(pid: u32, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    number.unwrap_or_default()
}

/// Switches, and nanoseconds on a processor, of the threads that are there now.
fn done(tree: &[u32]) -> (u64, u64) {
    let tasks = tree
        .iter()
        .filter_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok());
    let paths = tasks.flatten().flatten().map(|task| task.path());
    paths.fold((0, 0), |(switches, time), task| {
        let read = |name: &str| fs::read_to_string(task.join(name)).unwrap_or_default();
        let counts = read("status");
        let counts = counts.lines().filter(|line| line.contains("ctxt_switches"));
        let count: u64 = counts.filter_map(last).sum();
        let on: Option<u64> = read("schedstat")
            .split_whitespace()
            .next()
            .and_then(|ns| ns.parse().ok());
        (switches + count, time + on.unwrap_or_default())
    })
}

fn last(line: &str) -> Option<u64> {
    line.split_whitespace().last()?.parse().ok()
}
