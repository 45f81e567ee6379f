//! Every test that SECURITY.md names exists, so that a renamed or deleted test cannot leave a
//! promise without proof. Names are full: `gateway::origins::a_foreign_page_is_refused`.

use std::fs;
use std::path::{Path, PathBuf};

/// First segments of test names, and where those tests are.
const SUITES: [(&str, &str); 6] = [
    ("gateway", "tests/gateway"),
    ("tray", "tests/tray"),
    ("fuzz", "tests/fuzz.rs"),
    ("oneslot", "src"),
    ("oneslot_tray", "src-tauri/src"),
    ("xtask", "xtask/src"),
];

fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package
        .parent()
        .expect("it is in the workspace")
        .to_path_buf()
}

/// The test names in a document: code between backticks that begins with a suite's name.
fn names(document: &str) -> Vec<&str> {
    let code = document.split('`').skip(1).step_by(2);
    let is_test = |code: &&str| {
        let suite = code.split_once("::").map(|(suite, _)| suite);
        SUITES.iter().any(|(name, _)| suite == Some(name))
    };
    code.filter(is_test).collect()
}

/// Whether a file of the suite that can contain the module has a function of this name.
fn exists(name: &str) -> bool {
    let segments: Vec<_> = name.split("::").collect();
    let [suite, modules @ .., function] = segments.as_slice() else {
        return false;
    };
    let suite = SUITES.iter().find(|(name, _)| name == suite);
    let folder = suite.map(|(_, folder)| root().join(folder));
    let definition = format!("fn {function}(");
    folder.is_some_and(|folder| {
        sources(&folder).iter().any(|file| {
            modules.starts_with(&module_path(file, &folder))
                && fs::read_to_string(file).is_ok_and(|text| text.contains(&definition))
        })
    })
}

fn sources(path: &Path) -> Vec<PathBuf> {
    match fs::read_dir(path) {
        Ok(entries) => entries
            .flatten()
            .flat_map(|entry| sources(&entry.path()))
            .collect(),
        Err(_) if path.extension().is_some_and(|ending| ending == "rs") => vec![path.to_path_buf()],
        Err(_) => Vec::new(),
    }
}

/// The modules that a file stands for; the ones inside it come after these in a test's name.
fn module_path<'a>(file: &'a Path, folder: &Path) -> Vec<&'a str> {
    let relative = file.strip_prefix(folder).unwrap_or(file).with_extension("");
    let depth = relative.components().count();
    let all: Vec<_> = file.iter().filter_map(|part| part.to_str()).collect();
    let modules = all[all.len() - depth..].iter();
    let modules = modules.map(|part| part.trim_end_matches(".rs"));
    modules
        .filter(|part| !["main", "lib", "mod"].contains(part))
        .collect()
}

#[test]
fn every_test_named_in_the_document_exists() {
    let document = fs::read_to_string(root().join("SECURITY.md")).expect("it is readable");
    let missing: Vec<_> = names(&document)
        .into_iter()
        .filter(|name| !exists(name))
        .collect();
    assert!(
        missing.is_empty(),
        "SECURITY.md names tests that do not exist: {missing:#?}"
    );
}

#[test]
fn a_missing_test_is_found() {
    let document = "| a promise | `xtask::cli::tests::unknown_words_are_refused` |
| another | `xtask::cli::tests::no_such_test`, `gateway::no_such_module::some_test` |
| `src/main.rs`, `x-oneslot-code` and `std::fs::read` are no tests |";
    let missing: Vec<_> = names(document)
        .into_iter()
        .filter(|name| !exists(name))
        .collect();
    let expected = [
        "xtask::cli::tests::no_such_test",
        "gateway::no_such_module::some_test",
    ];
    assert_eq!(missing, expected);
}
