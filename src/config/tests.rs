//! Tests of `config`: each name is what it promises.

mod corruption;
mod edits;
mod layers;
mod schema;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::*;

/// A temporary directory with a settings file, and a path for its good copy.
struct Desk {
    temp: tempfile::TempDir,
    sources: Sources,
}

impl Desk {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("config.toml");
        let good = Some(temp.path().join("config.toml.good"));
        let sources = Sources {
            file,
            good,
            ..Sources::default()
        };
        Self { temp, sources }
    }

    fn with(text: &str) -> Self {
        let desk = Self::new();
        desk.save(text);
        desk
    }

    fn save(&self, text: &str) {
        fs::write(&self.sources.file, text).unwrap();
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.sources.file).unwrap()
    }

    fn variable(mut self, name: &str, text: &str) -> Self {
        self.sources
            .variables
            .push((name.to_owned(), text.to_owned()));
        self
    }

    fn flag(mut self, name: &'static str, member: &'static str, text: &str) -> Self {
        self.sources.flags.push(Flag {
            name,
            member,
            text: text.to_owned(),
        });
        self
    }

    fn settings(&self) -> Settings {
        self.sources.load().unwrap().settings
    }

    /// What `--check` says, in one text.
    fn complaint(&self) -> String {
        self.sources.load_exactly().unwrap_err().to_string()
    }

    fn asides(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.temp.path()).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths
            .filter(|path| path.to_string_lossy().contains(".corrupt-"))
            .collect()
    }
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}
