//! Open files: enough for every connection and for what is needed behind it.
//!
//! A program that runs out of them can neither accept nor reach its upstream, so the number of
//! connections follows what the system allows.

/// Beside connections: logs, state, listeners, probes, watching the configuration.
const RESERVE: u64 = 64;
/// A request may hold a connection to its client and one to the model server.
const PER_CONNECTION: u64 = 2;

/// How many connections may be open at once: `wanted`, or fewer where the system does not allow
/// enough open files. Raises the process's soft limit as far as needed.
pub(super) fn connections_allowed(wanted: usize) -> usize {
    let connections = u64::try_from(wanted).unwrap_or(u64::MAX);
    let needed = connections
        .saturating_mul(PER_CONNECTION)
        .saturating_add(RESERVE);
    match raise(needed) {
        Some(open_files) if open_files < needed => {
            let allowed = fitting(open_files);
            tracing::warn!(
                wanted,
                allowed,
                open_files,
                "fewer connections than usual: the system allows too few open files"
            );
            allowed
        }
        Some(_) | None => wanted,
    }
}

/// Connections that so many open files are enough for; at least one.
fn fitting(open_files: u64) -> usize {
    let connections = open_files.saturating_sub(RESERVE) / PER_CONNECTION;
    usize::try_from(connections).unwrap_or(usize::MAX).max(1)
}

/// Raises the soft limit to `needed`, or to the hard limit; returns what it is then, `None` where
/// there is none.
#[cfg(unix)]
fn raise(needed: u64) -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let current = current?;
    if current >= needed {
        return Some(current);
    }
    let raised = maximum.map_or(needed, |maximum| needed.min(maximum));
    let limit = Rlimit {
        current: Some(raised),
        maximum,
    };
    match setrlimit(Resource::Nofile, limit) {
        Ok(()) => Some(raised),
        Err(error) => {
            tracing::warn!(%error, "cannot raise the limit of open files");
            Some(current)
        }
    }
}

/// Windows has no such limit on sockets.
#[cfg(not(unix))]
fn raise(_needed: u64) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_open_files_for_the_upstream() {
        assert_eq!(fitting(512), 224, "two for each, and a reserve");
        assert_eq!(fitting(576), 256);
        assert_eq!(fitting(10), 1, "never none at all");
    }
}
