//! The longer measurements of `cargo xtask load`: floods at their full size, with the limits that
//! people have. `cargo xtask test` has a short sample of each in `limits`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::chat;
use crate::support::client::Client;
use crate::support::gateway::Gateway;
use crate::support::held::hold;
use crate::support::machine::{descriptors, peak_kib, resident_kib};
use crate::support::untouched::{quiet, settled};
use crate::support::upstream::Upstream;

const LARGEST: usize = 64 * 1024 * 1024;

fn started(config: &str) -> (Upstream, Gateway) {
    let upstream = Upstream::plain();
    let gateway = quiet(&upstream)
        .config(config)
        .config("log.level = \"info\"")
        .start();
    settled(&gateway, &upstream);
    (upstream, gateway)
}

/// Asks for the models all the while, on one connection; the longest that took.
fn worst_while(gateway: &Gateway, busy: impl Fn() -> bool) -> (usize, Duration) {
    worst_on(&mut gateway.connect(), gateway, busy)
}

fn worst_on(client: &mut Client, gateway: &Gateway, busy: impl Fn() -> bool) -> (usize, Duration) {
    let ask = gateway.request("GET", "/v1/models", b"");
    let (mut count, mut worst) = (0, Duration::ZERO);
    while busy() {
        let began = Instant::now();
        client.send(&ask);
        assert_eq!(client.finish().status(), 200);
        worst = worst.max(began.elapsed());
        count += 1;
        std::thread::sleep(Duration::from_millis(50));
    }
    (count, worst)
}

fn say(gateway: &Gateway, what: &str, before: u64, served: (usize, Duration)) {
    println!(
        "{what}: {} normal requests meanwhile, the slowest {:?}; {} descriptors; resident {} KiB before, {} KiB now, {} KiB at most",
        served.0,
        served.1,
        descriptors(gateway.pid()),
        before,
        resident_kib(gateway.pid()),
        peak_kib(gateway.pid()),
    );
}

/// A request with a body of the largest size.
fn largest(gateway: &Gateway) -> Arc<Vec<u8>> {
    let empty = chat::whole("").to_string().len();
    let body = chat::whole(&"x".repeat(LARGEST - empty)).to_string();
    assert_eq!(body.len(), LARGEST);
    Arc::new(gateway.request("POST", "/v1/chat/completions", body.as_bytes()))
}

#[test]
#[ignore = "long; run by `cargo xtask load`"]
fn two_thousand_idle_connections() {
    let (upstream, mut gateway) = started("");
    let before = resident_kib(gateway.pid());
    let mut open = gateway.open(&gateway.request("GET", "/v1/models", b""));
    assert_eq!(open.finish().status(), 200);
    let idle: Vec<_> = (0..2000)
        .filter_map(|_| {
            std::net::TcpStream::connect_timeout(&gateway.address(), Duration::from_secs(5)).ok()
        })
        .collect();
    let began = Instant::now();
    let served = worst_on(&mut open, &gateway, || {
        began.elapsed() < Duration::from_secs(15)
    });
    say(
        &gateway,
        &format!("{} idle connections", idle.len()),
        before,
        served,
    );
    drop(idle);
    gateway.stands(&upstream);
}

#[test]
#[ignore = "long; run by `cargo xtask load`"]
fn two_hundred_slow_headers() {
    let (upstream, mut gateway) = started("");
    let before = resident_kib(gateway.pid());
    let slow: Vec<Client> = (0..200)
        .map(|_| gateway.open(b"POST /v1/chat/comp"))
        .collect();
    let began = Instant::now();
    let served = worst_while(&gateway, || began.elapsed() < Duration::from_secs(25));
    say(&gateway, "200 slow headers", before, served);
    for mut client in slow {
        client.closed();
    }
    let took = began.elapsed();
    println!("200 slow headers: the last was closed after {took:?}");
    assert!(took < Duration::from_secs(40));
    gateway.stands(&upstream);
}

#[test]
#[ignore = "long; run by `cargo xtask load`"]
fn sixteen_uploads_of_the_largest_size() {
    let (upstream, mut gateway) = started("queue.max_waiting = 16");
    let before = resident_kib(gateway.pid());
    let bytes = largest(&gateway);
    let address = gateway.address();
    let uploads: Vec<_> = (0..16)
        .map(|_| {
            let bytes = Arc::clone(&bytes);
            std::thread::spawn(move || {
                let mut client = Client::connect(address);
                match client.try_send(&bytes) {
                    Ok(()) => client.finish_within(Duration::from_secs(300)).status(),
                    Err(_) => client.finish().status(),
                }
            })
        })
        .collect();
    let served = worst_while(&gateway, || {
        uploads.iter().any(|upload| !upload.is_finished())
    });
    let statuses: Vec<u16> = uploads
        .into_iter()
        .map(|upload| upload.join().unwrap())
        .collect();
    say(
        &gateway,
        &format!("16 uploads of 64 MiB ({statuses:?})"),
        before,
        served,
    );
    assert!(statuses.iter().all(|status| matches!(status, 200 | 503)));
    assert!(peak_kib(gateway.pid()) < 1024 * 1024, "bounded");
    gateway.stands(&upstream);
}

#[test]
#[ignore = "long; run by `cargo xtask load`"]
fn a_full_queue_of_the_largest_size() {
    let (upstream, mut gateway) = started("");
    let before = resident_kib(gateway.pid());
    let held = hold(&gateway, &upstream);
    let bytes = largest(&gateway);
    let mut waiting = Vec::new();
    for count in 1..=4 {
        waiting.push(gateway.open(&bytes));
        gateway.until_queue(1, count);
    }
    let began = Instant::now();
    let served = worst_while(&gateway, || began.elapsed() < Duration::from_secs(5));
    say(&gateway, "a queue of four bodies of 64 MiB", before, served);
    assert!(peak_kib(gateway.pid()) < 768 * 1024, "bounded");
    drop(waiting);
    held.release();
    gateway.stands(&upstream);
}
