//! `doctor`: prints findings as they are made.

use http::Method;
use oneslot::doctor::{self, Finding, Patient};
use oneslot::state::StateDir;
use oneslot::telemetry::snapshot::Snapshot;

use crate::args::Place;
use crate::{Failure, client, out};

/// Examines everything between an app and the model; code 1 if something has to be fixed.
pub(crate) fn run(place: &Place) -> Result<(), Failure> {
    let sources = place.sources(Vec::new())?;
    let loaded = sources
        .load()
        .map_err(|error| Failure::misused(error.to_string()))?;
    let state = StateDir::look(place.state_path()?);
    let running = place.running_if_any()?;
    let snapshot = running.as_ref().and_then(|running| {
        let shown = client::send(running, Method::GET, "/oneslot/status", None).ok()?;
        serde_json::from_value::<Snapshot>(shown).ok()
    });
    let patient = Patient {
        loaded: &loaded,
        state: &state,
        running: running.as_ref(),
        snapshot,
    };
    let mut tell = |finding: &Finding| out::say(&finding.to_string());
    let report = client::block_on(doctor::examine(&patient, &mut tell))?;
    if report.needs_fixing() {
        return Err(Failure::not_done("something has to be fixed, see above"));
    }
    out::say("nothing to fix");
    Ok(())
}
