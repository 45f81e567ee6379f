//! The real `oneslotd`, started for one test and gone with it.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::canary::{CANARY, files_under, found_in};
use super::client::{Client, End, Response, request};
use super::process::signal;
use super::upstream::Upstream;
use super::{LIMIT, chat, eventually};

const BINARY: &str = env!("CARGO_BIN_EXE_oneslotd");

/// What a gateway is started with.
pub(crate) struct Setup {
    toml: String,
    env: Vec<(String, String)>,
    args: Vec<String>,
    listen: String,
    limits: String,
    constants: serde_json::Map<String, Value>,
    home: TempDir,
}

impl Setup {
    /// In front of this upstream.
    pub(crate) fn before(upstream: &Upstream) -> Self {
        Self::bare().config(&format!("upstream.base_url = {:?}", upstream.url()))
    }

    /// With no configuration at all.
    pub(crate) fn bare() -> Self {
        Self {
            toml: String::new(),
            env: Vec::new(),
            args: Vec::new(),
            limits: String::new(),
            constants: serde_json::Map::new(),
            listen: "127.0.0.1:0".to_owned(),
            home: tempfile::tempdir().expect("a temporary directory can be made"),
        }
    }

    /// Serves on this address instead of a free loopback port.
    pub(crate) fn listen(mut self, address: &str) -> Self {
        address.clone_into(&mut self.listen);
        self
    }

    /// Adds lines to the configuration file; members as dotted keys (`queue.max_waiting = 1`).
    pub(crate) fn config(mut self, lines: &str) -> Self {
        self.toml.push_str(lines);
        self.toml.push('\n');
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Another value for a limit that is not a setting (`oneslot::config::Limits`).
    pub(crate) fn limit(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.constants.insert(name.to_owned(), value.into());
        self
    }

    /// With other limits of its HTTP edge than a person has (`header_ms=1000 connections=8`).
    pub(crate) fn http_limits(self, limits: &str) -> Self {
        self.env("ONESLOT_TEST_LIMITS", limits)
    }

    pub(crate) fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    /// With so many open files allowed (`ulimit -n`).
    pub(crate) fn descriptors(mut self, count: u32) -> Self {
        self.limits.push_str(&format!("ulimit -n {count}; "));
        self
    }

    /// Under this file mode mask.
    pub(crate) fn umask(mut self, mask: &str) -> Self {
        self.limits.push_str(&format!("umask {mask}; "));
        self
    }

    pub(crate) fn config_path(&self) -> PathBuf {
        self.home.path().join("oneslot.toml")
    }

    /// Starts it and waits until it says that it serves.
    pub(crate) fn start(self) -> Gateway {
        let mut toml = self.toml.clone();
        // The whole suite runs at the highest level, so that the search at each end means most.
        if !toml.contains("log") {
            toml.insert_str(0, "log.level = \"trace\"\n");
        }
        std::fs::write(self.config_path(), toml).expect("the configuration can be written");
        self.start_as_is()
    }

    /// Starts it with whatever lies at the configuration's path.
    pub(crate) fn start_as_is(self) -> Gateway {
        Gateway::spawn(self)
    }

    /// Runs it although it should not come up; returns what it said and its exit status.
    pub(crate) fn start_refused(self) -> Output {
        std::fs::write(self.config_path(), &self.toml).expect("the configuration can be written");
        let mut child = self
            .serve()
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("oneslotd starts");
        let deadline = Instant::now() + LIMIT;
        while child.try_wait().expect("a child can be asked").is_none() {
            if Instant::now() > deadline {
                let _ = child.kill();
                panic!("oneslotd came up although it should have refused to start");
            }
            thread::sleep(Duration::from_millis(10));
        }
        child.wait_with_output().expect("its output can be read")
    }

    fn serve(&self) -> Command {
        let mut command = self.command();
        command.arg("serve");
        // Without a flag the file decides, also while it runs.
        if !self.listen.is_empty() {
            command.args(["--listen", &self.listen]);
        }
        command
            .arg("--config")
            .arg(self.config_path())
            .arg("--state")
            .arg(self.state())
            .args(&self.args);
        command
    }

    /// The binary with an environment of its own: nothing of the caller's leaks in.
    fn command(&self) -> Command {
        let home = self.home.path();
        let mut command = if self.limits.is_empty() {
            Command::new(BINARY)
        } else {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("{}exec \"$0\" \"$@\"", self.limits), BINARY]);
            command
        };
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home)
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("XDG_STATE_HOME", home.join("state-home"))
            .env("XDG_DATA_HOME", home.join("data"))
            .env("XDG_CACHE_HOME", home.join("cache"))
            .env("TMPDIR", home)
            .env(
                "ONESLOT_LIMITS",
                Value::Object(self.constants.clone()).to_string(),
            )
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.home.path().join("state")
    }
}

/// A running gateway; it ends with the value.
pub(crate) struct Gateway {
    setup: Setup,
    child: Child,
    address: SocketAddr,
    said: Arc<Mutex<Vec<u8>>>,
}

impl Gateway {
    fn spawn(setup: Setup) -> Self {
        let mut child = setup
            .serve()
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("oneslotd starts");
        let said = Arc::new(Mutex::new(Vec::new()));
        let first = first_line(&mut child, &said);
        let Some(address) = first.as_deref().and_then(address_in) else {
            let _ = child.kill();
            let _ = child.wait();
            let said = String::from_utf8_lossy(&said.lock().unwrap()).into_owned();
            panic!("its first line is not `listening on http://…` but {first:?}; it said:\n{said}");
        };
        Self {
            setup,
            child,
            address,
            said,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn config_path(&self) -> PathBuf {
        self.setup.config_path()
    }

    pub(crate) fn state_path(&self) -> PathBuf {
        self.setup.state()
    }

    /// Everything the gateway may write to lies under this directory.
    pub(crate) fn home(&self) -> &Path {
        self.setup.home.path()
    }

    /// Everything it has said on standard output, on standard error and in its log file.
    pub(crate) fn said(&self) -> String {
        let mut said = String::from_utf8_lossy(&self.said.lock().unwrap()).into_owned();
        if let Ok(log) = std::fs::read(self.state_path().join("oneslot.log")) {
            said.push_str(&String::from_utf8_lossy(&log));
        }
        said
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.child
            .try_wait()
            .expect("a child can be asked")
            .is_none()
    }

    // Talking to it.

    /// A request for this gateway, with its Host and `content-type: application/json`.
    pub(crate) fn request(&self, method: &str, target: &str, body: &[u8]) -> Vec<u8> {
        self.request_with(method, target, &[], body)
    }

    /// The same with more fields.
    pub(crate) fn request_with(
        &self,
        method: &str,
        target: &str,
        extra: &[(&str, &str)],
        body: &[u8],
    ) -> Vec<u8> {
        let host = self.address.to_string();
        let mut fields = vec![("host", host.as_str()), ("x-canary", CANARY)];
        if method == "POST" {
            fields.push(("content-type", "application/json"));
        }
        fields.extend_from_slice(extra);
        request(method, target, &fields, body)
    }

    /// A connection on which nothing was sent.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// A connection on which these bytes were sent.
    pub(crate) fn open(&self, bytes: &[u8]) -> Client {
        let mut client = self.connect();
        client.send(bytes);
        client
    }

    /// Sends these bytes and reads one answer.
    pub(crate) fn exchange(&self, bytes: &[u8]) -> Response {
        self.open(bytes).finish()
    }

    /// A chat on its way.
    pub(crate) fn open_chat(&self, body: &Value) -> Client {
        self.open(&self.request("POST", "/v1/chat/completions", body.to_string().as_bytes()))
    }

    /// A chat and its answer.
    pub(crate) fn chat(&self, body: &Value) -> Response {
        self.open_chat(body).finish()
    }

    pub(crate) fn get(&self, target: &str) -> Response {
        self.exchange(&self.request("GET", target, b""))
    }

    /// A control request with the token of this run.
    pub(crate) fn control(&self, method: &str, target: &str, body: &str) -> Response {
        let token = self.token();
        let fields = [("x-oneslot-token", token.as_str())];
        self.exchange(&self.request_with(method, target, &fields, body.as_bytes()))
    }

    pub(crate) fn token(&self) -> String {
        let path = self.state_path().join("control.token");
        std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{} can be read: {error}", path.display()))
            .trim()
            .to_owned()
    }

    /// The gateway's own state.
    pub(crate) fn status(&self) -> Value {
        let response = self.get("/oneslot/status");
        assert_eq!(
            response.status(),
            200,
            "the status is always readable: {}",
            response.text()
        );
        response.json()
    }

    /// Waits until the status satisfies the condition, and returns it.
    pub(crate) fn until_status(&self, why: &str, enough: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let deadline = Instant::now() + LIMIT;
        loop {
            let status = self.status();
            if enough(&status) {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "not within {LIMIT:?}: {why}; last: {status:#}"
            );
            if status != last {
                last = status;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until so many run and so many wait.
    pub(crate) fn until_queue(&self, running: u64, waiting: u64) -> Value {
        self.until_status(&format!("{running} running, {waiting} waiting"), |status| {
            status["queue"]["running"] == running && status["queue"]["waiting"] == waiting
        })
    }

    /// Waits until `count` recent requests are recorded, newest last or first as the gateway says.
    pub(crate) fn until_recent(&self, count: usize) -> Vec<Value> {
        let status = self.until_status(&format!("{count} records"), |status| {
            status["recent"]
                .as_array()
                .is_some_and(|recent| recent.len() >= count)
        });
        status["recent"].as_array().cloned().unwrap_or_default()
    }

    /// The only record of this outcome; waits for it.
    pub(crate) fn until_record(&self, outcome: &str) -> Value {
        let wanted = |record: &&Value| record["outcome"] == outcome;
        let status = self.until_status(&format!("a record with outcome {outcome}"), |status| {
            status["recent"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|record| wanted(&record))
        });
        let recent = status["recent"].as_array().cloned().unwrap_or_default();
        let all: Vec<&Value> = recent.iter().filter(wanted).collect();
        assert_eq!(all.len(), 1, "one request, one record: {recent:#?}");
        all[0].clone()
    }

    /// Runs the command line against this gateway.
    pub(crate) fn cli(&self, args: &[&str]) -> Output {
        self.setup
            .command()
            .args(args)
            .arg("--state")
            .arg(self.state_path())
            .output()
            .expect("oneslotd runs")
    }

    /// The same, and it must succeed; returns its standard output.
    pub(crate) fn cli_ok(&self, args: &[&str]) -> String {
        let output = self.cli(args);
        assert!(
            output.status.success(),
            "`oneslotd {}` failed with {:?}: {}{}",
            args.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Writes a new configuration file beside the old one and puts it in its place.
    pub(crate) fn rewrite_config(&self, toml: &str) {
        let path = self.config_path();
        let new = path.with_extension("toml.new");
        std::fs::write(&new, toml).expect("a file can be written");
        std::fs::rename(new, path).expect("a file can be renamed");
    }

    /// Sends a signal by name (`TERM`, `STOP`, …).
    pub(crate) fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Waits until the process has ended; returns its exit status.
    pub(crate) fn until_exit(&mut self) -> std::process::ExitStatus {
        eventually("oneslotd ends", || {
            self.child.try_wait().expect("a child can be asked")
        })
    }

    /// Ends it and starts it again with the same configuration, state and port.
    pub(crate) fn restart(mut self) -> Self {
        self.signal("TERM");
        self.until_exit();
        self.start_again()
    }

    /// Starts a gateway that has ended again, with the same configuration and state.
    pub(crate) fn start_again(mut self) -> Self {
        let listen = self.address.to_string();
        let setup = std::mem::replace(&mut self.setup, Setup::bare());
        drop(self);
        Self::spawn(setup.listen(&listen))
    }

    // What every test ends with.

    /// The standing checks: never more than one in the slot, nothing left over, still serving.
    pub(crate) fn stands(&mut self, upstream: &Upstream) {
        self.stands_with_slots(upstream, 1);
    }

    /// The same for a server that is dead: it comes back first.
    pub(crate) fn stands_after_return(&mut self, upstream: &Upstream) {
        upstream.come_back();
        self.stands(upstream);
    }

    pub(crate) fn stands_with_slots(&mut self, upstream: &Upstream, slots: usize) {
        assert!(
            self.is_alive(),
            "the gateway must survive everything; it said:\n{}",
            self.said()
        );
        self.until_queue(0, 0);
        let most = upstream.most_in_flight();
        assert!(
            most <= slots,
            "{most} requests were in flight upstream, {slots} may be"
        );
        upstream.as_usual("POST", "/v1/chat/completions");
        upstream.as_usual("GET", "/v1/models");
        // A person's "check now" ends any cooldown the test has left behind.
        let check = self.control("POST", "/oneslot/check", "");
        assert!(
            check.status() < 300,
            "a check can always be asked for: {}",
            check.text()
        );
        let answer = eventually("the next normal request is served", || {
            let answer = self.chat(&chat::whole("still there?"));
            (answer.status() == 200).then_some(answer)
        });
        assert_eq!(answer.end, End::Whole);
        self.until_queue(0, 0);
        let most = upstream.most_in_flight();
        assert!(
            most <= slots,
            "{most} requests were in flight upstream, {slots} may be"
        );
    }
}

impl Gateway {
    fn end(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
            return;
        }
        signal(self.child.id(), "CONT");
        signal(self.child.id(), "TERM");
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            if self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("oneslotd did not end on SIGTERM");
        }
    }

    /// Nothing of any prompt, answer or header was written or said, whatever the test did.
    fn left_no_canary(&self) {
        if let Some(form) = found_in(self.said().as_bytes()) {
            panic!("{form:?} in what oneslotd said:\n{}", self.said());
        }
        for file in files_under(self.home()) {
            if let Some(form) = found_in(&std::fs::read(&file).unwrap_or_default()) {
                panic!("{form:?} in {}", file.display());
            }
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.end();
        if !thread::panicking() {
            self.left_no_canary();
        }
    }
}

/// Waits for the first line on standard output; everything said is kept.
fn first_line(child: &mut Child, said: &Arc<Mutex<Vec<u8>>>) -> Option<String> {
    let stdout = child.stdout.take().expect("standard output is piped");
    let stderr = child.stderr.take().expect("standard error is piped");
    let (tell, first) = mpsc::channel();
    let keep = Arc::clone(said);
    thread::spawn(move || {
        let mut lines = BufReader::new(stdout);
        let mut line = String::new();
        let _ = lines.read_line(&mut line);
        keep.lock().unwrap().extend_from_slice(line.as_bytes());
        let _ = tell.send(line);
        copy(lines, &keep);
    });
    let keep = Arc::clone(said);
    thread::spawn(move || copy(stderr, &keep));
    first.recv_timeout(LIMIT).ok()
}

fn copy(mut from: impl Read, to: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 4096];
    while let Ok(count) = from.read(&mut buffer) {
        if count == 0 {
            return;
        }
        to.lock().unwrap().extend_from_slice(&buffer[..count]);
    }
}

fn address_in(line: &str) -> Option<SocketAddr> {
    line.trim()
        .strip_prefix("listening on http://")?
        .split([' ', '/', ','])
        .next()?
        .parse()
        .ok()
}
