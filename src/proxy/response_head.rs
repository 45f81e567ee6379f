//! Reads as much of an answer as must be known before any of it is relayed: the first bytes of a
//! stream, the whole of a buffered answer or an error.

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::fault_injection;
use crate::proxy::body::buffered::{Held, Hold, hold};
use crate::proxy::inspect::sse::begins_like_events;
use crate::refusal::{Cut, Outage};
use crate::upstream::send::{Connection, Sent, is_encoded};

/// Most bytes read of an upstream's error.
const ERROR_LIMIT: usize = 64 * 1024;
/// Most bytes buffered of a plain answer where a stream was requested.
const UNASKED_LIMIT: usize = 16 << 20;
const EVENT_STREAM: &str = "text/event-stream";

/// The beginning of an answer.
pub(super) enum First {
    Refused {
        status: StatusCode,
        headers: HeaderMap,
        body: Bytes,
    },
    Stream {
        head: HeaderMap,
        bytes: Bytes,
        rest: Incoming,
        connection: Connection,
    },
    Whole {
        status: StatusCode,
        head: HeaderMap,
        held: Held,
    },
}

/// Reads the beginning of an answer.
pub(super) async fn first_bytes(sent: Sent, wanted: Hold) -> Result<First, Outage> {
    fault_injection::at(fault_injection::Stage::Head);
    let (response, connection) = sent.into_parts();
    let (parts, mut body) = response.into_parts();
    let is_encoded = is_encoded(&parts.headers);
    if !parts.status.is_success() {
        let body = match is_encoded {
            true => Bytes::new(),
            false => error_body(&mut body).await,
        };
        return Ok(First::Refused {
            status: parts.status,
            headers: parts.headers,
            body,
        });
    }
    if is_encoded {
        return Err(Outage::Garbled);
    }
    let mut head = parts.headers;
    let is_stream = head
        .get(CONTENT_TYPE)
        .is_some_and(|value| is_event_stream(value.as_bytes()));
    let mut held = BytesMut::new();
    let limit = match wanted {
        _ if is_stream => 0,
        Hold::FirstBytes => UNASKED_LIMIT,
        Hold::Whole(limit) => limit,
    };
    // Some servers send a stream with another content type.
    let mut is_events = is_stream.then_some(true);
    while is_events.is_none() && wanted == Hold::FirstBytes {
        let Some(bytes) = next_bytes(&mut body).await? else {
            break;
        };
        held.extend_from_slice(&bytes);
        is_events = begins_like_events(&held);
    }
    if is_events != Some(true) {
        let held = hold(held, body, connection, limit).await?;
        return Ok(First::Whole {
            status: parts.status,
            head,
            held,
        });
    }
    let bytes = if is_stream {
        // A stream without a byte is not an answer.
        next_bytes(&mut body).await?.ok_or(Outage::Reset)?
    } else {
        head.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
        held.freeze()
    };
    Ok(First::Stream {
        head,
        bytes,
        rest: body,
        connection,
    })
}

fn is_event_stream(content_type: &[u8]) -> bool {
    content_type
        .get(..EVENT_STREAM.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(EVENT_STREAM.as_bytes()))
}

/// The next bytes of the body that are not empty; `None` at its end.
async fn next_bytes(body: &mut Incoming) -> Result<Option<Bytes>, Outage> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| crate::upstream::send::outage_of(&error))?;
        if let Ok(bytes) = frame.into_data()
            && !bytes.is_empty()
        {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

/// At most [`ERROR_LIMIT`] bytes; of a body that breaks, what was received.
async fn error_body(body: &mut Incoming) -> Bytes {
    let mut read = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        if let Some(bytes) = frame.data_ref() {
            let room = ERROR_LIMIT.saturating_sub(read.len());
            read.extend_from_slice(&bytes[..bytes.len().min(room)]);
            if room <= bytes.len() {
                break;
            }
        }
    }
    read.into()
}

/// Resolves when a person, or the shutdown, cancels the request.
pub(super) async fn cut(mut stop: tokio::sync::watch::Receiver<Option<Cut>>) -> Cut {
    let cut = stop.wait_for(Option::is_some).await.map(|cut| *cut);
    match cut {
        Ok(cut) => cut.unwrap_or(Cut::Cancelled),
        // The lease is gone: nothing can cancel the request any more.
        Err(_) => std::future::pending().await,
    }
}
