//! Real parts: llama.cpp with a small model, and the official clients for Python and Node.
//!
//! `cargo xtask test` brings them and says where they are. They run one at a time: the model
//! starves beside anything that computes.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::client::Client;
use super::group::Group;
use super::process::{in_tests, signal};
use super::within;

/// How long a real model may take for anything on a busy machine.
pub(crate) const LIVE_LIMIT: Duration = Duration::from_secs(180);

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Waits until no other live test runs.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A real part's place, as `cargo xtask test` tells it.
pub(crate) fn given(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!(
            "{name} is not set: run this test with `cargo xtask test`, which brings the real parts"
        )
    })
}

/// The Python that the model server and its companions run in.
pub(crate) fn python() -> String {
    given("ONESLOT_TEST_PYTHON")
}

/// The small chat model's file.
pub(crate) fn model_file() -> String {
    given("ONESLOT_TEST_MODEL")
}

/// Which official client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sdk {
    Python,
    Node6,
    Node7,
}

/// Every official client this project promises to work with.
pub(crate) const SDKS: [Sdk; 3] = [Sdk::Python, Sdk::Node6, Sdk::Node7];

/// One chat by an official client.
pub(crate) struct LiveChat {
    command: Command,
}

impl LiveChat {
    /// Against this base URL (with `/v1`).
    pub(crate) fn new(sdk: Sdk, base: &str) -> Self {
        let mut command = match sdk {
            Sdk::Python => {
                let mut command = Command::new(given("ONESLOT_TEST_PYTHON"));
                command.arg(in_tests("live/chat.py"));
                command
            }
            Sdk::Node6 | Sdk::Node7 => {
                // The newest client on the oldest Node that it takes.
                let (node, sdk) = if sdk == Sdk::Node6 {
                    ("ONESLOT_TEST_NODE", "openai6")
                } else {
                    ("ONESLOT_TEST_NODE22", "openai7")
                };
                let mut command = Command::new(given(node));
                // The script is run from where its packages are.
                let clients = PathBuf::from(given("ONESLOT_TEST_CLIENTS"));
                command
                    .arg(in_tests("live/node/chat.mjs"))
                    .args(["--sdk", sdk])
                    .current_dir(clients);
                command
            }
        };
        command.args(["--base", base]);
        Self { command }
    }

    pub(crate) fn streamed(self) -> Self {
        self.args(&["--stream"])
    }

    pub(crate) fn retries(self, count: u32) -> Self {
        let count = count.to_string();
        self.args(&["--retries", &count])
    }

    pub(crate) fn max_tokens(self, count: u32) -> Self {
        let count = count.to_string();
        self.args(&["--max-tokens", &count])
    }

    /// Further members of the body, as JSON.
    pub(crate) fn extra(self, members: &Value) -> Self {
        let members = members.to_string();
        self.args(&["--extra", &members])
    }

    /// So many at once, each started so long after the one before; see `finish_all`.
    pub(crate) fn clients(self, count: u32, gap_ms: u32) -> Self {
        let (count, gap) = (count.to_string(), gap_ms.to_string());
        self.args(&["--clients", &count, "--gap-ms", &gap])
    }

    pub(crate) fn messages(self, file: &std::path::Path) -> Self {
        let file = file.display().to_string();
        self.args(&["--messages", &file])
    }

    fn args(mut self, args: &[&str]) -> Self {
        self.command.args(args);
        self
    }

    /// Runs it and returns the one JSON line it prints.
    pub(crate) fn run(self) -> Value {
        self.start().finish()
    }

    /// Starts it beside the test.
    pub(crate) fn start(mut self) -> RunningChat {
        let child = self
            .command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the client's interpreter starts");
        RunningChat { child: Some(child) }
    }
}

/// A client at work.
pub(crate) struct RunningChat {
    child: Option<Child>,
}

impl RunningChat {
    /// Waits for its one JSON line.
    pub(crate) fn finish(self) -> Value {
        let mut all = self.finish_all();
        assert_eq!(all.len(), 1, "one client, one line: {all:?}");
        all.remove(0)
    }

    /// Waits for the lines of all its clients.
    pub(crate) fn finish_all(mut self) -> Vec<Value> {
        let mut child = self.child.take().expect("a client is finished once");
        within(LIVE_LIMIT, "the client ends", || {
            child.try_wait().expect("a child can be asked")
        });
        let output = child.wait_with_output().expect("its output can be read");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = text.lines().map(|line| {
            serde_json::from_str(line).unwrap_or_else(|error| {
                panic!(
                    "the client printed no JSON ({error}): {text}\n{}",
                    String::from_utf8_lossy(&output.stderr)
                )
            })
        });
        let lines: Vec<Value> = lines.collect();
        assert!(
            !lines.is_empty(),
            "the client said nothing: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        lines
    }

    /// Kills it in the middle.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for RunningChat {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// llama.cpp's own server with a real model, in a process of its own.
pub(crate) struct RealModel {
    child: Child,
    port: u16,
    window: u32,
}

impl RealModel {
    /// Starts it with this window and waits until it is ready.
    pub(crate) fn start(window: u32) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a loopback port is free")
            .port();
        Self::start_on(port, window)
    }

    /// The same on a port that the test names.
    pub(crate) fn start_on(port: u16, window: u32) -> Self {
        let child = spawn(port, window, None);
        Self {
            child,
            port,
            window,
        }
    }

    /// The same in a group of processes, as the first that the kernel kills there.
    pub(crate) fn start_in(group: &Group, window: u32) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a loopback port is free")
            .port();
        let child = spawn(port, window, Some(group));
        Self {
            child,
            port,
            window,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Starts it again in the group, on the same port.
    pub(crate) fn restart_in(&mut self, group: &Group) {
        let _ = self.child.wait();
        self.child = spawn(self.port, self.window, Some(group));
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// What its metrics say of this number.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let text = self.get("/metrics").text();
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }

    /// Whether its slot works, by its own word.
    pub(crate) fn is_busy(&self) -> bool {
        let slots = self.get("/slots").json();
        slots
            .as_array()
            .into_iter()
            .flatten()
            .any(|slot| slot["is_processing"] == true)
    }

    /// Waits until its slot works, or does not.
    pub(crate) fn until_busy(&self, busy: bool) {
        within(LIVE_LIMIT, "the real server's slot changes", || {
            (self.is_busy() == busy).then_some(())
        });
    }

    /// Asks it directly, past the gateway.
    pub(crate) fn get(&self, target: &str) -> super::client::Response {
        self.ask("GET", target, "")
    }

    /// Posts to it directly, past the gateway.
    pub(crate) fn post(&self, target: &str, body: &str) -> super::client::Response {
        self.ask("POST", target, body)
    }

    fn ask(&self, method: &str, target: &str, body: &str) -> super::client::Response {
        let host = format!("127.0.0.1:{}", self.port);
        let mut fields = vec![("host", host.as_str())];
        if method == "POST" {
            fields.push(("content-type", "application/json"));
        }
        let bytes = super::client::request(method, target, &fields, body.as_bytes());
        let mut client = Client::connect(([127, 0, 0, 1], self.port).into());
        client.send(&bytes);
        client.finish_within(LIVE_LIMIT)
    }

    /// `kill -9`, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Stops it without its knowing.
    pub(crate) fn freeze(&self) {
        signal(self.child.id(), "STOP");
    }

    pub(crate) fn thaw(&self) {
        signal(self.child.id(), "CONT");
    }

    /// Starts it again on the same port.
    pub(crate) fn restart(&mut self) {
        self.begin_again().until_ready();
    }

    /// The same, and comes back before it is ready.
    pub(crate) fn begin_again(&mut self) -> Starting {
        let (child, starting) = begin(self.port, self.window, None);
        self.child = child;
        starting
    }
}

impl Drop for RealModel {
    fn drop(&mut self) {
        self.thaw();
        self.kill();
    }
}

/// Waits for a line, so that it is in its group before it takes any memory.
const IN_GROUP: &str = "read go; echo 1000 > /proc/self/oom_score_adj; exec \"$@\"";

/// A server that is on its way.
pub(crate) struct Starting(mpsc::Receiver<()>);

impl Starting {
    /// Waits until it says that it is ready.
    pub(crate) fn until_ready(&self) {
        self.0
            .recv_timeout(LIVE_LIMIT)
            .expect("the model server says that it is ready");
    }
}

fn spawn(port: u16, window: u32, group: Option<&Group>) -> Child {
    let (child, starting) = begin(port, window, group);
    starting.until_ready();
    child
}

fn begin(port: u16, window: u32, group: Option<&Group>) -> (Child, Starting) {
    let mut command = match group {
        Some(_) => {
            let mut shell = Command::new("sh");
            shell.args(["-c", IN_GROUP, "sh"]).arg(python());
            shell.stdin(Stdio::piped());
            shell
        }
        None => {
            let mut python = Command::new(python());
            python.stdin(Stdio::null());
            python
        }
    };
    let mut child = command
        .arg(in_tests("live/model_server.py"))
        .args(["--model", &model_file()])
        .args(["--port", &port.to_string()])
        .args(["--ctx", &window.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the model server starts");
    if let Some(group) = group {
        group.take(child.id());
        let mut stdin = child.stdin.take().expect("standard input is piped");
        writeln!(stdin, "go").expect("the shell listens");
    }
    let stdout = child.stdout.take().expect("standard output is piped");
    let (tell, ready) = mpsc::channel();
    thread::spawn(move || {
        let mut lines = BufReader::new(stdout).lines();
        while let Some(Ok(line)) = lines.next() {
            if line.starts_with("ready ") {
                let _ = tell.send(());
            }
        }
    });
    (child, Starting(ready))
}
