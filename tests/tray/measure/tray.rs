//! `oneslot`: its size, what it holds and does with the panel never opened and after five opens
//! and closes, and how soon the panel is drawn.

use std::time::Duration;

use super::super::support::LIMIT;
use super::super::support::desktop::Desktop;
use super::super::support::host::Host;
use super::super::support::opening::{close, open};
use super::super::support::program::{Program, Setup};
use super::numbers::{Memory, memory, work};
use super::table::{Table, Weight};
use super::{COUNTED, RESTS, program, settle_disk};

const OPENS: usize = 5;

#[test]
#[ignore = "takes minutes, and its numbers mean something only for what is shipped"]
fn the_numbers_of_a_tray_whose_panel_was_never_opened() {
    settle_disk();
    let mut table = Table::default();
    let size = std::fs::metadata(program("oneslot")).unwrap().len() as f64 / 1e6;
    table.row(Weight::Judged, "15 oneslot, size", size, 12.0, "MB");
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let tray = started(&desktop);
    host.icon().until_says(LIMIT, "Ready");
    std::thread::sleep(RESTS);
    let held = memory(&tray.tree());
    table.row(
        Weight::Judged,
        "9 oneslot, never opened, private dirty",
        held.private,
        20.0,
        "MiB",
    );
    table.row(
        Weight::Judged,
        "9 oneslot, never opened, PSS",
        held.proportional,
        60.0,
        "MiB",
    );
    at_rest(&mut table, &tray, "never opened");
    table.judge();
}

#[test]
#[ignore = "takes minutes, and its numbers mean something only for what is shipped"]
fn the_numbers_of_a_tray_whose_panel_was_opened() {
    settle_disk();
    let mut table = Table::default();
    let desktop = Desktop::new();
    let host = Host::on(&desktop);
    let tray = started(&desktop);
    let icon = host.icon();
    icon.until_says(LIMIT, "Ready");
    std::thread::sleep(Duration::from_secs(10));
    let mut times = Vec::new();
    let mut closed: Vec<Memory> = Vec::new();
    for _ in 0..OPENS {
        times.push(open(&tray, &icon).as_secs_f64() * 1e3);
        std::thread::sleep(Duration::from_secs(3));
        close(&desktop, &tray);
        std::thread::sleep(Duration::from_secs(3));
        closed.push(memory(&tray.tree()));
    }
    table.row(
        Weight::Told,
        "14 press → panel asks for its state, first",
        times[0],
        600.0,
        "ms",
    );
    let later = times[1..].iter().copied().fold(0.0, f64::max);
    table.row(
        Weight::Told,
        "14 the same, slowest of the later ones",
        later,
        600.0,
        "ms",
    );
    let private = closed[OPENS - 1].private;
    let grown = private - closed[1].private;
    table.row(
        Weight::Judged,
        "10 oneslot, five opens and closes, private dirty",
        private,
        45.0,
        "MiB",
    );
    // What is kept for reuse comes and goes by some hundred KiB.
    table.row(
        Weight::Judged,
        "10 of it since the second close",
        grown,
        1.0,
        "MiB",
    );
    std::thread::sleep(RESTS);
    at_rest(&mut table, &tray, "closed again");

    for at in 0..10_000 {
        tray.control(["/oneslot/pause", "/oneslot/resume"][at % 2]);
    }
    icon.until_says(LIMIT, "Ready");
    let after = memory(&tray.tree()).private;
    println!("   private dirty after 10,000 changes of state: {after:.1} MiB");
    table.judge();
}

fn started(desktop: &Desktop) -> Program {
    Setup::bare(desktop)
        .program(&program("oneslot"))
        .config("log.level = \"debug\"")
        .args(&["--hidden", "--demo"])
        .start()
}

fn at_rest(table: &mut Table, tray: &Program, when: &str) {
    let done = work(&tray.tree(), COUNTED);
    let switches = format!("12 oneslot, {when}, context switches");
    table.row(Weight::Judged, &switches, done.switches, 0.5, "a second");
    let processor = format!("12 oneslot, {when}, processor");
    table.row(Weight::Judged, &processor, done.percent, 0.01, "%");
}
