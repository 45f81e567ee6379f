//! Tests of `sse`: each name is what it promises.

use proptest::prelude::*;

use super::{EVENT_LIMIT, Event, Splitter};

/// (name, data, error, oversized) of each event, owned.
type Seen = Vec<(Vec<u8>, Vec<u8>, Option<Vec<u8>>, bool)>;

fn owned(event: Event<'_>) -> (Vec<u8>, Vec<u8>, Option<Vec<u8>>, bool) {
    (
        event.name.to_vec(),
        event.data.to_vec(),
        event.error.map(<[u8]>::to_vec),
        event.oversized,
    )
}

fn split<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Seen, Seen, &'static [u8]) {
    let mut splitter = Splitter::default();
    let mut seen = Vec::new();
    for piece in pieces {
        splitter.feed(piece, |event| seen.push(owned(event)));
    }
    let mut tail = Vec::new();
    splitter.tail(|event| tail.push(owned(event)));
    (seen, tail, splitter.closing_bytes())
}

fn datas(stream: &[u8]) -> Vec<String> {
    let (seen, _, _) = split([stream]);
    seen.into_iter()
        .map(|event| String::from_utf8_lossy(&event.1).into_owned())
        .collect()
}

#[test]
fn line_feeds_carriage_returns_and_both_together_end_a_line() {
    for stream in [
        "data: a\n\ndata: b\n\n",
        "data: a\r\n\r\ndata: b\r\n\r\n",
        "data: a\r\rdata: b\r\r",
    ] {
        assert_eq!(
            datas(stream.as_bytes()),
            ["a", "b"],
            "the three line ends mean the same: {stream:?}"
        );
    }
}

#[test]
fn a_byte_order_mark_is_skipped_once() {
    assert_eq!(
        datas(b"\xEF\xBB\xBFdata: a\n\n"),
        ["a"],
        "the mark is not part of the first field's name"
    );
    let (cut, _, _) = split([&b"\xEF\xBB"[..], b"\xBFdata: a\n\n"]);
    assert_eq!(cut[0].1, b"a", "also when it was cut in two");
}

#[test]
fn one_space_after_the_colon_is_not_data() {
    assert_eq!(
        datas(b"data:a\n\ndata: b\n\ndata:  c\n\n"),
        ["a", "b", " c"],
        "exactly one space is taken away"
    );
}

#[test]
fn several_data_lines_are_one_event() {
    assert_eq!(
        datas(b"data: {\ndata: \"a\":1}\n\n"),
        ["{\n\"a\":1}"],
        "lines are joined by a line feed"
    );
}

#[test]
fn comments_are_no_events() {
    assert!(
        datas(b":\n\n: ping\n\n:ping\r\n\r\n").is_empty(),
        "a keep-alive must not be taken for content"
    );
}

#[test]
fn a_field_named_error_is_told_of() {
    let (seen, _, _) = split([&b"error: {\"code\":500}\n\n"[..]]);
    assert_eq!(
        seen[0].2.as_deref(),
        Some(&b"{\"code\":500}"[..]),
        "older model servers report failures that way"
    );
}

#[test]
fn an_unfinished_event_is_the_tail() {
    let (seen, tail, _) = split([&b"data: a\n\ndata: [DONE]"[..]]);
    assert_eq!(seen.len(), 1, "only a blank line dispatches");
    assert_eq!(tail[0].1, b"[DONE]", "what was said last is not lost");
}

#[test]
fn what_closes_a_stream_depends_on_where_it_stands() {
    let table: [(&[u8], &[u8]); 12] = [
        (b"", b""),
        (b"data: a\n\n", b""),
        (b"data: a\r\n\r\n", b""),
        (b"data: a\r\r", b""),
        (b": ping\n", b""),
        (b": pi", b"\n"),
        (b"data: a\n", b"\n"),
        (b"data: a\r\n", b"\n"),
        (b"data: a\r", b"\n\n"),
        (b"data: {\"a", b"\n\n"),
        (b"data: a\n: pi", b"\n\n"),
        (b"\xEF\xBB\xBF: pi", b"\n"),
    ];
    for (stream, closing) in table {
        assert_eq!(
            split([stream]).2,
            closing,
            "an event behind {:?} must stand alone",
            String::from_utf8_lossy(stream)
        );
        let behind = [stream, closing, b"data: end\n\n"].concat();
        let last = datas(&behind).pop();
        assert_eq!(last.as_deref(), Some("end"), "and it is read as sent");
    }
}

#[test]
fn an_event_over_the_limit_is_told_of_without_its_content() {
    let mut stream = b"data: ".to_vec();
    stream.resize(EVENT_LIMIT + 100, b'x');
    stream.extend_from_slice(b"\nevent: error\n\ndata: next\n\n");
    for size in [stream.len(), 4096, 7] {
        let (seen, _, _) = split(stream.chunks(size));
        assert_eq!(
            seen,
            [
                (b"error".to_vec(), Vec::new(), None, true),
                (Vec::new(), b"next".to_vec(), None, false)
            ],
            "the next event is read again, in pieces of {size}"
        );
    }
}

#[test]
fn a_data_line_that_never_ends_costs_bounded_memory() {
    let mut splitter = Splitter::default();
    let piece = vec![b'x'; 64 * 1024];
    splitter.feed(b"data: ", |_| {});
    let mut most = 0;
    for _ in 0..800 {
        splitter.feed(&piece, |_| {});
        most = most.max(splitter.line.capacity() + splitter.event.data.capacity());
    }
    assert!(
        most <= 2 * EVENT_LIMIT,
        "50 MB went by, {most} bytes were held"
    );
    assert_eq!(splitter.closing_bytes(), b"\n\n", "the line is still open");
}

#[test]
fn many_short_lines_of_one_event_cost_bounded_memory() {
    let mut splitter = Splitter::default();
    let mut most = 0;
    for _ in 0..2_000_000 {
        splitter.feed(b"data: 0123456789\n", |_| {});
        most = most.max(splitter.event.data.capacity());
    }
    assert!(
        most <= 2 * EVENT_LIMIT,
        "32 MB went by, {most} bytes were held"
    );
}

/// Streams made of the parts that matter, in any order.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        Just(&b"data: "[..]),
        Just(&b"data:"[..]),
        Just(&b"event: error"[..]),
        Just(&b"error: x"[..]),
        Just(&b": ping"[..]),
        Just(&b"\n"[..]),
        Just(&b"\r"[..]),
        Just(&b"\r\n"[..]),
        Just(&b"\n\n"[..]),
        Just("가🙂é".as_bytes()),
        Just(&b"\xEF\xBB\xBF"[..]),
        Just(&b"{\"a\":1}"[..]),
        Just(&b"\xff\x00"[..]),
    ];
    proptest::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

/// Cuts `stream` at the given places.
fn pieces<'a>(stream: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
    at.extend([0, stream.len()]);
    at.sort_unstable();
    at.windows(2)
        .map(|pair| &stream[pair[0]..pair[1]])
        .collect()
}

proptest! {
    #[test]
    fn any_cutting_of_the_same_bytes_gives_the_same_events(
        stream in streams(),
        cuts in proptest::collection::vec(any::<usize>(), 0..12),
    ) {
        let whole = split([&stream[..]]);
        prop_assert_eq!(&split(pieces(&stream, &cuts)), &whole, "cut at random");
        prop_assert_eq!(&split(stream.chunks(1)), &whole, "cut at every byte");
    }

    #[test]
    fn an_event_put_behind_any_stream_stands_alone(stream in streams()) {
        let (_, _, closing) = split([&stream[..]]);
        let behind = [&stream[..], closing, b"data: end\n\n"].concat();
        let (seen, _, _) = split([&behind[..]]);
        let last = seen.last().map(|event| event.1.clone());
        prop_assert_eq!(last, Some(b"end".to_vec()), "it is never glued onto another");
    }
}
