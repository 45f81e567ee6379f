//! The guard's clocks, on a paused one: both ends are in the test's runtime.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::rig::{Event, in_memory, read_until};
use crate::accept::limits::Limits;

const REQUEST: &[u8] = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

/// How long the server takes to close, in whole seconds.
async fn closes_after(client: &mut tokio::io::DuplexStream) -> u64 {
    let start = Instant::now();
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).await.unwrap();
    assert!(
        bytes.is_empty(),
        "nothing is said to a client that asked nothing"
    );
    start.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_nothing_is_closed() {
    let (mut client, _events) = in_memory(Limits::default(), 1024);
    assert_eq!(
        closes_after(&mut client).await,
        10,
        "the first head has 10 s from accept"
    );
}

#[tokio::test(start_paused = true)]
async fn a_head_that_trickles_is_closed() {
    let (client, _events) = in_memory(Limits::default(), 1024);
    let (mut reader, mut writer) = tokio::io::split(client);
    tokio::spawn(async move {
        for byte in REQUEST.iter().take(20) {
            let _ = writer.write_all(&[*byte]).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        std::future::pending::<()>().await;
    });
    let start = Instant::now();
    let _ = reader.read_to_end(&mut Vec::new()).await;
    assert_eq!(
        start.elapsed().as_secs(),
        10,
        "more bytes do not buy more time"
    );
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_and_a_begun_head_sooner() {
    let (mut client, _events) = in_memory(Limits::default(), 1024);
    client.write_all(REQUEST).await.unwrap();
    read_until(&mut client, ">", 1).await;
    tokio::time::sleep(Duration::from_secs(59)).await;
    client.write_all(REQUEST).await.unwrap();
    read_until(&mut client, ">", 1).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    client.write_all(b"GET").await.unwrap();
    assert_eq!(
        closes_after(&mut client).await,
        10,
        "10 s from the first byte of a head"
    );

    let (mut client, _events) = in_memory(Limits::default(), 1024);
    client.write_all(REQUEST).await.unwrap();
    read_until(&mut client, ">", 1).await;
    assert_eq!(
        closes_after(&mut client).await,
        60,
        "60 s between two requests"
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_may_wait_for_its_answer_as_long_as_it_likes() {
    let (mut client, mut events) = in_memory(Limits::default(), 1024);
    client
        .write_all(b"GET /hold HTTP/1.1\r\nHost: a\r\n\r\nxx")
        .await
        .unwrap();
    assert_eq!(
        events.recv().await,
        Some(Event::Began("/hold".to_owned(), 0))
    );
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(
        events.try_recv().is_err(),
        "no clock of the guard runs meanwhile"
    );
    drop(client);
    assert_eq!(
        events.recv().await,
        Some(Event::Dropped("/hold".to_owned()))
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stops_arriving_is_refused() {
    let (mut client, mut events) = in_memory(Limits::default(), 1024);
    let head = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 60\r\n\r\n";
    client.write_all(head).await.unwrap();
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(29)).await;
        client.write_all(b"x").await.unwrap();
    }
    let start = Instant::now();
    assert_eq!(
        events.recv().await,
        Some(Event::BodyFailed(Some("BAD_REQUEST")))
    );
    assert_eq!(start.elapsed().as_secs(), 30, "30 s from the last byte");
    read_until(&mut client, "HTTP/1.1 400", 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_stuck_reader_is_cut() {
    let (mut client, mut events) = in_memory(Limits::default(), 1024);
    client
        .write_all(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(
        events.recv().await,
        Some(Event::Began("/endless".to_owned(), 0))
    );
    let start = Instant::now();
    assert_eq!(
        events.recv().await,
        Some(Event::Dropped("/endless".to_owned()))
    );
    assert_eq!(start.elapsed().as_secs(), 60, "60 s without a byte taken");
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_that_moves_is_not_cut() {
    let (mut client, mut events) = in_memory(Limits::default(), 1024);
    client
        .write_all(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(
        events.recv().await,
        Some(Event::Began("/endless".to_owned(), 0))
    );
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(50)).await;
        assert_ne!(client.read(&mut [0; 100]).await.unwrap(), 0);
    }
    assert!(events.try_recv().is_err(), "100 bytes in 50 s are progress");
}

#[tokio::test(start_paused = true)]
async fn a_refused_client_that_stays_is_let_go() {
    let (mut client, mut events) = in_memory(Limits::default(), 1024);
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    read_until(&mut client, "HTTP/1.1 400", 1).await;
    let start = Instant::now();
    assert_eq!(events.recv().await, Some(Event::Closed));
    assert!(
        start.elapsed() <= Duration::from_secs(1),
        "it lingers no longer than that"
    );
}
