//! The scheduler's promises, one by one.

use super::*;
use crate::refusal::{Cut, Outage};
use crate::scheduler::health::Stretch;
use crate::scheduler::pause::Running;
use crate::scheduler::queue::Delivery;

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
        loading: Duration::from_secs(330),
    }
}

/// A scheduler, its time, and short words for events.
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
        self.feed(Event::Arrived(Arrival {
            id: RequestId(id),
            bytes: 100,
            delivery: Delivery::Whole,
            body_hash,
        }))
    }

    fn alive(&mut self) -> Vec<Action> {
        self.feed(Event::Probed(ProbeReport::Alive { wants_key: false }))
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
fn one_runs_four_wait_and_the_next_is_refused_at_once() {
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
        "the line is full"
    );
    assert_eq!(
        bench.scheduler.queue().len(),
        4,
        "a refused request touches nothing"
    );
    assert_eq!(
        granted(&bench.finish(1, Ending::Complete)),
        [2],
        "the head is next"
    );
}

#[test]
fn whoever_waits_for_proof_gets_a_new_probe_when_the_server_is_another_one() {
    let two = Rules {
        slots: 2,
        ..rules()
    };
    let mut bench = Bench::new(two);
    bench.alive();
    assert_eq!(granted(&bench.arrive(1)), [1]);
    bench.wait(2_000);
    assert_eq!(
        bench.arrive(2),
        [Action::Probe],
        "stale evidence is renewed"
    );
    let actions = bench.feed(Event::UpstreamChanged);
    assert_eq!(
        actions,
        [Action::Probe],
        "the old probe says nothing of the new server, also while an answer runs"
    );
    assert_eq!(granted(&bench.alive()), [2]);
}

#[test]
fn who_would_wait_for_a_load_on_the_way_out_is_told_too() {
    let mut bench = Bench::ready();
    bench.arrive(1);
    bench.feed(Event::ShutDown);
    let actions = bench.feed(Event::NotReady { id: RequestId(1) });
    assert_eq!(refused(&actions), [(1, "SHUTTING_DOWN")]);
    assert!(
        bench.scheduler.queue().is_empty(),
        "nobody is forgotten there"
    );
    assert_eq!(bench.scheduler.slots().iter().count(), 0);
}

#[test]
fn stale_evidence_is_renewed_before_a_dispatch() {
    let mut bench = Bench::ready();
    bench.wait(1_500);
    assert_eq!(
        bench.arrive(1),
        [Action::Probe],
        "older than fresh_ms: asked first"
    );
    assert_eq!(granted(&bench.alive()), [1], "and then it is its turn");
}

#[test]
fn the_request_whose_own_probe_failed_is_refused_and_those_behind_keep_their_place() {
    let mut bench = Bench::ready();
    bench.wait(1_500);
    bench.arrive(1);
    bench.arrive(2);
    assert_eq!(
        refused(&bench.dead()),
        [(1, "LLM_UNAVAILABLE")],
        "its own probe failed"
    );
    assert_eq!(
        bench.scheduler.queue().len(),
        1,
        "the second keeps its queued"
    );
    assert_eq!(
        refused(&bench.arrive(3)),
        [(3, "LLM_UNAVAILABLE")],
        "known down: at once"
    );
    assert!(bench.wait(2_999).is_empty(), "no probe during the cooldown");
    assert_eq!(bench.wait(1), [Action::Probe], "one probe at its end");
    assert!(
        refused(&bench.dead()).is_empty(),
        "nobody is sacrificed to try again"
    );
    assert_eq!(
        bench.wait(6_000),
        [Action::Probe],
        "the second cooldown is twice as long"
    );
    assert_eq!(
        granted(&bench.alive()),
        [2],
        "success takes the next from the line"
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
    assert_eq!(
        bench.wait(500),
        [Action::Probe],
        "3 s after the failure, not later"
    );
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
    assert_eq!(
        bench.feed(Event::CheckNow),
        [Action::Probe],
        "a person asked"
    );
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
    assert_eq!(bench.wait(1_000), [Action::Probe], "gentle probes");
    bench.feed(Event::Probed(ProbeReport::Loading));
    bench.wait(1_000);
    assert_eq!(granted(&bench.alive()), [1], "loaded");
}

#[test]
fn a_load_that_outlasts_its_budget_is_refused_as_loading() {
    let mut patient = rules();
    patient.max_wait_whole = Duration::from_secs(1_000);
    let mut bench = Bench::new(patient);
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

#[test]
fn a_pause_refuses_arrivals_and_keeps_the_line() {
    let mut bench = Bench::ready();
    bench.arrive(1);
    bench.arrive(2);
    let pause = Pause {
        until_ms: Some(60_000),
    };
    bench.feed(Event::Paused {
        pause,
        running: Running::Finish,
    });
    assert_eq!(
        refused(&bench.arrive(3)),
        [(3, "LLM_PAUSED")],
        "arrivals are refused"
    );
    assert!(
        granted(&bench.finish(1, Ending::Complete)).is_empty(),
        "the running one finished"
    );
    assert_eq!(
        bench.scheduler.queue().len(),
        1,
        "the second keeps its queued"
    );
    bench.wait(59_000);
    let over = bench.wait(1_000);
    assert!(
        over.contains(&Action::PauseChanged(None)),
        "the pause ends by itself"
    );
    assert!(granted(&over).is_empty(), "stale evidence is renewed first");
    assert_eq!(granted(&bench.alive()), [2], "and the line goes on");
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
fn critical_memory_holds_the_line_and_releases_it() {
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
        "the queued was freed"
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
        "not before it has let go"
    );
    assert_eq!(
        granted(&bench.feed(Event::Settled { id: RequestId(1) })),
        [2],
        "then the next one starts"
    );
}

#[test]
fn settling_ends_after_ten_seconds_in_any_case() {
    let mut bench = Bench::ready();
    bench.arrive(1);
    bench.arrive(2);
    bench.finish(1, Ending::Abandoned);
    bench.wait(9_999);
    let mut actions = bench.wait(1);
    actions.extend(bench.alive());
    assert_eq!(granted(&actions), [2], "the ceiling of settling");
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
fn the_same_body_at_two_deaths_is_not_sent_a_third_time() {
    let mut bench = Bench::ready();
    for id in 1..=2 {
        bench.arrive_with(id, 77);
        bench.finish(id, Ending::Died(Outage::Reset));
        bench.wait(60_000);
        bench.alive();
    }
    assert_eq!(
        refused(&bench.arrive_with(3, 77)),
        [(3, "LLM_REPEATED_CRASH")],
        "it killed the server twice"
    );
    assert!(
        refused(&bench.arrive_with(4, 78)).is_empty(),
        "another body is welcome"
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
fn a_smaller_line_throws_nobody_out() {
    let mut bench = Bench::ready();
    for id in 1..=5 {
        bench.arrive(id);
    }
    let actions = bench.feed(Event::Rules(Box::new(Rules {
        max_waiting: 1,
        ..rules()
    })));
    assert!(refused(&actions).is_empty(), "those in line stay");
    assert_eq!(
        refused(&bench.arrive(6)),
        [(6, "LLM_OVERLOADED")],
        "but nobody joins"
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
        [Action::Probe],
        "although one was answered just now"
    );
    bench.alive();
    bench.arrive(2);
    assert_eq!(
        bench.finish(1, Ending::Complete),
        [Action::Probe],
        "and again"
    );
    assert_eq!(granted(&bench.alive()), [2], "then it runs");
}

#[test]
fn idle_probes_come_every_ten_seconds_while_active_and_every_minute_after() {
    let mut bench = Bench::ready();
    bench.arrive(1);
    bench.finish(1, Ending::Complete);
    let mut probes = Vec::new();
    for second in 1..=600 {
        if bench.wait(1_000).contains(&Action::Probe) {
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
fn who_begins_to_look_waits_ten_seconds_for_news_at_most() {
    let mut bench = Bench::ready();
    let probes = |bench: &mut Bench| bench.wait(1_000).contains(&Action::Probe);
    while !probes(&mut bench) {}
    bench.alive();
    assert!(
        (0..20).all(|_| !probes(&mut bench)),
        "nobody asks for anything and nobody looks"
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
        assert!(bench.wait(1_000).is_empty(), "its bytes are proof enough");
    }
}

#[test]
fn shutting_down_refuses_the_line_and_leaves_the_running_one() {
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
fn a_cancelled_request_is_refused_when_it_waits_and_cut_when_it_runs() {
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
        "it is cut; its end gives the slot back"
    );
}
