//! File descriptors: enough for every connection and for what is needed behind it.
//!
//! A program that runs out of descriptors can neither accept nor reach its upstream, so the
//! number of connections follows what the system allows. Not here: counting them
//! ([`super::crowd`]).

/// Beside connections: logs, state, listeners, probes, watching the configuration.
const RESERVE: u64 = 64;
/// A request may hold a connection to its client and one to the model server.
const PER_CONNECTION: u64 = 2;

/// How many connections may be held at once: `wanted`, or fewer where the system does not give
/// enough descriptors. Raises the process's soft limit as far as that takes.
pub fn room_for(wanted: usize) -> usize {
    let connections = u64::try_from(wanted).unwrap_or(u64::MAX);
    let needed = connections
        .saturating_mul(PER_CONNECTION)
        .saturating_add(RESERVE);
    match raise(needed) {
        Some(allowed) if allowed < needed => {
            let room = fitting(allowed);
            tracing::warn!(
                wanted,
                room,
                descriptors = allowed,
                "fewer connections than the connection limit: the system allows too few open files"
            );
            room
        }
        Some(_) | None => wanted,
    }
}

/// Connections that `allowed` descriptors are enough for; at least one.
fn fitting(allowed: u64) -> usize {
    let connections = allowed.saturating_sub(RESERVE) / PER_CONNECTION;
    usize::try_from(connections).unwrap_or(usize::MAX).max(1)
}

/// Raises the soft limit towards `needed`; what it is then, if the system tells.
#[cfg(unix)]
fn raise(needed: u64) -> Option<u64> {
    match rlimit::increase_nofile_limit(needed) {
        Ok(allowed) => Some(allowed),
        Err(error) => {
            tracing::warn!(%error, "cannot raise the limit of open files");
            rlimit::Resource::NOFILE.get_soft().ok()
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
    fn connections_leave_descriptors_for_the_way_to_the_upstream() {
        assert_eq!(fitting(512), 224, "two for each, and a reserve");
        assert_eq!(fitting(576), 256);
        assert_eq!(fitting(10), 1, "never none at all");
    }
}
