//! `config`: the settings in use, the list of all of them, or what is wrong with them.

use oneslot::config::{self, Notice, Sources};

use crate::args::{Ask, Paths};
use crate::{Failure, NOT_DONE, output};

/// `config`, `config --explain`, `config --check`, `config --path`.
pub(crate) fn run(paths: &Paths, ask: &Ask) -> Result<(), Failure> {
    if ask.explain {
        output::say(&config::explain());
        return Ok(());
    }
    if ask.path {
        output::say(&paths.config_path()?.display().to_string());
        return Ok(());
    }
    let sources = paths.sources(Vec::new())?;
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
    let missing = if sources.file.exists() {
        ""
    } else {
        " (does not exist)"
    };
    output::say(&format!(
        "# {}{missing}\n{}",
        sources.file.display(),
        config::in_use(&loaded)
    ));
    for notice in &loaded.notices {
        output::tell(&format!("note: {notice}"));
    }
    Ok(())
}

/// An unknown setting is an error here.
fn check(sources: &Sources) -> Result<(), Failure> {
    let mut errors = Vec::new();
    match sources.load_exactly() {
        Ok(loaded) => {
            for notice in loaded.notices {
                if matches!(notice, Notice::Unknown { .. }) {
                    errors.push(notice.to_string());
                } else {
                    output::tell(&format!("note: {notice}"));
                }
            }
        }
        Err(error) => errors.extend(error.faults.iter().map(ToString::to_string)),
    }
    if errors.is_empty() {
        output::say(&format!("{}: no errors", sources.file.display()));
        return Ok(());
    }
    Err(Failure {
        text: errors.join("\n"),
        code: NOT_DONE,
    })
}
