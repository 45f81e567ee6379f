//! Every refusal against the contract.

use std::collections::HashMap;

use serde_json::Value;

use super::*;

const FORMATS: [ErrorFormat; 3] = [
    ErrorFormat::OpenAi,
    ErrorFormat::Ollama,
    ErrorFormat::Anthropic,
];

const OUTAGES: [Outage; 18] = [
    Outage::NoneFound,
    Outage::Refused,
    Outage::ConnectTimeout,
    Outage::Reset,
    Outage::ProbeTimeout,
    Outage::ProbeFailed,
    Outage::WrongBaseUrl,
    Outage::Redirected,
    Outage::UntrustedCertificate,
    Outage::WrongCertificateName,
    Outage::NotHttps,
    Outage::WantsHttps,
    Outage::Garbled,
    Outage::Loop,
    Outage::ProcessGone {
        death: Death {
            how: HowEnded::OutOfMemory,
            memory: MemoryThen::Short,
            resident: Some(1 << 30),
            available: Some(1 << 20),
            lived: Some(Duration::from_secs(90)),
        },
    },
    Outage::ProcessGone {
        death: Death {
            how: HowEnded::Unknown,
            memory: MemoryThen::NotShort,
            resident: None,
            available: None,
            lived: None,
        },
    },
    Outage::Silent,
    Outage::ServerError,
];

const CUTS: [Cut; 6] = [
    Cut::Reset,
    Cut::ProcessGone {
        death: Death {
            how: HowEnded::Killed(9),
            memory: MemoryThen::Short,
            resident: Some(512 << 20),
            available: None,
            lived: Some(Duration::from_secs(5)),
        },
    },
    Cut::NoFinish,
    Cut::Cancelled,
    Cut::Unbegun,
    Cut::ShuttingDown,
];

/// Waits at and beyond both ends of what a client may be told.
const WAITS: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_millis(1),
    Duration::from_millis(2_001),
    Duration::from_secs(60),
    Duration::from_secs(86_400),
    Duration::MAX,
];

/// The code that belongs to a refusal, once more and by hand: codes are a contract. Without a
/// wildcard arm, so that a new refusal comes by here.
fn promised(refusal: &Refusal) -> (&'static str, u16) {
    match refusal {
        Refusal::Unavailable { .. } => ("LLM_UNAVAILABLE", 503),
        Refusal::Loading { .. } => ("LLM_LOADING", 503),
        Refusal::Overloaded {
            status: FullStatus::Unavailable,
            ..
        } => ("LLM_OVERLOADED", 503),
        Refusal::Overloaded {
            status: FullStatus::TooMany,
            ..
        } => ("LLM_OVERLOADED", 429),
        Refusal::QueueTimeout { .. } => ("LLM_QUEUE_TIMEOUT", 503),
        Refusal::Paused {
            ends_in_time: true, ..
        } => ("LLM_PAUSED", 503),
        Refusal::Paused { .. } => ("LLM_PAUSED", 423),
        Refusal::MemoryPressure { .. } => ("LLM_MEMORY_PRESSURE", 503),
        Refusal::ContextOverflow { .. } => ("CONTEXT_OVERFLOW", 400),
        Refusal::Timeout { .. } => ("LLM_TIMEOUT", 504),
        Refusal::Upstream(error) => match error.status.as_u16() {
            408 | 409 | 499 => ("LLM_UPSTREAM", 400),
            status @ 400..=498 => ("LLM_UPSTREAM", status),
            _ => ("LLM_UPSTREAM", 503),
        },
        Refusal::Interrupted { .. } => ("LLM_INTERRUPTED", 503),
        Refusal::RepeatedCrash { .. } => ("LLM_REPEATED_CRASH", 422),
        Refusal::Loop => ("LLM_LOOP", 508),
        Refusal::DialectUnsupported { .. } => ("DIALECT_UNSUPPORTED", 404),
        Refusal::RemoteModelBlocked { .. } => ("REMOTE_MODEL_BLOCKED", 403),
        Refusal::BadRequest { .. } => ("BAD_REQUEST", 400),
        Refusal::Unauthorized { .. } => ("UNAUTHORIZED", 401),
        Refusal::ForbiddenHost { .. } => ("FORBIDDEN_HOST", 403),
        Refusal::ForbiddenOrigin { .. } => ("FORBIDDEN_ORIGIN", 403),
        Refusal::AdminBlocked { .. } => ("ADMIN_BLOCKED", 403),
        Refusal::NotFound { .. } => ("NOT_FOUND", 404),
        Refusal::MethodNotAllowed { .. } => ("METHOD_NOT_ALLOWED", 405),
        Refusal::TooLarge { part, .. } => match part {
            Part::Body => ("TOO_LARGE", 413),
            Part::Head | Part::Fields => ("TOO_LARGE", 431),
            Part::Uri => ("TOO_LARGE", 414),
            Part::QueuedBytes | Part::Uploads | Part::Watchers => ("LLM_OVERLOADED", 503),
        },
        Refusal::UnsupportedMediaType { .. } => ("UNSUPPORTED_MEDIA_TYPE", 415),
        Refusal::ShuttingDown => ("SHUTTING_DOWN", 503),
        Refusal::Internal => ("INTERNAL", 500),
    }
}

fn upstream(status: u16, retry_after: Option<u64>) -> Refusal {
    Refusal::Upstream(UpstreamError {
        status: StatusCode::from_u16(status).unwrap(),
        kind: None,
        code: None,
        param: None,
        excerpt: "no \"such\" thing\n<b>".to_owned(),
        length: 20,
        retry_after,
    })
}

fn timed(retry_in: Duration) -> Vec<Refusal> {
    let overloaded = |status| Refusal::Overloaded {
        waiting: 4,
        retry_in,
        status,
    };
    let mut all = vec![
        Refusal::Loading { waited: retry_in },
        overloaded(FullStatus::Unavailable),
        overloaded(FullStatus::TooMany),
        Refusal::QueueTimeout {
            waited: retry_in,
            retry_in,
        },
        Refusal::Paused {
            left: Some(retry_in),
            ends_in_time: true,
        },
        Refusal::MemoryPressure {
            cause: "3 % of RAM".to_owned(),
            retry_in,
        },
    ];
    all.extend(OUTAGES.map(|outage| Refusal::Unavailable { outage, retry_in }));
    all.extend(
        [Clock::FirstByte, Clock::Stall, Clock::Total].map(|clock| Refusal::Timeout {
            clock,
            limit: retry_in,
        }),
    );
    all
}

fn fixed() -> Vec<Refusal> {
    let path = || "/v1/nothing".to_owned();
    let mut all = vec![
        Refusal::Paused {
            left: None,
            ends_in_time: false,
        },
        Refusal::ContextOverflow {
            needed: 9_000,
            reserved: 288,
            window: 4_096,
        },
        Refusal::RepeatedCrash {
            left: Duration::from_secs(600),
        },
        Refusal::Loop,
        Refusal::DialectUnsupported {
            path: path(),
            server: "llama.cpp".to_owned(),
            spoken_by: "Ollama",
        },
        Refusal::RemoteModelBlocked {
            model: "x:cloud".to_owned(),
        },
        Refusal::BadRequest {
            message: "`messages` is missing".to_owned(),
            param: Some("messages"),
        },
        Refusal::Unauthorized {
            wanted: Wanted::Key,
        },
        Refusal::Unauthorized {
            wanted: Wanted::Token,
        },
        Refusal::ForbiddenHost {
            host: "evil.example".to_owned(),
        },
        Refusal::ForbiddenOrigin {
            origin: "https://evil.example".to_owned(),
        },
        Refusal::AdminBlocked { path: path() },
        Refusal::NotFound { path: path() },
        Refusal::NotFound {
            path: "/v1/embeddings".to_owned(),
        },
        Refusal::MethodNotAllowed { allow: "POST" },
        Refusal::UnsupportedMediaType {
            sent: "text/plain".to_owned(),
        },
        Refusal::ShuttingDown,
        Refusal::Internal,
    ];
    all.extend(CUTS.map(|how| Refusal::Interrupted { how }));
    let parts = [
        Part::Body,
        Part::Head,
        Part::Fields,
        Part::Uri,
        Part::QueuedBytes,
        Part::Uploads,
        Part::Watchers,
    ];
    all.extend(parts.map(|part| Refusal::TooLarge { part, limit: 64 }));
    all
}

/// Every refusal, with every number that could spoil it.
fn every_refusal() -> Vec<Refusal> {
    let mut all = fixed();
    all.extend(WAITS.into_iter().flat_map(timed));
    for retry_after in [None, Some(0), Some(1), Some(61), Some(u64::MAX)] {
        all.extend((400..600).map(|status| upstream(status, retry_after)));
        all.extend([200, 204, 302, 304, 999].map(|status| upstream(status, retry_after)));
    }
    all
}

#[test]
fn every_refusal_has_the_status_and_code_it_promises() {
    for refusal in every_refusal() {
        let said = (refusal.code(), refusal.status().as_u16());
        assert_eq!(said, promised(&refusal), "{refusal:?}");
    }
}

#[test]
fn no_status_is_one_that_sdks_retry_at_once_or_take_for_success() {
    for refusal in every_refusal() {
        let status = refusal.status().as_u16();
        assert!((400..600).contains(&status), "{status} of {refusal:?}");
        assert!(
            ![408, 409, 499].contains(&status),
            "{status} of {refusal:?}"
        );
    }
}

#[test]
fn retry_after_is_whole_seconds_from_1_to_60_and_goes_with_its_advice() {
    for refusal in every_refusal() {
        let headers = refusal.headers();
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap());
        let after: Option<u64> = text("retry-after").map(|after| after.parse().unwrap());
        assert!(
            after.is_none_or(|after| (1..=60).contains(&after)),
            "{after:?} of {refusal:?}"
        );
        let wanted = match refusal.retry() {
            Retry::Never => (Some("false"), false),
            Retry::After(_) => (Some("true"), true),
            Retry::NotByItself(_) => (Some("false"), true),
            Retry::AsStatusSays => (None, false),
        };
        let said = (text("x-should-retry"), after.is_some());
        assert_eq!(said, wanted, "{refusal:?}");
        assert_eq!(text("x-oneslot-code"), Some(refusal.code()));
        assert_eq!(text("content-type"), Some("application/json"));
    }
}

#[test]
fn retry_after_is_rounded_up() {
    for (ms, seconds) in [(0, 1), (1, 1), (1_000, 1), (1_001, 2), (59_001, 60)] {
        assert_eq!(retry_after_seconds(Duration::from_millis(ms)), seconds);
    }
    assert_eq!(retry_after_seconds(Duration::MAX), 60);
}

#[test]
fn a_code_is_in_capitals_and_means_one_kind_of_refusal() {
    let mut kinds: HashMap<&str, &str> = HashMap::new();
    for refusal in every_refusal() {
        let code = refusal.code();
        assert!(
            code.bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte == b'_'),
            "{code}"
        );
        // Bodies that wait together are a full line as well.
        if let Refusal::TooLarge {
            part: Part::QueuedBytes | Part::Uploads | Part::Watchers,
            ..
        } = refusal
        {
            continue;
        }
        let shown = format!("{refusal:?}");
        let kind = shown.split([' ', '(', '{']).next().unwrap().to_owned();
        let before = kinds.entry(code).or_insert_with(|| kind.clone().leak());
        assert_eq!(*before, kind, "{code} means one thing");
    }
    assert_eq!(kinds.len(), 25, "one code for each kind: {kinds:?}");
}

#[test]
fn every_message_has_content_and_no_full_stop() {
    for refusal in every_refusal() {
        let message = refusal.message();
        assert!(message.len() >= 10, "{message:?} of {refusal:?}");
        assert!(!message.ends_with(['.', '!', ' ', '\n']), "{message:?}");
        assert!(message.len() < 500, "two sentences are enough: {message:?}");
    }
}

#[test]
fn fault_severity_and_advice_agree() {
    for refusal in every_refusal() {
        let (fault, status) = (refusal.fault(), refusal.status());
        let severity = match fault {
            Fault::Client | Fault::Capacity => Severity::Info,
            Fault::Upstream => Severity::Warn,
            Fault::Gateway => Severity::Error,
        };
        assert_eq!(refusal.severity(), severity, "{refusal:?}");
        match fault {
            Fault::Client => assert!(status.is_client_error(), "{refusal:?}"),
            // A body that kills the server is not sent again: agents repeat every 5xx.
            Fault::Upstream if matches!(refusal, Refusal::RepeatedCrash { .. }) => {
                assert_eq!(status.as_u16(), 422);
            }
            Fault::Upstream | Fault::Gateway => assert!(status.is_server_error(), "{refusal:?}"),
            Fault::Capacity => assert!(matches!(status.as_u16(), 423 | 429 | 503), "{refusal:?}"),
        }
        let relayed = matches!(refusal, Refusal::Upstream(_));
        if fault == Fault::Client && !relayed {
            assert_eq!(
                refusal.retry(),
                Retry::Never,
                "the same request fails the same way: {refusal:?}"
            );
        }
    }
}

#[test]
fn a_cancelled_request_is_not_the_servers_fault() {
    for how in [Cut::Cancelled, Cut::Unbegun, Cut::ShuttingDown] {
        assert_eq!(Refusal::Interrupted { how }.fault(), Fault::Capacity);
    }
    for how in CUTS.into_iter().take(3) {
        assert_eq!(Refusal::Interrupted { how }.fault(), Fault::Upstream);
    }
}

#[test]
fn an_upstreams_page_or_redirect_is_not_the_callers_fault() {
    for status in [200, 204, 302, 500, 503] {
        assert_eq!(upstream(status, None).fault(), Fault::Upstream, "{status}");
    }
    assert_eq!(upstream(404, None).fault(), Fault::Client);
}

#[test]
fn every_body_parses_in_every_format() {
    for refusal in every_refusal() {
        let message = refusal.message();
        for format in FORMATS {
            let body: Value = serde_json::from_slice(&refusal.body(format)).unwrap();
            match format {
                ErrorFormat::OpenAi => {
                    let error = body["error"].as_object().unwrap();
                    assert_eq!(error["message"], message);
                    assert!(!error["type"].as_str().unwrap().is_empty());
                    assert!(!error["code"].as_str().unwrap().is_empty());
                    assert!(error["param"].is_null() || error["param"].is_string());
                    assert_eq!(error.len(), 4, "{body}");
                }
                ErrorFormat::Ollama => assert_eq!(body["error"], message, "a string: {body}"),
                ErrorFormat::Anthropic => {
                    assert_eq!(body["type"], "error");
                    assert_eq!(body["error"]["message"], message);
                    assert!(!body["error"]["type"].as_str().unwrap().is_empty());
                }
            }
        }
    }
}

#[test]
fn an_error_inside_a_stream_is_one_event_with_the_same_code() {
    for refusal in every_refusal() {
        let event = in_stream_event(&refusal);
        let text = std::str::from_utf8(&event).unwrap();
        let data = text.strip_prefix("data: ").unwrap();
        let data = data.strip_suffix("\n\n").unwrap();
        assert!(!data.contains('\n'), "one line: {text:?}");
        let body: Value = serde_json::from_str(data).unwrap();
        assert_eq!(body["error"]["code"], refusal.client_code());
        assert!(!text.contains("[DONE]"));
    }
}

#[test]
fn a_relayed_4xx_with_retry_after_is_not_retryable() {
    for status in [400, 404, 409, 422] {
        assert_eq!(
            upstream(status, Some(3)).headers()["x-should-retry"],
            "false"
        );
    }
    assert_eq!(upstream(429, Some(3)).headers()["x-should-retry"], "true");
    assert_eq!(upstream(503, Some(3)).headers()["x-should-retry"], "true");
}
