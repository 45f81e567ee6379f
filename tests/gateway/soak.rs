//! Traffic, leavers and restarts at random for a while: everything ends, nothing leaks.
//!
//! A few seconds of it run with every suite; `cargo xtask soak MINUTES` runs it for longer. The
//! seed is printed with every failure and taken from `ONESLOT_SOAK_SEED`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::support::chat;
use crate::support::client::{Client, End};
use crate::support::gateway::{Gateway, Setup};
use crate::support::machine;
use crate::support::script::Script;
use crate::support::upstream::{Request, Upstream};

/// Clients at once.
const CLIENTS: u64 = 20;
/// How long it runs as part of a suite.
const SAMPLE: Duration = Duration::from_secs(8);
/// No request may take longer: the longest wait, a cooldown and an answer.
const LONGEST: Duration = Duration::from_secs(30);

/// What became of all requests, as their clients saw it.
#[derive(Default)]
struct Tally {
    sent: AtomicU64,
    whole: AtomicU64,
    refused: AtomicU64,
    left: AtomicU64,
}

fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// One in four answers breaks in one of the ways that servers have.
fn answer(request: &Request, luck: &AtomicU64) -> Script {
    let mut random = SmallRng::seed_from_u64(luck.fetch_add(1, Ordering::Relaxed));
    let pause = Duration::from_millis(random.random_range(0..12));
    let streams = request.json()["stream"] == true;
    let begun = if streams {
        Script::stream().delta("one ").wait(pause)
    } else {
        Script::new().wait(pause)
    };
    match random.random_range(0..12) {
        0 => begun.rst(),
        1 => begun.fin(),
        2 if streams => begun.last_chunk(),
        2 => Script::json(400, &serde_json::json!({"error": {"message": "no"}})),
        _ if streams => begun.delta("two").ending(),
        _ => Script {
            steps: [begun.steps, Script::answer("one two").steps].concat(),
        },
    }
}

/// Asks once, and looks at what comes of it or leaves.
fn ask(gateway: &Gateway, tally: &Tally, random: &mut SmallRng, seed: u64) {
    let streams = random.random_bool(0.6);
    let text = format!("{}", random.random_range(0..1_000_000));
    let body = if streams {
        chat::streamed(&text)
    } else {
        chat::whole(&text)
    };
    tally.sent.fetch_add(1, Ordering::Relaxed);
    let mut client = gateway.open_chat(&body);
    if random.random_bool(0.2) {
        thread::sleep(Duration::from_micros(random.random_range(0..15_000)));
        let leave = [Client::fin, Client::rst][random.random_range(0..2)];
        leave(client);
        tally.left.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let answer = client.finish_within(LONGEST);
    let text = answer.text();
    assert_eq!(answer.end, End::Whole, "seed {seed}: {text}");
    let is_error = text.contains("\"error\":");
    if answer.status() == 200 && !is_error {
        assert!(
            !streams || text.contains("[DONE]"),
            "seed {seed}: a stream without an end or an error: {text}"
        );
        tally.whole.fetch_add(1, Ordering::Relaxed);
    } else {
        assert!(is_error, "seed {seed}: neither answer nor error: {text}");
        assert!(!text.contains("[DONE]"), "seed {seed}: {text}");
        tally.refused.fetch_add(1, Ordering::Relaxed);
    }
    if answer.status() != 200 {
        thread::sleep(Duration::from_millis(random.random_range(1..30)));
    }
}

/// Sum of all outcomes the gateway has counted for inference.
fn outcomes(gateway: &Gateway) -> u64 {
    let metrics = gateway.get("/metrics").text();
    metrics
        .lines()
        .filter(|line| line.starts_with("oneslot_requests_total{"))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum()
}

/// Slots and queue are empty, and the number of descriptors is as before.
fn at_rest(gateway: &Gateway, before: usize, seed: u64) {
    gateway.until_queue(0, 0);
    crate::support::eventually(&format!("descriptors return, seed {seed}"), || {
        (machine::descriptors(gateway.pid()) <= before + 8).then_some(())
    });
}

#[test]
fn under_random_traffic_leavers_and_restarts_everything_ends_and_nothing_leaks() {
    let seed = given("ONESLOT_SOAK_SEED").unwrap_or(0x5107);
    let lasts = given("ONESLOT_SOAK_S").map_or(SAMPLE, Duration::from_secs);
    eprintln!("soak: seed {seed}, {} s", lasts.as_secs());
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .config("health.cooldown_ms = 50\nqueue.max_waiting = 12\nlog.level = \"warn\"")
        .limit("cooldown_max_ms", 100)
        .start();
    let luck = AtomicU64::new(seed);
    upstream.chats_always(move |request| answer(request, &luck));
    gateway.chat(&chat::whole("warm up"));
    gateway.until_queue(0, 0);
    let (descriptors, counted) = (machine::descriptors(gateway.pid()), outcomes(&gateway));
    let (tally, over) = (Tally::default(), AtomicBool::new(false));
    let began = Instant::now();
    let mut restarts = 0;
    let mut resident = Vec::new();
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (gateway, tally, over) = (&gateway, &tally, &over);
            scope.spawn(move || {
                let mut random = SmallRng::seed_from_u64(seed.wrapping_add(number));
                while !over.load(Ordering::Relaxed) {
                    ask(gateway, tally, &mut random, seed);
                }
            });
        }
        let mut random = SmallRng::seed_from_u64(seed ^ u64::MAX);
        while began.elapsed() < lasts {
            thread::sleep(Duration::from_millis(random.random_range(100..900)));
            upstream.die();
            thread::sleep(Duration::from_millis(random.random_range(0..120)));
            upstream.come_back();
            restarts += 1;
            resident.push(machine::resident_kib(gateway.pid()));
        }
        over.store(true, Ordering::Relaxed);
    });
    at_rest(&gateway, descriptors, seed);
    let [sent, whole, refused, left] = [&tally.sent, &tally.whole, &tally.refused, &tally.left]
        .map(|count| count.load(Ordering::Relaxed));
    eprintln!(
        "soak: {sent} sent, {whole} whole, {refused} refused, {left} left, {restarts} restarts"
    );
    assert_eq!(sent, whole + refused + left, "seed {seed}: all ended");
    assert!(whole > 0 && restarts > 0, "seed {seed}: something happened");
    assert!(upstream.most_in_flight() <= 1, "seed {seed}");
    // Who was gone before its head was read has asked nothing.
    crate::support::eventually(&format!("an outcome for each, seed {seed}"), || {
        (outcomes(&gateway) >= counted + whole + refused).then_some(())
    });
    gateway.until_queue(0, 0);
    let ended = outcomes(&gateway) - counted;
    assert!(ended <= sent, "seed {seed}: {sent} sent, {ended} recorded");
    flat(&resident, seed);
    gateway.stands(&upstream);
}

/// Memory after the first half is what it was after it, give or take a little.
fn flat(resident: &[u64], seed: u64) {
    let (warm, late) = resident.split_at(resident.len() / 2);
    let most = |readings: &[u64]| readings.iter().copied().max().unwrap_or(0);
    let (warm, late) = (most(warm), most(late));
    assert!(
        late < warm + 8 * 1024,
        "seed {seed}: {warm} KiB resident became {late}"
    );
}
