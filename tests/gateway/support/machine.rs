//! What a process of ours uses of the machine, as Linux tells it.

/// Resident memory in KiB.
pub(crate) fn resident_kib(pid: u32) -> u64 {
    member(pid, "VmRSS:")
}

/// The most it ever was, in KiB.
pub(crate) fn peak_kib(pid: u32) -> u64 {
    member(pid, "VmHWM:")
}

fn member(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or_default()
}

/// Open file descriptors.
pub(crate) fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}
