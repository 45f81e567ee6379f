//! The judge: tables for what people were bitten by, properties for the rest.

use std::time::Duration;

use proptest::prelude::*;

use crate::telemetry::message::Fact;

use super::{GIB, Judge, Level, MIB, Reading, Sample, Stall, Thresholds, Verdict};

use Level::{Critical, Elevated, High, Normal};

/// Between two readings.
const STEP: u64 = 2;
const TOTAL: u64 = 16 * GIB;

/// Reads every two seconds.
struct Watch {
    judge: Judge,
    at: u64,
}

impl Watch {
    fn new() -> Self {
        Self {
            judge: Judge::new(Thresholds::default()),
            at: 0,
        }
    }

    fn read(&mut self, reading: Option<Reading>) -> Verdict {
        let verdict = self.judge.read(reading, Duration::from_secs(self.at));
        self.at += STEP;
        verdict
    }

    fn mib(&mut self, available: u64) -> Level {
        self.read(Some(mib(available))).level
    }

    /// The same reading again and again for so many seconds; the level at the end.
    fn mib_for(&mut self, available: u64, seconds: u64) -> Level {
        let readings = seconds / STEP;
        (0..readings).map(|_| self.mib(available)).last().unwrap()
    }
}

fn mib(available: u64) -> Reading {
    Reading {
        total: TOTAL,
        available: available * MIB,
    }
}

/// A reading of 16 GiB that means this level.
fn at(level: Level) -> Reading {
    mib(match level {
        Normal => 9000,
        Elevated => 2000,
        High => 1000,
        Critical => 400,
    })
}

#[test]
fn both_numbers_of_a_level_must_hold() {
    let cases = [
        (16 * GIB, 3 * GIB, Normal, "18 %"),
        (16 * GIB, 2 * GIB, Elevated, "12 % and 2 GiB"),
        (16 * GIB, GIB, High, "6 % and 1 GiB"),
        (16 * GIB, 500 * MIB, Critical, "3 % and 500 MiB"),
        (128 * GIB, 4 * GIB, Normal, "3 %, but 4 GiB is plenty"),
        (128 * GIB, 2 * GIB, Elevated, "1 %, but 2 GiB is something"),
        (2 * GIB, 500 * MIB, Normal, "500 MiB, but a quarter"),
        (100 * MIB, 4 * MIB, High, "4 % is not under 4 %"),
        (16 * GIB, 600 * MIB, High, "3 %, but not under 600 MiB"),
        (u64::MAX, u64::MAX, Normal, "the largest numbers"),
        (u64::MAX, 1, Critical, "the largest against the smallest"),
    ];
    for (total, available, expected, why) in cases {
        let level = Thresholds::default().level(&Reading { total, available });
        assert_eq!(level, expected, "{why}");
    }
}

#[test]
fn zero_and_impossible_readings_are_unknown_and_never_pressure() {
    let impossible = [
        (64 * GIB, 0),
        (64 * GIB, 65 * GIB),
        (0, 0),
        (0, 5),
        (0, u64::MAX),
        (u64::MAX, u64::MAX),
        (u64::MAX, GIB),
        (16 * GIB, u64::MAX),
    ];
    for (total, available) in impossible {
        let mut watch = Watch::new();
        for _ in 0..100 {
            let verdict = watch.read(Some(Reading { total, available }));
            assert_eq!(verdict.level, Normal, "{available} of {total}");
            assert_eq!(verdict.cause, None, "{available} of {total}");
            assert_eq!(verdict.ram, None, "{available} of {total} is not shown");
        }
    }
}

#[test]
fn available_memory_that_jumps_from_0_to_40_gb_and_back_is_never_pressure() {
    let mut watch = Watch::new();
    for available in [0, 40_000_000_000, 0].into_iter().cycle().take(200) {
        let total = 64_000_000_000;
        let verdict = watch.read(Some(Reading { total, available }));
        assert_eq!(
            verdict.level, Normal,
            "a reader that does not know is no trouble"
        );
    }
}

#[test]
fn one_reading_alone_raises_nothing() {
    let mut watch = Watch::new();
    for _ in 0..50 {
        assert_eq!(watch.mib(300), Normal, "one is not two");
        assert_eq!(watch.mib(9000), Normal, "and it was not confirmed");
        assert_eq!(watch.mib(300), Normal);
        assert_eq!(watch.read(None).level, Normal, "unknown confirms nothing");
    }
}

#[test]
fn two_readings_raise_to_the_milder_of_them() {
    for first in Level::ALL {
        for second in Level::ALL {
            let mut watch = Watch::new();
            watch.read(Some(at(first)));
            let level = watch.read(Some(at(second))).level;
            assert_eq!(level, first.min(second), "{first:?}, then {second:?}");
        }
    }
    let mut watch = Watch::new();
    assert_eq!(watch.mib(2000), Normal);
    assert_eq!(watch.mib(400), Elevated, "both are at least elevated");
    assert_eq!(watch.mib(400), Critical, "the last two are critical");
}

#[test]
fn a_level_falls_after_a_quiet_period_to_the_worst_seen_in_it() {
    let mut watch = Watch::new();
    assert_eq!(watch.mib_for(400, 4), Critical);
    assert_eq!(
        watch.mib_for(9000, 20),
        Critical,
        "only 20 s since the last"
    );
    assert_eq!(watch.mib(1000), Critical, "22 s");
    assert_eq!(watch.mib_for(9000, 6), Critical, "28 s");
    assert_eq!(watch.mib(9000), High, "30 s, and high was seen 8 s ago");
    assert_eq!(
        watch.mib_for(9000, 20),
        High,
        "that one counts for 30 s too"
    );
    assert_eq!(watch.mib(9000), Normal, "and then nothing is left");
}

#[test]
fn a_reading_at_the_level_restarts_the_quiet_period() {
    let mut watch = Watch::new();
    assert_eq!(watch.mib_for(1000, 4), High);
    for _ in 0..20 {
        assert_eq!(watch.mib_for(9000, 28), High, "not quiet for 30 s yet");
        assert_eq!(watch.mib(1000), High);
    }
}

#[test]
fn a_reader_that_stops_knowing_does_not_hold_a_level_for_ever() {
    let mut watch = Watch::new();
    assert_eq!(watch.mib_for(400, 4), Critical);
    for second in (0..28).step_by(2) {
        assert_eq!(watch.read(None).level, Critical, "{second} s: no flapping");
    }
    assert_eq!(watch.read(None).level, Normal, "unknown is never critical");
}

#[test]
fn without_a_quiet_period_a_level_rises_as_ever_and_falls_at_once() {
    for rise_readings in [0, 1, 2] {
        let mut watch = Watch::new();
        watch.judge = Judge::new(Thresholds {
            fall_quiet: Duration::ZERO,
            rise_readings,
            ..Thresholds::default()
        });
        for available in [400, 400, 400] {
            watch.mib(available);
        }
        assert_eq!(watch.mib(400), Critical, "0 s must not switch it off");
        assert_eq!(watch.mib(1000), High, "the next better reading counts");
        assert_eq!(watch.mib(9000), Normal, "at once");
        watch.mib(400);
        assert_eq!(watch.mib(400), Critical, "and it rises again");
    }
}

#[test]
fn a_critical_that_holds_for_no_time_still_shortens() {
    let mut watch = Watch::new();
    watch.judge = Judge::new(Thresholds {
        critical_holds: Duration::ZERO,
        ..Thresholds::default()
    });
    watch.mib(400);
    assert_eq!(watch.mib(400), High, "never held back, never forgotten");
}

#[test]
fn critical_that_stands_still_counts_as_high_until_it_grows_worse() {
    let mut watch = Watch::new();
    assert_eq!(watch.mib_for(600 - 1, 60), Critical, "since 2 s: 56 s ago");
    assert_eq!(watch.mib(599), Critical, "58 s");
    let verdict = watch.read(Some(mib(599)));
    assert_eq!(verdict.level, High, "60 s without growing worse");
    assert!(verdict.cause.is_some(), "it still has a cause");
    for _ in 0..300 {
        let level = watch.mib(599 - 160);
        assert_eq!(level, High, "less than 1 % of the total less is no worse");
    }
    assert_eq!(
        watch.mib(599 - 170),
        High,
        "one reading does not show it growing worse"
    );
    assert_eq!(watch.mib(599 - 170), Critical, "two do");
    assert_eq!(
        watch.mib_for(599 - 170, 58),
        Critical,
        "and it holds for 60 s again"
    );
    assert_eq!(watch.mib(599 - 170), High);
}

#[test]
fn a_slow_leak_is_growing_worse_too() {
    let mut watch = Watch::new();
    assert_eq!(watch.mib_for(599, 64), High, "stood still");
    let worst = (0..500).map(|sunk| watch.mib(599 - sunk / 2)).max();
    assert_eq!(
        worst,
        Some(Critical),
        "it is measured from the worst, not from the last"
    );
}

#[test]
fn memory_that_hovers_around_critical_is_served_after_the_first_minute() {
    let mut watch = Watch::new();
    assert_eq!(watch.mib_for(590, 64), High, "stood still");
    for _ in 0..10 {
        assert_eq!(watch.mib_for(620, 60), High, "just above the threshold");
        assert_eq!(watch.mib_for(590, 60), High, "no worse than it was before");
    }
    assert_eq!(watch.mib_for(9000, 60), Normal, "over");
    assert_eq!(watch.mib_for(590, 4), Critical, "a new trouble");
}

#[test]
fn the_cause_names_the_reading_that_counts_with_its_numbers() {
    let mut watch = Watch::new();
    assert_eq!(
        watch.read(Some(mib(412))).cause,
        None,
        "normal has no cause"
    );
    let cause = watch.read(Some(mib(412))).cause;
    let expected = Some(Fact::RamLow {
        available: "412 MiB".to_owned(),
        total: "16.0 GiB".to_owned(),
        percent: 2,
    });
    assert_eq!(cause, expected);
    let verdict = watch.read(Some(mib(9001)));
    assert_eq!(verdict.cause, expected, "the level is still its doing");
    assert_eq!(
        verdict.ram,
        Some(mib(9001)),
        "while the reading is the last one"
    );
    assert_eq!(mib(9001).to_string(), "8.7 GiB of 16.0 GiB (54 %)");
}

#[test]
fn a_small_roomy_group_does_not_hide_a_full_machine() {
    let machine = mib(400);
    let group = Reading {
        total: 64 * MIB,
        available: 50 * MIB,
    };
    let mut judge = Judge::new(Thresholds::default());
    judge.read([group, machine], Duration::ZERO);
    let verdict = judge.read([machine, group], Duration::from_secs(2));
    assert_eq!((verdict.level, verdict.ram), (Critical, Some(machine)));
}

#[test]
fn while_nothing_is_short_the_least_that_can_be_had_is_shown() {
    let group = Reading {
        total: 200 * MIB,
        available: 190 * MIB,
    };
    let verdict = Judge::new(Thresholds::default()).read([mib(14_000), group], Duration::ZERO);
    assert_eq!(
        (verdict.level, verdict.ram),
        (Normal, Some(group)),
        "a larger part of a small group is still less"
    );
}

fn readings() -> impl Strategy<Value = Vec<(Option<Reading>, u64)>> {
    let reading = prop_oneof![
        6 => (0..4usize).prop_map(|level| Some(at(Level::ALL[level]))),
        2 => (0..20_000u64).prop_map(|available| Some(mib(available))),
        1 => any::<(u64, u64)>().prop_map(|(total, available)| Some(Reading { total, available })),
        1 => Just(None),
    ];
    prop::collection::vec((reading, 0..20u64), 0..120)
}

fn level_of(reading: Option<Reading>) -> Option<Level> {
    let reading = reading.filter(Reading::is_plausible)?;
    Some(Thresholds::default().level(&reading))
}

proptest! {
    #[test]
    fn a_level_rises_only_where_the_last_two_readings_agree(steps in readings()) {
        let mut judge = Judge::new(Thresholds::default());
        let (mut now, mut shown, mut previous) = (0, Normal, None);
        for (reading, pause) in steps {
            now += pause;
            let level = judge.read(reading, Duration::from_secs(now)).level;
            let last = level_of(reading);
            if level > shown {
                prop_assert!(last >= Some(level), "the last reading is as bad");
                prop_assert!(previous >= Some(level), "and so is the one before it");
            }
            (shown, previous) = (level, last);
        }
    }

    #[test]
    fn a_level_below_critical_falls_only_after_the_quiet_period(steps in readings()) {
        let mut judge = Judge::new(Thresholds::default());
        let (mut now, mut shown) = (0, Normal);
        let mut history = Vec::new();
        for (reading, pause) in steps {
            now += pause;
            let level = judge.read(reading, Duration::from_secs(now)).level;
            history.push((now, level_of(reading)));
            let recent = history.iter().filter(|(at, _)| now - at < 30);
            let worst = recent.filter_map(|(_, level)| *level).max().unwrap_or_default();
            if level < shown && (shown, level) != (Critical, High) {
                prop_assert_eq!(level, worst.min(High), "the worst of the last 30 s");
            }
            shown = level;
        }
    }

    #[test]
    fn a_verdict_is_whole(steps in readings()) {
        let mut judge = Judge::new(Thresholds::default());
        let mut now = 0;
        for (reading, pause) in steps {
            now += pause;
            let verdict = judge.read(reading, Duration::from_secs(now));
            prop_assert_eq!(verdict.cause.is_some(), verdict.level > Normal);
            prop_assert_eq!(verdict.ram, reading.filter(Reading::is_plausible));
        }
    }

    #[test]
    fn a_share_is_between_nothing_and_all(total: u64, available: u64) {
        let reading = Reading { total, available };
        prop_assert!(reading.percent() <= 100);
    }

    #[test]
    fn a_constant_reading_settles_and_stays(available in 1..16_384u64) {
        let mut watch = Watch::new();
        watch.mib_for(available, 120);
        let expected = Thresholds::default().level(&mib(available)).min(High);
        for _ in 0..100 {
            prop_assert_eq!(watch.mib(available), expected);
        }
    }
}

/// Stalls of 12.34 % with this much RAM.
fn stalled(available: u64) -> Sample {
    Sample {
        ram: vec![mib(available)],
        stall: Some(Stall(1234)),
        vram: None,
    }
}

#[test]
fn waiting_for_memory_raises_the_level_of_ram_by_one_and_swap_in_use_does_not() {
    for (available, expected) in [
        (9000, Elevated),
        (2000, High),
        (1000, Critical),
        (400, Critical),
    ] {
        let mut judge = Judge::new(Thresholds::default());
        judge.judge(stalled(available), Duration::ZERO);
        let verdict = judge.judge(stalled(available), Duration::from_secs(2));
        assert_eq!(verdict.level, expected, "{available} MiB");
        let cause = verdict.cause.as_ref();
        assert!(
            matches!(cause, Some(Fact::RamLowAndStalled { stalled, .. }) if stalled == "12.34 %"),
            "{cause:?}"
        );
    }
    let mut judge = Judge::new(Thresholds::default());
    for second in 0..10 {
        let quiet = Sample {
            stall: Some(Stall(1000)),
            ..stalled(9000)
        };
        let verdict = judge.judge(quiet, Duration::from_secs(second));
        assert_eq!(verdict.level, Normal, "10 % is not over 10 %");
    }
}

#[test]
fn a_stall_alone_is_known_where_ram_is_not() {
    let mut judge = Judge::new(Thresholds::default());
    let alone = || Sample {
        stall: Some(Stall(5000)),
        ..Sample::default()
    };
    judge.judge(alone(), Duration::ZERO);
    let verdict = judge.judge(alone(), Duration::from_secs(2));
    assert_eq!((verdict.level, verdict.ram), (Elevated, None));
    let mut judge = Judge::new(Thresholds::default());
    for second in 0..10 {
        let impossible = Sample {
            stall: Some(Stall(u32::MAX)),
            ..Sample::default()
        };
        let verdict = judge.judge(impossible, Duration::from_secs(second));
        assert_eq!(verdict.level, Normal, "no part of a time is that large");
    }
}
