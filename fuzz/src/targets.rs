//! What must hold for any bytes at all. Each target panics where it does not.

use bytes::Bytes;
use oneslot::accept::framing::{BodyEnd, ChunkError, Rest};
use oneslot::accept::head::{BodyFraming, HeadLimits, Progress, Version, find_end, judge};
use oneslot::request::{Chat, Edit};
use serde::de::IgnoredAny;

/// A head has one reading: it ends where its empty line is, however it arrives, and one that
/// passes has nothing in it that another program could read otherwise.
pub fn head(bytes: &[u8]) {
    let limits = HeadLimits::default();
    let length = match find_end(bytes, &limits) {
        Progress::More => return,
        Progress::Refused(refusal) => {
            assert!(refusal.status().is_client_error(), "a stranger's fault");
            return;
        }
        Progress::Ends(length) => length,
    };
    let head = &bytes[..length];
    assert!(length <= limits.bytes && head.ends_with(b"\r\n\r\n"));
    for cut in [0, 1, length / 2, length - 1] {
        let early = find_end(&bytes[..cut], &limits);
        assert_eq!(early, Progress::More, "nothing before its end is an end");
    }
    let Ok(facts) = judge(head, &limits) else {
        return;
    };
    let text =
        std::str::from_utf8(&head[..head.iter().position(|byte| *byte == b'\r').unwrap_or(0)]);
    assert!(text.is_ok_and(str::is_ascii), "the request line is plain");
    let lines: Vec<&[u8]> = head.split(|byte| *byte == b'\n').collect();
    assert!(
        lines[..lines.len() - 1]
            .iter()
            .all(|line| line.ends_with(b"\r")
                && line.iter().filter(|byte| **byte == b'\r').count() == 1),
        "every line ends in CRLF, and there is no other CR"
    );
    let named = |name: &str| {
        let name = format!("{name}:");
        lines
            .iter()
            .filter(|line| {
                line.len() >= name.len() && line[..name.len()].eq_ignore_ascii_case(name.as_bytes())
            })
            .count()
    };
    let (hosts, lengths, codings) = (
        named("host"),
        named("content-length"),
        named("transfer-encoding"),
    );
    assert!(
        hosts == 1 || (hosts == 0 && facts.version == Version::Http10),
        "one Host"
    );
    assert!(lengths + codings <= 1, "one framing");
    match facts.framing {
        BodyFraming::Chunked => assert_eq!(codings, 1),
        BodyFraming::Length(_) => assert_eq!(lengths, 1),
        BodyFraming::None => assert_eq!(codings, 0),
    }
    assert!(!head.contains(&0), "no NUL anywhere");
}

/// A body ends at the same byte in any cut. The first two bytes choose framing and cut.
pub fn framing(bytes: &[u8]) {
    let [kind, cut, body @ ..] = bytes else {
        return;
    };
    let framing = match kind % 3 {
        0 => BodyFraming::Chunked,
        1 => BodyFraming::Length(u64::from(*kind) * 3),
        _ => BodyFraming::None,
    };
    let at_once = feed(framing, body, usize::MAX);
    let in_pieces = feed(framing, body, usize::from(*cut % 7) + 1);
    assert_eq!(at_once, in_pieces, "the cut changes nothing");
    if let Ok((consumed, rest)) = at_once {
        assert!(consumed <= body.len());
        assert!(
            rest == Rest::Ended || consumed == body.len(),
            "what is not ended takes all"
        );
        if framing == BodyFraming::Chunked && rest == Rest::Ended {
            assert!(
                body[..consumed].ends_with(b"\r\n"),
                "chunks end in a line end"
            );
        }
    }
}

fn feed(framing: BodyFraming, body: &[u8], piece: usize) -> Result<(usize, Rest), ChunkError> {
    let mut end = BodyEnd::new(framing);
    let mut consumed = 0;
    for part in body.chunks(piece.min(body.len().max(1))) {
        if end.rest() == Rest::Ended {
            break;
        }
        consumed += end.feed(part)?.consumed;
    }
    Ok((consumed, end.rest()))
}

/// What is read as a chat is JSON to everybody else as well, and an empty edit changes no byte.
pub fn chat(bytes: &[u8]) {
    let Ok(chat) = Chat::read(Bytes::copy_from_slice(bytes)) else {
        return;
    };
    let plain = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    assert!(
        serde_json::from_slice::<IgnoredAny>(plain).is_ok(),
        "no reader is stricter"
    );
    assert_eq!(chat.raw(), bytes, "the body stays as it came");
    assert_eq!(chat.edited(&Edit::default()), bytes, "no edit, no change");
    let _ = (chat.model(), chat.asked(), chat.is_stream(), chat.outside());
    for message in chat.messages() {
        let _ = format!("{:?}", message);
    }
}
