//! An answer on its way out of the gateway, with a net under it.
//!
//! A panic while an answer is made becomes a coded refusal; a panic while it flows becomes the
//! last event of a stream, or aborts the connection where there is no such form. The guard that
//! lets the connection's next request come ends with the body.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::proxy::body::{Broken, ResponseBody};
use crate::refusal::{Refusal, in_stream_event};

use super::turn::Answering;

/// Whether an answer can say in its own words that it broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Server-sent events: one more event says it.
    Events,
    /// Anything else: only aborting the connection does.
    Opaque,
}

/// The body of an answer, with its net and the connection's turn.
pub struct Answered {
    body: Option<ResponseBody>,
    form: Form,
    _answering: Answering,
}

impl Answered {
    /// A body that holds the connection's turn until it has ended or was dropped.
    pub fn new(body: ResponseBody, form: Form, answering: Answering) -> Self {
        Self {
            body: Some(body),
            form,
            _answering: answering,
        }
    }
}

impl Body for Answered {
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
        match polled {
            Ok(frame) => frame,
            Err(_) => {
                // Dropping it gives the slot back.
                let had_ended = this.body.take().is_some_and(|body| body.is_end_stream());
                match this.form {
                    // A whole answer stays one.
                    Form::Events if had_ended => Poll::Ready(None),
                    Form::Events => {
                        let event = in_stream_event(&Refusal::Internal);
                        Poll::Ready(Some(Ok(Frame::data(
                            [&b"\n\n"[..], &event].concat().into(),
                        ))))
                    }
                    Form::Opaque => Poll::Ready(Some(Err(Broken))),
                }
            }
        }
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
pub async fn caught<T>(work: impl Future<Output = T>) -> Option<T> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_in_the_work_is_caught_and_frees_what_it_held() {
        struct Held<'a>(&'a std::cell::Cell<bool>);
        impl Drop for Held<'_> {
            fn drop(&mut self) {
                self.0.set(true);
            }
        }
        let freed = std::cell::Cell::new(false);
        let held = Held(&freed);
        let outcome = caught(async {
            let _held = &held;
            tokio::task::yield_now().await;
            if freed.get() {
                1
            } else {
                panic!("a bug in one request")
            }
        })
        .await;
        assert_eq!(outcome, None, "the panic does not reach the connection");
        drop(held);
        assert!(freed.get(), "what it held is dropped");
    }
}
