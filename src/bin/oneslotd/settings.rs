//! `config`: the settings in use, the table of all of them, or whether they are without fault.

use oneslot::config::{self, Notice, Sources};

use crate::args::{Ask, Place};
use crate::{Failure, NOT_DONE, out};

/// `config`, `config --explain`, `config --check`, `config --path`.
pub(crate) fn run(place: &Place, ask: &Ask) -> Result<(), Failure> {
    if ask.explain {
        out::say(&config::explain());
        return Ok(());
    }
    if ask.path {
        out::say(&place.config_path()?.display().to_string());
        return Ok(());
    }
    let sources = place.sources(Vec::new())?;
    if ask.check {
        check(&sources)
    } else {
        show(&sources)
    }
}

fn show(sources: &Sources) -> Result<(), Failure> {
    let loaded = sources
        .load()
        .map_err(|error| Failure::misused(error.to_string()))?;
    let there = if sources.file.exists() {
        ""
    } else {
        " (not there)"
    };
    out::say(&format!(
        "# {}{there}\n{}",
        sources.file.display(),
        config::in_use(&loaded)
    ));
    for notice in &loaded.notices {
        out::tell(&format!("note: {notice}"));
    }
    Ok(())
}

/// An unknown member is a fault here: whoever asks wants to hear of the slip.
fn check(sources: &Sources) -> Result<(), Failure> {
    let mut complaints = Vec::new();
    match sources.load_exactly() {
        Ok(loaded) => {
            for notice in loaded.notices {
                match notice {
                    Notice::Unknown { .. } => complaints.push(notice.to_string()),
                    Notice::KeptAside { .. }
                    | Notice::NotKeptAside { .. }
                    | Notice::LastGoodServes { .. }
                    | Notice::DefaultsServe { .. }
                    | Notice::Locked { .. }
                    | Notice::Tightened { .. }
                    | Notice::Open { .. }
                    | Notice::NoKey
                    | Notice::GoodNotKept { .. } => out::tell(&format!("note: {notice}")),
                }
            }
        }
        Err(error) => complaints.extend(error.faults.iter().map(ToString::to_string)),
    }
    if complaints.is_empty() {
        out::say(&format!("{}: no fault", sources.file.display()));
        return Ok(());
    }
    Err(Failure {
        text: complaints.join("\n"),
        code: NOT_DONE,
    })
}
