//! Tests of `record`: each name is what it promises.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::snapshot::*;
use super::*;
use crate::refusal::{Clock, Outage, Refusal, UpstreamError};

fn arrival(id: &str, lane: Lane) -> Arrival {
    Arrival {
        id: id.to_owned(),
        app: Some("zed".to_owned()),
        path: "/v1/chat/completions",
        lane,
        arrived_ms: 1_000,
    }
}

fn open(recorder: &Recorder, id: &str) -> PendingRecord {
    PendingRecord::new(recorder, arrival(id, Lane::Inference))
}

fn last(recorder: &Recorder) -> Arc<Record> {
    Arc::clone(&recorder.recent(1)[0])
}

fn upstream_error() -> UpstreamError {
    UpstreamError {
        status: StatusCode::BAD_REQUEST,
        kind: Some("invalid_request_error".to_owned()),
        code: Some("you wrote: CANARY".to_owned()),
        param: None,
        excerpt: "CANARY".to_owned(),
        length: 812,
        retry_after: None,
    }
}

#[test]
fn a_record_that_is_dropped_is_one_of_a_caller_that_left() {
    let recorder = Recorder::in_memory();
    drop(open(&recorder, "a"));
    assert_eq!(
        last(&recorder).outcome,
        Outcome::Left,
        "its ending was not reported"
    );
    assert_eq!(
        recorder.counts().ended_in(Outcome::Left),
        1,
        "and it is counted once"
    );
}

#[test]
fn every_ending_is_recorded_exactly_once() {
    let recorder = Recorder::in_memory();
    let refusal = Refusal::Unavailable {
        outage: Outage::Refused,
        retry_in: Duration::from_secs(3),
    };
    let late = Refusal::Timeout {
        clock: Clock::Stall,
        limit: Duration::from_secs(60),
    };
    open(&recorder, "a").end(Ending::Done);
    open(&recorder, "b").end(Ending::Refused(&refusal));
    open(&recorder, "c").end(Ending::Failed(&late));
    open(&recorder, "d").end(Ending::Left);
    let seen: Vec<_> = recorder
        .recent(9)
        .iter()
        .map(|record| (record.outcome, record.code.clone(), record.fault.clone()))
        .collect();
    let word = |text: &'static str| Some(Word::Borrowed(text));
    assert_eq!(
        seen,
        [
            (Outcome::Left, None, None),
            (Outcome::Failed, word("LLM_TIMEOUT"), word("upstream")),
            (Outcome::Refused, word("LLM_UNAVAILABLE"), word("upstream")),
            (Outcome::Done, None, None),
        ],
        "newest first, each with code and fault of its refusal"
    );
}

#[test]
fn an_error_of_the_server_leaves_no_words_behind() {
    let recorder = Recorder::in_memory();
    open(&recorder, "a").end(Ending::Failed(&Refusal::Upstream(upstream_error())));
    let record = last(&recorder);
    assert_eq!(record.upstream_status, Some(400), "its status stays");
    assert_eq!(
        record.upstream_kind.as_deref(),
        Some("invalid_request_error"),
        "its type"
    );
    assert_eq!(record.upstream_length, Some(812), "its length");
    assert!(
        !serde_json::to_string(&*record).unwrap().contains("CANARY"),
        "what it quotes does not, nor a code that is no identifier"
    );
}

#[test]
fn names_that_callers_chose_are_short_and_printable() {
    let recorder = Recorder::in_memory();
    let mut record = open(&recorder, "a");
    record.app = Some("evil\r\nname\u{1b}[31m\u{202e}".to_owned());
    record.model = Some("m".repeat(1000));
    record.end(Ending::Done);
    let record = last(&recorder);
    assert_eq!(
        record.app.as_deref(),
        Some("evil\u{fffd}\u{fffd}name\u{fffd}[31m\u{fffd}"),
        "nothing that moves a cursor or turns text around"
    );
    assert_eq!(
        record.model.as_ref().map(String::len),
        Some(64),
        "64 characters"
    );
}

#[tokio::test(start_paused = true)]
async fn the_total_is_measured_from_arrival_to_the_end() {
    let recorder = Recorder::in_memory();
    let record = open(&recorder, "a");
    tokio::time::sleep(Duration::from_millis(1234)).await;
    record.end(Ending::Done);
    assert_eq!(
        last(&recorder).total_ms,
        1234,
        "the caller does not have to count"
    );
}

#[test]
fn memory_holds_the_last_two_hundred() {
    let recorder = Recorder::in_memory();
    for n in 0..250 {
        open(&recorder, &n.to_string()).end(Ending::Done);
    }
    let recent = recorder.recent(usize::MAX);
    assert_eq!(recent.len(), 200, "it is bounded");
    assert_eq!(
        (&*recent[0].id, &*recent[199].id),
        ("249", "50"),
        "the oldest go"
    );
    assert_eq!(
        recorder.counts().ended_in(Outcome::Done),
        250,
        "all are counted"
    );
}

#[test]
fn reads_beside_the_slot_are_counted_and_kept_only_when_they_fail() {
    let recorder = Recorder::in_memory();
    PendingRecord::new(&recorder, arrival("good", Lane::Passthrough)).end(Ending::Done);
    assert!(
        recorder.recent(9).is_empty(),
        "a polling app must not fill the panel"
    );
    PendingRecord::new(&recorder, arrival("bad", Lane::Passthrough))
        .end(Ending::Failed(&Refusal::Upstream(upstream_error())));
    assert_eq!(recorder.recent(9).len(), 1, "a failure is worth seeing");
    assert_eq!(
        recorder.counts().ended_in(Outcome::Done),
        1,
        "each outcome is counted"
    );
}

#[test]
fn threads_that_end_requests_at_once_lose_none() {
    let recorder = Recorder::in_memory();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    open(&recorder, "a").end(Ending::Done);
                }
            });
        }
    });
    assert_eq!(
        recorder.counts().ended_in(Outcome::Done),
        4000,
        "one outcome each"
    );
}

fn measured(recorder: &Recorder, n: u64, arrived: u64) {
    let mut record = open(recorder, &n.to_string());
    record.arrived = arrived;
    record.wait_ms = Some(n);
    record.first_token_ms = Some(n * 2);
    record.infer_ms = Some(n * 10);
    record.end(Ending::Done);
}

#[test]
fn quantiles_are_by_nearest_rank_and_of_two_spans() {
    let recorder = Recorder::in_memory();
    assert_eq!(
        recorder.latency(0),
        Latency::default(),
        "unknown without a sample"
    );
    for n in 1..=100 {
        measured(&recorder, n, 1_000);
    }
    measured(&recorder, 7, 2_000_000);
    let latency = recorder.latency(2_000_000);
    assert_eq!(
        (latency.all.wait.p50, latency.all.wait.p95),
        (Some(50), Some(95)),
        "over the last 500"
    );
    assert_eq!(
        (
            latency.last_15_min.wait.p50,
            latency.last_15_min.first_token.p95
        ),
        (Some(7), Some(14)),
        "the first hundred ended more than 15 minutes ago"
    );
}

#[test]
fn the_usual_service_time_is_the_median_time_in_the_slot() {
    let recorder = Recorder::in_memory();
    assert_eq!(
        recorder.usual_service_time(),
        Duration::from_secs(10),
        "a guess while nothing is known"
    );
    open(&recorder, "refused").end(Ending::Left);
    for n in [100, 200, 300] {
        measured(&recorder, n, 0);
    }
    assert_eq!(
        recorder.usual_service_time(),
        Duration::from_secs(2),
        "the wait is not part of it, and who left says nothing"
    );
    for _ in 0..60 {
        measured(&recorder, 5, 0);
    }
    assert_eq!(
        recorder.usual_service_time(),
        Duration::from_millis(50),
        "it follows a change of model within 50 requests"
    );
}

#[test]
fn the_journal_holds_one_line_a_request_that_can_be_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let recorder = Recorder::in_directory(dir.path());
    for n in 0..3 {
        measured(&recorder, n, 1_000);
    }
    recorder.flush();
    let text = std::fs::read_to_string(dir.path().join("records.jsonl")).unwrap();
    let read: Vec<Record> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(read.len(), 3, "one line each");
    assert_eq!(
        read[2],
        *last(&recorder),
        "what is read is what was recorded"
    );
}

#[test]
fn a_journal_that_cannot_be_written_leaves_records_in_memory() {
    let recorder = Recorder::in_directory(std::path::Path::new("/nonexistent/oneslot"));
    open(&recorder, "a").end(Ending::Done);
    assert_eq!(recorder.recent(9).len(), 1, "a disk is no reason to fail");
}

#[test]
fn the_log_line_has_what_the_panel_has() {
    use std::io::Write;
    use std::sync::Mutex;
    #[derive(Clone, Default)]
    struct Text(Arc<Mutex<Vec<u8>>>);
    impl Write for Text {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let text = Text::default();
    let writer = text.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        let recorder = Recorder::in_memory();
        let mut record = open(&recorder, "req-1");
        record.queue_length = Some(2);
        record.wait_ms = Some(3);
        record.infer_ms = Some(4);
        record.budget = Some(2000);
        record.prompt_before = Some(2500);
        record.prompt_after = Some(1900);
        record.granted = Some(512);
        record.consecutive_failures = 5;
        record.end(Ending::Failed(&Refusal::Upstream(upstream_error())));
    });
    let text = String::from_utf8(text.0.lock().unwrap().clone()).unwrap();
    for field in [
        "id=\"req-1\"",
        "outcome=\"failed\"",
        "code=\"LLM_UPSTREAM\"",
        "queue_length=2",
        "wait_ms=3",
        "infer_ms=4",
        "budget=2000",
        "prompt_before=2500",
        "prompt_after=1900",
        "granted=512",
        "consecutive_failures=5",
        "upstream_status=400",
        "upstream_length=812",
    ] {
        assert!(text.contains(field), "{field} is missing in {text}");
    }
    assert_eq!(text.lines().count(), 1, "one line a request");
    assert!(!text.contains("CANARY"), "and no words of anybody");
}

fn busy() -> Snapshot {
    let recorder = Recorder::in_memory();
    let mut record = Record {
        id: "01".to_owned(),
        app: Some("zed".to_owned()),
        path: "/v1/chat/completions".into(),
        arrived: 1_700_000_000_000,
        outcome: Outcome::Done,
        total_ms: 1500,
        ..Record::default()
    };
    record.granted = Some(512);
    Snapshot {
        seq: 41,
        version: "0.1.0".to_owned(),
        now_ms: 1_700_000_002_000,
        state: Face::Busy,
        listen: vec!["127.0.0.1:11411".to_owned()],
        upstream: Upstream {
            base_url: Some("http://127.0.0.1:8080".to_owned()),
            kind: Some("llama.cpp".to_owned()),
            model: Some("smollm2".to_owned()),
            process: Some(Process {
                pid: 1,
                name: "llama-server".to_owned(),
                resident: Some(1),
                ..Process::default()
            }),
            wants_key: false,
            last_death: None,
        },
        queue: Queue {
            running: 1,
            waiting: 2,
            max_waiting: 4,
            items: vec![Item {
                id: "02".to_owned(),
                app: Some("zed".to_owned()),
                phase: Phase::Prompt,
                age_ms: 1,
                stream: true,
                ..Item::default()
            }],
        },
        health: Health {
            state: HealthState::Ready,
            ..Health::default()
        },
        latency: recorder.latency(0),
        pressure: Pressure {
            vram: vec![Vram::default()],
            ..Pressure::default()
        },
        window: Window {
            size: Some(2048),
            source: Some("loaded".to_owned()),
            counting: Some("exact".to_owned()),
        },
        pause: Some(Pause { until_ms: None }),
        refused_origins: vec![RefusedOrigin {
            value: "https://example.com".to_owned(),
            count: 1,
            ..RefusedOrigin::default()
        }],
        recent: vec![Arc::new(record)],
        ..Snapshot::default()
    }
}

#[test]
fn the_status_is_spelled_as_written_down() {
    let text = serde_json::to_string_pretty(&busy()).unwrap();
    assert_eq!(
        text,
        include_str!("snapshot.golden.json").trim_end(),
        "programs read this shape: a change is a change for them"
    );
}

#[test]
fn the_status_has_every_promised_member() {
    let value = serde_json::to_value(busy()).unwrap();
    for path in [
        "seq version state upstream/base_url upstream/kind upstream/model upstream/process/pid",
        "upstream/process/name upstream/process/resident upstream/last_death queue/running queue/waiting",
        "queue/max_waiting queue/items/0/id queue/items/0/app queue/items/0/position",
        "queue/items/0/phase queue/items/0/age_ms queue/items/0/model queue/items/0/stream",
        "health/state health/consecutive_failures health/last_error health/cooldown_ms",
        "latency/wait/p50 latency/wait/p95 latency/first_token/p50 latency/first_token/p95",
        "latency/total/p50 latency/total/p95 pressure/level pressure/cause pressure/ram/total",
        "pressure/ram/available pressure/swap/total pressure/stalled pressure/vram plan/rung plan/ceiling plan/reason window/size",
        "window/source window/counting pause refused_origins recent/0/id recent/0/app",
        "recent/0/outcome recent/0/code recent/0/wait_ms recent/0/first_token_ms",
        "recent/0/total_ms recent/0/budget recent/0/prompt_before recent/0/prompt_after",
        "recent/0/dropped recent/0/asked recent/0/granted",
    ]
    .iter()
    .flat_map(|line| line.split(' '))
    {
        assert!(
            value.pointer(&format!("/{path}")).is_some(),
            "{path} must be there, if only as null"
        );
    }
}

#[test]
fn the_status_is_read_back_by_our_own_tools() {
    let text = serde_json::to_string(&busy()).unwrap();
    assert_eq!(
        serde_json::from_str::<Snapshot>(&text).unwrap(),
        busy(),
        "the command line and the tray read what a daemon writes"
    );
    let old: Snapshot = serde_json::from_str(r#"{"seq":1,"new":2}"#).unwrap();
    assert_eq!(
        old,
        Snapshot {
            seq: 1,
            ..Snapshot::default()
        },
        "also another version's"
    );
}
