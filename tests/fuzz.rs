//! The fuzz targets on a stable compiler: a short seeded run over grown and broken seeds.
//!
//! `FUZZ_SEED` repeats a run; `cargo +nightly fuzz run …` searches longer.
#![expect(
    clippy::print_stdout,
    reason = "a failing run is repeated by the seed it printed"
)]

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

#[expect(
    unreachable_pub,
    reason = "public for the fuzz crate, which shares the file"
)]
#[path = "../fuzz/src/targets.rs"]
mod targets;

/// Inputs of each kind that are tried in one run.
const TRIES: usize = 20_000;

fn seed() -> u64 {
    let seed = std::env::var("FUZZ_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| std::process::id().into());
    println!("FUZZ_SEED={seed}");
    seed
}

/// Changes a few places of a seed: bytes, runs, pieces of other seeds.
fn grown(rng: &mut SmallRng, seeds: &[&[u8]], pieces: &[&[u8]]) -> Vec<u8> {
    let mut bytes = seeds[rng.random_range(0..seeds.len())].to_vec();
    for _ in 0..rng.random_range(0..6) {
        let at = rng.random_range(0..=bytes.len());
        match rng.random_range(0..5) {
            0 if at < bytes.len() => bytes[at] = rng.random(),
            1 => bytes.truncate(at),
            2 => {
                let until = (at + rng.random_range(0..8)).min(bytes.len());
                bytes.drain(at..until);
            }
            3 => {
                let until = (at + rng.random_range(0..16)).min(bytes.len());
                let again = bytes[at..until].to_vec();
                bytes.splice(at..at, again);
            }
            _ => {
                let piece = pieces[rng.random_range(0..pieces.len())];
                bytes.splice(at..at, piece.iter().copied());
            }
        }
    }
    bytes
}

fn run(target: fn(&[u8]), seeds: &[&[u8]], pieces: &[&[u8]]) {
    let mut rng = SmallRng::seed_from_u64(seed());
    for seed in seeds {
        target(seed);
    }
    for _ in 0..TRIES {
        target(&grown(&mut rng, seeds, pieces));
    }
}

#[test]
fn what_is_read_as_a_chat_is_json_to_everybody() {
    run(
        targets::chat,
        &[
            br#"{"model":"m","messages":[{"role":"user","content":"hi \u00e9 \ud83d\ude42"}],"max_tokens":5}"#,
            br#"{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"x"}]}],"stream":true,"tools":[{}],"n":1e5,"x":-0.5}"#,
        ],
        &[
            b"{", b"}", b"[", b"]", b"\"", b"\\", b"\\u", b"\\ud800", b",", b":", b"null", b"1", b"-",
            b"e", b".", b"\xff", b"\0", b"\"messages\":[]", b"\"model\":\"x\",", b" ", b"\n", b"/",
            b"\xef\xbb\xbf", b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
        ],
    );
}

#[test]
fn a_stream_has_the_same_events_in_any_cut() {
    run(
        targets::sse,
        &[
            b"\x02data: {\"a\":1}\n\ndata: [DONE]\n\n",
            b"\x00: ping\n\nevent: error\r\ndata: x\r\ndata: y\r\n\r\n",
            b"\x05\xef\xbb\xbfid: 1\rdata\rdata: \r\r",
        ],
        &[
            b"\n",
            b"\r",
            b"\r\n",
            b"\n\n",
            b"data:",
            b"data: ",
            b"event: ",
            b"error: ",
            b":",
            b" ",
            b"\xef\xbb\xbf",
            b"\0",
            b"\xff",
        ],
    );
}
