//! `key add`, `key list`, `key remove`: the file holds names and digests, never a key.

use oneslot::config::{Basis, Key, Sources};

use crate::args::{self, Paths};
use crate::{Failure, output};

/// Runs one of the key commands.
pub(crate) fn run(paths: &Paths, command: &args::Key) -> Result<(), Failure> {
    let sources = paths.sources(Vec::new())?;
    match command {
        args::Key::Add { name } => add(&sources, name),
        args::Key::List => list(&sources),
        args::Key::Remove { name } => remove(&sources, name),
    }
}

fn add(sources: &Sources, name: &str) -> Result<(), Failure> {
    let name = name.trim();
    if name.is_empty() || name.chars().count() > 64 || name.chars().any(char::is_control) {
        return Err(Failure::misused(
            "a key's name is 1 to 64 visible characters",
        ));
    }
    changeable(sources)?;
    let (key, text) = Key::make(name).map_err(|error| Failure::of(&error))?;
    let added = sources.edit_keys(|keys| {
        let is_new = keys.iter().all(|key| key.name != name);
        if is_new {
            keys.push(key);
        }
        is_new
    });
    let (added, basis) = added.map_err(|error| Failure::of(&error))?;
    tell_of(&basis);
    if !added {
        return Err(Failure::not_done(format!(
            "there is a key named {name:?} already; remove it first"
        )));
    }
    output::say(&text);
    output::tell("This is the only time the key is shown; the file holds its SHA-256.");
    if !sources
        .load()
        .is_ok_and(|loaded| loaded.settings.access.require_key)
    {
        output::tell("Keys are asked for once access.require_key = true is set.");
    }
    Ok(())
}

fn list(sources: &Sources) -> Result<(), Failure> {
    let loaded = sources
        .load_to_edit()
        .map_err(|error| Failure::misused(error.to_string()))?;
    let keys = &loaded.settings.access.keys;
    if keys.is_empty() {
        output::tell("There is no key; make one with `oneslotd key add NAME`.");
    }
    for key in keys {
        output::say(&key.name);
    }
    Ok(())
}

fn remove(sources: &Sources, name: &str) -> Result<(), Failure> {
    changeable(sources)?;
    let removed = sources.edit_keys(|keys| {
        let before = keys.len();
        keys.retain(|key| key.name != name);
        keys.len() < before
    });
    let (removed, basis) = removed.map_err(|error| Failure::of(&error))?;
    tell_of(&basis);
    if !removed {
        return Err(Failure::not_done(format!("there is no key named {name:?}")));
    }
    output::say(&format!("removed {name}"));
    // The settings may be in contradiction now, which is why they are looked at after the fact.
    let left = sources.load_exactly();
    if let Err(error) = left {
        output::tell(&format!("note: {error}"));
    } else if let Ok(loaded) = left {
        loaded
            .notices
            .iter()
            .for_each(|notice| output::tell(&format!("note: {notice}")));
    }
    Ok(())
}

fn tell_of(basis: &Basis) {
    if let Some(note) = basis.note() {
        output::tell(&format!("note: {note}"));
    }
}

/// Keys set by a variable cannot be changed in the file.
fn changeable(sources: &Sources) -> Result<(), Failure> {
    match sources.load() {
        Ok(loaded) if loaded.origin("access.keys").is_fixed() => Err(Failure::not_done(
            "access.keys is set by the environment and cannot be changed in the file",
        )),
        Ok(_) | Err(_) => Ok(()),
    }
}
