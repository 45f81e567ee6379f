//! A real browser without a window, and a small web server for the pages it opens.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::live::{LIVE_LIMIT, given};
use super::process::{in_tests, signal};
use super::script::Gate;
use super::wire::{Decoder, Framing, Head, find, response};
use super::within;

/// Serves pages, keeps what they report, and remembers every request it got.
pub(crate) struct Site {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    reports: Mutex<Vec<Value>>,
    requests: Mutex<Vec<String>>,
    go_on: Gate,
}

impl Site {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let shared = Arc::new(Shared::default());
        let all = Arc::clone(&shared);
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let all = Arc::clone(&all);
                thread::spawn(move || serve(&socket, &all));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// The reports so far, once there are so many.
    pub(crate) fn until_reports(&self, count: usize) -> Vec<Value> {
        within(LIVE_LIMIT, "the page reports", || {
            let reports = self.shared.reports.lock().unwrap();
            (reports.len() >= count).then(|| reports.clone())
        })
    }

    /// First lines of all requests that were for none of its pages.
    pub(crate) fn attempts(&self) -> Vec<String> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// Lets a page that asked for `/wait` go on.
    pub(crate) fn go_on(&self) {
        self.shared.go_on.open();
    }
}

fn serve(mut socket: &TcpStream, shared: &Shared) {
    let _ = socket.set_read_timeout(Some(Duration::from_secs(60)));
    let mut unread = Vec::new();
    while let Some((head, body)) = request(socket, &mut unread) {
        let target = head.first.split(' ').nth(1).unwrap_or_default().to_owned();
        let path = target.split('?').next().unwrap_or_default();
        let answer = match path {
            "/report" => {
                let report = serde_json::from_slice(&body).unwrap_or(Value::Null);
                shared.reports.lock().unwrap().push(report);
                response(200, &[("content-type", "text/plain")], b"thanks")
            }
            "/wait" => {
                while !shared.go_on.is_open() {
                    thread::sleep(Duration::from_millis(10));
                }
                response(200, &[("content-type", "text/plain")], b"go on")
            }
            "/favicon.ico" => response(404, &[], b""),
            _ => match page(path) {
                Some((kind, bytes)) => response(200, &[("content-type", kind)], &bytes),
                None => {
                    shared.requests.lock().unwrap().push(head.first.clone());
                    // As open as can be: what a gateway without gates would do.
                    let open = [
                        ("access-control-allow-origin", "*"),
                        ("access-control-allow-headers", "*"),
                        ("access-control-allow-methods", "*"),
                        ("content-type", "application/json"),
                    ];
                    response(200, &open, br#"{"object":"list","data":[]}"#)
                }
            },
        };
        if socket.write_all(&answer).is_err() {
            return;
        }
    }
}

fn request(mut socket: &TcpStream, unread: &mut Vec<u8>) -> Option<(Head, Vec<u8>)> {
    let mut buffer = [0; 16 * 1024];
    let end = loop {
        if let Some(end) = find(unread, b"\r\n\r\n") {
            break end + 4;
        }
        let count = socket.read(&mut buffer).ok().filter(|count| *count > 0)?;
        unread.extend_from_slice(&buffer[..count]);
    };
    let head = Head::parse(&unread.drain(..end).collect::<Vec<u8>>());
    let framing = match head.framing() {
        Framing::UntilClose => Framing::Length(0),
        framing => framing,
    };
    let mut decoder = Decoder::new(framing);
    decoder.push(&std::mem::take(unread));
    while !decoder.whole {
        let count = socket.read(&mut buffer).ok().filter(|count| *count > 0)?;
        decoder.push(&buffer[..count]);
    }
    *unread = decoder.rest().to_vec();
    Some((head, decoder.body))
}

/// A page of ours, or a file of the client's package.
fn page(path: &str) -> Option<(&'static str, Vec<u8>)> {
    if path.contains("..") {
        return None;
    }
    if let Some(file) = path.strip_prefix("/openai/") {
        let place = Path::new(&given("ONESLOT_TEST_CLIENTS"))
            .join("openai7")
            .join(file);
        return std::fs::read(place)
            .ok()
            .map(|bytes| ("text/javascript", bytes));
    }
    let place = in_tests("live/browser").join(path.trim_start_matches('/'));
    let is_page = place.extension().is_some_and(|ending| ending == "html");
    let bytes = is_page.then(|| std::fs::read(place).ok()).flatten()?;
    Some(("text/html; charset=utf-8", bytes))
}

/// A browser that has a page open; it ends with the value.
pub(crate) struct Browser {
    child: Child,
    _profile: TempDir,
}

impl Browser {
    /// Opens this address. `evil.example` and `rebound.example` lead to this machine.
    pub(crate) fn open(address: &str) -> Self {
        let profile = tempfile::tempdir().expect("a temporary directory can be made");
        let mut command = chromium(profile.path());
        command.arg(address).stdout(Stdio::null());
        let child = command.spawn().expect("the browser starts");
        Self {
            child,
            _profile: profile,
        }
    }

    /// What a person would see at this address, as HTML.
    pub(crate) fn look(address: &str) -> String {
        let profile = tempfile::tempdir().expect("a temporary directory can be made");
        let output = chromium(profile.path())
            .args(["--dump-dom", address])
            .output()
            .expect("the browser starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        signal(self.child.id(), "TERM");
        for _ in 0..100 {
            if self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn chromium(profile: &Path) -> Command {
    let mut command = Command::new(PathBuf::from(given("ONESLOT_TEST_BROWSER")));
    command
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--host-resolver-rules=MAP evil.example 127.0.0.1, MAP rebound.example 127.0.0.1",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    command
}
