//! Looks at everything between an app and the model, and says what to fix.
//!
//! It reads, asks, and sends one test prompt; it changes nothing. In order: the settings, the
//! gateway's own ports, the running gateway, the model server, the prompt. How findings are
//! printed is the command line's business.

mod instance;
mod port;
mod prompt;
mod server;

use std::fmt;

use crate::config::Loaded;
use crate::state::{self, StateDir};
use crate::telemetry::snapshot::Snapshot;

/// What is examined.
#[derive(Debug)]
pub struct Patient<'a> {
    /// The settings, and where they came from.
    pub loaded: &'a Loaded,
    /// The state directory.
    pub state: &'a StateDir,
    /// The gateway that runs with it, if one does.
    pub running: Option<&'a state::Running>,
    /// What that gateway shows of itself, if it does.
    pub snapshot: Option<Snapshot>,
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub verdict: Verdict,
    /// What was found, in a sentence.
    pub what: String,
    /// What to do about it.
    pub advice: Option<String>,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// As it should be.
    Good,
    /// Worth knowing.
    Note,
    /// It keeps apps from being answered, or may surprise them.
    Fix,
}

/// Everything that was found, in the order in which it was looked for.
#[derive(Debug, Default)]
pub struct Report {
    /// The findings.
    pub findings: Vec<Finding>,
}

/// Takes findings one by one and passes each on at once: a test prompt may take minutes.
struct Chart<'a> {
    report: Report,
    tell: &'a mut dyn FnMut(&Finding),
}

/// Examines `patient`, and tells each finding as it is made.
///
/// # Cancel safety
///
/// Dropping it aborts the test prompt; nothing else is left behind.
pub async fn examine(patient: &Patient<'_>, tell: &mut dyn FnMut(&Finding)) -> Report {
    let mut chart = Chart {
        report: Report::default(),
        tell,
    };
    instance::settings(patient, &mut chart);
    port::look(patient, &mut chart).await;
    instance::gateway(patient, &mut chart);
    if let Some(server) = server::look(patient, &mut chart).await {
        prompt::send(patient, &server, &mut chart).await;
    }
    chart.report
}

impl Report {
    /// Whether something has to be fixed.
    pub fn needs_fixing(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.verdict == Verdict::Fix)
    }
}

impl Chart<'_> {
    fn good(&mut self, what: impl Into<String>) {
        self.add(Verdict::Good, what.into(), None);
    }

    fn note(&mut self, what: impl Into<String>) {
        self.add(Verdict::Note, what.into(), None);
    }

    fn advise(&mut self, what: impl Into<String>, advice: impl Into<String>) {
        self.add(Verdict::Note, what.into(), Some(advice.into()));
    }

    fn fix(&mut self, what: impl Into<String>, advice: impl Into<String>) {
        self.add(Verdict::Fix, what.into(), Some(advice.into()));
    }

    fn add(&mut self, verdict: Verdict, what: String, advice: Option<String>) {
        let finding = Finding {
            verdict,
            what,
            advice,
        };
        (self.tell)(&finding);
        self.report.findings.push(finding);
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.verdict {
            Verdict::Good => "ok   ",
            Verdict::Note => "note ",
            Verdict::Fix => "fix  ",
        };
        write!(f, "{mark} {}", self.what)?;
        match &self.advice {
            Some(advice) => write!(f, "\n       → {advice}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
