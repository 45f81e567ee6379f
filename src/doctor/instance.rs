//! The settings and the running gateway: what they say of themselves.

use std::path::Path;

use super::{Chart, Patient};
use crate::config::Notice;
use crate::telemetry::snapshot::{Face, RefusedKind, Snapshot};

/// Settings that fall back, slips of the pen, modes that let others read.
pub(super) fn settings(patient: &Patient<'_>, chart: &mut Chart<'_>) {
    let file = &patient.loaded.sources.file;
    let there = if file.exists() {
        ""
    } else {
        " (not there: defaults serve)"
    };
    chart.good(format!("settings: {}{there}", file.display()));
    for notice in &patient.loaded.notices {
        match notice {
            Notice::LastGoodServes { .. }
            | Notice::DefaultsServe { .. }
            | Notice::Locked { .. } => {
                chart.fix(
                    notice.to_string(),
                    "fix the file; `oneslotd config --check` checks it again",
                );
            }
            Notice::Unknown { .. } | Notice::Removed { .. } => {
                chart.fix(
                    notice.to_string(),
                    "`oneslotd config --explain` shows every setting",
                );
            }
            Notice::NoKey => chart.fix(notice.to_string(), "oneslotd key add NAME"),
            Notice::KeptAside { .. }
            | Notice::Missing { .. }
            | Notice::Tightened { .. }
            | Notice::NotDone { .. } => chart.note(notice.to_string()),
        }
    }
    let access = &patient.loaded.settings.access;
    let holds_one = patient.loaded.settings.upstream.api_key.is_some() || !access.keys.is_empty();
    if holds_one {
        closed(file, "chmod 600", chart);
    }
    closed(patient.state.path(), "chmod 700", chart);
    closed(&patient.state.token_file(), "chmod 600", chart);
}

/// The running gateway: what it shows, which origins and hosts it refused.
pub(super) fn gateway(patient: &Patient<'_>, chart: &mut Chart<'_>) {
    let Some(running) = patient.running else {
        chart.advise("no OneSlot is running", "oneslotd serve");
        return;
    };
    chart.good(format!("{}", running.names));
    let Some(snapshot) = &patient.snapshot else {
        chart.fix(
            "it does not show its state",
            "stop it and start it again; its log is oneslot.log in the state directory",
        );
        return;
    };
    if running.names.version != env!("CARGO_PKG_VERSION") {
        chart.fix(
            format!(
                "it is version {}, this is {}",
                running.names.version,
                env!("CARGO_PKG_VERSION")
            ),
            "stop it and start it again",
        );
    }
    if snapshot.state == Face::Paused {
        chart.advise("inference is paused", "oneslotd resume");
    }
    for notice in &snapshot.notices {
        chart.note(notice.to_string());
    }
    refused(snapshot, chart);
}

fn refused(snapshot: &Snapshot, chart: &mut Chart<'_>) {
    for one in &snapshot.refused_origins {
        let (what, member) = match one.kind {
            RefusedKind::Origin => ("web origin", "access.allowed_origins"),
            RefusedKind::Host => ("host name", "access.allowed_hosts"),
        };
        chart.advise(
            format!("the {what} {} was refused ({} times)", one.value, one.count),
            format!("if it is yours, add it to {member}"),
        );
    }
}

#[cfg(unix)]
fn closed(path: &Path, command: &str, chart: &mut Chart<'_>) {
    use std::os::unix::fs::PermissionsExt as _;
    let Ok(metadata) = path.metadata() else {
        return;
    };
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        chart.fix(
            format!("{} can be read by others (mode {mode:04o})", path.display()),
            format!("{command} {}", path.display()),
        );
    }
}

#[cfg(not(unix))]
fn closed(_path: &Path, _command: &str, _chart: &mut Chart<'_>) {}
