//! Classifies an answer, or the lack of one: relay it, retry once, or refuse.
//!
//! Not here: reading it ([`crate::proxy::response_head`]) and retrying ([`super::dispatch`]).

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use hyper::body::Incoming;

use crate::proxy::body::buffered::{Held, WholeBody};
use crate::proxy::body::stream::{Question, Stall, StreamRelay};
use crate::proxy::inspect::{Garbled, StreamEnd, StreamObserver, WholeEnd, observe_whole};
use crate::refusal::{Outage, Refusal, UpstreamError};
use crate::scheduler::Ending;
use crate::upstream::send::Connection;
use crate::upstream::{Redactor, error_of, overflow, sent_key, without_sent_keys};

use super::UpstreamResponse;
use super::dispatch::{Attempt, Dispatch};
use crate::proxy::request_guard::ending_of;
use crate::proxy::response_head::cut;

impl Dispatch {
    pub(super) fn stream(
        &mut self,
        head: HeaderMap,
        first: Bytes,
        rest: Incoming,
        connection: Connection,
        remark: Option<String>,
    ) -> Attempt {
        let mut observer = StreamObserver::default();
        observer.feed(&first);
        if let StreamEnd::Error(error) = observer.verdict()
            && observer.observed().content_chunks == 0
            && let Some(overflow) = error.overflow()
        {
            return Attempt::TooLong(overflow);
        }
        self.guard.first_byte();
        self.guard.answered(observer.observed().content_chunks);
        let link = Arc::clone(&self.link);
        let model = self.chat.model().map(str::to_owned);
        let progress = Box::new(move || -> Question<Option<u64>> {
            let (link, model) = (Arc::clone(&link), model.clone());
            Box::pin(async move {
                let activity = link.upstream.activity(model.as_deref()).await;
                activity.map(|activity| activity.progress)
            })
        });
        let relay = StreamRelay {
            first: Some(first),
            observer,
            rest,
            redactor: self.redactor(),
            sent: std::mem::take(&mut self.call.upward),
            connection: Some(connection),
            sender: Arc::clone(&self.link.sender),
            stop: Box::pin(cut(self.stop_signal())),
            guard: self.guard.hand_over(),
            stall: Stall::new(self.settings.timeouts.stall, progress),
            why: None,
            linger: None,
            ended: false,
        };
        Attempt::Answered(UpstreamResponse::Stream {
            head,
            relay: Box::new(relay),
            remark,
        })
    }

    /// Redacts the configured key. A key that the client sent itself is not redacted in streams.
    fn redactor(&self) -> Option<Redactor> {
        self.settings.upstream.api_key.as_ref()?;
        Redactor::of(sent_key(&self.call.upward)?)
    }

    pub(super) fn whole(&mut self, status: StatusCode, head: HeaderMap, held: Held) -> Attempt {
        self.guard.first_byte();
        match held {
            Held::Whole { bytes, connection } => {
                let (end, observed) = observe_whole(&bytes);
                match end {
                    WholeEnd::Complete => {
                        self.link.sender.give_back(connection);
                        let body = WholeBody::ready(bytes, self.guard.hand_over(), observed);
                        Attempt::Answered(UpstreamResponse::Whole { head, status, body })
                    }
                    WholeEnd::Error(error) => {
                        if let Some(overflow) = error.overflow() {
                            return Attempt::TooLong(overflow);
                        }
                        let upstream = error.to_upstream_error(status);
                        let kind = self.link.upstream.known_kind();
                        let ending = ending_of(kind, upstream.status, &bytes);
                        Attempt::Refused(self.relayed(upstream), ending)
                    }
                    WholeEnd::Garbled(how) => {
                        let error = no_answer(status, how, error_of(status, &head, &bytes));
                        let ending = Ending::Failed(Outage::Garbled);
                        Attempt::Refused(self.relayed(error), ending)
                    }
                }
            }
            Held::Flowing {
                bytes,
                rest,
                connection,
            } => {
                let guard = self.guard.hand_over();
                let stop = Box::pin(cut(self.stop_signal()));
                let sender = Arc::clone(&self.link.sender);
                let total = self.settings.timeouts.total;
                let body = WholeBody::flowing(bytes, rest, connection, sender, guard, stop, total);
                Attempt::Answered(UpstreamResponse::Whole { head, status, body })
            }
        }
    }

    pub(super) fn judge_error(
        &mut self,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Attempt {
        let kind = self.link.upstream.known_kind();
        if crate::upstream::says_loop(status, headers) {
            return Attempt::Refused(Refusal::Loop, Ending::Failed(Outage::Loop));
        }
        if crate::upstream::says_loading(status, body) {
            return Attempt::StillLoading;
        }
        if let Some(overflow) = overflow(status, body) {
            return Attempt::TooLong(overflow);
        }
        let ending = ending_of(kind, status, body);
        Attempt::Refused(self.relayed(error_of(status, headers, body)), ending)
    }

    /// The upstream's error, without the credential that was sent.
    fn relayed(&self, error: UpstreamError) -> Refusal {
        Refusal::Upstream(without_sent_keys(error, &self.call.upward))
    }

    /// The connection failed, or ended before the answer.
    pub(super) async fn broke(&self, seen: Outage) -> Attempt {
        let outage = crate::monitor::process::explain(&self.call.context, seen).await;
        let retry_in = self.next_cooldown();
        let refusal = Refusal::Unavailable { outage, retry_in };
        Attempt::Refused(refusal, ending_without_answer(seen, outage))
    }
}

/// A success status with something that is not an answer.
fn no_answer(status: StatusCode, how: Garbled, error: UpstreamError) -> UpstreamError {
    let excerpt = match how {
        Garbled::Empty => "an empty body".to_owned(),
        Garbled::Html => error.excerpt,
        Garbled::NotJson => format!("not JSON: {}", error.excerpt),
        Garbled::NoAnswer => "JSON without `choices`".to_owned(),
    };
    UpstreamError {
        status,
        excerpt,
        ..error
    }
}

/// Only a connection that was established and lost means that the server may have died of the
/// request, whatever `outage` says about its process.
pub(super) fn ending_without_answer(seen: Outage, outage: Outage) -> Ending {
    match seen {
        Outage::Reset | Outage::ProcessGone { .. } => Ending::Died(outage),
        Outage::NoneFound
        | Outage::Refused
        | Outage::ConnectTimeout
        | Outage::ProbeTimeout
        | Outage::ProbeFailed
        | Outage::WrongBaseUrl
        | Outage::Redirected
        | Outage::UntrustedCertificate
        | Outage::WrongCertificateName
        | Outage::NotHttps
        | Outage::WantsHttps
        | Outage::Garbled
        | Outage::Loop
        | Outage::Silent
        | Outage::ServerError => Ending::Failed(outage),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::{Death, HowEnded, MemoryThen};

    #[test]
    fn a_connection_that_was_never_made_is_not_a_death() {
        let death = Death {
            how: HowEnded::Unknown,
            memory: MemoryThen::NotShort,
            resident: None,
            available: None,
            lived: None,
        };
        let gone = Outage::ProcessGone { death };
        assert_eq!(
            ending_without_answer(Outage::Refused, gone),
            Ending::Failed(gone),
            "the request never reached it"
        );
        assert_eq!(
            ending_without_answer(Outage::Reset, gone),
            Ending::Died(gone)
        );
        let garbled = ending_without_answer(Outage::Garbled, Outage::Garbled);
        assert_eq!(garbled, Ending::Failed(Outage::Garbled));
    }
}
