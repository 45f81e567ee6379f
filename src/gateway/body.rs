//! Receives a request's body, whole and within its limits, before anything is done with it.

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::accept::room::{SMALL, Share};
use crate::accept::turn::Turn;
use crate::config::Settings;
use crate::refusal::{Part, Refusal};

use super::Gateway;

/// A body that is in.
pub(super) struct Received {
    /// All of it.
    pub(super) bytes: Bytes,
    /// The room it takes; keep it until something else counts the body.
    pub(super) share: Share,
}

/// Receives a whole body. The guard has its own clock for silence.
pub(super) async fn receive(
    gateway: &Gateway,
    mut body: Incoming,
    settings: &Settings,
    turn: &Turn,
) -> Result<Received, Refusal> {
    let limit = settings.limits.max_body_bytes;
    let announced = body.size_hint().exact();
    // Judged by its head already; never trusted for more than the limit.
    let mut share = share(gateway, settings, announced.unwrap_or(0).min(limit)).await?;
    let at_once = announced.unwrap_or(0).min(limit);
    let mut bytes = BytesMut::with_capacity(usize::try_from(at_once).unwrap_or(0));
    let mut has_room = announced.is_some();
    loop {
        let frame = match timeout(settings.limits.body_idle, body.frame()).await {
            Ok(frame) => frame,
            Err(_) => return Err(bad("The body stopped coming: send it without long pauses")),
        };
        let piece = match frame {
            None => {
                let bytes = bytes.freeze();
                return Ok(Received { bytes, share });
            }
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            Some(Err(_)) => {
                let known = turn.refusal();
                return Err(known.unwrap_or_else(|| bad("The body broke off before its end")));
            }
        };
        let length = bytes.len() as u64 + piece.len() as u64;
        if length > limit {
            return Err(Refusal::TooLarge {
                part: Part::Body,
                limit,
            });
        }
        if length > SMALL && !has_room {
            // Its chunks do not say how many are to come.
            share = self::share(gateway, settings, limit).await?;
            has_room = true;
        }
        bytes.extend_from_slice(&piece);
    }
}

async fn share(gateway: &Gateway, settings: &Settings, bytes: u64) -> Result<Share, Refusal> {
    let limit = settings.limits.body_idle;
    let share = timeout(limit, gateway.room.share(bytes)).await;
    share.map_err(|_| Refusal::TooLarge {
        part: Part::Uploads,
        limit: settings.limits.max_upload_bytes,
    })
}

fn bad(message: &str) -> Refusal {
    Refusal::BadRequest {
        message: message.to_owned(),
        param: None,
    }
}
