//! A client that disconnects is noticed within 250 ms in every state, whatever lies unread behind
//! its request. The times are printed; on a busy machine up to two seconds pass.

use std::time::{Duration, Instant};

use crate::support::chat;
use crate::support::client::Client;
use crate::support::flavour::Flavour;
use crate::support::gateway::Gateway;
use crate::support::held::hold;
use crate::support::script::Script;
use crate::support::untouched::{quiet, settled};
use crate::support::upstream::Upstream;
use crate::support::within;

/// What a test allows; the promise is 250 ms.
const ALLOWED: Duration = Duration::from_secs(2);

/// What lies behind the request on the wire.
const BEHIND: [(&str, usize); 4] = [
    ("nothing", 0),
    ("stray bytes", 2),
    ("a pipelined request", 1),
    ("100 kB", 100_000),
];

/// A way to leave.
type Leave = (&'static str, fn(Client));

const LEAVES: [Leave; 3] = [
    ("closes", Client::fin),
    ("resets", Client::rst),
    ("shuts down its sending half", |client| {
        client.half_close();
        // It stays to read, in vain.
        std::thread::spawn(move || {
            std::thread::sleep(ALLOWED * 2);
            drop(client);
        });
    }),
];

fn started() -> (Upstream, Gateway) {
    // It says when it is idle again, so that nothing waits for a settling time.
    let upstream = Upstream::start(Flavour::LlamaCpp { window: 8192 });
    let gateway = quiet(&upstream).start();
    settled(&gateway, &upstream);
    (upstream, gateway)
}

/// A chat, and what lies behind it.
fn open(gateway: &Gateway, text: &str, is_stream: bool, behind: usize) -> Client {
    let body = if is_stream {
        chat::streamed(text)
    } else {
        chat::whole(text)
    };
    let ask = gateway.request("POST", "/v1/chat/completions", body.to_string().as_bytes());
    let mut client = gateway.open(&ask);
    if behind == 1 {
        client.send(&gateway.request("GET", "/v1/models", b""));
    } else if behind > 0 {
        // The gateway reads no more than it buffers, so not all of it is taken.
        client.send_at_once(&vec![b'x'; behind]);
    }
    client
}

/// Leaves, and waits until the upstream's connection is closed for it.
fn until_aborted(upstream: &Upstream, what: &str, leave: impl FnOnce()) -> Duration {
    let chat = upstream.chats().len() - 1;
    let began = Instant::now();
    leave();
    let (_, at) = upstream.until_ended(chat);
    let took = at.saturating_duration_since(began);
    assert!(took < ALLOWED, "{what}: noticed after {took:?}");
    took
}

fn report(state: &str, times: &[Duration]) {
    let worst = times.iter().max().copied().unwrap_or_default();
    println!(
        "{state}: {} disconnects, noticed after {worst:?} at most",
        times.len()
    );
}

#[test]
fn a_disconnect_before_the_first_byte_is_noticed() {
    let (upstream, mut gateway) = started();
    let mut times = Vec::new();
    for is_stream in [true, false] {
        for (behind, bytes) in BEHIND {
            for (how, leave) in LEAVES {
                upstream.next_chat(Script::new().hang());
                let before = upstream.chats().len();
                let client = open(&gateway, "leaves", is_stream, bytes);
                upstream.until_chats(before + 1);
                std::thread::sleep(Duration::from_millis(50));
                let what = format!("{how}, {behind} behind, stream: {is_stream}");
                times.push(until_aborted(&upstream, &what, || leave(client)));
                gateway.until_queue(0, 0);
            }
        }
    }
    report("before the first byte", &times);
    gateway.stands(&upstream);
}

#[test]
fn a_disconnect_in_the_middle_of_a_stream_is_noticed() {
    let (upstream, mut gateway) = started();
    let mut times = Vec::new();
    for (behind, bytes) in BEHIND {
        for (how, leave) in LEAVES {
            upstream.next_chat(Script::stream().delta("one").hang());
            let mut client = open(&gateway, "leaves", true, bytes);
            client.body_until_has("one");
            let what = format!("{how}, {behind} behind");
            times.push(until_aborted(&upstream, &what, || leave(client)));
            gateway.until_queue(0, 0);
        }
    }
    report("mid-stream", &times);
    gateway.stands(&upstream);
}

#[test]
fn a_disconnect_while_queued_is_noticed() {
    let (upstream, mut gateway) = started();
    let held = hold(&gateway, &upstream);
    let mut times = Vec::new();
    for (behind, bytes) in BEHIND {
        for (how, leave) in LEAVES {
            let client = open(&gateway, "leaves while queued", false, bytes);
            gateway.until_queue(1, 1);
            let began = Instant::now();
            leave(client);
            let what = format!("{how}, {behind} behind");
            within(ALLOWED, &what, || {
                (gateway.status()["queue"]["waiting"] == 0).then_some(())
            });
            times.push(began.elapsed());
        }
    }
    report("queued", &times);
    assert!(held.release().text().contains("[DONE]"));
    assert_eq!(
        upstream.chats().len(),
        1,
        "none of them reached the upstream"
    );
    gateway.stands(&upstream);
}

#[test]
fn a_disconnect_in_the_middle_of_a_body_is_recorded_as_left() {
    let (upstream, mut gateway) = started();
    let body = chat::whole(&"x".repeat(100_000)).to_string();
    let ask = gateway.request("POST", "/v1/chat/completions", body.as_bytes());
    for (at, (how, leave)) in LEAVES.into_iter().enumerate() {
        let client = gateway.open(&ask[..ask.len() / 2]);
        std::thread::sleep(Duration::from_millis(50));
        let began = Instant::now();
        leave(client);
        let recent = gateway.until_recent(at + 1);
        assert!(recent.iter().all(|record| record["outcome"] == "left"));
        println!(
            "{how} in the middle of a body: recorded after {:?}",
            began.elapsed()
        );
    }
    assert_eq!(upstream.chats().len(), 0);
    gateway.stands(&upstream);
}
