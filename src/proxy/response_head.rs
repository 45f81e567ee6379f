//! Reading an answer as far as it must be known before any of it goes on: the first bytes of a
//! stream, all of an answer in one piece, all of an error.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::fault_injection;
use crate::proxy::body::buffered::{Held, Hold, hold};
use crate::refusal::{Cut, Outage};
use crate::upstream::send::{Connection, Sent, is_encoded};

/// An upstream's error is read this far.
const ERROR_LIMIT: usize = 64 * 1024;
/// An answer in one piece where a stream was asked for is held up to this many bytes.
const UNASKED_LIMIT: usize = 16 << 20;

/// What came first.
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

/// Reads an answer as far as it must be known before any of it goes on.
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
    let is_stream = parts
        .headers
        .get(CONTENT_TYPE)
        .map(HeaderValue::as_bytes)
        .is_some_and(|value| value.starts_with(b"text/event-stream"));
    if !is_stream {
        let limit = match wanted {
            Hold::FirstBytes => UNASKED_LIMIT,
            Hold::Whole(limit) => limit,
        };
        let held = hold(body, connection, limit).await?;
        return Ok(First::Whole {
            status: parts.status,
            head: parts.headers,
            held,
        });
    }
    loop {
        match body.frame().await {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(bytes) if !bytes.is_empty() => {
                    let head = parts.headers;
                    return Ok(First::Stream {
                        head,
                        bytes,
                        rest: body,
                        connection,
                    });
                }
                Ok(_) | Err(_) => {}
            },
            Some(Err(error)) => return Err(crate::upstream::send::outage_of(&error)),
            // A stream without a byte is no answer.
            None => return Err(Outage::Reset),
        }
    }
}

/// As much of an error as anyone needs; a body that breaks is the error so far.
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

/// Resolves when a person, or the way out, cuts the request.
pub(super) async fn cut(mut stop: tokio::sync::watch::Receiver<Option<Cut>>) -> Cut {
    let cut = stop.wait_for(Option::is_some).await.map(|cut| *cut);
    match cut {
        Ok(cut) => cut.unwrap_or(Cut::Cancelled),
        // Nobody is left who could stop it.
        Err(_) => std::future::pending().await,
    }
}
