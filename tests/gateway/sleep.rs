//! Sleep and waking, told by a fake log-in daemon on a bus of its own.

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

/// What the daemon was asked for, and handles of what it granted.
#[derive(Default)]
struct Inhibitors {
    asked: Vec<String>,
    /// Our ends: at their end when the other has been let go.
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

    #[zbus(signal)]
    async fn prepare_for_sleep(
        emitter: &zbus::object_server::SignalEmitter<'_>,
        start: bool,
    ) -> zbus::Result<()>;
}

/// A system bus with nothing on it but a log-in daemon.
struct Bus {
    daemon: Child,
    address: String,
    say: mpsc::Sender<bool>,
    inhibitors: Arc<Mutex<Inhibitors>>,
}

impl Bus {
    fn start() -> Self {
        let mut daemon = Command::new("dbus-daemon")
            .args(["--session", "--nofork", "--nopidfile", "--print-address=1"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("dbus-daemon is there: `cargo xtask setup` brings it");
        let mut address = String::new();
        let stdout = daemon.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut address).unwrap();
        let address = address.trim().to_owned();
        let inhibitors = Arc::new(Mutex::new(Inhibitors::default()));
        let (say, said) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        let manager = Manager(Arc::clone(&inhibitors));
        let at = address.clone();
        std::thread::spawn(move || serve(&at, manager, &said, &ready));
        is_ready
            .recv_timeout(Duration::from_secs(20))
            .expect("the log-in daemon is on the bus");
        Self {
            daemon,
            address,
            say,
            inhibitors,
        }
    }

    /// `PrepareForSleep`: true before it sleeps, false when it is awake.
    fn prepare_for_sleep(&self, start: bool) {
        self.say.send(start).unwrap();
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

fn serve(address: &str, manager: Manager, said: &mpsc::Receiver<bool>, ready: &mpsc::Sender<()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let connection = runtime.block_on(async {
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
    for start in said {
        runtime.block_on(async {
            let object = connection
                .object_server()
                .interface::<_, Manager>("/org/freedesktop/login1")
                .await
                .unwrap();
            Manager::prepare_for_sleep(object.signal_emitter(), start)
                .await
                .unwrap();
        });
    }
}

fn started(bus: &Bus, upstream: &Upstream, config: &str) -> Gateway {
    Setup::before(upstream)
        .config(config)
        .env("DBUS_SYSTEM_BUS_ADDRESS", &bus.address)
        .start()
}

/// Asked for its list of models so often: that is a probe.
fn probes(upstream: &Upstream) -> usize {
    upstream.look(|state| {
        let probes = state.log.iter();
        probes
            .filter(|seen| seen.request.path() == "/v1/models")
            .count()
    })
}

#[test]
fn after_waking_kept_connections_are_dropped_and_probes_do_not_storm() {
    let bus = Bus::start();
    let upstream = Upstream::plain();
    let mut gateway = started(&bus, &upstream, "health.idle_interval_s = 3600");
    let wakes = |gateway: &Gateway| gateway.said().matches("the machine slept").count();
    // The subscription may come after the first answers. One word at a time: one that is heard
    // later would close the connections below.
    eventually("it hears the log-in daemon", || {
        bus.prepare_for_sleep(false);
        let heard = (0..40).any(|_| {
            std::thread::sleep(Duration::from_millis(25));
            wakes(&gateway) > 0
        });
        heard.then_some(())
    });
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
    assert_eq!(seen[0], seen[1], "kept for the next: {seen:?}");
    // On which connection the server is asked when a person wants to know.
    let asked = |gateway: &Gateway| {
        let before = probes(&upstream);
        assert!(gateway.control("POST", "/oneslot/check", "").status() < 300);
        eventually("it is asked", || (probes(&upstream) > before).then_some(()));
        upstream.look(|state| {
            let mut log = state.log.iter().rev();
            let probe = log.find(|seen| seen.request.path() == "/v1/models");
            probe.map(|seen| seen.connection)
        })
    };
    let kept = asked(&gateway);
    assert_eq!(asked(&gateway), kept, "kept for the next question too");

    let (before, woken) = (probes(&upstream), wakes(&gateway));
    bus.prepare_for_sleep(true);
    bus.prepare_for_sleep(false);
    eventually("it is awake", || (wakes(&gateway) > woken).then_some(()));
    // Ten naps are no more than one.
    for _ in 0..10 {
        bus.prepare_for_sleep(true);
        bus.prepare_for_sleep(false);
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
    assert_ne!(asked(&gateway), kept, "nor is the one for questions");
    gateway.stands(&upstream);
}

#[test]
fn the_machine_is_kept_awake_only_while_a_request_is_in_flight_and_only_if_wanted() {
    let bus = Bus::start();
    let upstream = Upstream::plain();
    let mut gateway = started(&bus, &upstream, "power.keep_awake = true");
    assert!(!bus.is_held(), "not while nothing runs");
    let asked = hold(&gateway, &upstream);
    eventually("it is kept awake", || bus.is_held().then_some(()));
    assert_eq!(
        bus.inhibitors.lock().unwrap().asked,
        ["sleep:idle OneSlot block"],
        "asked once"
    );
    asked.release();
    eventually("it may sleep", || (!bus.is_held()).then_some(()));
    gateway.stands(&upstream);

    let other = started(&bus, &upstream, "");
    let asked = bus.inhibitors.lock().unwrap().asked.len();
    let running = hold(&other, &upstream);
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(
        bus.inhibitors.lock().unwrap().asked.len(),
        asked,
        "off unless a person wants it"
    );
    running.release();
}
