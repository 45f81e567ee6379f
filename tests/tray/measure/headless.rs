//! `oneslotd`: its size, what it holds and does at rest, and how soon it serves.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::super::support::desktop::Desktop;
use super::super::support::program::Setup;
use super::super::support::upstream::Upstream;
use super::numbers::{memory, work};
use super::table::{Table, Weight};
use super::{COUNTED, RESTS, program, settle_disk};

/// Starts, to have a middle one.
const STARTS: usize = 21;

#[test]
#[ignore = "takes minutes, and its numbers mean something only for what is shipped"]
fn the_numbers_of_the_daemon() {
    settle_disk();
    let mut table = Table::default();
    let size = std::fs::metadata(program("oneslotd")).unwrap().len() as f64 / 1e6;
    table.row(Weight::Judged, "15 oneslotd, size", size, 6.0, "MB");

    let mut times: Vec<Duration> = (0..STARTS).map(|_| start()).collect();
    times.sort();
    let (middle, worst) = (ms(times[STARTS / 2]), ms(times[STARTS - 1]));
    table.row(
        Weight::Told,
        "13 oneslotd, start → first answer, p50",
        middle,
        15.0,
        "ms",
    );
    println!("   slowest of {STARTS}: {worst:.1} ms");

    let desktop = Desktop::new();
    let upstream = Upstream::plain();
    let daemon = Setup::before(&desktop, &upstream)
        .program(&program("oneslot"))
        .start_daemon();
    for _ in 0..5 {
        assert_eq!(daemon.chat("so that it has done something").status(), 200);
    }
    std::thread::sleep(RESTS);
    let tree = daemon.tree();
    let held = memory(&tree);
    table.row(
        Weight::Judged,
        "7 oneslotd at rest, resident",
        held.resident,
        10.0,
        "MiB",
    );
    table.row(
        Weight::Judged,
        "7 oneslotd at rest, private dirty",
        held.private,
        5.0,
        "MiB",
    );
    let done = work(&tree, COUNTED);
    table.row(
        Weight::Judged,
        "12 oneslotd at rest, context switches",
        done.switches,
        0.2,
        "a second",
    );
    table.row(
        Weight::Judged,
        "12 oneslotd at rest, processor",
        done.percent,
        0.01,
        "%",
    );
    table.judge();
}

/// From the start of the program to its first answer.
fn start() -> Duration {
    let home = tempfile::tempdir().unwrap();
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let mut command = Command::new(program("oneslotd"));
    command
        .env_clear()
        .env("HOME", home.path())
        .args(["serve", "--listen", &address.to_string()])
        .args(["--upstream", "http://127.0.0.1:9", "--state"])
        .arg(home.path().join("state"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let began = Instant::now();
    let mut child = command.spawn().unwrap();
    while !answers(address) {
        assert!(began.elapsed() < Duration::from_secs(10), "it serves");
    }
    let took = began.elapsed();
    end(&mut child);
    took
}

fn answers(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(address)?;
        write!(
            stream,
            "GET /healthz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.starts_with("HTTP/1.1 200"))
    };
    ask().unwrap_or(false)
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
