//! A seeded model test: a million random events, every invariant checked after each.
//!
//! The model is the world around the scheduler: clients that arrive and leave, an upstream that
//! answers, fails, loads and dies, a person who pauses and cancels. `ONESLOT_MODEL_SEED` repeats a
//! failure (the seed is in its message).

use std::collections::{HashMap, HashSet, VecDeque};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::tests::rules;
use super::*;
use crate::refusal::Outage;
use crate::scheduler::health::State;
use crate::scheduler::pause::Running;
use crate::scheduler::queue::Delivery;

const EVENTS: usize = 1_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Waiting,
    Granted,
    Settling,
}

struct World {
    scheduler: Scheduler,
    rng: SmallRng,
    now: Now,
    next_id: u64,
    known: HashMap<RequestId, Known>,
    order: VecDeque<RequestId>,
    regranted: HashSet<RequestId>,
    probes: usize,
    /// The largest limit in force since the slots were last within it.
    slots_seen: usize,
    seed: u64,
}

#[test]
fn a_million_random_events_never_break_an_invariant() {
    let seed = std::env::var("ONESLOT_MODEL_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0x5107);
    let mut world = World::new(seed);
    for _ in 0..EVENTS {
        world.step();
    }
    world.drain();
}

#[test]
fn many_short_lives_from_many_seeds_all_end_empty() {
    for seed in 0..2_000 {
        let mut world = World::new(seed);
        for _ in 0..200 {
            world.step();
        }
        world.drain();
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let rules = rules();
        Self {
            slots_seen: rules.slots,
            scheduler: Scheduler::new(rules, None),
            rng: SmallRng::seed_from_u64(seed),
            now: Now {
                at: Duration::ZERO,
                unix_ms: 1_000_000,
            },
            next_id: 0,
            known: HashMap::new(),
            order: VecDeque::new(),
            regranted: HashSet::new(),
            probes: 0,
            seed,
        }
    }

    fn step(&mut self) {
        self.pass_time();
        let event = self.random_event();
        self.feed(event);
    }

    fn pass_time(&mut self) {
        let ms = match self.rng.random_range(0..20) {
            0 => 0,
            1..=14 => self.rng.random_range(0..400),
            15..=18 => self.rng.random_range(0..5_000),
            _ => self.rng.random_range(0..700_000),
        };
        self.now.at += Duration::from_millis(ms);
        self.now.unix_ms += ms as i64;
    }

    fn random_event(&mut self) -> Event {
        match self.rng.random_range(0..100) {
            0..=34 => self.arrival(),
            35..=44 => self
                .pick(Known::Waiting)
                .map_or(Event::Tick, |id| Event::Left { id }),
            45..=64 => self.finish(),
            65..=69 => self
                .pick(Known::Settling)
                .map_or(Event::Tick, |id| Event::Settled { id }),
            70..=84 if self.probes > 0 => self.probe_answer(),
            85 => Event::Pressure {
                level: [Level::Normal, Level::Elevated, Level::High, Level::Critical]
                    [self.rng.random_range(0..4)],
                cause: None,
            },
            86 => Event::Paused {
                pause: Pause {
                    until_ms: self
                        .rng
                        .random_bool(0.8)
                        .then(|| self.now.unix_ms + self.rng.random_range(0..60_000)),
                },
                running: if self.rng.random() {
                    Running::Stop
                } else {
                    Running::Finish
                },
            },
            87..=88 => Event::Resumed,
            89 => Event::CheckNow,
            90 => self
                .any_known()
                .map_or(Event::Tick, |id| Event::Cancelled { id }),
            91 => {
                let slots = self.rng.random_range(1..=3);
                self.slots_seen = self.slots_seen.max(slots);
                Event::Rules(Box::new(Rules { slots, ..rules() }))
            }
            92 => Event::ViewersChanged {
                watched: self.rng.random(),
            },
            93..=94 => self
                .pick(Known::Granted)
                .map_or(Event::Tick, |id| Event::NotReady { id }),
            95 if self.pick(Known::Granted).is_some() => Event::UpstreamAlive,
            96 => {
                // The report of a probe in flight is about another server: it never comes.
                self.probes = 0;
                Event::UpstreamChanged
            }
            97 => Event::Rejected { app: "zed".into() },
            98 => Event::ProcessGone(super::tests::death()),
            _ => Event::Tick,
        }
    }

    fn arrival(&mut self) -> Event {
        self.next_id += 1;
        let id = RequestId(self.next_id);
        self.known.insert(id, Known::Waiting);
        self.order.push_back(id);
        let delivery = if self.rng.random() {
            Delivery::Stream
        } else {
            Delivery::Whole
        };
        let body_hash = self.rng.random_range(0..50);
        let arrival = Arrival {
            id,
            bytes: self.rng.random_range(0..2_000_000),
            delivery,
            body_hash,
        };
        let app = ["zed", "cline", "curl"][self.rng.random_range(0..3)].into();
        Event::Arrived { arrival, app }
    }

    fn finish(&mut self) -> Event {
        let Some(id) = self.pick(Known::Granted) else {
            return Event::Tick;
        };
        let ending = [
            Ending::Complete,
            Ending::Complete,
            Ending::Answered,
            Ending::Unsent,
            Ending::Failed(Outage::Refused),
            Ending::Died(Outage::Reset),
            Ending::TimedOut,
            Ending::Abandoned,
        ][self.rng.random_range(0..8)];
        let settles = matches!(ending, Ending::TimedOut | Ending::Abandoned);
        if settles {
            self.known.insert(id, Known::Settling);
        } else {
            self.known.remove(&id);
        }
        Event::Finished {
            id,
            ending,
            took: Duration::from_secs(1),
        }
    }

    fn probe_answer(&mut self) -> Event {
        self.probes -= 1;
        Event::Probed(match self.rng.random_range(0..10) {
            0..=5 => ProbeReport::Alive {
                wants_key: self.rng.random(),
            },
            6..=7 => ProbeReport::Loading,
            8 => ProbeReport::Failed(Outage::ProbeTimeout),
            _ => ProbeReport::Failed(Outage::Refused),
        })
    }

    fn pick(&mut self, wanted: Known) -> Option<RequestId> {
        let mut ids: Vec<RequestId> = self
            .known
            .iter()
            .filter(|(_, state)| **state == wanted)
            .map(|(id, _)| *id)
            .collect();
        ids.sort_unstable();
        (!ids.is_empty()).then(|| ids[self.rng.random_range(0..ids.len())])
    }

    fn any_known(&mut self) -> Option<RequestId> {
        self.pick(Known::Waiting)
            .or_else(|| self.pick(Known::Granted))
    }

    fn feed(&mut self, event: Event) {
        let cooling_before = self.scheduler.health().cooldown_left(self.now.at) > Duration::ZERO;
        let ends_cooldown = matches!(
            event,
            Event::CheckNow
                | Event::Finished { .. }
                | Event::UpstreamAlive
                | Event::UpstreamChanged
                | Event::NotReady { .. }
        );
        match &event {
            Event::Left { id } => {
                self.known.remove(id);
            }
            Event::Settled { id } => {
                self.known.remove(id);
            }
            Event::NotReady { id } => {
                self.known.insert(*id, Known::Waiting);
                self.regranted.insert(*id);
            }
            _ => {}
        }
        let actions = self.scheduler.apply(event, self.now);
        for action in &actions {
            if cooling_before && !ends_cooldown {
                assert!(
                    !matches!(action, Action::Probe { .. } | Action::Grant { .. }),
                    "seed {}: {action:?} was wanted during a cooldown",
                    self.seed
                );
            }
            self.note(action);
        }
        self.check();
    }

    fn note(&mut self, action: &Action) {
        let seed = self.seed;
        match action {
            Action::Grant { id, .. } => {
                assert_eq!(
                    self.known.insert(*id, Known::Granted),
                    Some(Known::Waiting),
                    "seed {seed}: only a waiting request is granted, and once"
                );
                if !self.regranted.remove(id) {
                    self.check_order(*id);
                }
            }
            Action::Refuse { id, .. } => {
                assert_eq!(
                    self.known.remove(id),
                    Some(Known::Waiting),
                    "seed {seed}: only a waiting request is refused, and once"
                );
            }
            Action::Probe { .. } => {
                self.probes += 1;
                assert_eq!(self.probes, 1, "seed {seed}: one probe at a time");
            }
            Action::Stop { id, .. } => {
                assert_eq!(
                    self.known.get(id),
                    Some(&Known::Granted),
                    "seed {seed}: only what runs is stopped"
                );
            }
            Action::Settle { .. } | Action::PauseChanged(_) => {}
        }
    }

    /// First come, first served: no earlier arrival still waits for its first grant.
    fn check_order(&mut self, granted: RequestId) {
        let (known, regranted) = (&self.known, &self.regranted);
        self.order.retain(|id| {
            *id >= granted && known.get(id) == Some(&Known::Waiting) && !regranted.contains(id)
                || (*id < granted
                    && known.get(id) == Some(&Known::Waiting)
                    && !regranted.contains(id))
        });
        if let Some(first) = self.order.front() {
            assert!(
                *first > granted,
                "seed {}: {first} waited when the later {granted} was granted",
                self.seed
            );
        }
    }

    fn check(&mut self) {
        let seed = self.seed;
        let running = self.scheduler.slots().running();
        let granted = self
            .known
            .values()
            .filter(|state| **state == Known::Granted)
            .count();
        assert_eq!(
            running, granted,
            "seed {seed}: what runs is what was granted"
        );
        assert!(
            running <= self.slots_seen,
            "seed {seed}: never more in flight than slots"
        );
        let held = self.scheduler.slots().iter().count();
        if held <= self.scheduler.rules().slots {
            self.slots_seen = self.scheduler.rules().slots;
        }
        let waiting = self
            .known
            .values()
            .filter(|state| **state == Known::Waiting)
            .count();
        let shown =
            self.scheduler.queue().len() + usize::from(self.scheduler.slots().checking().is_some());
        assert_eq!(
            shown, waiting,
            "seed {seed}: every waiting request is queued, once"
        );
        let bound = self.scheduler.rules().max_waiting + self.slots_seen.max(3) + 1;
        assert!(
            shown <= bound,
            "seed {seed}: the queue is bounded, {shown} waited"
        );
        let bytes: usize = self
            .scheduler
            .queue()
            .iter()
            .map(|ticket| ticket.bytes)
            .sum();
        assert_eq!(
            bytes,
            self.scheduler.queue().bytes(),
            "seed {seed}: the queue counts its bytes"
        );
        let next = self.scheduler.next_wake(self.now);
        assert!(
            waiting == 0 || next.is_some() || self.probes > 0,
            "seed {seed}: a request waits and nothing will ever wake the scheduler"
        );
        let proving =
            self.probes > 0 || matches!(self.scheduler.health().state(), State::Loading { .. });
        assert!(
            self.scheduler.slots().checking().is_none() || proving,
            "seed {seed}: a request waits for a probe that was never sent"
        );
        if let Some(next) = next {
            let due = self.scheduler.health().state() != State::Unknown || next >= self.now.at;
            assert!(due, "seed {seed}: a wake-up in the past would spin");
        }
    }

    /// Every request ends, and no slot is held.
    fn drain(&mut self) {
        self.feed(Event::Resumed);
        self.feed(Event::Pressure {
            level: Level::Normal,
            cause: None,
        });
        self.feed(Event::Rules(Box::new(rules())));
        for _ in 0..1_000 {
            if self.known.is_empty() {
                break;
            }
            let next = self.scheduler.next_wake(self.now).unwrap_or(self.now.at);
            let step = next.saturating_sub(self.now.at).min(Duration::from_secs(1));
            self.now.at += step;
            self.now.unix_ms += step.as_millis() as i64;
            let event = if self.probes > 0 {
                self.probes -= 1;
                Event::Probed(ProbeReport::Alive { wants_key: false })
            } else if let Some(id) = self.pick(Known::Granted) {
                self.known.remove(&id);
                Event::Finished {
                    id,
                    ending: Ending::Complete,
                    took: Duration::from_secs(1),
                }
            } else if let Some(id) = self.pick(Known::Settling) {
                Event::Settled { id }
            } else {
                Event::Tick
            };
            self.feed(event);
        }
        assert!(
            self.known.is_empty(),
            "seed {}: {:?} never ended",
            self.seed,
            self.known
        );
        assert_eq!(
            self.scheduler.slots().iter().count(),
            0,
            "seed {}: no slot is left",
            self.seed
        );
        assert!(
            self.scheduler.queue().is_empty(),
            "seed {}: no request is left in the queue",
            self.seed
        );
    }
}
