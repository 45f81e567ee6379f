//! The scheduler's contract, one behaviour per test.

use super::*;
use crate::refusal::{Cut, Outage};
use crate::scheduler::health::{PROBE_LIMITS, Stretch};
use crate::scheduler::pause::Running;
use crate::scheduler::queue::Delivery;

/// A probe with the first limit.
const PROBE: Action = Action::Probe {
    limit: PROBE_LIMITS[0],
};

pub(super) fn rules() -> Rules {
    Rules {
        slots: 1,
        max_waiting: 4,
        max_bytes: 256 << 20,
        max_wait_stream: Duration::from_secs(600),
        max_wait_whole: Duration::from_secs(240),
        full_status: FullStatus::Unavailable,
        fresh: Duration::from_millis(1000),
        idle_interval: Duration::from_secs(10),
        backoff: Backoff {
            base: Duration::from_secs(3),
            max: Duration::from_secs(15),
            stretch: Stretch::UnderPressure,
        },
        misses: 3,
        loading: Duration::from_secs(330),
        settle: Duration::from_secs(600),
    }
}

/// A scheduler, its clock, and shorthands for events.
struct Bench {
    scheduler: Scheduler,
    now: Now,
}

impl Bench {
    fn new(rules: Rules) -> Self {
        let mut bench = Self {
            scheduler: Scheduler::new(rules, None),
            now: Now {
                at: Duration::ZERO,
                unix_ms: 0,
            },
        };
        // The first probe of a fresh gateway.
        bench.feed(Event::Tick);
        bench
    }

    fn ready() -> Self {
        let mut bench = Self::new(rules());
        bench.alive();
        bench
    }

    fn feed(&mut self, event: Event) -> Vec<Action> {
        self.scheduler.apply(event, self.now)
    }

    fn arrive(&mut self, id: u64) -> Vec<Action> {
        self.arrive_with(id, id)
    }

    fn arrive_with(&mut self, id: u64, body_hash: u64) -> Vec<Action> {
        self.arrive_from("zed", id, body_hash)
    }

    fn arrive_from(&mut self, app: &str, id: u64, body_hash: u64) -> Vec<Action> {
        let arrival = Arrival {
            id: RequestId(id),
            bytes: 100,
            delivery: Delivery::Whole,
            body_hash,
        };
        self.feed(Event::Arrived {
            arrival,
            app: app.into(),
        })
    }

    fn alive(&mut self) -> Vec<Action> {
        self.feed(Event::Probed(ProbeReport::Alive { wants_key: false }))
    }

    fn missed(&mut self) -> Vec<Action> {
        self.feed(Event::Probed(ProbeReport::Failed(Outage::ProbeTimeout)))
    }

    fn dead(&mut self) -> Vec<Action> {
        self.feed(Event::Probed(ProbeReport::Failed(Outage::Refused)))
    }

    fn finish(&mut self, id: u64, ending: Ending) -> Vec<Action> {
        self.feed(Event::Finished {
            id: RequestId(id),
            ending,
            took: Duration::from_secs(2),
        })
    }

    fn wait(&mut self, ms: u64) -> Vec<Action> {
        self.now.at += Duration::from_millis(ms);
        self.now.unix_ms += ms as i64;
        self.feed(Event::Tick)
    }
}

pub(super) fn death() -> crate::refusal::Death {
    crate::refusal::Death {
        how: crate::refusal::HowEnded::Unknown,
        memory: crate::refusal::MemoryThen::NotShort,
        resident: None,
        available: None,
        lived: None,
    }
}

fn granted(actions: &[Action]) -> Vec<u64> {
    actions
        .iter()
        .filter_map(|action| match action {
            Action::Grant { id, .. } => Some(id.0),
            _ => None,
        })
        .collect()
}

fn refused(actions: &[Action]) -> Vec<(u64, &'static str)> {
    actions
        .iter()
        .filter_map(|action| match action {
            Action::Refuse { id, refusal } => Some((id.0, refusal.code())),
            _ => None,
        })
        .collect()
}

#[test]
fn one_runs_four_wait_and_the_next_is_refused() {
    let mut bench = Bench::ready();
    assert_eq!(
        granted(&bench.arrive(1)),
        [1],
        "a free slot and fresh evidence: at once"
    );
    for id in 2..=5 {
        assert!(bench.arrive(id).is_empty(), "{id} waits");
    }
    assert_eq!(
        refused(&bench.arrive(6)),
        [(6, "LLM_OVERLOADED")],
        "the queue is full"
    );
    assert_eq!(
        bench.scheduler.queue().len(),
        4,
        "a refused request touches nothing"
    );
    assert_eq!(
        granted(&bench.finish(1, Ending::Complete)),
        [2],
        "the first one is next"
    );
}

#[test]
fn another_upstream_is_probed_for_the_request_that_waits() {
    let two = Rules {
        slots: 2,
        ..rules()
    };
    let mut bench = Bench::new(two);
    bench.alive();
    assert_eq!(granted(&bench.arrive(1)), [1]);
    bench.wait(2_000);
    assert_eq!(bench.arrive(2), [PROBE], "stale evidence is renewed");
    let actions = bench.feed(Event::UpstreamChanged);
    assert_eq!(
        actions,
        [PROBE],
        "the old probe says nothing of the new server, also while an answer runs"
    );
    assert_eq!(granted(&bench.alive()), [2]);
}

#[test]
fn a_request_that_would_wait_for_a_load_at_shutdown_is_refused() {
    let mut bench = Bench::ready();
    bench.arrive(1);
    bench.feed(Event::ShutDown);
    let actions = bench.feed(Event::NotReady { id: RequestId(1) });
    assert_eq!(refused(&actions), [(1, "SHUTTING_DOWN")]);
    assert!(
        bench.scheduler.queue().is_empty(),
        "none is forgotten there"
    );
    assert_eq!(bench.scheduler.slots().iter().count(), 0);
}

#[test]
fn stale_evidence_is_renewed_before_a_dispatch() {
    let mut bench = Bench::ready();
    bench.wait(1_500);
    assert_eq!(
        bench.arrive(1),
        [PROBE],
        "older than fresh_ms: probed first"
    );
    assert_eq!(granted(&bench.alive()), [1], "and then it is its turn");
}

#[test]
fn only_the_request_whose_own_probe_failed_is_refused() {
    let mut bench = Bench::ready();
    bench.wait(1_500);
    bench.arrive(1);
    bench.arrive(2);
    assert_eq!(
        refused(&bench.dead()),
        [(1, "LLM_UNAVAILABLE")],
        "its own probe failed"
    );
    assert_eq!(bench.scheduler.queue().len(), 1, "the second stays queued");
    assert_eq!(
        refused(&bench.arrive(3)),
        [(3, "LLM_UNAVAILABLE")],
        "known down: at once"
    );
    assert!(bench.wait(2_999).is_empty(), "no probe during the cooldown");
    assert_eq!(bench.wait(1), [PROBE], "one probe at its end");
    assert!(
        refused(&bench.dead()).is_empty(),
        "a queued request does not risk its own probe"
    );
    assert_eq!(
        bench.wait(6_000),
        [PROBE],
        "the second cooldown is twice as long"
    );
    assert_eq!(
        granted(&bench.alive()),
        [2],
        "success takes the next from the queue"
    );
}

#[test]
fn arrivals_during_a_cooldown_do_not_extend_it() {
    let mut bench = Bench::ready();
    bench.arrive(1);
    bench.arrive(2);
    bench.finish(1, Ending::Failed(Outage::Refused));
    for id in 10..60 {
        bench.wait(50);
        assert_eq!(
            refused(&bench.arrive(id)),
            [(id, "LLM_UNAVAILABLE")],
            "cooling down"
        );
    }
    assert_eq!(bench.wait(500), [PROBE], "3 s after the failure, not later");
}

#[test]
fn the_refusal_in_a_cooldown_says_how_much_of_it_is_left() {
    let mut bench = Bench::ready();
    bench.arrive(1);
    bench.finish(1, Ending::Failed(Outage::Refused));
    bench.wait(1_000);
    let actions = bench.arrive(2);
    let Some(Action::Refuse {
        refusal: Refusal::Unavailable { retry_in, .. },
        ..
    }) = actions.first()
    else {
        panic!("expected a refusal, got {actions:?}");
    };
    assert_eq!(
        *retry_in,
        Duration::from_secs(2),
        "3 s less the one that passed"
    );
}

#[test]
fn check_now_ends_a_cooldown_early() {
    let mut bench = Bench::ready();
    bench.arrive(1);
    bench.arrive(2);
    bench.finish(1, Ending::Failed(Outage::Refused));
    assert_eq!(bench.feed(Event::CheckNow), [PROBE], "a person asked");
    assert_eq!(granted(&bench.alive()), [2], "and it was back");
}

#[test]
fn loading_is_no_failure_and_the_request_waits_for_it() {
    let mut bench = Bench::new(rules());
    bench.feed(Event::Probed(ProbeReport::Loading));
    assert!(bench.arrive(1).is_empty(), "it takes the slot and waits");
    assert!(bench.arrive(2).is_empty(), "the next waits behind it");
    assert_eq!(
        bench.scheduler.health().consecutive_failures(),
        0,
        "loading is not failure"
    );
    assert_eq!(bench.wait(1_000), [PROBE], "gentle probes");
    bench.feed(Event::Probed(ProbeReport::Loading));
    bench.wait(1_000);
    assert_eq!(granted(&bench.alive()), [1], "loaded");
}

#[test]
fn a_load_that_outlasts_its_budget_is_refused_as_loading() {
    let mut long = rules();
    long.max_wait_whole = Duration::from_secs(1_000);
    let mut bench = Bench::new(long);
    bench.feed(Event::Probed(ProbeReport::Loading));
    bench.arrive(1);
    let mut seen = Vec::new();
    for _ in 0..331 {
        seen.extend(refused(&bench.wait(1_000)));
        bench.feed(Event::Probed(ProbeReport::Loading));
    }
    assert_eq!(seen, [(1, "LLM_LOADING")], "after 330 s");
}

#[test]
fn a_dispatched_request_that_meets_a_loading_server_keeps_its_slot() {
    let mut bench = Bench::ready();
    bench.arrive(1);
    bench.arrive(2);
    assert!(
        granted(&bench.feed(Event::NotReady { id: RequestId(1) })).is_empty(),
        "still 1's"
    );
    bench.wait(1_000);
    assert_eq!(
        granted(&bench.alive()),
        [1],
        "granted again, before the second"
    );
}

fn paused(bench: &mut Bench, until_ms: Option<i64>) {
    bench.feed(Event::Paused {
        pause: Pause { until_ms },
        running: Running::Finish,
    });
}

fn paused_refusal(actions: &[Action]) -> Option<bool> {
    actions.iter().find_map(|action| match action {
        Action::Refuse {
            refusal: Refusal::Paused { ends_in_time, .. },
            ..
        } => Some(*ends_in_time),
        _ => None,
    })
}

#[test]
fn a_pause_that_ends_within_the_wait_limit_queues_arrivals() {
    let mut bench = Bench::ready();
    bench.arrive(1);
    bench.arrive(2);
    paused(&mut bench, Some(60_000));
    assert!(bench.arrive(3).is_empty(), "it ends in time");
    assert!(
        granted(&bench.finish(1, Ending::Complete)).is_empty(),
        "the running one finished"
    );
    bench.wait(59_000);
    let over = bench.wait(1_000);
    assert!(
        over.contains(&Action::PauseChanged(None)),
        "the pause ends by itself"
    );
    assert!(granted(&over).is_empty(), "stale evidence is renewed first");
    assert_eq!(granted(&bench.alive()), [2], "and the queue goes on");
}

#[test]
fn a_full_queue_in_a_short_pause_is_refused_as_paused() {
    let mut bench = Bench::ready();
    paused(&mut bench, Some(60_000));
    for id in 1..=4 {
        assert!(bench.arrive(id).is_empty());
    }
    assert_eq!(paused_refusal(&bench.arrive(5)), Some(true));
}

#[test]
fn a_pause_without_an_end_or_with_a_late_one_refuses_arrivals() {
    for until_ms in [None, Some(240_001)] {
        let mut bench = Bench::ready();
        paused(&mut bench, until_ms);
        assert_eq!(
            paused_refusal(&bench.arrive(1)),
            Some(false),
            "{until_ms:?}"
        );
    }
}

#[test]
fn a_wait_that_ends_in_a_pause_says_whether_a_retry_is_worth_it() {
    for (until_ms, ends_in_time) in [(Some(400_000), true), (Some(900_000), false), (None, false)] {
        let mut bench = Bench::ready();
        bench.arrive(1);
        bench.arrive(2);
        paused(&mut bench, until_ms);
        assert_eq!(paused_refusal(&bench.wait(240_000)), Some(ends_in_time));
    }
}

#[test]
fn the_end_of_a_wait_names_what_it_waited_for() {
    let cases: [(Event, &str); 3] = [
        (
            Event::Paused {
                pause: Pause { until_ms: None },
                running: Running::Finish,
            },
            "LLM_PAUSED",
        ),
        (
            Event::Pressure {
                level: Level::Critical,
                cause: None,
            },
            "LLM_MEMORY_PRESSURE",
        ),
        (Event::Tick, "LLM_QUEUE_TIMEOUT"),
    ];
    for (event, code) in cases {
        let mut bench = Bench::ready();
        bench.arrive(1);
        bench.arrive(2);
        bench.feed(event);
        assert_eq!(refused(&bench.wait(240_000)), [(2, code)], "after 240 s");
    }
    let mut bench = Bench::ready();
    bench.arrive(1);
    bench.arrive(2);
    bench.finish(1, Ending::Failed(Outage::Refused));
    let mut seen = Vec::new();
    for _ in 0..80 {
        seen.extend(refused(&bench.wait(3_000)));
        seen.extend(refused(&bench.dead()));
    }
    assert_eq!(seen, [(2, "LLM_UNAVAILABLE")], "it waited for the upstream");
}

#[test]
fn critical_memory_holds_the_queue_and_releases_it() {
    let mut bench = Bench::ready();
    bench.feed(Event::Pressure {
        level: Level::Critical,
        cause: None,
    });
    assert!(granted(&bench.arrive(1)).is_empty(), "not dispatched");
    let actions = bench.feed(Event::Pressure {
        level: Level::High,
        cause: None,
    });
    assert_eq!(granted(&actions), [1], "served when it eases");
}

#[test]
fn leaving_frees_only_its_own_place() {
    let mut bench = Bench::ready();
    bench.arrive(1);
    bench.arrive(2);
    bench.arrive(3);
    assert!(
        bench.feed(Event::Left { id: RequestId(2) }).is_empty(),
        "nothing else happens"
    );
    assert_eq!(
        bench.scheduler.slots().running(),
        1,
        "the running one goes on"
    );
    assert_eq!(
        granted(&bench.finish(1, Ending::Complete)),
        [3],
        "the place was freed"
    );
}

#[test]
fn an_abandoned_answer_settles_before_the_next_dispatch() {
    let mut bench = Bench::ready();
    bench.arrive(1);
    bench.arrive(2);
    let actions = bench.finish(1, Ending::Abandoned);
    assert_eq!(
        actions,
        [Action::Settle { id: RequestId(1) }],
        "the server may still be working"
    );
    assert!(
        granted(&bench.wait(500)).is_empty(),
        "not before it has stopped"
    );
    assert_eq!(
        granted(&bench.feed(Event::Settled { id: RequestId(1) })),
        [2],
        "then the next one starts"
    );
}

#[test]
fn settling_is_bounded_by_its_longest_time() {
    let mut bench = Bench::ready();
    bench.arrive(1);
    bench.finish(1, Ending::Abandoned);
    for _ in 0..599 {
        assert!(granted(&bench.wait(1_000)).is_empty());
        bench.alive();
    }
    assert_eq!(bench.scheduler.slots().working(), 1, "599 s are not enough");
    bench.wait(1_000);
    assert_eq!(bench.scheduler.slots().working(), 0);
    bench.alive();
    assert_eq!(granted(&bench.arrive(2)), [2]);
}

#[test]
fn settling_ends_with_the_process() {
    let gone: [fn(&mut Bench) -> Vec<Action>; 3] = [
        |bench| bench.feed(Event::ProcessGone(death())),
        Bench::dead,
        |bench| bench.feed(Event::UpstreamChanged),
    ];
    for end in gone {
        let mut bench = Bench::ready();
        bench.arrive(1);
        bench.finish(1, Ending::Abandoned);
        bench.wait(10_000);
        assert_eq!(bench.scheduler.slots().working(), 1);
        end(&mut bench);
        assert_eq!(bench.scheduler.slots().working(), 0);
    }
}

#[test]
fn a_settling_slot_does_not_block_the_others() {
    let mut bench = Bench::new(Rules {
        slots: 2,
        ..rules()
    });
    bench.alive();
    bench.arrive(1);
    bench.arrive(2);
    bench.arrive(3);
    bench.finish(1, Ending::Abandoned);
    assert_eq!(
        granted(&bench.finish(2, Ending::Complete)),
        [3],
        "the second slot is free"
    );
    let settling = bench.scheduler.slots().get(RequestId(1));
    assert_eq!(settling.map(|one| &*one.ticket().app), Some("zed"));
}

#[test]
fn client_caused_endings_start_no_cooldown() {
    let mut bench = Bench::ready();
    for id in 0..10 {
        bench.arrive(id);
        bench.finish(id, Ending::Answered);
        bench.arrive(100 + id);
        bench.finish(100 + id, Ending::Unsent);
    }
    assert_eq!(
        bench.scheduler.health().consecutive_failures(),
        0,
        "none of them was the upstream's"
    );
    assert_eq!(
        granted(&bench.arrive(50)),
        [50],
        "the good request is served at once"
    );
}

#[test]
fn a_body_at_two_deaths_of_the_process_is_refused_for_ten_minutes() {
    let mut bench = Bench::ready();
    for id in 1..=2 {
        bench.arrive_with(id, 77);
        bench.finish(id, Ending::Died(Outage::Reset));
        bench.wait(3_000);
        bench.dead();
        bench.wait(57_000);
        bench.alive();
    }
    assert_eq!(
        refused(&bench.arrive_with(3, 77)),
        [(3, "LLM_REPEATED_CRASH")],
        "the port refused connections after both"
    );
    assert!(
        refused(&bench.arrive_with(4, 78)).is_empty(),
        "another body"
    );
    assert!(
        refused(&bench.arrive_from("other", 5, 77)).is_empty(),
        "another app"
    );
    bench.feed(Event::Left { id: RequestId(4) });
    bench.feed(Event::Left { id: RequestId(5) });
    bench.wait(543_000);
    bench.alive();
    assert_eq!(granted(&bench.arrive_with(6, 77)), [6], "ten minutes later");
}

#[test]
fn a_reset_by_a_living_server_is_no_death() {
    let mut bench = Bench::ready();
    for id in 1..=5 {
        bench.arrive_with(id, 77);
        bench.finish(id, Ending::Died(Outage::Reset));
        bench.wait(60_000);
        bench.alive();
    }
    assert_eq!(granted(&bench.arrive_with(6, 77)), [6]);
}

#[test]
fn a_probe_that_times_out_is_sent_again_with_a_longer_limit() {
    let mut bench = Bench::ready();
    bench.wait(1_500);
    bench.arrive(1);
    bench.arrive(2);
    let limit = |seconds| {
        [Action::Probe {
            limit: Duration::from_secs(seconds),
        }]
    };
    assert_eq!(bench.missed(), limit(5), "the first miss");
    assert!(bench.scheduler.health().is_retrying());
    assert_eq!(bench.missed(), limit(10), "the second miss");
    assert!(refused(&bench.arrive(3)).is_empty(), "arrivals are queued");
    assert_eq!(bench.scheduler.health().consecutive_failures(), 0);
    assert_eq!(
        refused(&bench.missed()),
        [(1, "LLM_UNAVAILABLE")],
        "the third miss in a row is down"
    );
    assert_eq!(bench.scheduler.queue().len(), 2, "the others stay queued");
    assert_eq!(bench.wait(3_000), limit(10), "still slow, most likely");
    assert_eq!(granted(&bench.alive()), [2]);
    assert!(!bench.scheduler.health().is_retrying());
}

#[test]
fn a_success_between_misses_starts_the_count_again() {
    let mut bench = Bench::ready();
    for id in 1..=3 {
        bench.wait(1_500);
        bench.arrive(id);
        bench.missed();
        bench.missed();
        assert_eq!(granted(&bench.alive()), [id]);
        bench.finish(id, Ending::Complete);
    }
    assert_eq!(bench.scheduler.health().consecutive_failures(), 0);
}

#[test]
fn strict_is_down_at_the_first_miss() {
    let mut bench = Bench::new(Rules {
        misses: 1,
        ..rules()
    });
    bench.alive();
    bench.wait(1_500);
    bench.arrive(1);
    assert_eq!(refused(&bench.missed()), [(1, "LLM_UNAVAILABLE")]);
}

fn retry_in(actions: &[Action]) -> u64 {
    match actions {
        [
            Action::Refuse {
                refusal: Refusal::Overloaded { retry_in, .. },
                ..
            },
        ] => retry_in.as_secs(),
        other => panic!("expected one refusal, got {other:?}"),
    }
}

#[test]
fn retry_after_of_a_full_queue_is_an_estimate() {
    let mut bench = Bench::ready();
    bench.arrive(1);
    // 2 s each.
    bench.finish(1, Ending::Complete);
    for id in 2..=6 {
        bench.arrive(id);
    }
    assert_eq!(
        retry_in(&bench.arrive(7)),
        10,
        "four queued and one running, 2 s each"
    );
    assert_eq!(retry_in(&bench.arrive(8)), 20, "the app's second refusal");
    assert_eq!(
        retry_in(&bench.arrive_from("other", 9, 9)),
        10,
        "another app's first"
    );
    bench.wait(5_000);
    assert_eq!(
        retry_in(&bench.arrive_from("third", 10, 10)),
        25,
        "the running one has taken 5 s already"
    );
    bench.finish(2, Ending::Complete);
    assert!(refused(&bench.arrive(11)).is_empty(), "it got through");
    assert_eq!(
        retry_in(&bench.arrive(12)),
        10,
        "and starts from the beginning"
    );
}

#[test]
fn fewer_slots_take_effect_as_leases_return() {
    let mut bench = Bench::new(Rules {
        slots: 2,
        ..rules()
    });
    bench.alive();
    bench.arrive(1);
    bench.arrive(2);
    bench.arrive(3);
    bench.feed(Event::Rules(Box::new(rules())));
    assert!(
        granted(&bench.finish(1, Ending::Complete)).is_empty(),
        "one still runs"
    );
    assert_eq!(
        granted(&bench.finish(2, Ending::Complete)),
        [3],
        "now there is room"
    );
}

#[test]
fn a_smaller_queue_evicts_no_request() {
    let mut bench = Bench::ready();
    for id in 1..=5 {
        bench.arrive(id);
    }
    let actions = bench.feed(Event::Rules(Box::new(Rules {
        max_waiting: 1,
        ..rules()
    })));
    assert!(refused(&actions).is_empty(), "queued requests stay");
    assert_eq!(
        refused(&bench.arrive(6)),
        [(6, "LLM_OVERLOADED")],
        "but none joins"
    );
}

#[test]
fn strict_probes_before_each_dispatch() {
    let mut bench = Bench::new(Rules {
        fresh: Duration::ZERO,
        ..rules()
    });
    bench.alive();
    assert_eq!(
        bench.arrive(1),
        [PROBE],
        "although one was answered just now"
    );
    bench.alive();
    bench.arrive(2);
    assert_eq!(bench.finish(1, Ending::Complete), [PROBE], "and again");
    assert_eq!(granted(&bench.alive()), [2], "then it runs");
}

#[test]
fn idle_probes_are_ten_seconds_apart_while_active_then_a_minute() {
    let mut bench = Bench::ready();
    bench.arrive(1);
    bench.finish(1, Ending::Complete);
    let mut probes = Vec::new();
    for second in 1..=600 {
        if bench.wait(1_000).contains(&PROBE) {
            probes.push(second);
            bench.alive();
        }
    }
    let early = probes.iter().filter(|second| **second <= 300).count();
    let late = probes.iter().filter(|second| **second > 310).count();
    assert!(
        (28..=31).contains(&early),
        "about every 10 s for five minutes: {early}"
    );
    assert!((4..=6).contains(&late), "about every 60 s after: {late}");
}

#[test]
fn a_new_viewer_gets_a_probe_within_ten_seconds() {
    let mut bench = Bench::ready();
    let probes = |bench: &mut Bench| bench.wait(1_000).contains(&PROBE);
    while !probes(&mut bench) {}
    bench.alive();
    assert!(
        (0..20).all(|_| !probes(&mut bench)),
        "no request and no viewer"
    );
    bench.feed(Event::ViewersChanged { watched: true });
    assert!(
        (0..10).any(|_| probes(&mut bench)),
        "the next probe was 40 s away"
    );
}

#[test]
fn nothing_is_probed_while_a_request_runs() {
    let mut bench = Bench::ready();
    bench.arrive(1);
    for _ in 0..100 {
        assert!(
            bench.wait(1_000).is_empty(),
            "its bytes are evidence enough"
        );
    }
}

#[test]
fn shutdown_refuses_the_queue_and_leaves_the_running_one() {
    let mut bench = Bench::ready();
    bench.arrive(1);
    bench.arrive(2);
    assert_eq!(
        refused(&bench.feed(Event::ShutDown)),
        [(2, "SHUTTING_DOWN")],
        "at once"
    );
    assert_eq!(
        bench.scheduler.slots().running(),
        1,
        "it may finish within the grace time"
    );
    assert_eq!(
        refused(&bench.arrive(3)),
        [(3, "SHUTTING_DOWN")],
        "no new work"
    );
}

#[test]
fn a_cancelled_request_is_refused_if_queued_and_stopped_if_running() {
    let mut bench = Bench::ready();
    bench.arrive(1);
    bench.arrive(2);
    let waiting = bench.feed(Event::Cancelled { id: RequestId(2) });
    assert_eq!(
        refused(&waiting),
        [(2, "LLM_INTERRUPTED")],
        "it had not begun"
    );
    let running = bench.feed(Event::Cancelled { id: RequestId(1) });
    assert_eq!(
        running,
        [Action::Stop {
            id: RequestId(1),
            cut: Cut::Cancelled
        }],
        "it is stopped; its end gives the slot back"
    );
}
