//! Tests of `state`: each name is what it promises.

use std::fs;

use super::*;
use crate::scheduler::pause::Pause;

fn open() -> (tempfile::TempDir, StateDir) {
    let temp = tempfile::tempdir().unwrap();
    let dir = StateDir::open(temp.path().join("state")).unwrap();
    (temp, dir)
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_second_gateway_learns_which_one_holds_the_directory() {
    let (_temp, dir) = open();
    let mut first = Lock::acquire(&dir, "oneslotd").unwrap();
    first
        .publish(vec!["http://127.0.0.1:11411".to_owned()])
        .unwrap();
    let refused = Lock::acquire(&dir, "oneslot").unwrap_err();
    let LockError::Held { by: Some(by), .. } = &refused else {
        unreachable!("the lock is held, but: {refused}");
    };
    assert_eq!(by.program, "oneslotd");
    assert_eq!(by.pid, std::process::id());
    let text = refused.to_string();
    assert!(
        text.contains("http://127.0.0.1:11411"),
        "a person wants to know where: {text}"
    );
}

#[test]
fn a_released_lock_is_free_and_leaves_no_token() {
    let (_temp, dir) = open();
    drop(Lock::acquire(&dir, "oneslotd").unwrap());
    assert!(!dir.token_file().exists(), "a token controls one run only");
    assert!(read_running(&dir).unwrap().is_none(), "the lock is free");
    Lock::acquire(&dir, "oneslotd").unwrap();
}

#[test]
fn a_lock_file_left_by_a_crash_proves_nothing() {
    let (_temp, dir) = open();
    fs::write(
        dir.lock_file(),
        r#"{"program":"oneslotd","version":"9","pid":1,"addresses":["http://127.0.0.1:1"],"token_file":"x"}"#,
    )
    .unwrap();
    fs::write(dir.guard_file(), "").unwrap();
    assert!(
        read_running(&dir).unwrap().is_none(),
        "no process holds the lock behind the names"
    );
    let lock = Lock::acquire(&dir, "oneslotd").unwrap();
    let running = read_running(&dir).unwrap().unwrap();
    assert_eq!(
        running.names.pid,
        std::process::id(),
        "the stale names are replaced"
    );
    assert!(
        lock.token().matches(running.token.expose()),
        "the token is this run's"
    );
}

#[test]
fn every_run_has_its_own_token() {
    let (_temp, dir) = open();
    let first = Lock::acquire(&dir, "oneslotd")
        .unwrap()
        .token()
        .expose()
        .to_owned();
    let lock = Lock::acquire(&dir, "oneslotd").unwrap();
    assert_eq!(first.len(), 64, "256 bits in hexadecimal");
    assert!(
        !lock.token().matches(&first),
        "a token of an earlier run opens nothing"
    );
    assert!(!lock.token().matches(""), "no token opens nothing");
    assert_eq!(format!("{:?}", lock.token()), "ControlToken(…)");
}

#[cfg(unix)]
#[test]
fn directory_and_files_are_for_this_user_alone() {
    let (_temp, dir) = open();
    let _lock = Lock::acquire(&dir, "oneslotd").unwrap();
    dir.keep_pause(Some(Pause { until_ms: None })).unwrap();
    assert_eq!(mode(dir.path()), 0o700);
    for file in [
        dir.token_file(),
        dir.lock_file(),
        dir.guard_file(),
        dir.pause_file(),
    ] {
        assert_eq!(
            mode(&file),
            0o600,
            "{} is for this user alone",
            file.display()
        );
    }
}

#[cfg(unix)]
#[test]
fn an_open_directory_is_closed_if_it_is_ours_and_left_alone_if_not() {
    use std::os::unix::fs::PermissionsExt as _;
    let temp = tempfile::tempdir().unwrap();
    fs::set_permissions(temp.path(), fs::Permissions::from_mode(0o755)).unwrap();
    StateDir::open(temp.path()).unwrap();
    assert_eq!(mode(temp.path()), 0o700, "an empty directory is ours");
    fs::set_permissions(temp.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(temp.path().join("other-program"), "").unwrap();
    StateDir::open(temp.path()).unwrap();
    assert_eq!(mode(temp.path()), 0o755, "other programs may need it open");
}

#[test]
fn a_pause_survives_and_is_forgotten_when_resumed() {
    let (_temp, dir) = open();
    assert_eq!(dir.pause().unwrap(), None);
    let timed = Pause {
        until_ms: Some(1_800_000_000_000),
    };
    dir.keep_pause(Some(timed)).unwrap();
    assert_eq!(StateDir::look(dir.path()).pause().unwrap(), Some(timed));
    dir.keep_pause(Some(Pause { until_ms: None })).unwrap();
    assert_eq!(dir.pause().unwrap(), Some(Pause { until_ms: None }));
    dir.keep_pause(None).unwrap();
    dir.keep_pause(None).unwrap();
    assert_eq!(dir.pause().unwrap(), None);
}

#[test]
fn a_damaged_pause_file_is_an_error() {
    let (_temp, dir) = open();
    fs::write(dir.pause_file(), "{").unwrap();
    let error = dir.pause().unwrap_err().to_string();
    assert!(error.contains("pause.json"), "the file is named: {error}");
}

#[test]
fn a_file_in_place_of_the_directory_is_an_error() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("state");
    fs::write(&path, "").unwrap();
    let error = StateDir::open(&path).unwrap_err().to_string();
    assert!(
        error.contains("state directory"),
        "it says what it needs: {error}"
    );
}

#[test]
fn a_failed_write_leaves_the_old_content_and_no_other_file() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("kept");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("inside"), "old").unwrap();
    assert!(
        durable::write(&path, b"new").is_err(),
        "a directory is not replaced by a file"
    );
    assert_eq!(fs::read_to_string(path.join("inside")).unwrap(), "old");
    assert_eq!(
        fs::read_dir(temp.path()).unwrap().count(),
        1,
        "no temporary file is left"
    );
}

#[test]
fn a_leftover_of_a_killed_writer_does_not_stop_the_next() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("file");
    fs::write(temp.path().join(".file.new"), "half").unwrap();
    durable::write(&path, b"whole").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
    assert_eq!(
        fs::read_dir(temp.path()).unwrap().count(),
        1,
        "the leftover is gone"
    );
}
