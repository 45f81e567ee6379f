//! A desktop of its own for each test: an X server that nobody sees, and a private session bus.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::eventually;

/// The name of the compositor's socket.
pub(crate) const COMPOSITOR: &str = "wayland-of-a-test";

/// A desktop; it ends with the value.
pub(crate) struct Desktop {
    screen: Child,
    compositor: Option<Child>,
    bus: Option<Child>,
    display: String,
    address: Option<String>,
    home: PathBuf,
    _room: TempDir,
}

/// Whether there is a session bus.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bus {
    Private,
    None,
}

impl Desktop {
    pub(crate) fn new() -> Self {
        Self::with(Bus::Private)
    }

    pub(crate) fn with(bus: Bus) -> Self {
        let mut screen = Command::new("Xvfb")
            .args(["-displayfd", "1", "-screen", "0", "1280x1024x24"])
            .args(["-nolisten", "tcp", "-noreset"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Xvfb is installed");
        let display = format!(":{}", first_line(&mut screen));
        let mut child = (bus == Bus::Private).then(|| {
            Command::new("dbus-daemon")
                .args(["--session", "--nofork", "--nopidfile", "--print-address=1"])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .expect("dbus-daemon is installed")
        });
        // A folder within one: what others do beside it in a busy place is nobody's business here.
        let room = tempfile::tempdir().expect("a temporary directory can be made");
        let home = room.path().join("home");
        std::fs::create_dir(&home).expect("a directory can be made");
        std::fs::create_dir(home.join("tmp")).expect("a directory can be made");
        Self {
            screen,
            compositor: None,
            address: child.as_mut().map(first_line),
            bus: child,
            display,
            home,
            _room: room,
        }
    }

    /// Takes the screen away, as a session that ends does.
    pub(crate) fn lose_screen(&mut self) {
        let _ = self.screen.kill();
        let _ = self.screen.wait();
    }

    /// Adds a compositor of Wayland beside the screen, which nobody sees either.
    pub(crate) fn compose(&mut self) {
        let child = self
            .command("weston")
            .args(["--backend=headless-backend.so", "--no-config"])
            .arg(format!("--socket={COMPOSITOR}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("Weston is installed");
        let compositor = self.compositor.insert(child);
        let socket = self.home.join(COMPOSITOR);
        eventually("the compositor listens", || {
            let ended = compositor.try_wait().expect("a child can be asked");
            assert!(ended.is_none(), "it runs: {ended:?}");
            socket.exists().then_some(())
        });
    }

    /// Takes the compositor away.
    pub(crate) fn lose_compositor(&mut self) {
        if let Some(mut compositor) = self.compositor.take() {
            let _ = compositor.kill();
            let _ = compositor.wait();
        }
    }

    /// The screen's name.
    pub(crate) fn display(&self) -> &str {
        &self.display
    }

    /// The bus's address.
    pub(crate) fn address(&self) -> &str {
        self.address.as_deref().expect("this desktop has a bus")
    }

    /// Everything a program may write to lies under this directory.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// What a program writes for a moment lies under this one.
    pub(crate) fn passing(&self) -> PathBuf {
        self.home.join("tmp")
    }

    /// A program on this desktop, with an environment of its own: nothing of the caller's leaks
    /// in.
    pub(crate) fn command(&self, program: &str) -> Command {
        let home = self.home();
        let bin = home.join("bin");
        std::fs::create_dir_all(&bin).expect("a directory can be made");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("HOME", home)
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("XDG_STATE_HOME", home.join("state-home"))
            .env("XDG_DATA_HOME", home.join("data"))
            .env("XDG_CACHE_HOME", home.join("cache"))
            .env("XDG_RUNTIME_DIR", home)
            .env("TMPDIR", self.passing())
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC")
            .env("DISPLAY", &self.display)
            .env("GDK_BACKEND", "x11")
            .env("NO_AT_BRIDGE", "1")
            .env("WEBKIT_DISABLE_COMPOSITING_MODE", "1")
            .env("DBUS_SESSION_BUS_ADDRESS", self.bus_or_none())
            .stdin(Stdio::null());
        command
    }

    /// Puts a stand-in for a program on the path, which writes its arguments down.
    pub(crate) fn stand_in(&self, name: &str) {
        use std::os::unix::fs::PermissionsExt as _;

        let bin = self.home().join("bin");
        std::fs::create_dir_all(&bin).expect("a directory can be made");
        let told = self.home().join(format!("{name}.told"));
        let script = format!("#!/bin/sh\necho \"$@\" >> {}\n", told.display());
        let path = bin.join(name);
        std::fs::write(&path, script).expect("a script can be written");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, mode).expect("a script can be made to run");
    }

    /// What a stand-in was told.
    pub(crate) fn told(&self, name: &str) -> String {
        let told = self.home().join(format!("{name}.told"));
        std::fs::read_to_string(told).unwrap_or_default()
    }

    /// The text on the clipboard.
    pub(crate) fn clipboard(&self) -> String {
        let output = self
            .command("xclip")
            .args(["-selection", "clipboard", "-out"])
            .output()
            .expect("xclip is installed");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// How many files programs left here.
    pub(crate) fn files(&self) -> usize {
        fn count(folder: &Path) -> usize {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            entries
                .map(|entry| {
                    1 + if entry.path().is_dir() {
                        count(&entry.path())
                    } else {
                        0
                    }
                })
                .sum()
        }
        count(self.home())
    }

    fn bus_or_none(&self) -> &str {
        // An empty address would mean the usual one.
        self.address.as_deref().unwrap_or("unix:path=/nonexistent")
    }
}

impl Drop for Desktop {
    fn drop(&mut self) {
        let beside = self.bus.iter_mut().chain(&mut self.compositor);
        for child in beside.chain([&mut self.screen]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    let output = child.stdout.take().expect("its output is piped");
    let mut output = BufReader::new(output);
    output.read_line(&mut line).expect("it says where it is");
    // Kept open: a server that cannot write to it ends.
    std::mem::forget(output);
    line.trim().to_owned()
}
