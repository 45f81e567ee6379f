//! What must hold for any bytes at all. Each target panics where it does not.

use bytes::Bytes;
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
