//! How much one caller may use up, and that others are served meanwhile.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::json;
use socket2::{Domain, Socket, Type};

use crate::support::chat;
use crate::support::client::Client;
use crate::support::flavour::Flavour;
use crate::support::gateway::{Gateway, Setup};
use crate::support::held::hold;
use crate::support::machine::{descriptors, resident_kib};
use crate::support::refused::{Advice, refused};
use crate::support::script::{Gate, Script, delta};
use crate::support::untouched::{quiet, settled, untouched};
use crate::support::upstream::{How, Upstream};
use crate::support::wire::chunk;
use crate::support::{eventually, within};

const MIB: usize = 1024 * 1024;

fn started() -> (Upstream, Gateway) {
    let upstream = Upstream::plain();
    let gateway = quiet(&upstream).start();
    settled(&gateway, &upstream);
    (upstream, gateway)
}

/// A chat body of exactly so many bytes.
fn sized(bytes: usize) -> String {
    let empty = chat::whole("").to_string().len();
    chat::whole(&"x".repeat(bytes - empty)).to_string()
}

/// Asks for the models on a connection of its own; how long it took.
fn timed(gateway: &Gateway) -> Duration {
    let began = Instant::now();
    assert_eq!(gateway.get("/v1/models").status(), 200);
    began.elapsed()
}

/// What it takes typically: a busy machine delays single requests by itself.
fn typical(gateway: &Gateway) -> Duration {
    let mut times: Vec<Duration> = (0..5).map(|_| timed(gateway)).collect();
    times.sort_unstable();
    times[2]
}

// Slow and silent clients.

#[test]
fn two_hundred_slow_headers_are_closed_and_delay_nothing() {
    let upstream = Upstream::plain();
    let mut gateway = quiet(&upstream).http_limits("header_ms=3000").start();
    settled(&gateway, &upstream);
    let usual = typical(&gateway);
    let began = Instant::now();
    let head = gateway.request("GET", "/v1/models", b"");
    let mut slow: Vec<Client> = (0..200)
        .map(|at| match at % 3 {
            0 => gateway.connect(),
            1 => gateway.open(b"GET"),
            _ => gateway.open(&head[..head.len() - 2]),
        })
        .collect();
    // One byte a second from one of them all the while.
    let mut dripping = gateway.open(b"G");
    let mut worst = Duration::ZERO;
    for byte in b"ET " {
        worst = worst.max(typical(&gateway));
        std::thread::sleep(Duration::from_millis(700));
        let _ = dripping.try_send(&[*byte]);
    }
    assert!(
        worst < usual + Duration::from_millis(100),
        "a normal request took {worst:?}, without them {usual:?}"
    );
    for client in &mut slow {
        client.closed();
    }
    dripping.closed();
    let took = began.elapsed();
    assert!(
        took < Duration::from_secs(3 + 5),
        "all closed after {took:?}"
    );
    gateway.stands(&upstream);
}

#[test]
fn a_connection_that_never_says_anything_is_closed() {
    let upstream = Upstream::plain();
    let mut gateway = quiet(&upstream).http_limits("header_ms=1000").start();
    let mut silent = gateway.connect();
    silent.closed();
    assert!(silent.raw().is_empty(), "there is nothing to answer");
    gateway.stands(&upstream);
}

// Sizes.

#[test]
fn headers_have_a_size_a_number_of_fields_and_a_target_length() {
    let (upstream, mut gateway) = started();
    let filler = "x".repeat(33 * 1024);
    let fields: Vec<(String, &str)> = (0..65).map(|at| (format!("x-{at}"), "1")).collect();
    let fields: Vec<(&str, &str)> = fields
        .iter()
        .map(|(name, value)| (name.as_str(), *value))
        .collect();
    let long = format!("/v1/models?x={}", "y".repeat(9 * 1024));
    untouched(&gateway, &upstream, "too large headers", || {
        for (bytes, status) in [
            (
                gateway.request_with("GET", "/v1/models", &[("x", &filler)], b""),
                431,
            ),
            (gateway.request_with("GET", "/v1/models", &fields, b""), 431),
            (gateway.request("GET", &long, b""), 414),
        ] {
            let mut client = gateway.connect();
            let _ = client.try_send(&bytes);
            refused(&client.finish(), status, "TOO_LARGE", Advice::Never);
        }
        // What hyper does not even parse it answers by itself, and closes.
        let filler = "x".repeat(200 * 1024);
        let huge = gateway.request_with("GET", "/v1/models", &[("x", &filler)], b"");
        let mut client = gateway.connect();
        let _ = client.try_send(&huge);
        client.closed();
    });
    let fits = gateway.exchange(&gateway.request_with("GET", "/v1/models", &fields[..62], b""));
    assert_eq!(fits.status(), 200, "64 fields: {}", fits.text());
    gateway.stands(&upstream);
}

#[test]
fn a_body_over_the_limit_is_refused_before_it_is_read_and_chunks_at_the_limit() {
    let (upstream, mut gateway) = started();
    let limit = 64 * MIB;
    let start = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n",
        gateway.address()
    );
    let before = resident_kib(gateway.pid());
    untouched(&gateway, &upstream, "too much body", || {
        let mut client =
            gateway.open(format!("{start}content-length: {}\r\n\r\n", limit + 1).as_bytes());
        refused(&client.finish(), 413, "TOO_LARGE", Advice::Never);
        let mut client =
            gateway.open(format!("{start}transfer-encoding: chunked\r\n\r\n").as_bytes());
        let piece = chunk(&vec![b'x'; MIB]);
        for _ in 0..66 {
            if client.try_send(&piece).is_err() {
                break;
            }
        }
        refused(&client.finish(), 413, "TOO_LARGE", Advice::Never);
    });
    let grown = resident_kib(gateway.pid()).saturating_sub(before);
    println!("a body of 66 MB in chunks: {grown} KiB more resident memory");
    assert!(grown < 2 * 64 * 1024, "under twice the limit: {grown} KiB");
    gateway.stands(&upstream);
}

#[test]
fn compressed_bodies_and_deep_ones_are_refused() {
    let (upstream, mut gateway) = started();
    let deep = format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":"x"}}],"x":{}{}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let objects = format!(
        r#"{{"messages":{}1{}}}"#,
        r#"{"a":"#.repeat(100_000),
        "}".repeat(100_000)
    );
    untouched(&gateway, &upstream, "bombs", || {
        for coding in ["gzip", "zstd", "br", "deflate", "identity, gzip", "x"] {
            let answer = gateway.exchange(&gateway.request_with(
                "POST",
                "/v1/chat/completions",
                &[("content-encoding", coding)],
                b"\x1f\x8b",
            ));
            refused(&answer, 415, "UNSUPPORTED_MEDIA_TYPE", Advice::Never);
        }
        for body in [&deep, &objects] {
            let bytes = gateway.request("POST", "/v1/chat/completions", body.as_bytes());
            refused(&gateway.exchange(&bytes), 400, "BAD_REQUEST", Advice::Never);
        }
    });
    gateway.stands(&upstream);
}

// Connections and descriptors.

/// Connects without waiting for it, so that the system's own queue may overflow.
fn try_connect(address: SocketAddr) -> Option<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).ok()?;
    socket.set_nonblocking(true).ok()?;
    let _ = socket.connect(&address.into());
    Some(socket.into())
}

#[test]
fn two_thousand_idle_connections_leave_open_ones_working() {
    let upstream = Upstream::plain();
    let mut gateway = quiet(&upstream).http_limits("header_ms=8000").start();
    settled(&gateway, &upstream);
    let gate = Gate::new();
    upstream.next_chat(
        Script::stream()
            .delta("one")
            .wait_for(&gate)
            .delta("two")
            .ending(),
    );
    let mut stream = gateway.open_chat(&chat::streamed("x"));
    stream.body_until_has("one");
    let ask = gateway.request("GET", "/v1/models", b"");
    let mut open = gateway.open(&ask);
    assert_eq!(open.finish().status(), 200);
    let before = resident_kib(gateway.pid());
    let idle: Vec<TcpStream> = (0..2000)
        .filter_map(|_| try_connect(gateway.address()))
        .collect();
    assert!(idle.len() > 1900, "this test may open {} files", idle.len());
    let began = Instant::now();
    open.send(&ask);
    assert_eq!(open.finish().status(), 200, "an open connection works");
    let open_took = began.elapsed();
    assert!(open_took < Duration::from_secs(2), "{open_took:?}");
    let held = descriptors(gateway.pid());
    let grown = resident_kib(gateway.pid()).saturating_sub(before);
    let mut late = gateway.connect();
    late.send(&ask);
    assert_eq!(late.finish_within(Duration::from_secs(40)).status(), 200);
    println!(
        "2,000 idle connections: an open one was served in {open_took:?}, a new one after {:?}; {held} descriptors, {grown} KiB more resident memory",
        began.elapsed()
    );
    assert!(held < 1024 + 64, "{held} descriptors");
    assert!(grown < 64 * 1024, "{grown} KiB");
    gate.open();
    let answer = stream.finish();
    assert!(
        answer.text().contains("[DONE]"),
        "the stream went on: {}",
        answer.text()
    );
    drop(idle);
    gateway.stands(&upstream);
}

#[test]
fn few_descriptors_lower_the_number_of_connections() {
    let upstream = Upstream::plain();
    let mut gateway = quiet(&upstream)
        .descriptors(512)
        .http_limits("header_ms=2000")
        .start();
    settled(&gateway, &upstream);
    let idle: Vec<TcpStream> = (0..600)
        .filter_map(|_| try_connect(gateway.address()))
        .collect();
    let mut late = gateway.connect();
    late.send(&gateway.request("GET", "/v1/models", b""));
    assert_eq!(late.finish_within(Duration::from_secs(40)).status(), 200);
    let held = descriptors(gateway.pid());
    assert!(held <= 512, "{held} descriptors");
    assert!(!gateway.said().contains("cannot accept"));
    drop(idle);
    gateway.stands(&upstream);
}

#[test]
fn a_queued_request_keeps_its_connection_when_all_are_in_use() {
    let upstream = Upstream::plain();
    let mut gateway = quiet(&upstream)
        .config("queue.max_waiting = 8")
        .http_limits("connections=8 header_ms=2000")
        .start();
    settled(&gateway, &upstream);
    let held = hold(&gateway, &upstream);
    let mut waiting: Vec<Client> = (0..2)
        .map(|at| gateway.open_chat(&chat::whole(&format!("waits {at}"))))
        .collect();
    gateway.until_queue(1, 2);
    let idle: Vec<TcpStream> = (0..50)
        .filter_map(|_| try_connect(gateway.address()))
        .collect();
    drop(idle);
    gateway.until_queue(1, 2);
    assert!(held.release().text().contains("[DONE]"));
    for client in &mut waiting {
        assert_eq!(client.finish().status(), 200);
    }
    gateway.stands(&upstream);
}

#[test]
fn at_most_sixteen_clients_follow_the_events() {
    let upstream = Upstream::plain();
    let mut gateway = quiet(&upstream).http_limits("connections=32").start();
    settled(&gateway, &upstream);
    let ask = gateway.request("GET", "/oneslot/events", b"");
    let mut watchers: Vec<Client> = (0..16).map(|_| gateway.open(&ask)).collect();
    for watcher in &mut watchers {
        watcher.body_until_has("data: ");
    }
    for _ in 0..40 {
        let mut late = gateway.open(&ask);
        refused(&late.finish(), 503, "LLM_OVERLOADED", Advice::Later);
    }
    assert_eq!(gateway.get("/healthz").status(), 200);
    assert_eq!(gateway.chat(&chat::whole("x")).status(), 200);
    gateway.cli_ok(&["status"]);
    gateway.cli_ok(&["pause"]);
    for watcher in &mut watchers {
        watcher.body_until_has("until_ms");
    }
    gateway.cli_ok(&["resume"]);
    watchers.remove(0);
    within(
        Duration::from_secs(10),
        "a closed stream frees its permit",
        || {
            let mut next = gateway.open(&ask);
            (next.head().status() == 200).then_some(())
        },
    );
    drop(watchers);
    gateway.stands(&upstream);
}

// Bytes.

#[test]
fn a_full_queue_answers_at_once() {
    let (upstream, mut gateway) = started();
    let held = hold(&gateway, &upstream);
    let mut waiting = crate::support::held::queue(&gateway, 4);
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let began = Instant::now();
        let answer = gateway.chat(&chat::whole("one too many"));
        best = best.min(began.elapsed());
        refused(&answer, 503, "LLM_OVERLOADED", Advice::Later);
    }
    println!("a full line refused within {best:?}");
    assert!(best < Duration::from_millis(50), "{best:?}");
    held.release();
    for client in &mut waiting {
        assert_eq!(client.finish().status(), 200);
    }
    gateway.stands(&upstream);
}

#[test]
fn a_queue_of_large_bodies_is_capped_by_its_bytes() {
    let upstream = Upstream::plain();
    let mut gateway = quiet(&upstream)
        .config("queue.max_waiting = 16")
        .limit("max_queued_bytes", 33_554_432)
        .start();
    settled(&gateway, &upstream);
    let before = resident_kib(gateway.pid());
    let held = hold(&gateway, &upstream);
    let body = sized(10 * MIB);
    let bytes = gateway.request("POST", "/v1/chat/completions", body.as_bytes());
    let mut waiting: Vec<Client> = Vec::new();
    for count in 1..=3 {
        waiting.push(gateway.open(&bytes));
        gateway.until_queue(1, count);
    }
    for _ in 0..3 {
        refused(
            &gateway.exchange(&bytes),
            503,
            "LLM_OVERLOADED",
            Advice::Later,
        );
    }
    let grown = resident_kib(gateway.pid()).saturating_sub(before);
    println!("3 of 6 bodies of 10 MB wait: {grown} KiB more resident memory");
    assert!(grown < 128 * 1024, "{grown} KiB");
    assert_eq!(gateway.get("/v1/models").status(), 200);
    drop(waiting);
    held.release();
    gateway.stands(&upstream);
}

#[test]
fn large_uploads_over_the_cap_are_refused_and_small_requests_pass() {
    let upstream = Upstream::plain();
    let mut gateway = quiet(&upstream).http_limits("held_bytes=16777216").start();
    settled(&gateway, &upstream);
    let body = sized(8 * MIB);
    let bytes = gateway.request("POST", "/v1/chat/completions", body.as_bytes());
    let before = resident_kib(gateway.pid());
    // Two stop in the middle and hold all there is.
    let stopped: Vec<Client> = (0..2)
        .map(|_| gateway.open(&bytes[..bytes.len() - MIB]))
        .collect();
    let refused_at_once = crate::support::eventually("the cap is reached", || {
        let began = Instant::now();
        let answer = gateway.exchange(&bytes);
        (answer.status() == 503).then(|| (began.elapsed(), answer))
    });
    refused(&refused_at_once.1, 503, "LLM_OVERLOADED", Advice::Later);
    assert_eq!(refused_at_once.1.head.get("connection"), Some("close"));
    assert_eq!(gateway.chat(&chat::whole("small")).status(), 200);
    let grown = resident_kib(gateway.pid()).saturating_sub(before);
    println!(
        "3 uploads of 8 MB with room for 16 MB: one refused after {:?}, {grown} KiB more resident memory",
        refused_at_once.0
    );
    assert!(grown < 96 * 1024, "{grown} KiB");
    drop(stopped);
    crate::support::eventually("what they held is free", || {
        (gateway.exchange(&bytes).status() == 200).then_some(())
    });
    gateway.stands(&upstream);
}

#[test]
fn a_body_that_drips_is_given_up() {
    let upstream = Upstream::plain();
    let mut gateway = quiet(&upstream)
        .http_limits("body_whole_ms=1500 body_idle_ms=60000")
        .start();
    settled(&gateway, &upstream);
    let body = chat::whole("x").to_string();
    let bytes = gateway.request("POST", "/v1/chat/completions", body.as_bytes());
    let (start, rest) = bytes.split_at(bytes.len() - 60);
    let mut client = gateway.open(start);
    let began = Instant::now();
    for byte in rest.chunks(1) {
        if client.has_unread() || client.try_send(byte).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let took = began.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    refused(&client.finish(), 400, "BAD_REQUEST", Advice::Never);
    assert!(upstream.chats().is_empty());
    gateway.stands(&upstream);
}

// Readers.

#[test]
fn a_client_that_takes_nothing_is_disconnected() {
    let upstream = Upstream::plain();
    let mut gateway = quiet(&upstream).http_limits("write_idle_ms=3000").start();
    settled(&gateway, &upstream);
    let piece = chunk(delta(&"w".repeat(60_000)).as_bytes());
    upstream.next_chat(Script::stream().drip(&piece, Duration::ZERO, 2_000).hang());
    // The system's own receive buffer, as any client has it.
    let mut stuck = gateway.open_chat(&chat::streamed("stuck"));
    stuck.head();
    let began = Instant::now();
    let (how, _) = within(Duration::from_secs(60), "the stuck reader is cut", || {
        upstream.look(|state| state.chats().first().and_then(|seen| seen.ended))
    });
    println!(
        "a client that takes nothing was cut after {:?}",
        began.elapsed()
    );
    assert!(matches!(how, How::PeerFin | How::PeerRst), "{how:?}");
    gateway.stands(&upstream);
}

#[test]
fn a_client_that_leaves_frees_its_slot() {
    // It reports when it is idle, so that there is no settling time.
    let upstream = Upstream::start(Flavour::LlamaCpp { window: 8192 });
    let mut gateway = quiet(&upstream).start();
    for at in 0..200_u64 {
        upstream.next_chat(Script::stream().delta("one").hang());
        let mut client = gateway.open_chat(&chat::streamed(&format!("{at}")));
        if at % 3 != 0 {
            client.body_until_has("one");
        }
        if at % 2 == 0 {
            client.rst();
        } else {
            client.fin();
        }
        upstream.as_usual("POST", "/v1/chat/completions");
    }
    eventually("all are gone", || {
        let queue = gateway.status()["queue"].clone();
        (queue["running"] == json!(0) && queue["waiting"] == json!(0)).then_some(())
    });
    gateway.stands(&upstream);
}

#[test]
fn descriptors_return_to_where_they_were() {
    let (upstream, mut gateway) = started();
    gateway.chat(&chat::whole("warm"));
    let before = descriptors(gateway.pid());
    for _ in 0..100 {
        let _ = gateway.open(b"GET /v1/models HT");
        let _ = gateway.open(&gateway.request("GET", "/nothing", b""));
        gateway.chat(&chat::whole("x"));
    }
    eventually("nothing is left open", || {
        (descriptors(gateway.pid()) <= before + 2).then_some(())
    });
    gateway.stands(&upstream);
}

#[test]
fn a_low_limit_of_open_files_is_raised_or_lived_with() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream)
        .descriptors(100)
        .http_limits("header_ms=2000")
        .start();
    let clients: Vec<Client> = (0..30).map(|_| gateway.connect()).collect();
    assert_eq!(gateway.chat(&chat::whole("x")).status(), 200);
    assert!(descriptors(gateway.pid()) <= 100);
    drop(clients);
    gateway.stands(&upstream);
}
