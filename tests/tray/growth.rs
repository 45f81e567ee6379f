//! What must not grow: ten thousand changes of state leave nothing and draw the icon anew only where
//! it differs; a panel that was closed leaves nothing either.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use oneslot::state::{Lock, StateDir};
use oneslot::telemetry::snapshot::{Face, Snapshot};

use super::support::desktop::Desktop;
use super::support::host::Host;
use super::support::opening::{close, open};
use super::support::program::{Program, Setup};
use super::support::signals::Signals;
use super::support::{LIMIT, eventually, windows, within};

/// Names in the folder for passing files, in which icons of other make leave theirs. It is the
/// desktop's own: what other programs of the machine do in theirs proves nothing.
fn passing(desktop: &Desktop) -> Vec<String> {
    let names = std::fs::read_dir(desktop.passing()).unwrap().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// What must be the same before and after.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    files: usize,
    passing: Vec<String>,
    open: usize,
    threads: usize,
}

fn left(desktop: &Desktop, tray: &Program) -> Left {
    let entries = |folder: &str| {
        let path = format!("/proc/{}/{folder}", tray.pid());
        std::fs::read_dir(path).unwrap().count()
    };
    Left {
        files: desktop.files(),
        passing: passing(desktop),
        open: entries("fd"),
        threads: entries("task"),
    }
}

/// Threads and connections that are at rest go after a while.
fn until_as_before(desktop: &Desktop, tray: &Program, before: &Left) {
    let mut last = None;
    within(LIMIT, "nothing more is left than before", || {
        let now = left(desktop, tray);
        let same = now.files == before.files
            && now.passing == before.passing
            && now.open <= before.open
            && now.threads <= before.threads;
        last = Some(now);
        same.then_some(())
    });
    println!("{before:?} before, {last:?} after");
}

#[test]
fn ten_thousand_changes_of_the_gateway_leave_no_growth_and_are_drawn_at_a_steady_pace() {
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let tray = Setup::bare(&desktop).args(&["--hidden", "--demo"]).start();
    let icon = host.icon();
    icon.until_says(LIMIT, "Ready");
    let mut control = Control::of(&tray);
    let mut churn = |changes: usize| {
        for at in 0..changes {
            control.send(["/oneslot/pause", "/oneslot/resume"][at % 2]);
        }
    };
    // The first changes fill what is filled once.
    churn(400);
    icon.until_says(LIMIT, "Ready");
    let (before, kib) = (left(&desktop, &tray), tray.private_kib());
    let signals = Signals::on(&desktop);
    let began = Instant::now();
    churn(10_000);
    icon.until_says(LIMIT, "Ready");
    let took = began.elapsed();
    until_as_before(&desktop, &tray, &before);
    let grown = tray.private_kib().saturating_sub(kib);
    println!(
        "10,000 changes in {took:?}: {grown} KiB more; {:?}",
        signals.all()
    );
    assert!(grown < 3 * 1024, "10,000 changes took {grown} KiB");
    // Four looks a second, and one for the last state.
    let most = usize::try_from(took.as_millis() / 250 + 2).unwrap();
    for member in ["NewIcon", "LayoutUpdated"] {
        let count = signals.count(member);
        assert!(count <= most, "{member}: {count} in {took:?}, not {most}");
    }
    assert!(signals.count("NewIcon") > 0, "what changed was drawn");
    let quiet = signals.all();
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(signals.all(), quiet, "what does not change is not drawn");
}

#[test]
fn ten_thousand_drawn_changes_leave_no_growth_and_no_files() {
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let mut daemon = Daemon::on(&desktop);
    daemon.show(Face::Ready);
    let tray = Setup::bare(&desktop).start_as_is();
    let icon = host.icon();
    icon.until_says(LIMIT, "Ready");
    let signals = Signals::on(&desktop);
    let mut churn = |changes: usize| {
        for at in 0..changes {
            let before = signals.count("NewIcon");
            daemon.show([Face::Busy, Face::Ready][at % 2]);
            // No change is passed over: the next one comes when this one was drawn.
            signals.until_more("NewIcon", before);
        }
    };
    churn(1_000);
    icon.until_says(LIMIT, "Ready");
    let (before, kib, drawn) = (
        left(&desktop, &tray),
        tray.private_kib(),
        signals.count("NewIcon"),
    );
    let began = Instant::now();
    churn(10_000);
    icon.until_says(LIMIT, "Ready");
    let took = began.elapsed();
    let drawn = signals.count("NewIcon") - drawn;
    assert_eq!(drawn, 10_000, "every change was drawn, and nothing else");
    until_as_before(&desktop, &tray, &before);
    let grown = tray.private_kib().saturating_sub(kib);
    println!("10,000 drawn changes in {took:?}: {grown} KiB more");
    assert!(grown < 3 * 1024, "10,000 drawn changes took {grown} KiB");
}

#[test]
fn panels_that_were_opened_and_closed_leave_nothing_behind() {
    const TIMES: usize = 8;
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let tray = Setup::bare(&desktop)
        .config("log.level = \"debug\"")
        .args(&["--hidden", "--demo"])
        .start();
    let icon = host.icon();
    icon.until_says(LIMIT, "Ready");
    let once = || {
        open(&tray, &icon);
        eventually("its window is there", || {
            (!windows::titled(&desktop, "OneSlot").is_empty()).then_some(())
        });
        close(&desktop, &tray);
    };
    // The first ones load what is loaded once.
    for _ in 0..3 {
        once();
    }
    let (before, kib) = (left(&desktop, &tray), tray.private_kib());
    for _ in 0..TIMES {
        once();
    }
    // What serves pages comes and goes with a few descriptors, threads and files of its own.
    within(LIMIT, "no page is left, nor what it opened", || {
        let now = left(&desktop, &tray);
        let is_as_before =
            now.open < before.open + TIMES / 2 && now.threads < before.threads + TIMES / 2;
        (is_as_before && shared_with_pages(&tray) == 0).then_some(())
    });
    let after = left(&desktop, &tray);
    // The toolkit gives memory of a closed page back a moment after its descriptors.
    let grown = within(LIMIT, "the pages' memory is given back", || {
        let grown = tray.private_kib().saturating_sub(kib);
        (grown < 3 * 1024).then_some(grown)
    });
    println!("{TIMES} panels: {before:?} before, {after:?} after, {grown} KiB more");
}

/// How many pieces of memory are shared with pages; one that stays tells of a page that does.
fn shared_with_pages(tray: &Program) -> usize {
    let open = std::fs::read_dir(format!("/proc/{}/fd", tray.pid())).unwrap();
    let names = open
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let is_shared = |name: &PathBuf| name.to_string_lossy().contains("WebKitSharedMemory");
    names.filter(is_shared).count()
}

/// One connection for many commands: ten thousand of them would only count connections.
struct Control {
    socket: BufReader<TcpStream>,
    fields: String,
}

impl Control {
    fn of(tray: &Program) -> Self {
        let token = std::fs::read_to_string(tray.state_path().join("control.token")).unwrap();
        let address = tray.address();
        let token = token.trim();
        Self {
            socket: BufReader::new(TcpStream::connect(address).unwrap()),
            fields: format!("host: {address}\r\nx-oneslot-token: {token}\r\n"),
        }
    }

    fn send(&mut self, path: &str) {
        let request = format!(
            "POST {path} HTTP/1.1\r\n{}content-length: 0\r\n\r\n",
            self.fields
        );
        self.socket.get_mut().write_all(request.as_bytes()).unwrap();
        let mut line = String::new();
        self.socket.read_line(&mut line).unwrap();
        assert!(line.starts_with("HTTP/1.1 200"), "{line}");
        let mut length = 0;
        while line.trim() != "" {
            line.clear();
            self.socket.read_line(&mut line).unwrap();
            let line = line.to_ascii_lowercase();
            if let Some(number) = line.strip_prefix("content-length:") {
                length = number.trim().parse().unwrap();
            }
        }
        self.socket.read_exact(&mut vec![0; length]).unwrap();
    }
}

/// A stand-in for a running `oneslotd` that says what the test wants, as fast as it wants.
struct Daemon {
    says: Sender<Snapshot>,
    seq: u64,
    _lock: Lock,
}

impl Daemon {
    fn on(desktop: &Desktop) -> Self {
        let state = StateDir::open(desktop.home().join("state")).unwrap();
        let mut lock = Lock::acquire(&state, "oneslotd").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        lock.publish(vec![format!("http://{address}")]).unwrap();
        let (says, wanted) = mpsc::channel::<Snapshot>();
        std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut head = [0; 4096];
            assert!(socket.read(&mut head).unwrap() > 0, "the tray asks");
            socket.set_nodelay(true).unwrap();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
            socket.write_all(head.as_bytes()).unwrap();
            for snapshot in wanted {
                let event = serde_json::to_string(&snapshot).unwrap();
                if socket
                    .write_all(format!("data: {event}\n\n").as_bytes())
                    .is_err()
                {
                    return;
                }
            }
        });
        Self {
            says,
            seq: 0,
            _lock: lock,
        }
    }

    fn show(&mut self, state: Face) {
        self.seq += 1;
        let snapshot = Snapshot {
            seq: self.seq,
            state,
            listen: vec!["127.0.0.1:11411".to_owned()],
            ..Snapshot::default()
        };
        self.says.send(snapshot).unwrap();
    }
}
