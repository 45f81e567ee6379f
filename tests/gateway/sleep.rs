//! Sleep of the machine, simulated, and keeping it awake, with a fake login daemon on a bus of its
//! own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use zbus::zvariant::OwnedFd;

use crate::support::chat;
use crate::support::eventually;
use crate::support::gateway::{Gateway, Setup};
use crate::support::held::hold;
use crate::support::upstream::Upstream;

/// What the daemon was asked for, and handles of the locks it granted.
#[derive(Default)]
struct Inhibitors {
    asked: Vec<String>,
    /// Our ends: closed when the lock is released.
    granted: Vec<std::os::unix::net::UnixStream>,
}

struct Manager(Arc<Mutex<Inhibitors>>);

#[zbus::interface(name = "org.freedesktop.login1.Manager")]
impl Manager {
    fn inhibit(&self, what: &str, who: &str, _why: &str, mode: &str) -> OwnedFd {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut inhibitors = self.0.lock().unwrap();
        inhibitors.asked.push(format!("{what} {who} {mode}"));
        inhibitors.granted.push(ours);
        OwnedFd::from(std::os::fd::OwnedFd::from(theirs))
    }
}

/// A system bus with a login daemon and nothing else.
struct Bus {
    daemon: Child,
    address: String,
    inhibitors: Arc<Mutex<Inhibitors>>,
    /// The login daemon serves until this is dropped.
    _serving: mpsc::Sender<()>,
}

impl Bus {
    fn start() -> Self {
        let mut daemon = Command::new("dbus-daemon")
            .args(["--session", "--nofork", "--nopidfile", "--print-address=1"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("dbus-daemon is installed: `cargo xtask test` installs it");
        let mut address = String::new();
        let stdout = daemon.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut address).unwrap();
        let address = address.trim().to_owned();
        let inhibitors = Arc::new(Mutex::new(Inhibitors::default()));
        let (serving, until) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        let manager = Manager(Arc::clone(&inhibitors));
        let at = address.clone();
        std::thread::spawn(move || serve(&at, manager, &until, &ready));
        is_ready
            .recv_timeout(Duration::from_secs(20))
            .expect("the login daemon is on the bus");
        Self {
            daemon,
            address,
            inhibitors,
            _serving: serving,
        }
    }

    fn asked(&self) -> Vec<String> {
        self.inhibitors.lock().unwrap().asked.clone()
    }

    /// Whether a granted lock is still held.
    fn is_held(&self) -> bool {
        let mut inhibitors = self.inhibitors.lock().unwrap();
        inhibitors.granted.iter_mut().any(|ours| {
            let read = std::io::Read::read(ours, &mut [0]);
            read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
        })
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

fn serve(address: &str, manager: Manager, until: &mpsc::Receiver<()>, ready: &mpsc::Sender<()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let _connection = runtime.block_on(async {
        zbus::connection::Builder::address(address)
            .unwrap()
            .name("org.freedesktop.login1")
            .unwrap()
            .serve_at("/org/freedesktop/login1", manager)
            .unwrap()
            .build()
            .await
            .unwrap()
    });
    ready.send(()).unwrap();
    let _ = until.recv();
}

fn started(bus: &Bus, upstream: &Upstream, config: &str) -> Gateway {
    Setup::before(upstream)
        .config(config)
        .env("DBUS_SYSTEM_BUS_ADDRESS", &bus.address)
        .start()
}

/// A machine that sleeps for a minute on demand.
struct Sleeper {
    wish: std::path::PathBuf,
    _home: tempfile::TempDir,
}

impl Sleeper {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        Self {
            wish: home.path().join("fault"),
            _home: home,
        }
    }

    /// Sleeps and resumes; the clocks are compared at the next event.
    fn nap(&self, gateway: &Gateway) {
        std::fs::write(&self.wish, "Slept\n60").unwrap();
        for target in ["/oneslot/pause", "/oneslot/resume"] {
            assert!(gateway.control("POST", target, "").status() < 300);
        }
        eventually("the nap is noticed", || (!self.wish.exists()).then_some(()));
    }
}

/// How many times its list of models was requested: each is a probe.
fn probes(upstream: &Upstream) -> usize {
    upstream.look(|state| {
        let probes = state.log.iter();
        probes
            .filter(|seen| seen.request.path() == "/v1/models")
            .count()
    })
}

#[test]
fn after_a_sleep_connections_are_dropped_and_probes_do_not_storm() {
    let upstream = Upstream::plain();
    let sleeper = Sleeper::new();
    let mut gateway = Setup::before(&upstream)
        .config("health.idle_interval_s = 3600")
        .env("ONESLOT_FAULT", &sleeper.wish.display().to_string())
        .start();
    let wakes = |gateway: &Gateway| gateway.said().matches("machine resumed from sleep").count();
    assert_eq!(gateway.chat(&chat::whole("one")).status(), 200);
    assert_eq!(gateway.chat(&chat::whole("two")).status(), 200);
    let connections = |upstream: &Upstream| {
        upstream.look(|state| {
            let chats = state.log.iter();
            chats
                .filter(|seen| seen.request.path() == "/v1/chat/completions")
                .map(|seen| seen.connection)
                .collect::<Vec<_>>()
        })
    };
    let seen = connections(&upstream);
    assert_eq!(seen[0], seen[1], "reused: {seen:?}");
    // The connection of a probe that `check` asks for.
    let asked = |gateway: &Gateway| {
        let before = probes(&upstream);
        assert!(gateway.control("POST", "/oneslot/check", "").status() < 300);
        eventually("it is asked", || (probes(&upstream) > before).then_some(()));
        upstream.look(|state| {
            let mut log = state.log.iter().rev();
            let probe = log.find(|seen| seen.request.path() == "/v1/models");
            probe.expect("it was asked").connection
        })
    };
    asked(&gateway);
    let kept: Vec<_> =
        upstream.look(|state| state.log.iter().map(|seen| seen.connection).collect());
    assert!(kept.contains(&asked(&gateway)), "probes reuse theirs too");

    let before = probes(&upstream);
    sleeper.nap(&gateway);
    eventually("it has resumed", || (wakes(&gateway) > 0).then_some(()));
    // Ten more cause no more probes than one.
    for _ in 0..10 {
        sleeper.nap(&gateway);
    }
    std::thread::sleep(Duration::from_secs(3));
    let after = probes(&upstream);
    assert!(
        after - before <= 1,
        "{} probes after waking",
        after - before
    );
    assert_eq!(gateway.chat(&chat::whole("three")).status(), 200);
    let seen = connections(&upstream);
    assert_ne!(
        seen[1], seen[2],
        "the old connection is not trusted: {seen:?}"
    );
    assert!(!kept.contains(&asked(&gateway)), "nor is a probe's");
    gateway.stands(&upstream);
}

#[test]
fn the_machine_is_kept_awake_only_for_a_request_and_if_enabled() {
    let bus = Bus::start();
    let upstream = Upstream::plain();
    let mut gateway = started(&bus, &upstream, "power.keep_awake = true");
    assert!(!bus.is_held(), "not while nothing runs");
    let asked = hold(&gateway, &upstream);
    eventually("it is kept awake", || bus.is_held().then_some(()));
    assert_eq!(
        bus.asked(),
        ["idle OneSlot block", "sleep OneSlot block"],
        "once for both"
    );
    asked.release();
    eventually("it may sleep", || (!bus.is_held()).then_some(()));
    gateway.stands(&upstream);

    // Also when it is killed during an answer.
    let asked = hold(&gateway, &upstream);
    eventually("it is kept awake again", || bus.is_held().then_some(()));
    gateway.signal("KILL");
    eventually("the lock ends with the process", || {
        (!bus.is_held()).then_some(())
    });
    drop(asked);

    let other = started(&bus, &upstream, "");
    let before = bus.asked().len();
    let running = hold(&other, &upstream);
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(bus.asked().len(), before, "off by default");
    running.release();
}
