//! What the panel grows by while it is open and answers run, which moves it twice a second;
//! `cargo xtask measure-tray --open MINUTES` runs it on what is shipped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::support::desktop::Desktop;
use super::support::flavour::Flavour;
use super::support::host::Host;
use super::support::program::{Program, Setup, open_chat, web_processes};
use super::support::script::Script;
use super::support::upstream::Upstream;
use super::support::{LIMIT, chat};

/// Until all is filled that is filled once: the gateway shows the last fifty requests, and one
/// ends every five seconds.
const WARM: Duration = Duration::from_secs(300);
/// Numbers that are printed.
const LOOKS: u32 = 10;
/// How much it may grow by.
const MOST_KIB: u64 = 5 * 1024;

#[test]
#[ignore = "takes as long as it is told, and its numbers mean something only for what is shipped"]
fn a_panel_that_is_open_for_long_does_not_grow() {
    let minutes = std::env::var("ONESLOT_OPEN_MIN");
    let minutes: u32 = minutes
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(30);
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let upstream = Upstream::start(Flavour::LlamaCpp { window: 2048 });
    // Ten pieces a second for five seconds, with a line behind: tokens, ages, records all move.
    upstream.chats_always(|_| {
        let mut script = Script::stream();
        for at in 0..50 {
            script = script
                .delta(&format!("word{at} "))
                .wait(Duration::from_millis(100));
        }
        script.ending()
    });
    let tray = Setup::before(&desktop, &upstream)
        .program(&super::measure::program("oneslot"))
        .start();
    let icon = host.icon();
    icon.until_says(LIMIT, "Ready");
    icon.press("Open OneSlot…");
    tray.until_panel();
    let over = Arc::new(AtomicBool::new(false));
    let answers = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..3)
        .map(|_| {
            let (over, answers) = (Arc::clone(&over), Arc::clone(&answers));
            let address = tray.address();
            std::thread::spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    let mut client = open_chat(address, &chat::streamed("go on"));
                    client.finish_within(Duration::from_secs(60));
                    answers.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();

    let began = Instant::now();
    let length = Duration::from_secs(60) * minutes;
    let warm = WARM.min(length / 3);
    std::thread::sleep(warm / 5);
    tell(&tray, began, &answers);
    std::thread::sleep(warm - warm / 5);
    let first = tell(&tray, began, &answers);
    let mut last = first;
    let between = length.saturating_sub(began.elapsed()) / LOOKS;
    for _ in 0..LOOKS {
        std::thread::sleep(between);
        last = tell(&tray, began, &answers);
        assert_eq!(tray.web_processes(), 1, "the panel is open all the time");
    }
    over.store(true, Ordering::SeqCst);
    for client in clients {
        client.join().unwrap();
    }
    println!(
        "{minutes} min: {} KiB more private memory",
        last as i64 - first as i64
    );
    assert!(
        last.saturating_sub(first) <= MOST_KIB,
        "{first} KiB became {last} KiB"
    );
}

/// Prints what the program and all below it hold; gives the private part in KiB.
fn tell(tray: &Program, began: Instant, answers: &AtomicUsize) -> u64 {
    let sum = |pids: &[u32], name: &str| pids.iter().map(|pid| rollup(*pid, name)).sum::<u64>();
    let tree = tray.tree();
    let private = sum(&tree, "Private_Dirty:");
    println!(
        "{:5.1} min, {} answers: {:.1} MiB private dirty, {:.1} PSS; the tray alone {:.1}, its page {:.1} private",
        began.elapsed().as_secs_f64() / 60.0,
        answers.load(Ordering::SeqCst),
        mib(private),
        mib(sum(&tree, "Pss:")),
        mib(rollup(tray.pid(), "Private_Dirty:")),
        mib(sum(&web_processes(tray.pid()), "Private_Dirty:")),
    );
    private
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
