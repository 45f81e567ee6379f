//! Tests of `log`: each name is what it promises.

use std::fs;
use std::panic::Location;
use std::sync::mpsc;

use tracing::Level;

use super::*;

/// Runs `work` under a log at `level` and returns the file's text and what people saw.
fn logged(level: Level, work: impl FnOnce(&Log)) -> (String, String) {
    let dir = tempfile::tempdir().unwrap();
    let (told, seen) = mpsc::channel();
    let people = Lines::start("test", "people".to_owned(), move |line| {
        told.send(line.to_vec()).map_err(io::Error::other)
    })
    .unwrap();
    let (subscriber, log) = build(level, dir.path(), people).unwrap();
    tracing::subscriber::with_default(subscriber, || work(&log));
    drop(log);
    let file = fs::read_to_string(dir.path().join(FILE)).unwrap();
    let people = seen.iter().flatten().collect();
    (file, String::from_utf8(people).unwrap())
}

#[test]
fn a_line_goes_to_the_file_and_to_people() {
    let (file, people) = logged(Level::INFO, |_| {
        tracing::info!(target: "oneslot::request", app = "zed", "request ended");
        tracing::debug!(target: "oneslot::request", "too quiet");
    });
    for text in [&file, &people] {
        assert!(
            text.contains("request ended") && text.contains("zed"),
            "both have the line: {text}"
        );
        assert!(!text.contains("too quiet"), "the level holds: {text}");
    }
    assert!(!file.contains('\x1b'), "a file has no colours");
}

#[test]
fn libraries_are_heard_from_warn_up_at_any_level() {
    let (file, _) = logged(Level::TRACE, |_| {
        tracing::trace!(target: "hyper::proto", "CANARY in a header");
        tracing::debug!(target: "reqwest::connect", "CANARY in an address");
        tracing::warn!(target: "hyper::proto", "heard");
        tracing::trace!(target: "oneslot::queue", "ours");
    });
    assert!(
        !file.contains("CANARY"),
        "libraries print what people sent: {file}"
    );
    assert!(
        file.contains("heard") && file.contains("ours"),
        "the rest is there: {file}"
    );
    let (file, _) = logged(Level::ERROR, |_| {
        tracing::warn!(target: "hyper::proto", "quiet");
    });
    assert_eq!(file, "", "and never louder than the configured level");
}

#[test]
fn the_level_can_be_changed_while_it_runs() {
    let (file, _) = logged(Level::INFO, |log| {
        tracing::debug!(target: "oneslot", "before");
        log.relevel("debug").unwrap();
        tracing::debug!(target: "oneslot", "after");
    });
    assert!(
        file.contains("after") && !file.contains("before"),
        "a reload of the configuration reaches the log: {file}"
    );
}

#[test]
fn a_panic_is_logged_by_its_place() {
    let place = Location::caller();
    let (file, _) = logged(Level::ERROR, |_| log_panic(Some(place), Some("worker")));
    assert!(
        file.contains(&format!("line={}", place.line())) && file.contains("worker"),
        "place and thread are enough to find it: {file}"
    );
}

#[test]
fn a_level_is_one_of_five_words() {
    for word in ["error", "warn", "info", "debug", "trace", "INFO"] {
        assert!(read_level(word).is_ok(), "{word} is a level");
    }
    for word in ["", "3", "verbose", "oneslot=debug"] {
        assert!(
            matches!(read_level(word), Err(LogError::ReadLevel { .. })),
            "{word:?} is none"
        );
    }
}

#[test]
fn a_directory_that_is_not_there_is_said_so() {
    let people = Lines::start("test", "people".to_owned(), |_| Ok(())).unwrap();
    let missing = Path::new("/nonexistent/oneslot");
    let error = build(Level::INFO, missing, people).err().unwrap();
    assert!(
        matches!(error, LogError::OpenFile { .. }),
        "the operation that failed is named: {error}"
    );
}
