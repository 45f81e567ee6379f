//! The real `oneslot`, started for one test and gone with it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::canary::{files_under, found_in};
use super::client::{Client, Response, request};
use super::desktop::Desktop;
use super::upstream::Upstream;
use super::{chat, eventually};

/// No file of the tray's own is larger.
const LARGEST: u64 = 64 << 20;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_oneslot");

/// A running tray or daemon. With it ends a search of everything that was written for the canary
/// that every prompt of the suite carries.
pub(crate) struct Program {
    child: Child,
    state: PathBuf,
    config: PathBuf,
    printed: PathBuf,
    said: PathBuf,
}

/// What a program is started with.
pub(crate) struct Setup<'a> {
    desktop: &'a Desktop,
    program: PathBuf,
    toml: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    starter: Vec<String>,
}

impl<'a> Setup<'a> {
    /// On this desktop, in front of this upstream.
    pub(crate) fn before(desktop: &'a Desktop, upstream: &Upstream) -> Self {
        Self::bare(desktop).config(&format!("upstream.base_url = {:?}", upstream.url()))
    }

    /// On this desktop, on a free port.
    pub(crate) fn bare(desktop: &'a Desktop) -> Self {
        Self {
            desktop,
            program: PathBuf::from(BINARY),
            toml: String::new(),
            args: vec!["--hidden".to_owned()],
            env: Vec::new(),
            starter: Vec::new(),
        }
        .config("listen = [\"127.0.0.1:0\"]")
    }

    /// On this desktop, with the settings that an earlier program left there.
    pub(crate) fn as_left(desktop: &'a Desktop) -> Self {
        let mut setup = Self::bare(desktop);
        setup.toml.clear();
        setup
    }

    /// Adds a line to the settings; one for the same member replaces the earlier one.
    pub(crate) fn config(mut self, line: &str) -> Self {
        let member = line.split('=').next().unwrap_or_default().to_owned();
        let kept = self.toml.lines().filter(|old| !old.starts_with(&member));
        self.toml = kept.chain([line]).map(|line| format!("{line}\n")).collect();
        self
    }

    /// Replaces what is typed behind the program's name.
    pub(crate) fn args(mut self, args: &[&str]) -> Self {
        self.args = args.iter().map(ToString::to_string).collect();
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The program at another place, or another build of it; its daemon is beside it.
    pub(crate) fn program(mut self, path: &Path) -> Self {
        self.program = path.to_owned();
        self
    }

    /// Started by somebody with this mask for the modes of new files.
    pub(crate) fn umask(self, mask: &str) -> Self {
        let script = format!("umask {mask} && exec \"$@\"");
        self.started_by(&["sh", "-c", &script, "sh"])
    }

    /// Started by another program that takes its name and arguments behind its own.
    pub(crate) fn started_by(mut self, starter: &[&str]) -> Self {
        self.starter = starter.iter().map(ToString::to_string).collect();
        self
    }

    /// What was added to the environment.
    pub(crate) fn env_added(&self) -> Vec<(String, String)> {
        self.env.clone()
    }

    /// Starts the tray and waits until it serves.
    pub(crate) fn start(self) -> Program {
        let program = self.start_as_is();
        program.until_serves();
        program
    }

    /// Starts the tray.
    pub(crate) fn start_as_is(self) -> Program {
        let program = self.program.to_string_lossy().into_owned();
        let command = match self.starter.split_first() {
            None => self.desktop.command(&program),
            Some((starter, words)) => {
                let mut command = self.desktop.command(starter);
                command.args(words).arg(&program);
                command
            }
        };
        self.spawn(command)
    }

    /// Starts the tray with the settings file as it lies there.
    pub(crate) fn start_without_writing(mut self) -> Program {
        self.toml.clear();
        self.start_as_is()
    }

    /// Starts `oneslotd` with the same state directory, and waits until it serves.
    pub(crate) fn start_daemon(self) -> Program {
        let path = self.program.with_file_name("oneslotd");
        assert!(
            path.exists(),
            "build the package oneslot first: {}",
            path.display()
        );
        let mut command = self.desktop.command(&path.to_string_lossy());
        command.arg("serve");
        let program = self.args(&[]).spawn(command);
        program.until_serves();
        program
    }

    /// The command that WebKitWebDriver is to run, and its arguments.
    pub(crate) fn typed(&self) -> Vec<String> {
        let home = self.desktop.home();
        let place = |name: &str| home.join(name).to_string_lossy().into_owned();
        self.write();
        let places = [
            "--state",
            &place("state"),
            "--config",
            &place("oneslot.toml"),
        ];
        let places = places.iter().map(ToString::to_string);
        self.args.iter().cloned().chain(places).collect()
    }

    fn write(&self) {
        if self.toml.is_empty() {
            return;
        }
        let config = self.desktop.home().join("oneslot.toml");
        std::fs::write(config, &self.toml).expect("the settings can be written");
    }

    fn spawn(self, mut command: Command) -> Program {
        let home = self.desktop.home();
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let serial = STARTED.fetch_add(1, Ordering::Relaxed);
        let said = home.join(format!("said-{}", std::process::id()));
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&said);
        let printed = home.join(format!("printed-{serial}"));
        let printed_file = std::fs::File::create(&printed).expect("its output can be kept");
        let child = command
            .args(self.typed())
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdout(printed_file)
            .stderr(log.expect("its output can be kept"))
            .spawn()
            .expect("the program starts");
        Program {
            child,
            state: home.join("state"),
            config: home.join("oneslot.toml"),
            said,
            printed,
        }
    }
}

impl Program {
    /// A program that somebody else started on this desktop.
    pub(crate) fn address_on(desktop: &Desktop) -> SocketAddr {
        eventually("the program serves", || {
            address(&desktop.home().join("state"))
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn state_path(&self) -> &Path {
        &self.state
    }

    pub(crate) fn config_text(&self) -> String {
        std::fs::read_to_string(&self.config).expect("the settings can be read")
    }

    /// What it printed on standard output, once it is at least `lines` lines.
    pub(crate) fn until_printed(&self, lines: usize) -> Vec<String> {
        eventually("its lines on standard output", || {
            let text = std::fs::read_to_string(&self.printed).ok()?;
            let printed: Vec<String> = text.lines().map(str::to_owned).collect();
            (printed.len() >= lines && text.ends_with('\n')).then_some(printed)
        })
    }

    /// What it said on standard error.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap_or_default()
    }

    pub(crate) fn until_serves(&self) -> SocketAddr {
        eventually(&format!("it serves; it said {}", self.said()), || {
            address(&self.state)
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        address(&self.state).expect("it serves")
    }

    pub(crate) fn status(&self) -> Value {
        get(self.address(), "/oneslot/status").json()
    }

    pub(crate) fn open_chat(&self, body: &Value) -> Client {
        open_chat(self.address(), body)
    }

    pub(crate) fn chat(&self, text: &str) -> Response {
        self.open_chat(&chat::whole(text)).finish()
    }

    pub(crate) fn until_status(&self, why: &str, enough: impl Fn(&Value) -> bool) -> Value {
        eventually(why, || Some(self.status()).filter(&enough))
    }

    /// Sends a command with the run's token.
    pub(crate) fn control(&self, target: &str) -> Response {
        let token = std::fs::read_to_string(self.state.join("control.token"));
        let (address, token) = (self.address(), token.expect("it serves"));
        let host = address.to_string();
        let fields = [("host", host.as_str()), ("x-oneslot-token", token.trim())];
        let mut client = Client::connect(address);
        client.send(&request("POST", target, &fields, b""));
        client.finish()
    }

    /// KiB of memory that are this process's alone.
    pub(crate) fn private_kib(&self) -> u64 {
        private_kib(self.pid())
    }

    /// How many web processes show its panel.
    pub(crate) fn web_processes(&self) -> usize {
        web_processes(self.pid()).len()
    }

    /// It and every process below it.
    pub(crate) fn tree(&self) -> Vec<u32> {
        let mut tree = vec![self.pid()];
        let mut at = 0;
        while let Some(parent) = tree.get(at).copied() {
            tree.extend(children(parent));
            at += 1;
        }
        tree
    }

    /// Waits until its panel is there.
    pub(crate) fn until_panel(&self) {
        eventually(&format!("a panel is shown; {}", self.said()), || {
            (self.web_processes() == 1).then_some(())
        });
    }

    /// Waits for its end.
    pub(crate) fn until_exit(&mut self) -> ExitStatus {
        eventually("the program ends", || {
            self.child.try_wait().expect("a child can be asked")
        })
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.child
            .try_wait()
            .expect("a child can be asked")
            .is_none()
    }

    /// Asks it to end, as a session does.
    pub(crate) fn terminate(&self) {
        let pid = self.pid().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
    }

    /// Ends it without a word.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("{}", self.said());
            return;
        }
        let home = self.state.parent().expect("the state is in the home");
        for file in files_under(home) {
            // A program is not what somebody wrote.
            let is_program = file.metadata().is_ok_and(|it| it.len() > LARGEST);
            let bytes = if is_program {
                Vec::new()
            } else {
                std::fs::read(&file).unwrap_or_default()
            };
            if let Some(form) = found_in(&bytes) {
                panic!(
                    "{form:?}, a form of what every request holds, in {}",
                    file.display()
                );
            }
        }
    }
}

/// A request to a gateway of anybody's.
pub(crate) fn get(address: SocketAddr, target: &str) -> Response {
    let host = address.to_string();
    let mut client = Client::connect(address);
    client.send(&request("GET", target, &[("host", &host)], b""));
    client.finish()
}

/// A chat that has been sent to a gateway of anybody's.
pub(crate) fn open_chat(address: SocketAddr, body: &Value) -> Client {
    let host = address.to_string();
    let fields = [
        ("host", host.as_str()),
        ("content-type", "application/json"),
        ("user-agent", "zed/1.0"),
    ];
    let mut client = Client::connect(address);
    let bytes = body.to_string();
    client.send(&request(
        "POST",
        "/v1/chat/completions",
        &fields,
        bytes.as_bytes(),
    ));
    client
}

/// Where the gateway with this state directory serves, as its lock names it.
fn address(state: &Path) -> Option<SocketAddr> {
    let text = std::fs::read_to_string(state.join("gateway.lock")).ok()?;
    let lock: Value = serde_json::from_str(&text).ok()?;
    let url = lock["addresses"][0].as_str()?;
    url.strip_prefix("http://")?.parse().ok()
}

/// KiB of memory that are this process's alone.
pub(crate) fn private_kib(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Private_Dirty:"));
    let number = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    number.expect("the system tells what a process holds")
}

/// The web processes of this program.
pub(crate) fn web_processes(pid: u32) -> Vec<u32> {
    let is_web = |other: &u32| {
        let name = std::fs::read_to_string(format!("/proc/{other}/comm")).unwrap_or_default();
        name.starts_with("WebKitWebProces")
    };
    children(pid).into_iter().filter(is_web).collect()
}

/// The living processes that this one started.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("the system tells of processes");
    let is_its = |other: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{other}/stat")).unwrap_or_default();
        let Some((_, rest)) = stat.rsplit_once(')') else {
            return false;
        };
        let mut rest = rest.split_whitespace();
        let (state, parent) = (rest.next(), rest.next());
        state != Some("Z") && parent == Some(pid.to_string().as_str())
    };
    let names = processes
        .flatten()
        .filter_map(|one| one.file_name().into_string().ok());
    names
        .filter_map(|name| name.parse().ok())
        .filter(is_its)
        .collect()
}
