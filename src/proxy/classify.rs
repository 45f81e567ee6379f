//! What an answer (or the lack of one) comes to: relayed, tried once more, or refused.
//!
//! Not here: reading it ([`crate::proxy::response_head`]) and trying again ([`super::dispatch`]).

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use hyper::body::Incoming;

use crate::proxy::body::buffered::{Held, WholeBody};
use crate::proxy::body::redact::Secret;
use crate::proxy::body::stream::{Parts, StreamRelay};
use crate::proxy::inspect::{Garbled, StreamEnd, StreamObserver, WholeEnd, observe_whole};
use crate::refusal::{Outage, Refusal, UpstreamError};
use crate::scheduler::Ending;
use crate::upstream::send::Connection;
use crate::upstream::{Overflow, error_of, overflow, sent_key, without_sent_keys};

use super::dispatch::{Attempt, Dispatch};
use super::{Disclosure, UpstreamResponse};
use crate::proxy::request_guard::ending_of;
use crate::proxy::response_head::cut;

impl Dispatch {
    pub(super) fn stream(
        &mut self,
        head: HeaderMap,
        first: Bytes,
        rest: Incoming,
        connection: Connection,
        told: &Disclosure,
    ) -> Attempt {
        let mut observer = StreamObserver::default();
        observer.feed(&first);
        if let StreamEnd::Error(error) = observer.verdict()
            && observer.observed().content_chunks == 0
            && let Some(said) = overflow(StatusCode::BAD_REQUEST, error.message.as_bytes())
        {
            let prompt = said.prompt.or(error.prompt_tokens);
            let window = said.window.or(error.window);
            return Attempt::TooLong(Overflow {
                prompt,
                window,
                excess: said.excess,
            });
        }
        self.guard.first_byte();
        self.guard.answered(observer.observed().content_chunks);
        let head = self.head(&head, told);
        let stop = self.stop_signal();
        let secret = self.secret();
        let link = Arc::clone(&self.link);
        let model = self.chat.model().map(str::to_owned);
        let parts = Parts {
            first,
            observer,
            rest,
            sent: std::mem::take(&mut self.call.upward),
            secret,
            connection,
            sender: Arc::clone(&self.link.sender),
            guard: self.guard.hand_over(),
            stop: Box::pin(cut(stop)),
            stall: self.settings.timeouts.stall,
            progress: Arc::new(move || {
                let (link, model) = (Arc::clone(&link), model.clone());
                Box::pin(async move {
                    let activity = link.upstream.activity(model.as_deref()).await;
                    activity.map(|activity| activity.progress)
                })
            }),
        };
        let relay = Box::new(StreamRelay::new(parts));
        Attempt::Answered(UpstreamResponse::Stream {
            head,
            relay,
            remark: told.remark(),
        })
    }

    /// What no client may see of the stream. Without a configured key nothing is looked for: what
    /// a client sent is its own.
    fn secret(&self) -> Option<Secret> {
        self.settings.upstream.api_key.as_ref()?;
        Secret::of(sent_key(&self.call.upward)?)
    }

    pub(super) fn whole(
        &mut self,
        status: StatusCode,
        head: HeaderMap,
        held: Held,
        told: &Disclosure,
    ) -> Attempt {
        self.guard.first_byte();
        let head = self.head(&head, told);
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
                        let said = overflow(StatusCode::BAD_REQUEST, &bytes);
                        match said {
                            Some(said) => Attempt::TooLong(said),
                            None => {
                                let upstream = error.to_upstream_error(status);
                                let kind = self.link.upstream.known_kind();
                                let ending = ending_of(kind, upstream.status, &bytes);
                                Attempt::Refused(self.relayed(upstream), ending)
                            }
                        }
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
        if let Some(said) = overflow(status, body) {
            return Attempt::TooLong(said);
        }
        let ending = ending_of(kind, status, body);
        Attempt::Refused(self.relayed(error_of(status, headers, body)), ending)
    }

    /// The upstream's own error, without the credential it was sent.
    fn relayed(&self, error: UpstreamError) -> Refusal {
        Refusal::Upstream(without_sent_keys(error, &self.call.upward))
    }

    /// The connection was not made, or ended before the answer it owed.
    pub(super) async fn broke(&self, seen: Outage) -> Attempt {
        let outage = crate::monitor::process::explain(&self.call.context, seen).await;
        let retry_in = self.next_cooldown();
        let refusal = Refusal::Unavailable { outage, retry_in };
        Attempt::Refused(refusal, ending_without_answer(seen, outage))
    }
}

/// A success status with something that is no answer: what the server really said.
fn no_answer(status: StatusCode, how: Garbled, said: UpstreamError) -> UpstreamError {
    let excerpt = match how {
        Garbled::Empty => "an empty body".to_owned(),
        Garbled::Html => said.excerpt,
        Garbled::NotJson => format!("not JSON: {}", said.excerpt),
        Garbled::NoAnswer => "JSON without `choices`".to_owned(),
    };
    UpstreamError {
        status,
        excerpt,
        ..said
    }
}

/// Only a connection that was there and went away means that the server may have died of the
/// request: one that was never made, or an answer in another language, does not, whatever `told`
/// says of it.
pub(super) fn ending_without_answer(seen: Outage, told: Outage) -> Ending {
    match seen {
        Outage::Reset | Outage::ProcessGone { .. } => Ending::Died(told),
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
        | Outage::ServerError => Ending::Failed(told),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::{Death, HowEnded, MemoryThen};

    #[test]
    fn a_connection_that_was_never_made_is_no_death_whatever_became_of_the_process() {
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
