//! What a panic becomes: a coded refusal before the response has begun, the last event of a stream
//! that has, and an aborted connection where there is no such form.
//!
//! Not here: the panic hook that logs where it happened.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::proxy::body::{Broken, ResponseBody};
use crate::refusal::{Refusal, in_stream_event};

/// A response body that survives a panic of what it carries. While it exists its request counts as
/// in flight on its connection.
pub(super) struct GuardedBody {
    body: Option<ResponseBody>,
    is_event_stream: bool,
    _in_flight: TaskTrackerToken,
}

impl GuardedBody {
    /// Guards a body; `is_event_stream` says whether one more event can report a failure.
    pub(super) fn new(
        body: ResponseBody,
        is_event_stream: bool,
        in_flight: TaskTrackerToken,
    ) -> Self {
        Self {
            body: Some(body),
            is_event_stream,
            _in_flight: in_flight,
        }
    }
}

impl Body for GuardedBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else {
            return Poll::Ready(None);
        };
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(body).poll_frame(cx)));
        if let Ok(frame) = polled {
            return frame;
        }
        // Dropping it gives the slot back.
        let had_ended = this.body.take().is_some_and(|body| body.is_end_stream());
        Poll::Ready(if !this.is_event_stream {
            Some(Err(Broken))
        } else if had_ended {
            // A complete response stays complete.
            None
        } else {
            let event = in_stream_event(&Refusal::Internal);
            Some(Ok(Frame::data([&b"\n\n"[..], &event].concat().into())))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

/// Runs `work`; `None` if it panicked, after everything it held was dropped.
///
/// # Cancel safety
/// As `work`'s own.
pub(crate) async fn catch_panic<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut work = Some(Box::pin(work));
    std::future::poll_fn(move |cx| {
        let Some(running) = &mut work else {
            return Poll::Ready(None);
        };
        match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Some(value)),
            Err(_) => {
                work = None;
                Poll::Ready(None)
            }
        }
    })
    .await
}
