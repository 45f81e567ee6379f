//! `doctor`: prints findings as they are made.

use oneslot::control_client::ControlClient;
use oneslot::doctor::{self, Finding, Patient};
use oneslot::state::StateDir;
use oneslot::telemetry::snapshot::Snapshot;

use crate::args::Paths;
use crate::{Failure, control, output};

/// Examines everything between an app and the model; code 1 if something has to be fixed.
pub(crate) fn run(paths: &Paths) -> Result<(), Failure> {
    let sources = paths.sources(Vec::new())?;
    let loaded = sources
        .load()
        .map_err(|error| Failure::misused(error.to_string()))?;
    let state = StateDir::look(paths.state_path()?);
    let running = paths.running_if_any()?;
    let snapshot = match &running {
        // That it shows none is a finding.
        Some(running) => control::block_on(running.status::<Snapshot>())?.ok(),
        None => None,
    };
    let patient = Patient {
        loaded: &loaded,
        state: &state,
        running: running.as_ref().map(ControlClient::running),
        snapshot,
    };
    let mut tell = |finding: &Finding| output::say(&finding.to_string());
    let report = control::block_on(doctor::examine(&patient, &mut tell))?;
    if report.needs_fixing() {
        return Err(Failure::not_done("something has to be fixed, see above"));
    }
    output::say("nothing to fix");
    Ok(())
}
