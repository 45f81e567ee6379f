//! From samples to a level: two agreeing samples to rise, a quiet period to fall.
//!
//! Pure: when a sample was taken is an argument. What is not known never raises a level, and a
//! machine that has been full for a while without getting fuller is served again, shortly. What
//! one sample alone means is said in [`crate::memory::thresholds`].

use std::collections::VecDeque;
use std::time::Duration;

use super::{GIB, Level, MIB, Reading};
use crate::memory::thresholds::{Look, Sample};
use crate::telemetry::message::Fact;

/// A drop in the available part that counts as growing worse, in millionths of the total: 1 %.
const WORSE: u32 = 10_000;

/// Where a level begins: under both numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// Available memory under this part of the total, in percent, and …
    pub percent: u8,
    /// … under this many bytes.
    pub bytes: u64,
}

/// Where the levels begin, and how slowly they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thresholds {
    /// From here on answers get shorter.
    pub elevated: Threshold,
    /// From here on answers get much shorter.
    pub high: Threshold,
    /// From here on nothing is dispatched.
    pub critical: Threshold,
    /// Time lost to waiting for memory, in hundredths of a percent, over which the level that
    /// RAM means is one higher.
    pub stalled: u32,
    /// Free memory of the model's graphics card, in bytes, under which it is elevated.
    pub vram_elevated: u64,
    /// The same for high; a card alone never means critical.
    pub vram_high: u64,
    /// Both only if that much, in bytes, went to others since the model was loaded: a card that
    /// its model fills is as it should be.
    pub vram_fall: u64,
    /// Readings in a row that must agree before a level rises; 0 means 1.
    pub rise_readings: u32,
    /// From the last reading at a level until the level falls; zero falls with the next reading
    /// that is better.
    pub fall_quiet: Duration,
    /// From when critical last grew worse until it counts as high.
    pub critical_holds: Duration,
}

/// The level now, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// How short memory is.
    pub level: Level,
    /// The reading that caused the level; none while normal.
    pub cause: Option<Fact>,
    /// The RAM just judged; none if it could not be true.
    pub ram: Option<Reading>,
}

/// Judges one reading after the other.
#[derive(Debug)]
pub struct Judge {
    thresholds: Thresholds,
    /// The level before standing still at critical is allowed for.
    level: Level,
    /// The last looks in a row, oldest first: as many as must agree.
    latest: VecDeque<Look>,
    /// For each level the last look that was at least as bad.
    seen: [Option<Seen>; Level::ALL.len()],
    /// How bad it got since it was critical; ends below high, so that memory which hovers
    /// around the threshold is one trouble and not many.
    trouble: Option<Trouble>,
}

#[derive(Debug, Clone)]
struct Seen {
    at: Duration,
    look: Look,
}

#[derive(Debug)]
struct Trouble {
    /// The smallest part available when it last grew worse, in millionths.
    worst: u32,
    /// When that was.
    since: Duration,
}

impl Judge {
    /// A judge that has seen nothing yet: normal.
    pub fn new(thresholds: Thresholds) -> Self {
        Self {
            thresholds,
            level: Level::Normal,
            latest: VecDeque::new(),
            seen: [const { None }; Level::ALL.len()],
            trouble: None,
        }
    }

    /// Judges RAM alone, as it was read at `now`; see [`Self::judge`].
    pub fn read(&mut self, readings: impl IntoIterator<Item = Reading>, now: Duration) -> Verdict {
        let sample = Sample {
            ram: readings.into_iter().collect(),
            ..Sample::default()
        };
        self.judge(sample, now)
    }

    /// Judges memory as it was sampled at `now`, a time that does not run backwards. Of several
    /// readings of RAM taken together, of the machine and of groups with a limit, the worst
    /// counts; none, or none that can be true, means unknown.
    pub fn judge(&mut self, sample: Sample, now: Duration) -> Verdict {
        let look = self.thresholds.look(sample);
        let ram = look.as_ref().and_then(|look| look.ram);
        match look {
            Some(look) => self.note(look, now),
            // An unknown reading agrees with nothing.
            None => self.latest.clear(),
        }
        self.fall(now);
        let level = self.level_allowing_for_standstill(now);
        Verdict {
            level,
            cause: self.cause(level),
            ram,
        }
    }

    fn note(&mut self, look: Look, now: Duration) {
        for at_least in Level::ALL.into_iter().filter(|&it| it <= look.level) {
            let look = look.clone();
            self.seen[at_least as usize] = Some(Seen { at: now, look });
        }
        let needed = usize::try_from(self.thresholds.rise_readings.max(1)).unwrap_or(usize::MAX);
        self.latest.push_back(look);
        if self.latest.len() > needed {
            self.latest.pop_front();
        }
        if self.latest.len() == needed {
            self.rise(now);
        }
    }

    /// Goes up to the mildest of the latest readings, on which all of them agree. Growing worse
    /// within critical is a rise too.
    fn rise(&mut self, now: Duration) {
        let levels = self.latest.iter().map(|look| look.level);
        self.level = self.level.max(levels.min().unwrap_or_default());
        let share = self.latest.iter().map(Look::share).max();
        let share = share.unwrap_or(u32::MAX);
        let is_worse = match &self.trouble {
            Some(trouble) => share.saturating_add(WORSE) < trouble.worst,
            None => self.level == Level::Critical,
        };
        if is_worse {
            self.trouble = Some(Trouble {
                worst: share,
                since: now,
            });
        }
    }

    /// Falls to the worst level seen within the quiet period. What is seen right now always
    /// counts: without a quiet period a level falls at once, and rises all the same.
    fn fall(&mut self, now: Duration) {
        let quiet = self.thresholds.fall_quiet;
        let recent = Level::ALL.into_iter().rev().find(|&level| {
            self.seen[level as usize]
                .as_ref()
                .is_some_and(|seen| seen.at == now || now.saturating_sub(seen.at) < quiet)
        });
        self.level = self.level.min(recent.unwrap_or_default());
        if self.level < Level::High {
            self.trouble = None;
        }
    }

    fn level_allowing_for_standstill(&self, now: Duration) -> Level {
        let holds = self.thresholds.critical_holds;
        match (self.level, &self.trouble) {
            (Level::Critical, Some(trouble)) if now.saturating_sub(trouble.since) >= holds => {
                Level::High
            }
            (level, _) => level,
        }
    }

    fn cause(&self, shown: Level) -> Option<Fact> {
        if shown == Level::Normal {
            return None;
        }
        let seen = self.seen[self.level as usize].as_ref()?;
        Some(seen.look.cause.fact())
    }
}

impl Thresholds {
    /// The level one reading alone would mean.
    pub fn level(&self, reading: &Reading) -> Level {
        if self.critical.holds(reading) {
            Level::Critical
        } else if self.high.holds(reading) {
            Level::High
        } else if self.elevated.holds(reading) {
            Level::Elevated
        } else {
            Level::Normal
        }
    }
}

/// Chosen, not measured.
impl Default for Thresholds {
    fn default() -> Self {
        let under = |percent, bytes| Threshold { percent, bytes };
        Self {
            elevated: under(15, 3 * GIB),
            high: under(8, 3 * GIB / 2),
            critical: under(4, 600 * MIB),
            stalled: 1000,
            vram_elevated: 700 * MIB,
            vram_high: 400 * MIB,
            vram_fall: 256 * MIB,
            rise_readings: 2,
            fall_quiet: Duration::from_secs(30),
            critical_holds: Duration::from_secs(60),
        }
    }
}

impl Threshold {
    fn holds(&self, reading: &Reading) -> bool {
        reading.available < self.bytes && reading.share() < u32::from(self.percent) * 10_000
    }
}
