//! What the system tells of processes.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
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

/// What one thread has done.
#[derive(Clone, Copy, Default)]
struct Done {
    switches: u64,
    nanoseconds: u64,
}

/// Threads that are named.
const NAMED: usize = 6;

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

/// What these do in so long; the threads that woke most are named.
pub(super) fn work(tree: &[u32], time: Duration) -> Work {
    let before = threads(tree);
    std::thread::sleep(time);
    let mut done: Vec<(Done, String)> = threads(tree)
        .into_iter()
        .map(|(id, (name, now))| {
            let then = before.get(&id).map(|(_, then)| *then).unwrap_or_default();
            (now.since(then), name)
        })
        .collect();
    done.sort_by_key(|(done, _)| std::cmp::Reverse(done.switches));
    for (done, name) in done
        .iter()
        .take(NAMED)
        .filter(|(done, _)| done.switches > 0)
    {
        println!("   {} switches of {name}", done.switches);
    }
    let sum = |of: fn(&Done) -> u64| done.iter().map(|(done, _)| of(done)).sum::<u64>() as f64;
    Work {
        switches: sum(|done| done.switches) / time.as_secs_f64(),
        percent: sum(|done| done.nanoseconds) / time.as_secs_f64() / 1e9 * 100.0,
    }
}

fn rollup(pid: u32, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    number.unwrap_or_default()
}

impl Done {
    fn since(self, before: Self) -> Self {
        Self {
            switches: self.switches.saturating_sub(before.switches),
            nanoseconds: self.nanoseconds.saturating_sub(before.nanoseconds),
        }
    }
}

/// The threads that are there now: whose they are, and what they have done so far.
fn threads(tree: &[u32]) -> HashMap<PathBuf, (String, Done)> {
    let tasks = tree
        .iter()
        .filter_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok());
    let paths = tasks.flatten().flatten().map(|task| task.path());
    let seen = paths.map(|task| {
        let read = |name: &str| fs::read_to_string(task.join(name)).unwrap_or_default();
        let counts = read("status");
        let counts = counts.lines().filter(|line| line.contains("ctxt_switches"));
        let nanoseconds: Option<u64> = read("schedstat")
            .split_whitespace()
            .next()
            .and_then(|ns| ns.parse().ok());
        let done = Done {
            switches: counts.filter_map(last).sum(),
            nanoseconds: nanoseconds.unwrap_or_default(),
        };
        let name = format!("{} in {}", read("comm").trim(), read("../../comm").trim());
        (task, (name, done))
    });
    seen.collect()
}

fn last(line: &str) -> Option<u64> {
    line.split_whitespace().last()?.parse().ok()
}
