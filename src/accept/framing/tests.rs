//! The chunk grammar, in one piece and byte by byte.

use proptest::prelude::*;

use super::*;

/// Feeds in one piece; what was consumed and whether it ended.
fn whole(framing: BodyFraming, bytes: &[u8]) -> Result<(usize, Rest), ChunkError> {
    let fed = BodyEnd::new(framing).feed(bytes)?;
    Ok((fed.consumed, fed.rest))
}

/// Feeds in pieces of these sizes, round and round.
fn cut(framing: BodyFraming, bytes: &[u8], sizes: &[usize]) -> Result<(usize, Rest), ChunkError> {
    let mut machine = BodyEnd::new(framing);
    let mut at = 0;
    for size in sizes.iter().cycle() {
        let piece = &bytes[at..bytes.len().min(at + size)];
        at += machine.feed(piece)?.consumed;
        if machine.rest() == Rest::Ended || at == bytes.len() {
            break;
        }
    }
    Ok((at, machine.rest()))
}

fn broken(bytes: &[u8]) -> Option<ChunkError> {
    let all_at_once = whole(BodyFraming::Chunked, bytes).err();
    let byte_by_byte = cut(BodyFraming::Chunked, bytes, &[1]).err();
    assert_eq!(all_at_once, byte_by_byte, "the cut must not matter");
    all_at_once
}

#[test]
fn a_body_ends_where_its_framing_says() {
    let cases: [(BodyFraming, &[u8], usize, Rest); 9] = [
        (BodyFraming::None, b"GET /", 0, Rest::Ended),
        (BodyFraming::Length(0), b"x", 0, Rest::Ended),
        (BodyFraming::Length(3), b"abcd", 3, Rest::Ended),
        (BodyFraming::Length(5), b"abcd", 4, Rest::Expected),
        (BodyFraming::Chunked, b"0\r\n\r\nxx", 5, Rest::Ended),
        (
            BodyFraming::Chunked,
            b"3\r\nabc\r\n0\r\n\r\nGET",
            13,
            Rest::Ended,
        ),
        (
            BodyFraming::Chunked,
            b"00A\r\n0123456789\r\n0\r\n\r\n",
            22,
            Rest::Ended,
        ),
        (
            BodyFraming::Chunked,
            b"1;a=b;c=\"d e\"\r\nx\r\n0\r\n\r\n",
            23,
            Rest::Ended,
        ),
        (
            BodyFraming::Chunked,
            b"0\r\nX-Sum: 1\r\nB:\r\n\r\n.",
            19,
            Rest::Ended,
        ),
    ];
    for (framing, bytes, consumed, rest) in cases {
        assert_eq!(whole(framing, bytes), Ok((consumed, rest)), "{framing:?}");
        assert_eq!(
            cut(framing, bytes, &[1]),
            Ok((consumed, rest)),
            "{framing:?}"
        );
    }
}

#[test]
fn odd_chunks_are_refused() {
    let cases: [(&[u8], ChunkError); 24] = [
        (b"0x1\r\na\r\n0\r\n\r\n", ChunkError::Size),
        (b"\r\na\r\n0\r\n\r\n", ChunkError::Size),
        (b"1 \r\na\r\n0\r\n\r\n", ChunkError::Size),
        (b" 1\r\na\r\n0\r\n\r\n", ChunkError::Size),
        (b"1 ;a\r\na\r\n0\r\n\r\n", ChunkError::Size),
        (b"-1\r\na\r\n0\r\n\r\n", ChunkError::Size),
        (b"+1\r\na\r\n0\r\n\r\n", ChunkError::Size),
        (b"g\r\n", ChunkError::Size),
        (b";a\r\n", ChunkError::Size),
        (b"\n", ChunkError::Size),
        (b"00000000000000001\r\na\r\n", ChunkError::Size),
        (b"1\na\n0\n\n", ChunkError::LineEnd),
        (b"1\rXa\r\n", ChunkError::LineEnd),
        (b"1;a\nb\r\n", ChunkError::LineEnd),
        (b"1;a\rb\r\n", ChunkError::LineEnd),
        (b"1;a\x00\r\n", ChunkError::Extension),
        (b"1\r\nab\r\n", ChunkError::DataEnd),
        (b"1\r\na\n", ChunkError::DataEnd),
        (b"1\r\na\rb", ChunkError::DataEnd),
        (b"0\r\n\rx", ChunkError::LineEnd),
        (b"0\r\n\n", ChunkError::Trailer),
        (b"0\r\n folded: 1\r\n\r\n", ChunkError::Trailer),
        (b"0\r\nname : 1\r\n\r\n", ChunkError::Trailer),
        (b"0\r\nGET / HTTP/1.1\r\n\r\n", ChunkError::Trailer),
    ];
    for (bytes, error) in cases {
        assert_eq!(
            broken(bytes),
            Some(error),
            "{:?}",
            String::from_utf8_lossy(bytes)
        );
    }
}

#[test]
fn extensions_and_trailers_are_bounded() {
    let chunk = |extension: usize| format!("1;{}\r\nx\r\n", "e".repeat(extension));
    let end = "0\r\n\r\n";
    let one = |extension| broken(format!("{}{end}", chunk(extension)).as_bytes());
    assert_eq!(one(1024), None, "1 KiB in one chunk fits");
    assert_eq!(one(1025), Some(ChunkError::ExtensionLength));
    let many = |count| broken(format!("{}{end}", chunk(1024).repeat(count)).as_bytes());
    assert_eq!(many(16), None, "16 KiB in all fit");
    assert_eq!(many(17), Some(ChunkError::ExtensionLength));
    let trailers = |text: &str| broken(format!("0\r\n{text}\r\n").as_bytes());
    let wide = |bytes: usize| format!("a: {}\r\n", "b".repeat(bytes));
    assert_eq!(trailers(&wide(8000)), None, "8 KB of trailers fit");
    assert_eq!(trailers(&wide(20_000)), Some(ChunkError::TrailerLength));
    assert_eq!(trailers(&"a: b\r\n".repeat(64)), None, "64 trailers fit");
    assert_eq!(
        trailers(&"a: b\r\n".repeat(65)),
        Some(ChunkError::TrailerLength)
    );
}

proptest! {
    #[test]
    fn the_cut_never_changes_the_result(
        bytes in proptest::collection::vec(
            prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'0'), Just(b'2'), Just(b';'), Just(b'a'), Just(b':'), any::<u8>()],
            1..80,
        ),
        sizes in proptest::collection::vec(1_usize..9, 1..6),
    ) {
        let framing = BodyFraming::Chunked;
        prop_assert_eq!(whole(framing, &bytes), cut(framing, &bytes, &sizes));
    }

    #[test]
    fn a_well_formed_body_ends_at_its_end(
        chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..300), 0..8),
        behind in proptest::collection::vec(any::<u8>(), 0..20),
        sizes in proptest::collection::vec(1_usize..64, 1..6),
    ) {
        let mut body = Vec::new();
        for chunk in &chunks {
            body.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            body.extend_from_slice(chunk);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"0\r\n\r\n");
        let length = body.len();
        body.extend_from_slice(&behind);
        prop_assert_eq!(cut(BodyFraming::Chunked, &body, &sizes), Ok((length, Rest::Ended)));
    }
}
