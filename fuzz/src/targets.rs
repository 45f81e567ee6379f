//! What must hold for any bytes at all. Each target panics where it does not.

use bytes::Bytes;
use oneslot::proxy::inspect::sse::Splitter;
use oneslot::request::{Chat, Edit};
use serde::de::IgnoredAny;

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

/// Splits a stream of events into the same events however it was cut. The first byte chooses the
/// cut.
pub fn sse(bytes: &[u8]) {
    let [cut, stream @ ..] = bytes else {
        return;
    };
    let at_once = events(stream, stream.len().max(1));
    let in_pieces = events(stream, usize::from(*cut % 7) + 1);
    assert_eq!(at_once, in_pieces, "the cut changes nothing");
}

/// Name and data of an event, and whether it was too long to be kept.
type Split = (Vec<u8>, Vec<u8>, bool);

/// The events, and what would close the stream behind them.
fn events(stream: &[u8], piece: usize) -> (Vec<Split>, &'static [u8]) {
    let mut splitter = Splitter::default();
    let mut events = Vec::new();
    for part in stream.chunks(piece) {
        splitter.feed(part, |event| {
            events.push((event.name.to_vec(), event.data.to_vec(), event.oversized));
        });
    }
    (events, splitter.closing_bytes())
}
