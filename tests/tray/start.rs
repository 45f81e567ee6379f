//! Starts: the only one, the second, beside a daemon, with the port taken, and without a bus.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use super::support::chat;
use super::support::desktop::{Bus, Desktop};
use super::support::driver::Panel;
use super::support::host::Host;
use super::support::program::{BINARY, Program, Setup, get, open_chat};
use super::support::script::{Gate, Script};
use super::support::upstream::Upstream;
use super::support::{LIMIT, eventually, network};

fn second_start(desktop: &Desktop) {
    let state = desktop.home().join("state");
    let status = desktop
        .command(BINARY)
        .arg("--state")
        .arg(&state)
        .status()
        .expect("a second one starts");
    assert!(status.success(), "a second one ends in order");
}

#[test]
fn a_second_start_shows_the_panel_of_the_first() {
    let desktop = Desktop::new();
    let _host = Host::on(&desktop);
    let tray = Setup::bare(&desktop).args(&["--hidden", "--demo"]).start();
    assert_eq!(tray.web_processes(), 0, "it was started hidden");
    second_start(&desktop);
    tray.until_panel();
}

#[test]
fn a_second_start_finds_the_first_without_a_session_bus_too() {
    let desktop = Desktop::with(Bus::None);
    let tray = Setup::bare(&desktop).args(&["--hidden", "--demo"]).start();
    second_start(&desktop);
    tray.until_panel();
}

#[test]
fn the_port_is_taken_at_start_and_freed_at_the_end() {
    let desktop = Desktop::new();
    let mut tray = Setup::bare(&desktop).args(&["--hidden", "--demo"]).start();
    let address = tray.address();
    assert!(TcpListener::bind(address).is_err(), "it is the tray's");
    tray.terminate();
    assert!(tray.until_exit().success(), "a signal ends it in order");
    assert!(TcpListener::bind(address).is_ok(), "it is free");
}

#[test]
fn with_a_stranger_on_its_port_it_stays_and_serves_when_the_stranger_goes() {
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = stranger.local_addr().unwrap();
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let upstream = Upstream::plain();
    let mut tray = Setup::before(&desktop, &upstream)
        .config(&format!("listen = [\"{address}\"]"))
        .start_as_is();
    let icon = host.icon();
    icon.until_says(LIMIT, "Not serving: port in use");
    assert!(tray.is_alive(), "it stays, to say so");
    drop(stranger);
    icon.until_says(LIMIT, "Ready");
    assert_eq!(tray.until_serves(), address);
}

#[test]
fn another_port_is_offered_where_a_stranger_has_it_and_is_written_down_and_serves() {
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = stranger.local_addr().unwrap();
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let upstream = Upstream::plain();
    let setup = Setup::before(&desktop, &upstream)
        .config("# kept by hand")
        .config(&format!("listen = [\"{taken}\"]"));
    let panel = Panel::open(&desktop, setup);
    let icon = host.icon();
    icon.until_says(LIMIT, "Not serving: port in use");
    let holder = format!("(pid {})", std::process::id());
    panel.until_says(&holder);
    panel.press("Use another port");
    let address = Program::address_on(&desktop);
    assert_ne!(address, taken, "the stranger keeps its port");
    icon.until_says(LIMIT, "Ready");
    panel.until_says("Ready");
    let mut client = open_chat(address, &chat::whole("hello"));
    assert_eq!(client.finish().status(), 200, "it serves there");
    let file = std::fs::read_to_string(desktop.home().join("oneslot.toml")).unwrap();
    assert!(file.contains(&address.to_string()), "it is written: {file}");
    assert!(file.contains("# kept by hand"), "comments stay: {file}");
    panel.close();
}

#[test]
fn a_port_that_the_system_refuses_is_said_with_its_cause() {
    let name = "start::a_port_that_the_system_refuses_is_said_with_its_cause";
    if !network::is_for(name, &[]) {
        return;
    }
    let kept = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    if kept.is_ok_and(|first| first.trim().parse().is_ok_and(|first: u16| first <= 80)) {
        println!("this system keeps no port, and no network can be made: nothing to see here");
        return;
    }
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let upstream = Upstream::plain();
    let mut setup = Setup::before(&desktop, &upstream).config("listen = [\"127.0.0.1:80\"]");
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        setup = setup.started_by(&["setpriv", "--bounding-set", "-net_bind_service"]);
    }
    let mut tray = setup.start_as_is();
    let icon = host.icon();
    icon.until_says(LIMIT, "Not serving: the system does not permit this port");
    let said = tray.said();
    assert!(
        said.contains("does not permit the use of 127.0.0.1:80"),
        "{said}"
    );
    assert!(tray.is_alive(), "it stays, to say so");
    std::fs::write(
        desktop.home().join("oneslot.toml"),
        tray.config_text().replace(":80", ":0"),
    )
    .unwrap();
    icon.until_says(LIMIT, "Ready");
}

#[test]
fn a_flag_that_means_nothing_is_told_on_standard_error_in_the_log_and_in_the_panel() {
    let upstream = Upstream::plain();
    for (flag, value) in [
        ("--listen", "nonsense"),
        ("--listen", "127.0.0.1:70000"),
        ("--listen", ""),
        ("--upstream", "::"),
    ] {
        let desktop = Desktop::new();
        let setup = Setup::before(&desktop, &upstream).args(&[flag, value]);
        let mut tray = setup.start_as_is();
        let reason = format!("{flag}: ");
        eventually("it is told", || tray.said().contains(&reason).then_some(()));
        let log = tray.state_path().join("oneslot.log");
        eventually("the log has it", || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            text.contains(&reason).then_some(())
        });
        std::thread::sleep(Duration::from_secs(6));
        let said = tray.said();
        assert_eq!(said.matches(&reason).count(), 1, "once: {said}");
        assert!(tray.is_alive(), "it stays, to say so");
    }
    let desktop = Desktop::new();
    let setup = Setup::before(&desktop, &upstream).env("ONESLOT_LISTEN", "nonsense");
    let panel = Panel::open(&desktop, setup);
    panel.until_says("ONESLOT_LISTEN: ");
    panel.close();
}

#[test]
fn a_stranger_that_answers_on_the_port_is_not_taken_for_a_gateway() {
    let stranger = Upstream::plain();
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let upstream = Upstream::plain();
    let mut tray = Setup::before(&desktop, &upstream)
        .config(&format!("listen = [\"{}\"]", stranger.address()))
        .start_as_is();
    let icon = host.icon();
    icon.until_says(LIMIT, "Not serving: port in use");
    std::thread::sleep(Duration::from_secs(1));
    assert!(tray.is_alive(), "it stays, to say so");
    assert_eq!(stranger.requests(), 0, "nobody is known by what it answers");
    let texts = icon.texts();
    let pauses = texts.iter().any(|text| text.starts_with("Pause"));
    assert!(!pauses, "nothing is offered that cannot be done: {texts:?}");
}

#[test]
fn of_two_starts_at_the_same_moment_one_stays() {
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let upstream = Upstream::plain();
    let start = || Setup::before(&desktop, &upstream).start_as_is();
    let mut both = [start(), start()];
    host.icon().until_says(LIMIT, "Ready");
    let ended = eventually("one of them ends", || {
        both.iter_mut().position(|one| !one.is_alive())
    });
    assert!(both[ended].until_exit().success(), "it ends in order");
    let [first, second] = both;
    let stays = if ended == 0 { second } else { first };
    stays.until_panel();
    assert_eq!(stays.chat("hello").status(), 200, "the other one serves");
}

#[test]
fn after_a_crash_the_next_start_is_a_whole_one() {
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let upstream = Upstream::plain();
    let mut crashed = Setup::before(&desktop, &upstream).start();
    host.icon().until_says(LIMIT, "Ready");
    let before = crashed.pid();
    crashed.kill();
    let tray = Setup::before(&desktop, &upstream).start_as_is();
    let icon = host.icon();
    icon.until_says(LIMIT, "Ready");
    eventually("the lock names the one that runs", || {
        let lock = std::fs::read_to_string(tray.state_path().join("gateway.lock")).ok()?;
        lock.contains(&tray.pid().to_string()).then_some(())
    });
    assert_ne!(tray.pid(), before);
    assert_eq!(tray.chat("hello").status(), 200, "it serves");
    icon.press("Pause until I resume");
    tray.until_status("its rows reach it", |status| !status["pause"].is_null());
}

#[test]
fn after_quitting_in_the_middle_of_an_answer_the_next_start_serves_as_soon_as_it_has_ended() {
    let desktop = Desktop::new();
    let upstream = Upstream::plain();
    let mut first = Setup::before(&desktop, &upstream).start();
    let gate = Gate::new();
    upstream.next_chat(Script::stream().delta("one").wait_for(&gate).ending());
    let mut running = first.open_chat(&chat::streamed("hello"));
    running.body_until_has("one");
    first.terminate();
    let next = Setup::before(&desktop, &upstream).start_as_is();
    assert!(first.until_exit().success());
    let ended = Instant::now();
    eventually("the next one serves", || {
        let lock = std::fs::read_to_string(next.state_path().join("gateway.lock")).ok()?;
        lock.contains(&next.pid().to_string()).then_some(())
    });
    let took = ended.elapsed();
    assert!(
        took < Duration::from_secs(5),
        "only a daemon returns: {took:?}"
    );
    assert_eq!(next.chat("hello").status(), 200);
}

#[test]
fn it_starts_with_any_damage_in_its_files_and_overwrites_none_of_them() {
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let upstream = Upstream::plain();
    let file = desktop.home().join("oneslot.toml");
    let mut good = Setup::before(&desktop, &upstream)
        .config("queue.max_waiting = 7")
        .start();
    host.icon().until_says(LIMIT, "Ready");
    good.terminate();
    good.until_exit();
    let half = &std::fs::read(&file).unwrap()[..20];
    for damage in [
        b"".as_slice(),
        &[0; 400],
        half,
        b"queue = 7\nlisten = true\n",
    ] {
        std::fs::write(&file, damage).unwrap();
        let kept = desktop.home().join("state/tray.json");
        std::fs::write(&kept, damage).unwrap();
        let mut tray = Setup::before(&desktop, &upstream).start_without_writing();
        let icon = host.icon();
        icon.until_says(LIMIT, "Ready");
        let status = tray.status();
        assert_eq!(
            status["queue"]["max_waiting"], 7,
            "the last good one serves"
        );
        let notices = status["notices"].to_string();
        assert!(
            notices.contains("oneslot.toml"),
            "a person is told: {notices}"
        );
        // Of an empty file there is nothing to keep.
        if !damage.is_empty() {
            let names = |folder: &std::path::Path| {
                let files = std::fs::read_dir(folder).unwrap().flatten();
                let same = files.filter(|one| {
                    let name = one.file_name().to_string_lossy().into_owned();
                    name.contains(".corrupt-") && std::fs::read(one.path()).unwrap() == damage
                });
                same.count()
            };
            assert_eq!(names(desktop.home()), 1, "a copy is kept aside");
            assert_eq!(names(&desktop.home().join("state")), 1, "of both files");
        }
        assert_eq!(std::fs::read(&file).unwrap(), damage, "the file stays");
        tray.terminate();
        assert!(tray.until_exit().success(), "it ends in order");
    }
}

#[test]
fn its_toolkit_is_started_so_that_a_graphics_driver_cannot_end_it() {
    let desktop = Desktop::new();
    let _host = Host::on(&desktop);
    let tray = Setup::bare(&desktop).args(&["--hidden", "--demo"]).start();
    let environment = std::fs::read(format!("/proc/{}/environ", tray.pid())).unwrap();
    let environment = String::from_utf8_lossy(&environment).into_owned();
    for set in [
        "WEBKIT_DISABLE_DMABUF_RENDERER=1",
        "WEBKIT_DISABLE_MEMORY_PRESSURE_MONITOR=1",
        "JSC_useJIT=0",
        "GDK_GL=disable",
    ] {
        assert!(environment.contains(set), "{set} is set for itself");
    }
}

#[test]
fn an_idle_tray_starts_no_program_and_costs_no_time() {
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let upstream = Upstream::plain();
    let tray = Setup::before(&desktop, &upstream).start();
    host.icon().until_says(LIMIT, "Ready");
    std::thread::sleep(Duration::from_secs(3));
    let before = Cost::of(&tray);
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_secs(10) {
        assert_eq!(tray.tree().len(), 1, "it has no child");
        std::thread::sleep(Duration::from_millis(50));
    }
    let after = Cost::of(&tray);
    assert_eq!(after.children, before.children, "and had none in between");
    let ticks = after.ticks - before.ticks;
    assert!(ticks <= 5, "{ticks} hundredths of a second in ten seconds");
}

/// What a process has used so far.
struct Cost {
    ticks: u64,
    /// Page faults of children that ended: each that ever ran has some.
    children: u64,
}

impl Cost {
    fn of(tray: &Program) -> Self {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", tray.pid())).unwrap();
        let (_, rest) = stat.rsplit_once(')').unwrap();
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| fields[at].parse::<u64>().unwrap();
        Self {
            ticks: number(11) + number(12),
            children: number(8),
        }
    }
}

#[test]
fn beside_a_daemon_it_is_its_face_and_quitting_leaves_the_daemon() {
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let upstream = Upstream::plain();
    let mut daemon = Setup::before(&desktop, &upstream).start_daemon();
    let mut tray = Setup::before(&desktop, &upstream).start_as_is();
    let icon = host.icon();
    icon.until_says(LIMIT, "Ready");
    icon.press("Pause for 15 minutes");
    let paused = daemon.until_status("the daemon is paused", |status| !status["pause"].is_null());
    assert!(
        paused["pause"]["until_ms"].is_u64(),
        "for as long as was said"
    );
    icon.until_begins(LIMIT, "Paused until");
    icon.press("Quit (daemon keeps running)");
    assert!(tray.until_exit().success(), "the tray ends");
    assert!(daemon.is_alive(), "the daemon does not");
    assert_eq!(get(daemon.address(), "/healthz").status(), 200);
}

#[test]
fn when_the_daemon_is_gone_for_good_the_tray_serves() {
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let upstream = Upstream::plain();
    let mut daemon = Setup::before(&desktop, &upstream).start_daemon();
    let tray = Setup::before(&desktop, &upstream).start_as_is();
    let icon = host.icon();
    icon.until_says(LIMIT, "Ready");
    daemon.kill();
    icon.until_begins(Duration::from_secs(6), "Not serving: oneslotd has stopped");
    let why = "the tray takes over";
    super::support::within(Duration::from_secs(40), why, || {
        let lock = std::fs::read_to_string(tray.state_path().join("gateway.lock")).ok()?;
        lock.contains("\"oneslot\"").then_some(())
    });
    tray.until_serves();
    eventually("the menu is that of an own gateway", || {
        let texts = icon.texts();
        texts.contains(&"Quit".to_owned()).then_some(())
    });
    assert_eq!(tray.chat("hello").status(), 200);
}

#[test]
fn it_prints_its_address_and_the_model_server_first() {
    let desktop = Desktop::new();
    let upstream = Upstream::plain();
    let tray = Setup::before(&desktop, &upstream).start();
    let printed = tray.until_printed(2);
    assert_eq!(
        printed[0],
        format!("listening on http://{}", tray.address())
    );
    let server = printed.iter().find(|line| line.starts_with("model server"));
    let root = format!("http://{}", upstream.address());
    assert!(
        server.is_some_and(|line| line.contains(&root)),
        "{printed:?}"
    );
}

#[test]
fn beside_a_daemon_it_prints_which_one_it_shows() {
    let desktop = Desktop::new();
    let upstream = Upstream::plain();
    let daemon = Setup::before(&desktop, &upstream).start_daemon();
    let tray = Setup::before(&desktop, &upstream).start_as_is();
    let printed = tray.until_printed(1);
    let shown = format!(
        "showing the running oneslotd at http://{}",
        daemon.address()
    );
    assert_eq!(printed[0], shown);
}
