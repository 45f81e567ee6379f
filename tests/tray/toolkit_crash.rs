//! What the desktop takes away: a toolkit that gives up, a program that is replaced, a display
//! that is not there or goes. Requests end in order whatever falls.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::support::chat;
use super::support::client::Client;
use super::support::desktop::{COMPOSITOR, Desktop};
use super::support::host::{Host, Icon};
use super::support::program::{BINARY, Program, Setup, web_processes};
use super::support::script::Script;
use super::support::upstream::Upstream;
use super::support::{LIMIT, eventually};

/// A tray in front of a scripted server.
struct Stage {
    tray: Program,
    icon: Icon,
    upstream: Upstream,
    host: Host,
    desktop: Desktop,
}

impl Stage {
    fn new() -> Self {
        Self::with(Path::new(BINARY), Desktop::new())
    }

    fn with(program: &Path, desktop: Desktop) -> Self {
        Self::set_up(desktop, |setup| setup.program(program))
    }

    fn set_up(desktop: Desktop, more: impl FnOnce(Setup<'_>) -> Setup<'_>) -> Self {
        let host = Host::on(&desktop);
        let upstream = Upstream::plain();
        let tray = more(Setup::before(&desktop, &upstream)).start();
        let icon = host.icon();
        icon.until_says(LIMIT, "Ready");
        Self {
            tray,
            icon,
            upstream,
            host,
            desktop,
        }
    }

    /// An answer that has begun and never ends by itself.
    fn endless(&self) -> Client {
        self.upstream
            .next_chat(Script::stream().delta("begun").hang());
        let mut running = self.tray.open_chat(&chat::streamed("first"));
        running.body_until_has("begun");
        running
    }

    /// Lets the toolkit give up: a web process that dies while it starts does that.
    fn fell(&self) {
        self.icon.press("Open OneSlot…");
        eventually("the toolkit gives up", || {
            for process in web_processes(self.tray.pid()) {
                let pid = process.to_string();
                let _ = Command::new("kill").args(["-KILL", &pid]).status();
            }
            self.tray
                .said()
                .contains("restarting when idle")
                .then_some(())
        });
    }

    /// That it ends as it always does, although the answer would go on.
    fn ends_in_order(&mut self, mut running: Client) {
        let answer = running.finish_within(Duration::from_secs(10));
        let text = answer.text();
        assert!(text.contains("OneSlot was shut down"), "{text}");
        assert!(self.tray.until_exit().success(), "it ends in order");
        self.leaves_nothing();
    }

    fn leaves_nothing(&self) {
        for name in ["gateway.lock", "control.token"] {
            let file = self.tray.state_path().join(name);
            let left = std::fs::read_to_string(&file).unwrap_or_default();
            assert_eq!(left, "", "nothing of the run stays in {name}");
        }
    }
}

#[test]
fn a_signal_that_comes_after_the_toolkit_fell_ends_it_in_order() {
    let mut stage = Stage::new();
    let running = stage.endless();
    stage.fell();
    stage.tray.terminate();
    stage.ends_in_order(running);
}

#[test]
fn quitting_after_the_toolkit_fell_ends_it_in_order() {
    let mut stage = Stage::new();
    let running = stage.endless();
    stage.icon.until_begins(LIMIT, "Answering");
    stage.fell();
    stage.icon.press("Quit (1 in flight)");
    stage.ends_in_order(running);
}

#[test]
fn a_second_start_after_the_toolkit_fell_says_that_it_shows_nothing() {
    let stage = Stage::new();
    let _running = stage.endless();
    stage.fell();
    let state = stage.desktop.home().join("state");
    let mut second = stage.desktop.command(BINARY);
    let second = second.arg("--state").arg(&state).output().unwrap();
    assert!(second.status.success(), "it ends in order");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("about to restart"), "{said:?}");
}

#[test]
fn a_program_that_was_replaced_starts_anew_as_what_replaced_it() {
    let desktop = Desktop::new();
    let folder = desktop.home().join("installed");
    std::fs::create_dir(&folder).unwrap();
    let (program, next) = (folder.join("oneslot"), folder.join("oneslot.new"));
    std::fs::copy(BINARY, &program).unwrap();
    std::fs::copy(BINARY, &next).unwrap();
    let mut stage = Stage::with(&program, desktop);
    std::fs::rename(&next, &program).unwrap();
    stage.fell();
    let exe = format!("/proc/{}/exe", stage.tray.pid());
    eventually("the new one runs", || {
        let runs = std::fs::read_link(&exe).ok()?;
        (runs == program).then_some(())
    });
    stage.host.icon().until_says(LIMIT, "Ready");
    assert_eq!(stage.tray.chat("hello").status(), 200, "it serves");
    assert!(stage.tray.is_alive(), "it is the same process");
}

#[test]
fn a_program_that_was_removed_starts_anew_as_it_was() {
    let desktop = Desktop::new();
    let program = desktop.home().join("oneslot");
    std::fs::copy(BINARY, &program).unwrap();
    let mut stage = Stage::with(&program, desktop);
    std::fs::remove_file(&program).unwrap();
    stage.fell();
    stage.host.icon().until_says(LIMIT, "Ready");
    assert_eq!(stage.tray.chat("hello").status(), 200, "it serves");
    assert!(stage.tray.is_alive(), "it is the same process");
}

#[test]
fn without_a_display_it_says_so_and_leaves_nothing() {
    let desktop = Desktop::new();
    for display in ["", ":4711"] {
        let mut tray = Setup::bare(&desktop)
            .args(&["--hidden", "--demo"])
            .env("DISPLAY", display)
            .start_as_is();
        assert_eq!(tray.until_exit().code(), Some(1), "it does not start");
        let said = tray.said();
        assert!(said.contains("no display can be opened"), "{said}");
        assert!(said.contains("oneslotd serve"), "{said}");
        assert!(!said.contains("please report"), "{said}");
        for name in ["gateway.lock", "control.token"] {
            let file = tray.state_path().join(name);
            let left = std::fs::read_to_string(&file).unwrap_or_default();
            assert_eq!(left, "", "nothing of the run stays in {name}");
        }
    }
}

/// That an answer on its way ends as it should when the screen goes, with the panel closed or open.
fn outlives_its_screen(stage: impl Fn() -> Stage, lose: impl Fn(&mut Stage)) {
    for panel in ["closed", "open"] {
        let mut stage = stage();
        let mut running = stage.endless();
        if panel == "open" {
            stage.icon.press("Open OneSlot…");
            stage.tray.until_panel();
        }
        lose(&mut stage);
        let answer = running.finish_within(Duration::from_secs(10));
        let text = answer.text();
        assert!(text.contains("OneSlot was shut down"), "{panel}: {text}");
        assert_eq!(stage.tray.until_exit().code(), Some(1), "it could not stay");
        stage.leaves_nothing();
    }
}

#[test]
fn a_display_that_goes_ends_it_in_order() {
    outlives_its_screen(Stage::new, |stage| stage.desktop.lose_screen());
}

#[test]
fn a_compositor_that_goes_ends_it_in_order() {
    let on_wayland = || {
        let mut desktop = Desktop::new();
        desktop.compose();
        Stage::set_up(desktop, |setup| {
            setup
                .env("GDK_BACKEND", "wayland")
                .env("WAYLAND_DISPLAY", COMPOSITOR)
        })
    };
    outlives_its_screen(on_wayland, |stage| stage.desktop.lose_compositor());
}

#[test]
fn a_display_that_never_answers_does_not_keep_it_from_ending() {
    // Where X servers listen that are reached over a network.
    const FIRST: u16 = 6000;
    let desktop = Desktop::new();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let number = silent.local_addr().unwrap().port() - FIRST;
    let mut tray = Setup::bare(&desktop)
        .args(&["--hidden", "--demo"])
        .env("DISPLAY", &format!("127.0.0.1:{number}"))
        .start();
    let asked = silent.accept().unwrap();
    tray.terminate();
    assert!(tray.until_exit().success(), "it ends in order");
    let lock = tray.state_path().join("gateway.lock");
    assert!(!lock.exists(), "nothing of the run stays");
    drop(asked);
}
