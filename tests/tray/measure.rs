//! Numbers of the tray, printed; `cargo xtask measure-tray` runs them on what is shipped. They
//! depend on the machine, so they fail only where something is far from what it should be.

use std::time::{Duration, Instant};

use super::support::desktop::Desktop;
use super::support::host::{Host, Icon};
use super::support::program::{BINARY, Program, Setup};
use super::support::{LIMIT, eventually, windows};

const TITLE: &str = "OneSlot";

#[test]
#[ignore = "takes minutes, and its numbers mean something only for what is shipped"]
fn the_numbers_of_the_tray() {
    let size = std::fs::metadata(BINARY).unwrap().len();
    println!("program: {:.1} MB", size as f64 / 1e6);
    // Pages of a program that was just written count as private until they are on the disk.
    let _ = std::process::Command::new("sync").status();
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let tray = Setup::bare(&desktop)
        .config("log.level = \"debug\"")
        .args(&["--hidden", "--demo"])
        .start();
    let icon = host.icon();
    icon.until_says(LIMIT, "Ready");
    std::thread::sleep(Duration::from_secs(10));
    let never = tell(&tray, "panel never opened");
    idle(&tray, "panel never opened");

    let mut times = Vec::new();
    let mut after = Vec::new();
    for round in 1..=5 {
        times.push(open(&tray, &icon));
        std::thread::sleep(Duration::from_secs(3));
        if round == 1 {
            tell(&tray, "panel open");
        }
        close(&desktop, &tray);
        std::thread::sleep(Duration::from_secs(3));
        after.push(tell(&tray, &format!("after {round} opens and closes")));
    }
    println!("press → panel asks for its first state: {times:?}");
    idle(&tray, "panel closed");

    for at in 0..10_000 {
        tray.control(["/oneslot/pause", "/oneslot/resume"][at % 2]);
    }
    icon.until_says(LIMIT, "Ready");
    tell(&tray, "after 10,000 changes of state");

    assert!(
        never < 60 * 1024,
        "{never} KiB before the panel was ever opened"
    );
    let grown = after[4].saturating_sub(after[1]);
    assert!(
        grown < 4 * 1024,
        "{grown} KiB more after the fifth than after the second"
    );
}

/// From the press of a row to the moment in which the page asks for the state.
fn open(tray: &Program, icon: &Icon) -> Duration {
    let looks = |said: &str| said.matches("somebody looks").count();
    let before = looks(&tray.said());
    let began = Instant::now();
    icon.press("Open OneSlot…");
    eventually("the panel is drawn", || {
        (looks(&tray.said()) > before).then_some(())
    });
    began.elapsed()
}

fn close(desktop: &Desktop, tray: &Program) {
    windows::close(desktop, TITLE);
    eventually("the panel is gone", || {
        (tray.web_processes() == 0).then_some(())
    });
}

/// Prints what the program and all below it hold; gives the private part in KiB.
fn tell(tray: &Program, when: &str) -> u64 {
    let tree = tray.tree();
    let sum = |name: &str| tree.iter().map(|pid| rollup(*pid, name)).sum::<u64>();
    let (private, shared, resident) = (sum("Private_Dirty:"), sum("Pss:"), sum("Rss:"));
    println!(
        "{when}: {} processes, {:.1} MiB private dirty, {:.1} PSS, {:.1} RSS; the tray alone {:.1} private",
        tree.len(),
        mib(private),
        mib(shared),
        mib(resident),
        mib(rollup(tray.pid(), "Private_Dirty:")),
    );
    private
}

/// Prints switches and time of 30 quiet seconds.
fn idle(tray: &Program, when: &str) {
    let before = (switches(tray.pid()), ticks(tray.pid()));
    std::thread::sleep(Duration::from_secs(30));
    let after = (switches(tray.pid()), ticks(tray.pid()));
    println!(
        "{when}, 30 s idle: {:.2} context switches a second, {:.3} % of a core",
        (after.0.saturating_sub(before.0)) as f64 / 30.0,
        (after.1 - before.1) as f64 / 30.0
    );
}

fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

fn rollup(pid: u32, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    number.unwrap_or_default()
}

/// Of the threads that are there now; those of one that ended meanwhile are lost.
fn switches(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap()
        .flatten();
    let of = |status: String| {
        let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
        let numbers = lines.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok());
        numbers.sum::<u64>()
    };
    let texts = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    texts.map(of).sum()
}

/// Hundredths of a second of processor time: over 100 seconds they would be percents.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}
