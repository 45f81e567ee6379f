//! A client that leaves is noticed in every state, by FIN and by RST.

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::rig::{Event, PATIENCE, Rig, read_until};
use crate::accept::limits::Limits;

#[derive(Debug, Clone, Copy)]
enum Leave {
    Fin,
    Rst,
}

/// Sends `bytes` for `/hold`, leaves once the handler has begun, and awaits that it is dropped.
async fn leaves_while_it_waits(body: &[u8], behind: &[u8], leave: Leave) {
    let mut rig = Rig::start(Limits::default()).await;
    let mut client = rig.connect().await;
    let mut bytes = post("/hold", body.len());
    bytes.extend_from_slice(body);
    bytes.extend_from_slice(behind);
    client.write_all(&bytes).await.unwrap();
    let began = Event::Began("/hold".to_owned(), body.len());
    assert_eq!(rig.next().await, began, "the whole body arrives");
    go(client, leave);
    let dropped = Event::Dropped("/hold".to_owned());
    assert_eq!(
        rig.next().await,
        dropped,
        "{leave:?} with {} behind",
        behind.len()
    );
    assert_eq!(
        rig.next().await,
        Event::Closed,
        "nothing of the rest is served"
    );
}

fn post(path: &str, length: usize) -> Vec<u8> {
    format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n").into_bytes()
}

fn go(client: TcpStream, leave: Leave) {
    match leave {
        Leave::Fin => {}
        Leave::Rst => client.set_zero_linger().unwrap(),
    }
    drop(client);
}

#[tokio::test]
async fn with_nothing_behind_it() {
    for leave in [Leave::Fin, Leave::Rst] {
        leaves_while_it_waits(b"{}", b"", leave).await;
        leaves_while_it_waits(b"", b"", leave).await;
    }
}

#[tokio::test]
async fn with_four_megabytes_sent() {
    for leave in [Leave::Fin, Leave::Rst] {
        leaves_while_it_waits(&vec![b'x'; 4 << 20], b"", leave).await;
    }
}

#[tokio::test]
async fn with_a_pipelined_request_behind_it() {
    let second = post("/second", 0);
    for leave in [Leave::Fin, Leave::Rst] {
        leaves_while_it_waits(b"{}", &second, leave).await;
        leaves_while_it_waits(&vec![b'x'; 4 << 20], &second, leave).await;
    }
}

#[tokio::test]
async fn with_two_stray_bytes_behind_it() {
    for leave in [Leave::Fin, Leave::Rst] {
        for stray in [&b"\r\n"[..], b"xx", b"\x00\x00"] {
            leaves_while_it_waits(b"{}", stray, leave).await;
        }
    }
}

#[tokio::test]
async fn with_stray_bytes_that_come_later() {
    let mut rig = Rig::start(Limits::default()).await;
    let mut client = rig.connect().await;
    client.write_all(&post("/hold", 0)).await.unwrap();
    assert_eq!(rig.next().await, Event::Began("/hold".to_owned(), 0));
    for _ in 0..3 {
        client.write_all(b"xx").await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    drop(client);
    let dropped = Event::Dropped("/hold".to_owned());
    assert_eq!(
        rig.next().await,
        dropped,
        "stray bytes in three pieces hide nothing"
    );
}

#[tokio::test]
async fn in_the_middle_of_its_own_body() {
    for leave in [Leave::Fin, Leave::Rst] {
        let mut rig = Rig::start(Limits::default()).await;
        let mut client = rig.connect().await;
        client.write_all(&post("/hold", 100)).await.unwrap();
        client.write_all(b"{").await.unwrap();
        go(client, leave);
        // The library may drop the handler before the handler sees the error.
        let event = rig.next().await;
        assert!(
            matches!(event, Event::BodyFailed(None) | Event::Closed),
            "a client that left is not a refusal: {event:?}"
        );
    }
}

#[tokio::test]
async fn between_two_pieces_of_a_silent_answer() {
    for leave in [Leave::Fin, Leave::Rst] {
        for behind in [Vec::new(), b"xx".to_vec(), post("/second", 0)] {
            let mut rig = Rig::start(Limits::default()).await;
            let mut client = rig.connect().await;
            let mut bytes = post("/silent", 0);
            bytes.extend_from_slice(&behind);
            client.write_all(&bytes).await.unwrap();
            assert_eq!(rig.next().await, Event::Began("/silent".to_owned(), 0));
            read_until(&mut client, "data: 1", 1).await;
            go(client, leave);
            let dropped = Event::Dropped("/silent".to_owned());
            assert_eq!(rig.next().await, dropped, "{leave:?}, behind: {behind:?}");
        }
    }
}

#[tokio::test]
async fn a_flood_behind_a_request_fails_the_connection() {
    let mut rig = Rig::start(Limits::default()).await;
    let mut client = rig.connect().await;
    client.write_all(&post("/hold", 0)).await.unwrap();
    assert_eq!(rig.next().await, Event::Began("/hold".to_owned(), 0));
    // The server may close before all of it is written.
    let flood = vec![b'x'; 512 * 1024];
    let _ = tokio::time::timeout(PATIENCE, client.write_all(&flood)).await;
    let dropped = Event::Dropped("/hold".to_owned());
    assert_eq!(
        rig.next().await,
        dropped,
        "what is kept behind a request is bounded"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_any_moment_and_nothing_stays_behind() {
    let mut rig = Rig::start(Limits::default()).await;
    let clients = 300;
    for at in 0..clients {
        let mut client = rig.connect().await;
        tokio::spawn(async move {
            let mut bytes = post("/hold", 2000);
            bytes.extend(vec![b'x'; 2000 + at % 3]);
            let cut = match at % 4 {
                0 => (at * 37) % bytes.len(),
                _ => bytes.len(),
            };
            let _ = client.write_all(&bytes[..cut]).await;
            tokio::time::sleep(std::time::Duration::from_millis((at % 30) as u64)).await;
            let leave = if at % 5 < 2 { Leave::Fin } else { Leave::Rst };
            go(client, leave);
        });
    }
    let (mut began, mut dropped, mut closed) = (0, 0, 0);
    while closed < clients {
        match rig.next().await {
            Event::Began(..) => began += 1,
            Event::Dropped(_) => dropped += 1,
            Event::BodyFailed(code) => assert_eq!(code, None, "leaving is nobody's mistake"),
            Event::Closed => closed += 1,
        }
    }
    assert!(
        began >= clients / 2,
        "most had sent the whole body: {began}"
    );
    assert_eq!(began, dropped, "every handler that began is gone");
}
