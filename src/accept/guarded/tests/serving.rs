//! What is served, in which order, and what a refused client reads.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::io::AsyncWriteExt;

use super::rig::{Event, Rig, in_memory, read_to_end, read_until};
use crate::accept::limits::Limits;

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let mut rig = Rig::start(Limits::default()).await;
    let mut client = rig.connect().await;
    let requests = "POST /pause HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\
        HEAD /head HTTP/1.1\r\nHost: a\r\n\r\n\
        POST /chunked HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
        2;x=y\r\nab\r\n3\r\ncde\r\n0\r\nX-Sum: 1\r\n\r\n\
        \r\nGET /pause HTTP/1.1\r\nHost: a\r\n\r\n\
        GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    client.write_all(requests.as_bytes()).await.unwrap();
    let text = read_to_end(&mut client).await;
    let order: Vec<_> = text
        .split('<')
        .skip(1)
        .map(|rest| rest.split('>').next())
        .collect();
    assert_eq!(
        order,
        [
            Some("/pause 3"),
            Some("/chunked 5"),
            Some("/pause 0"),
            Some("/last 0")
        ],
        "{text}"
    );
    assert_eq!(
        text.matches("HTTP/1.1 200").count(),
        5,
        "the HEAD is answered too"
    );
    for (path, length) in [
        ("/pause", 3),
        ("/head", 0),
        ("/chunked", 5),
        ("/pause", 0),
        ("/last", 0),
    ] {
        assert_eq!(rig.next().await, Event::Began(path.to_owned(), length));
    }
}

#[tokio::test]
async fn a_request_may_come_byte_by_byte() {
    let rig = Rig::start(Limits::default()).await;
    let mut client = rig.connect().await;
    client.set_nodelay(true).unwrap();
    let request = "POST /slow HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
        2\r\nab\r\n0\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n";
    for byte in request.bytes() {
        client.write_all(&[byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    let text = read_until(&mut client, ">", 2).await;
    assert!(
        text.contains("</slow 2>") && text.contains("</next 0>"),
        "{text}"
    );
}

#[tokio::test]
async fn a_kept_connection_serves_many_requests() {
    let rig = Rig::start(Limits::default()).await;
    let mut client = rig.connect().await;
    for turn in 0..50 {
        let body = "x".repeat(turn * 1000);
        let head = format!(
            "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        client.write_all(head.as_bytes()).await.unwrap();
        client.write_all(body.as_bytes()).await.unwrap();
        let text = read_until(&mut client, ">", 1).await;
        assert!(text.contains(&format!("</a {}>", body.len())), "{text}");
    }
}

#[tokio::test]
async fn a_waiting_body_gets_its_go_ahead() {
    let rig = Rig::start(Limits::default()).await;
    let mut client = rig.connect().await;
    let head = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    read_until(&mut client, "HTTP/1.1 100", 1).await;
    client.write_all(b"{}").await.unwrap();
    read_until(&mut client, "</a 2>", 1).await;
}

#[tokio::test]
async fn a_refused_head_is_answered_and_closed() {
    let long = format!(
        "GET / HTTP/1.1\r\nHost: a\r\nX-A: {}\r\n\r\n",
        "a".repeat(33 * 1024)
    );
    let fields = format!(
        "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
        "X-A: 1\r\n".repeat(64)
    );
    let uri = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(9 * 1024));
    let cases: [(&[u8], &str); 10] = [
        (b"GET / HTTP/1.1\r\n\r\n", "400"),
        (b"GET /a/../b HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /api/delete HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
        (b"GET / HTTP/1.1\nHost: a\n\n", "400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "400"),
        (b"GET /\r\n", "400"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\n\r\nGET /second HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
        (long.as_bytes(), "431"),
        (fields.as_bytes(), "431"),
        (uri.as_bytes(), "414"),
    ];
    for (bytes, status) in cases {
        let mut rig = Rig::start(Limits::default()).await;
        let mut client = rig.connect().await;
        client.write_all(bytes).await.unwrap();
        let text = read_to_end(&mut client).await;
        assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{text}");
        assert!(text.contains("connection: close"), "{text}");
        assert_eq!(
            text.matches("HTTP/1.1").count(),
            1,
            "one answer only: {text}"
        );
        drop(client);
        assert_eq!(rig.next().await, Event::Closed, "no handler ran");
    }
}

#[tokio::test]
async fn a_refused_head_has_no_body_in_its_answer() {
    let rig = Rig::start(Limits::default()).await;
    let mut client = rig.connect().await;
    client
        .write_all(b"HEAD /a//b HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .unwrap();
    let text = read_to_end(&mut client).await;
    assert!(
        text.starts_with("HTTP/1.1 400") && text.ends_with("\r\n\r\n"),
        "{text}"
    );
}

#[tokio::test]
async fn requests_before_a_refused_one_are_answered() {
    let rig = Rig::start(Limits::default()).await;
    let mut client = rig.connect().await;
    let bytes = b"GET /pause HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\n\r\nGET /c HTTP/1.1\r\nHost: a\r\n\r\n";
    client.write_all(bytes).await.unwrap();
    let text = read_to_end(&mut client).await;
    let ok = text.find("</pause 0>");
    let no = text.find("HTTP/1.1 400");
    assert!(ok.is_some() && ok < no && !text.contains("</c"), "{text}");
}

#[tokio::test]
async fn a_broken_chunk_fails_the_body_and_is_answered() {
    let fill = "e".repeat(20_000);
    for body in [
        "0x1\r\na\r\n0\r\n\r\n",
        "\r\n\r\n",
        "1 \r\na\r\n0\r\n\r\n",
        " 1\r\na\r\n0\r\n\r\n",
        "-1\r\na\r\n0\r\n\r\n",
        "00000000000000001\r\na\r\n0\r\n\r\n",
        "1\na\n0\n\n",
        "1;a\rb\r\na\r\n0\r\n\r\n",
        &format!("1;{fill}\r\na\r\n0\r\n\r\n"),
        &format!("0\r\na: {fill}\r\n\r\n"),
        "1\r\na\r\n0\r\nGET /api/delete HTTP/1.1\r\n\r\n",
        "2\r\nab\r\n3\r\nabcd\r\n0\r\n\r\n",
    ] {
        let mut rig = Rig::start(Limits::default()).await;
        let mut client = rig.connect().await;
        let head = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        client.write_all(head.as_bytes()).await.unwrap();
        client.write_all(body.as_bytes()).await.unwrap();
        let text = read_to_end(&mut client).await;
        assert!(text.starts_with("HTTP/1.1 400"), "{body:.40}: {text}");
        assert_eq!(text.matches("HTTP/1.1").count(), 1, "{body:.40}: {text}");
        drop(client);
        // A break that came along with the head is known before the handler asks for the body.
        let event = rig.next().await;
        assert!(
            matches!(
                event,
                Event::BodyFailed(Some("BAD_REQUEST")) | Event::Closed
            ),
            "{body:.40}: {event:?}"
        );
    }
}

#[tokio::test]
async fn an_answer_before_a_small_body_keeps_the_connection() {
    let rig = Rig::start(Limits::default()).await;
    let mut client = rig.connect().await;
    for _ in 0..5 {
        let early = b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
        client.write_all(early).await.unwrap();
        read_until(&mut client, "/early", 1).await;
        let next = b"POST /next HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx";
        client.write_all(next).await.unwrap();
        read_until(&mut client, "</next 1>", 1).await;
    }
}

/// One request with a random framing and length, and what answers it.
fn any_request(random: &mut SmallRng, at: usize) -> (Vec<u8>, String) {
    let body = "b".repeat(random.random_range(0..3000));
    let head = format!("POST /r{at} HTTP/1.1\r\nHost: a\r\n");
    let bytes = match random.random_range(0..3) {
        0 => format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()),
        1 if !body.is_empty() => {
            let (left, right) = body.split_at(body.len() / 2);
            let mut chunks = String::new();
            for chunk in [left, right].into_iter().filter(|chunk| !chunk.is_empty()) {
                chunks.push_str(&format!("{:x};a=b\r\n{chunk}\r\n", chunk.len()));
            }
            format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\nT: 1\r\n\r\n")
        }
        _ => return (format!("{head}\r\n").into_bytes(), format!("</r{at} 0>")),
    };
    (bytes.into_bytes(), format!("</r{at} {}>", body.len()))
}

#[tokio::test]
async fn however_the_bytes_are_cut_the_answers_are_the_same() {
    let seed = 20_261_130;
    let mut random = SmallRng::seed_from_u64(seed);
    for round in 0..150 {
        let (requests, answers): (Vec<_>, Vec<_>) = (0..random.random_range(1..8))
            .map(|at| any_request(&mut random, at))
            .unzip();
        let bytes = requests.concat();
        let (client, _events) = in_memory(Limits::default(), 64 * 1024);
        let (mut reader, mut writer) = tokio::io::split(client);
        let mut left = &bytes[..];
        while !left.is_empty() {
            let cut = random.random_range(1..=left.len().min(700));
            writer.write_all(&left[..cut]).await.unwrap();
            left = &left[cut..];
            if random.random_bool(0.5) {
                tokio::task::yield_now().await;
            }
        }
        let text = read_until(&mut reader, ">", answers.len()).await;
        let mut from = 0;
        for answer in &answers {
            let at = text[from..].find(answer);
            assert!(
                at.is_some(),
                "seed {seed}, round {round}: {answer} in {text}"
            );
            from += at.unwrap();
        }
    }
}

#[tokio::test]
async fn an_answer_before_a_huge_body_can_be_read() {
    let mut rig = Rig::start(Limits::default()).await;
    let mut client = rig.connect().await;
    let head = "POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 67108864\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..64 {
        client.write_all(&piece).await.unwrap();
    }
    let text = read_to_end(&mut client).await;
    assert!(text.starts_with("HTTP/1.1 413"), "not a reset: {text}");
    drop(client);
    assert_eq!(rig.next().await, Event::Closed);
}
