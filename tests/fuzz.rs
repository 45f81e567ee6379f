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
fn a_head_has_one_reading_whatever_the_bytes() {
    run(
        targets::head,
        &[
            b"GET /v1/models HTTP/1.1\r\nHost: localhost:11411\r\n\r\n",
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 12\r\nconnection: keep-alive\r\n\r\n{}",
            b"POST /api/chat HTTP/1.0\r\ntransfer-encoding: chunked\r\nhost: [::1]:1\r\n\r\n",
        ],
        &[
            b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b":", b"Host: evil\r\n",
            b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"content_length: 1\r\n",
            b"\r\n\r\n", b"%2e%2e/", b"//", b"\xff", b"HTTP/1.1", b"GET ",
        ],
    );
}

#[test]
fn a_body_ends_at_the_same_byte_in_any_cut() {
    run(
        targets::framing,
        &[
            b"\x00\x015\r\nhello\r\n0\r\n\r\nGET / HTTP/1.1",
            b"\x03\x025;a=b\r\nhello\r\nA\r\n0123456789\r\n0\r\nt: 1\r\n\r\n",
            b"\x01\x03abcdefgh",
            b"\x02\x01",
        ],
        &[
            b"\r\n",
            b"\n",
            b"\r",
            b";",
            b"0",
            b"f",
            b"ffffffffffffffff",
            b"0\r\n\r\n",
            b"x: y\r\n",
            b"\0",
            b" ",
            b"-",
        ],
    );
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
