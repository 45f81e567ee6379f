//! Tests of `lines`: each name is what it promises.

use std::fs;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::{Lines, QUEUE};

#[test]
fn lines_arrive_in_order_and_the_drop_waits_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lines");
    let lines = Lines::to_file(path.clone(), 1 << 20, "test").unwrap();
    for n in 0..500 {
        lines.send(format!("{n}\n").into_bytes());
    }
    drop(lines);
    let expected: String = (0..500).map(|n| format!("{n}\n")).collect();
    assert_eq!(
        fs::read_to_string(path).unwrap(),
        expected,
        "dropping the sending end writes what is queued"
    );
}

#[test]
fn a_full_file_becomes_the_old_one_and_both_stay_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lines");
    let lines = Lines::to_file(path.clone(), 1000, "test").unwrap();
    for n in 0..400 {
        lines.send(format!("{n:09}\n").into_bytes());
        lines.flush();
    }
    drop(lines);
    let new = fs::read_to_string(&path).unwrap();
    let old = fs::read_to_string(dir.path().join("lines.old")).unwrap();
    assert!(
        new.len() <= 1000 && old.len() <= 1000,
        "4,000 bytes were written, at most twice the limit is kept"
    );
    assert!(new.ends_with("000000399\n"), "the newest line is kept");
    assert_eq!(
        old.lines().count() + new.lines().count(),
        200,
        "no line is torn by the change of files"
    );
}

#[test]
fn the_limit_holds_across_restarts_and_half_a_line_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lines");
    fs::write(&path, "whole\nhal").unwrap();
    let lines = Lines::to_file(path.clone(), 20, "test").unwrap();
    lines.send(b"next\n".to_vec());
    lines.flush();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "whole\nhal\nnext\n",
        "a killed process must not spoil the next line"
    );
    lines.send(b"more than fits\n".to_vec());
    drop(lines);
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "more than fits\n",
        "what was there before counts towards the limit"
    );
}

#[cfg(unix)]
#[test]
fn the_file_is_for_its_owner_only_also_when_it_was_not() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    for before in [None, Some(0o644)] {
        let path = dir.path().join(format!("{before:?}"));
        if let Some(mode) = before {
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        drop(Lines::to_file(path.clone(), 1000, "test").unwrap());
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "it was {before:?} before");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_loses_lines_and_nothing_else() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lines");
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let before = fs::metadata(&path).unwrap().permissions().mode();
    let lines = Lines::to_file(path.clone(), 100, "test").unwrap();
    for _ in 0..100 {
        lines.send(b"line\n".to_vec());
    }
    drop(lines);
    assert!(path.is_symlink(), "a device is never moved aside");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode(),
        before,
        "nor is its mode changed"
    );
}

#[test]
fn a_write_that_fails_is_tried_again_with_the_next_line() {
    let (told, seen) = mpsc::channel();
    let mut calls = 0;
    let lines = Lines::start("test", "nowhere".to_owned(), move |line| {
        calls += 1;
        if calls < 3 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        told.send(line.to_vec()).map_err(std::io::Error::other)
    })
    .unwrap();
    for n in 0..4 {
        lines.send(vec![n]);
    }
    drop(lines);
    let written: Vec<Vec<u8>> = seen.iter().collect();
    assert_eq!(
        written,
        [vec![2], vec![3]],
        "a disk that has room again is used again"
    );
}

#[test]
fn a_target_that_is_stuck_holds_nobody_up() {
    let (release, stuck) = mpsc::channel::<()>();
    let lines = Lines::start("test", "a stopped terminal".to_owned(), move |_| {
        let _ = stuck.recv();
        Ok(())
    })
    .unwrap();
    let began = Instant::now();
    for _ in 0..QUEUE * 4 {
        lines.send(b"line\n".to_vec());
    }
    assert!(
        began.elapsed() < Duration::from_millis(500),
        "sending never waits"
    );
    drop(lines);
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "and the end waits two seconds at most"
    );
    drop(release);
}
