//! What is known of the model server after the first probe, in one line for a person who has just
//! started the program.

use crate::context::Context;
use crate::scheduler::health::State;
use crate::upstream::PORTS;

/// Waits for the first probe and reports which server is in use, or that there is none.
///
/// # Cancel safety
/// Dropping it loses nothing.
pub(super) async fn first_report(context: &Context) -> String {
    let mut changes = context.scheduler.changes();
    loop {
        let state = context
            .scheduler
            .read(|scheduler, _, _| scheduler.health().state());
        if let Some(report) = report(context, state) {
            return report;
        }
        if changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

fn report(context: &Context, state: State) -> Option<String> {
    let handle = context.link();
    let root = handle.as_ref().map(|handle| handle.upstream.root());
    match (state, root) {
        (State::Unknown, _) => None,
        (State::Ready, Some(root)) => {
            let known = handle.as_ref().and_then(|handle| handle.upstream.known());
            let kind = known.as_ref().map(|known| format!(", {}", known.kind));
            let model = known.and_then(|known| known.models.into_iter().next());
            let model = model.map_or(String::new(), |model| format!(", model {model}"));
            Some(format!(
                "model server {root}{}{model}",
                kind.unwrap_or_default()
            ))
        }
        (State::Loading { .. }, Some(root)) => {
            Some(format!("model server {root}, loading a model"))
        }
        (State::Down { outage, .. }, Some(root)) => {
            Some(format!("no model server at {root}: {outage}"))
        }
        (State::Down { .. } | State::Ready | State::Loading { .. }, None) => {
            let ports: Vec<String> = PORTS.iter().map(u16::to_string).collect();
            Some(format!(
                "no model server found on ports {}; start one, or set upstream.base_url",
                ports.join(", ")
            ))
        }
    }
}
