//! Unusual files and directories: the gateway neither blocks on them nor reads them without end,
//! leaves alone what is not its own, and notices what is replaced.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::chat;
use crate::support::gateway::{Gateway, Setup};
use crate::support::machine::resident_kib;
use crate::support::upstream::Upstream;

fn fifo(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success(), "a FIFO can be made");
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn with_line(upstream: &Upstream, length: u32) -> String {
    format!(
        "upstream.base_url = {:?}\nqueue.max_waiting = {length}\n",
        upstream.url()
    )
}

fn until_line(gateway: &Gateway, length: u32, why: &str) {
    gateway.until_status(why, |status| status["queue"]["max_waiting"] == length);
}

fn until_notice(gateway: &Gateway, text: &str) {
    gateway.until_status(text, |status| {
        let notices = status["notices"].as_array();
        let params = notices
            .into_iter()
            .flatten()
            .map(|notice| &notice["params"]);
        let mut values = params
            .filter_map(Value::as_object)
            .flat_map(|one| one.values());
        values.any(|value| value.as_str().is_some_and(|value| value.contains(text)))
    });
}

#[test]
fn a_fifo_or_device_as_configuration_stops_nothing_and_is_named() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let (file, aside) = (gateway.config_path(), gateway.home().join("odd"));
    let before = resident_kib(gateway.pid());
    for (word, device) in [("a FIFO", None), ("a device", Some("/dev/zero"))] {
        match device {
            None => fifo(&aside),
            Some(device) => symlink(device, &aside).unwrap(),
        }
        std::fs::rename(&aside, &file).unwrap();
        until_notice(&gateway, word);
        assert_eq!(gateway.get("/healthz").status(), 200);
        assert_eq!(gateway.chat(&chat::whole("x")).status(), 200);
        // At the next start as well: what was good before serves.
        gateway = gateway.restart();
        until_notice(&gateway, word);
        assert_eq!(gateway.chat(&chat::whole("x")).status(), 200);
    }
    let grown = resident_kib(gateway.pid()).saturating_sub(before);
    assert!(grown < 64 * 1024, "{grown} KiB");
    gateway.rewrite_config(&with_line(&upstream, 7));
    until_line(&gateway, 7, "a file is a file again");
    let large = format!("{}#{}", with_line(&upstream, 8), "x".repeat(2 << 20));
    gateway.rewrite_config(&large);
    until_notice(&gateway, "larger than");
    gateway.rewrite_config(&with_line(&upstream, 9));
    until_line(&gateway, 9, "and of a common size");
    gateway.stands(&upstream);
}

#[test]
fn a_fifo_in_place_of_anything_kept_delays_no_start() {
    let upstream = Upstream::plain();
    for name in [
        "control.token",
        "gateway.lock",
        "config.toml.good",
        "pause.json",
        "oneslot.log",
        "records.jsonl",
    ] {
        let setup = Setup::before(&upstream);
        let state = setup.state();
        std::fs::create_dir(&state).unwrap();
        fifo(&state.join(name));
        let mut gateway = setup.start();
        assert_eq!(gateway.chat(&chat::whole("x")).status(), 200, "{name}");
        gateway.cli_ok(&["pause"]);
        gateway.cli_ok(&["resume"]);
        gateway.stands(&upstream);
        let began = Instant::now();
        gateway.signal("TERM");
        gateway.until_exit();
        let took = began.elapsed();
        assert!(
            took < Duration::from_secs(6),
            "{name}: it ended after {took:?}"
        );
        // What is searched at the end of a test are files.
        let _ = std::fs::remove_file(state.join(name));
    }
    let setup = Setup::before(&upstream);
    let guard = setup.state().join("gateway.guard");
    std::fs::create_dir(setup.state()).unwrap();
    fifo(&guard);
    let refused = setup.start_refused();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        said.contains("gateway.guard") && said.contains("a FIFO"),
        "what stands in the way is named: {said}"
    );
}

#[test]
fn a_state_directory_that_is_shared_is_refused_and_keeps_its_mode() {
    let upstream = Upstream::plain();
    for (odd, others) in [(0o1777, false), (0o1777, true), (0o777, true)] {
        let setup = Setup::before(&upstream);
        // Beside the home of the run, which ends with it.
        let shared = tempfile::tempdir().unwrap();
        let state = shared.path().to_owned();
        symlink(&state, setup.state()).unwrap();
        set_mode(&state, odd);
        let there = state.join("other");
        if others {
            std::fs::write(&there, "").unwrap();
            if std::os::unix::fs::chown(&there, Some(65534), None).is_err() {
                // Only an administrator can plant another user's file.
                continue;
            }
        }
        let refused = setup.start_refused();
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains("--state DIR"), "what to do is said: {said}");
        assert_eq!(mode(&state), odd, "it does not belong to the gateway");
        let left: Vec<_> = std::fs::read_dir(&state).unwrap().collect();
        assert_eq!(left.len(), usize::from(others), "nothing was made there");
    }
}

#[test]
fn a_state_directory_of_another_user_is_refused_and_keeps_its_mode() {
    let upstream = Upstream::plain();
    let setup = Setup::before(&upstream);
    let shared = tempfile::tempdir().unwrap();
    symlink(shared.path(), setup.state()).unwrap();
    set_mode(shared.path(), 0o775);
    if std::os::unix::fs::chown(shared.path(), Some(65534), None).is_err() {
        // Only an administrator can give a directory away.
        return;
    }
    let refused = setup.start_refused();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("belongs to another user"), "{said}");
    assert!(said.contains("--state DIR"), "what to do is said: {said}");
    assert_eq!(
        mode(shared.path()),
        0o775,
        "it does not belong to the gateway"
    );
}

#[test]
fn what_a_link_in_the_state_directory_points_to_keeps_its_mode() {
    let upstream = Upstream::plain();
    let setup = Setup::before(&upstream);
    let state = setup.state();
    std::fs::create_dir(&state).unwrap();
    set_mode(&state, 0o700);
    let victim = state.with_file_name("victim");
    std::fs::write(&victim, "precious\n").unwrap();
    set_mode(&victim, 0o644);
    for name in [
        "control.token",
        "gateway.lock",
        "gateway.guard",
        "config.toml.good",
        "pause.json",
        "oneslot.log",
        "records.jsonl",
    ] {
        symlink(&victim, state.join(name)).unwrap();
    }
    let mut gateway = setup.start();
    assert_eq!(gateway.chat(&chat::whole("x")).status(), 200);
    gateway.cli_ok(&["pause"]);
    gateway.cli_ok(&["resume"]);
    gateway.stands(&upstream);
    assert_eq!(mode(&victim), 0o644, "it may belong to another program");
    let left = std::fs::read_to_string(&victim).unwrap();
    assert!(
        left.starts_with("precious\n"),
        "nor was it replaced: {left}"
    );
}

// Replaced while it runs.

/// A gateway whose configuration is at `file` under its home.
fn at(setup: Setup, file: &Path) -> Gateway {
    let _ = std::fs::remove_file(setup.config_path());
    symlink(file, setup.config_path()).unwrap();
    setup.start_as_is()
}

#[test]
fn a_directory_that_is_removed_and_created_again_is_watched_again() {
    let upstream = Upstream::plain();
    let setup = Setup::bare();
    let directory = setup.state().with_file_name("settings");
    let file = directory.join("deep/o.toml");
    let make = |length| {
        std::fs::create_dir_all(directory.join("deep")).unwrap();
        std::fs::write(&file, with_line(&upstream, length)).unwrap();
    };
    make(3);
    let mut gateway = at(setup, &file);
    until_line(&gateway, 3, "it was read at the start");
    for length in [5, 6] {
        std::fs::remove_dir_all(&directory).unwrap();
        until_notice(&gateway, "gone");
        make(length);
        until_line(&gateway, length, "the directory is there again");
        std::fs::write(&file, with_line(&upstream, length + 10)).unwrap();
        until_line(&gateway, length + 10, "and is watched");
    }
    gateway.stands(&upstream);
}

#[test]
fn a_replaced_link_in_the_path_is_followed_again() {
    let upstream = Upstream::plain();
    let setup = Setup::bare();
    let root = setup.state().with_file_name("versions");
    for (version, length) in [("1", 3), ("2", 5), ("3", 6)] {
        let directory = root.join(version);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("o.toml"), with_line(&upstream, length)).unwrap();
    }
    symlink("1", root.join("data")).unwrap();
    let mut gateway = at(setup, &root.join("data/o.toml"));
    until_line(&gateway, 3, "it was read at the start");
    for (version, length) in [("2", 5), ("3", 6)] {
        symlink(version, root.join("next")).unwrap();
        std::fs::rename(root.join("next"), root.join("data")).unwrap();
        until_line(&gateway, length, "another directory counts");
        let file = root.join(version).join("o.toml");
        std::fs::write(file, with_line(&upstream, length + 10)).unwrap();
        until_line(&gateway, length + 10, "and what is changed in it");
    }
    gateway.stands(&upstream);
}

#[test]
fn a_directory_that_comes_after_the_start_is_noticed() {
    let upstream = Upstream::plain();
    let setup = Setup::bare();
    let directory = setup.state().with_file_name("not");
    let mut gateway = at(setup, &directory.join("yet/o.toml"));
    std::fs::create_dir_all(directory.join("yet")).unwrap();
    std::fs::write(directory.join("yet/o.toml"), with_line(&upstream, 5)).unwrap();
    until_line(&gateway, 5, "it was written");
    gateway.stands(&upstream);
}
