//! The model server: where it is, what it is, what it holds, and the habits of its kind.

use super::{Chart, Patient};
use crate::config::BaseUrl;
use crate::refusal::Outage;
use crate::upstream::{
    Access, Found, Identified, Identity, Kind, Limits, PORTS, Probe, Root, Upstream, WindowReading,
    discover, is_same_ollama_model, runs_elsewhere,
};

/// A model server that can be sent a prompt.
pub(super) struct Server {
    /// Where it is.
    pub(super) root: Root,
    /// The model to ask.
    pub(super) model: String,
    /// Whether the model is not in memory yet, so that a prompt loads it.
    pub(super) loads: bool,
}

/// Under this a window is small for a chat with files or tools in it.
const SMALL_WINDOW: u64 = 8192;

/// Finds the server and examines it; `None` if there is none to send a prompt to.
pub(super) async fn look(patient: &Patient<'_>, chart: &mut Chart<'_>) -> Option<Server> {
    let settings = &patient.loaded.settings;
    let found = discover(&PORTS, &settings.listen).await.unwrap_or_default();
    let root = root(patient, &found, chart)?;
    let limits = Limits {
        connect: settings.limits.connect,
        question: settings.limits.probe,
        ..Limits::default()
    };
    let key = settings.upstream.api_key.as_ref().map(|key| key.expose());
    let upstream = match Upstream::new(root.clone(), key, limits) {
        Ok(upstream) => upstream,
        Err(error) => {
            chart.fix(
                format!("{root} cannot be asked: {error}"),
                "change upstream.* in the settings",
            );
            return None;
        }
    };
    let identified = upstream.learn().await;
    let identity = identity(&upstream, identified, chart).await?;
    if !lives(&upstream, patient, chart).await {
        return None;
    }
    let model = model(
        &upstream,
        &identity,
        settings.upstream.model.as_deref(),
        chart,
    )
    .await?;
    let loads = window(&upstream, &identity, &model, patient, chart).await;
    peculiarities(identity.kind, chart);
    Some(Server { root, model, loads })
}

/// The configured server, else the one the running gateway chose, else the first one found.
fn root(patient: &Patient<'_>, found: &[Found], chart: &mut Chart<'_>) -> Option<Root> {
    let several = || {
        found
            .iter()
            .map(|server| format!("{} at {}", server.identity.kind, server.root))
    };
    if let BaseUrl::At(root) = &patient.loaded.settings.upstream.base_url {
        for other in found.iter().filter(|other| other.root != *root) {
            chart.note(format!(
                "{} also runs, at {}",
                other.identity.kind, other.root
            ));
        }
        return Some(root.clone());
    }
    if found.len() > 1 {
        chart.advise(
            format!(
                "several model servers run: {}",
                several().collect::<Vec<_>>().join(", ")
            ),
            "name the one you mean with upstream.base_url",
        );
    }
    let chosen = patient
        .snapshot
        .as_ref()
        .and_then(|snapshot| snapshot.upstream.base_url.as_deref());
    let chosen = chosen.and_then(|url| Root::parse(url).ok());
    let root = chosen.or_else(|| found.first().map(|server| server.root.clone()));
    if root.is_none() {
        let ports = PORTS.map(|port| port.to_string()).join(", ");
        chart.fix(
            format!("no model server was found on ports {ports}"),
            "start Ollama, LM Studio's server or llama-server, or name another with upstream.base_url",
        );
    }
    root
}

async fn identity(
    upstream: &Upstream,
    identified: Identified,
    chart: &mut Chart<'_>,
) -> Option<Identity> {
    let root = upstream.root();
    match identified {
        Identified::Server(identity) => {
            let version = identity
                .version
                .as_ref()
                .map_or_else(String::new, |v| format!(" {v}"));
            let process = upstream
                .process()
                .await
                .map_or_else(String::new, |process| {
                    format!(", {} (process {})", process.name, process.pid)
                });
            chart.good(format!("{}{version} at {root}{process}", identity.kind));
            Some(identity)
        }
        Identified::OneSlot => {
            chart.fix(
                format!("{root} is OneSlot, not a model server"),
                "set upstream.base_url to the model server itself",
            );
            None
        }
        Identified::Unproven => unproven(upstream, chart).await,
        Identified::Silent(outage) => {
            chart.fix(
                format!("{root} does not answer: {outage}"),
                "start the model server, or correct upstream.base_url",
            );
            None
        }
    }
}

/// A server that requires a key cannot be identified without one; anything else is no model server.
async fn unproven(upstream: &Upstream, chart: &mut Chart<'_>) -> Option<Identity> {
    let root = upstream.root();
    if wants_key(&upstream.probe(Limits::default().question).await) {
        chart.fix(
            format!("{root} requires a key"),
            "put it into upstream.api_key; apps that send their own are let through",
        );
    } else {
        let holder = upstream.process().await.map_or_else(
            || "something".to_owned(),
            |process| format!("{} (process {})", process.name, process.pid),
        );
        chart.fix(
            format!("{holder} answers at {root} and is no model server"),
            "correct upstream.base_url; it names a server, with or without /v1",
        );
    }
    None
}

async fn lives(upstream: &Upstream, patient: &Patient<'_>, chart: &mut Chart<'_>) -> bool {
    let probe = upstream.probe(patient.loaded.settings.limits.probe).await;
    match &probe {
        Probe::Alive {
            access: Access::Open,
            ..
        } => true,
        Probe::Alive {
            access: Access::WantsKey,
            ..
        } => {
            chart.fix(
                "it requires a key",
                "put it into upstream.api_key; apps that send their own are let through",
            );
            false
        }
        Probe::Loading => {
            chart.note("it is loading its model; requests wait for it");
            true
        }
        Probe::Failed(outage) => {
            let advice = match outage {
                Outage::WrongBaseUrl => "correct upstream.base_url: it has no /v1/models there",
                Outage::Redirected
                | Outage::UntrustedCertificate
                | Outage::WrongCertificateName
                | Outage::NotHttps
                | Outage::WantsHttps => "correct upstream.base_url, or the server's certificate",
                Outage::NoneFound
                | Outage::Refused
                | Outage::ConnectTimeout
                | Outage::Reset
                | Outage::ProbeTimeout
                | Outage::ProbeFailed
                | Outage::Garbled
                | Outage::Loop
                | Outage::ProcessGone { .. }
                | Outage::Silent
                | Outage::ServerError => "look at the model server's own log",
            };
            chart.fix(
                format!("its list of models cannot be read: {outage}"),
                advice,
            );
            false
        }
    }
}

fn wants_key(probe: &Probe) -> bool {
    matches!(
        probe,
        Probe::Alive {
            access: Access::WantsKey,
            ..
        }
    )
}

/// The model a prompt is sent to: the configured one, else one in memory, else the first listed.
async fn model(
    upstream: &Upstream,
    identity: &Identity,
    configured: Option<&str>,
    chart: &mut Chart<'_>,
) -> Option<String> {
    if let Some(model) = configured {
        if !lists(identity, model) {
            let listed = identity.models.join(", ");
            chart.fix(
                format!("upstream.model is {model}, which the server does not list"),
                format!("use one it has ({listed}), or add the model to the server"),
            );
            return None;
        }
        return Some(model.to_owned());
    }
    let loaded = upstream.loaded_models().await.unwrap_or_default();
    let model = loaded.first().map(|model| model.name.clone());
    let model = model.or_else(|| identity.models.first().cloned());
    match &model {
        Some(model) if runs_elsewhere(model) => {
            chart.note(format!("{model} runs on another machine, not on this one"));
        }
        Some(_) => {}
        None => chart.fix("the server has no model", add_model(identity.kind)),
    }
    model
}

fn lists(identity: &Identity, model: &str) -> bool {
    // A server with one model often answers to any name.
    let answers_to_any = identity.kind == Kind::LlamaCpp && identity.models.len() == 1;
    answers_to_any
        || identity.models.iter().any(|listed| {
            listed == model
                || (identity.kind == Kind::Ollama && is_same_ollama_model(listed, model))
        })
}

fn add_model(kind: Kind) -> &'static str {
    match kind {
        Kind::Ollama => "ollama pull llama3.2",
        Kind::LmStudio => "download one in LM Studio",
        Kind::LlamaCpp => "start llama-server with a model",
        Kind::Plain => "load one in the server",
    }
}

/// Reports the window; returns whether the model is not in memory.
async fn window(
    upstream: &Upstream,
    identity: &Identity,
    model: &str,
    patient: &Patient<'_>,
    chart: &mut Chart<'_>,
) -> bool {
    if let crate::config::Context::Tokens(tokens) = patient.loaded.settings.window.context {
        chart.note(format!("window: {tokens} tokens, as set by window.context"));
    }
    match upstream.window(Some(model)).await {
        WindowReading::Loaded { tokens, .. } if tokens < SMALL_WINDOW => {
            chart.advise(
                format!("{model} is loaded with a window of {tokens} tokens, which is small: long chats are trimmed"),
                enlarge(identity.kind),
            );
            false
        }
        WindowReading::Loaded { tokens, .. } => {
            chart.good(format!(
                "{model} is loaded with a window of {tokens} tokens"
            ));
            false
        }
        WindowReading::NotLoaded => {
            chart.note(format!(
                "{model} is not loaded; its window is known once a request loads it"
            ));
            true
        }
        WindowReading::Unknown => {
            chart.advise(
                format!("the server does not say how large the window of {model} is; chats are sent whole"),
                "if you know it, set window.context",
            );
            false
        }
    }
}

fn enlarge(kind: Kind) -> &'static str {
    match kind {
        Kind::Ollama => "start Ollama with OLLAMA_CONTEXT_LENGTH=16384, if memory allows",
        Kind::LmStudio => "raise the context length where LM Studio loads the model",
        Kind::LlamaCpp => {
            "start llama-server with a larger -c, up to what the model was trained for and memory allows"
        }
        Kind::Plain => "start the server with a larger window, if memory allows",
    }
}

/// How OneSlot handles what is peculiar to this kind of server.
fn peculiarities(kind: Kind, chart: &mut Chart<'_>) {
    match kind {
        Kind::Ollama => chart.note(
            "Ollama truncates long prompts silently; OneSlot loads the model first, reads its window, trims by rule and reports it",
        ),
        Kind::LmStudio => chart.note(
            "LM Studio reads a prompt to its end even after the client left; OneSlot waits a moment before the next request",
        ),
        Kind::LlamaCpp | Kind::Plain => {}
    }
}
