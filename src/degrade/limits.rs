//! From a rung to numbers: ceiling, limit, floor, reserve, granted.
//!
//! All amounts are tokens. The free functions are the steps, in the order in which they are
//! taken; [`Terms`] holds what they need for one request and takes them.

use super::{Cause, Plan, Rung};
use crate::config::Preset;

/// The least input budget preset `strict` accepts.
const STRICT_LEAST_BUDGET: u64 = 64;

/// The conditions one request is served under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// The preset.
    pub preset: Preset,
    /// The plan at dispatch.
    pub plan: Plan,
    /// The window this request gets; `None` while it is unknown.
    pub window: Option<u64>,
    /// Kept free beside prompt and answer.
    pub margin: u64,
    /// The limit the client asked for.
    pub asked: Option<u64>,
    /// What this upstream does without a limit.
    pub none_asked: NoneAsked,
}

/// What an upstream does with a request that has no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NoneAsked {
    /// It stops at its window at the latest.
    #[default]
    EndsAtWindow,
    /// It goes on for many windows, shifting its context (Ollama): a limit is always written.
    RunsOn,
}

/// What a request may generate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Grant {
    /// The limit that holds, written or not; `None` where nothing limits it.
    pub granted: Option<u64>,
    /// What was asked.
    pub asked: Option<u64>,
    /// The limit to write into the body; `None` leaves it as it is.
    pub write: Option<u64>,
    /// Why a limit is written.
    pub reason: Option<Reason>,
}

/// Why a limit was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A request is queued.
    Waiting,
    /// Memory is short.
    Pressure,
    /// The window has no more room.
    Window,
    /// The preset's own ceiling, with an empty queue.
    Preset,
}

/// The part that must stay does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overflow {
    /// Tokens that may not be dropped.
    pub needed: u64,
    /// Tokens kept free for the answer, margin included.
    pub reserved: u64,
    /// The window.
    pub window: u64,
}

/// The highest limit of a rung; `None` for as asked. With no window known, preset
/// `balanced` uses the upper ends (4096, 1024). On rung 3 nothing is dispatched; its ceiling is
/// rung 2's.
pub fn ceiling(rung: Rung, preset: Preset, window: Option<u64>) -> Option<u64> {
    match (preset, rung) {
        (Preset::Balanced, Rung::Full) => None,
        (Preset::Balanced, Rung::Shorter) => {
            Some(window.map_or(4096, |window| (window / 4).clamp(256, 4096)))
        }
        (Preset::Balanced, Rung::Short | Rung::NotNow) => {
            Some(window.map_or(1024, |window| (window / 8).clamp(128, 1024)))
        }
        (Preset::Strict, Rung::Full) => Some(256),
        (Preset::Strict, Rung::Shorter) => Some(128),
        (Preset::Strict, Rung::Short | Rung::NotNow) => Some(64),
    }
}

/// The smaller of what was asked and the ceiling; neither there: no limit.
pub fn limit(asked: Option<u64>, ceiling: Option<u64>) -> Option<u64> {
    match (asked, ceiling) {
        (Some(asked), Some(ceiling)) => Some(asked.min(ceiling)),
        (asked, ceiling) => asked.or(ceiling),
    }
}

/// The least room an answer is worth starting with.
pub fn floor(limit: Option<u64>, window: u64) -> u64 {
    limit.unwrap_or(u64::MAX).min(256).min(window / 8)
}

/// The room kept for the answer: a quarter of the window at most, lowered as far as `floor`
/// where `must` needs the room.
pub fn reserve(limit: Option<u64>, floor: u64, must: u64, margin: u64, window: u64) -> u64 {
    let wanted = limit.unwrap_or(u64::MAX).min(floor.max(window / 4));
    let room = window.saturating_sub(must).saturating_sub(margin);
    wanted.min(room.max(floor))
}

/// What may be generated behind a prompt. Never under `floor`: only an estimated prompt can be
/// that large, and it may be wrong.
pub fn granted(limit: Option<u64>, floor: u64, prompt: u64, margin: u64, window: u64) -> u64 {
    let room = window.saturating_sub(prompt).saturating_sub(margin);
    limit.unwrap_or(u64::MAX).min(room.max(floor))
}

// --- Terms ---

impl Terms {
    /// The same request with an empty queue and normal memory.
    pub fn at_rest(self) -> Self {
        Self {
            plan: Plan::default(),
            ..self
        }
    }

    /// The rung's ceiling.
    pub fn ceiling(&self) -> Option<u64> {
        ceiling(self.plan.rung, self.preset, self.window)
    }

    /// The smaller of asked and ceiling.
    pub fn limit(&self) -> Option<u64> {
        limit(self.asked, self.ceiling())
    }

    /// The least room for the answer. In `strict` that is all of its limit.
    pub fn floor(&self) -> u64 {
        match self.preset {
            Preset::Balanced => floor(self.limit(), self.window.unwrap_or(u64::MAX)),
            Preset::Strict => self.limit().unwrap_or_default(),
        }
    }

    /// The room kept for the answer beside a prompt that needs at least `must`.
    pub fn reserve(&self, must: u64) -> u64 {
        let window = self.window.unwrap_or(u64::MAX);
        match self.preset {
            Preset::Balanced => reserve(self.limit(), self.floor(), must, self.margin, window),
            Preset::Strict => self.limit().unwrap_or_default(),
        }
    }

    /// What the prompt may cost beside [`reserve`](Self::reserve); endless with no window known.
    pub fn budget(&self, must: u64) -> u64 {
        self.window.map_or(u64::MAX, |window| {
            window
                .saturating_sub(self.reserve(must))
                .saturating_sub(self.margin)
        })
    }

    /// Whether a prompt of `must`, which cannot become smaller, is too much.
    pub fn overflow(&self, must: u64) -> Option<Overflow> {
        let window = self.window?;
        let reserved = self.floor().saturating_add(self.margin);
        let over = must.saturating_add(reserved) > window;
        let cramped = match self.preset {
            Preset::Balanced => false,
            Preset::Strict => self.budget(must) < STRICT_LEAST_BUDGET,
        };
        (over || cramped).then_some(Overflow {
            needed: must,
            reserved,
            window,
        })
    }

    /// What may be generated behind `prompt` tokens. A limit is written only if it is smaller
    /// than what was asked, or if none was asked and either a ceiling applies or the upstream
    /// would run on.
    pub fn grant(&self, prompt: u64) -> Grant {
        let limit = self.limit();
        let granted = match (self.preset, self.window) {
            (Preset::Strict, _) | (Preset::Balanced, None) => limit,
            (Preset::Balanced, Some(window)) => {
                Some(granted(limit, self.floor(), prompt, self.margin, window))
            }
        };
        let wanted = match self.asked {
            Some(asked) => granted.is_some_and(|granted| granted < asked),
            None => self.ceiling().is_some() || self.none_asked == NoneAsked::RunsOn,
        };
        let write = granted.filter(|_| wanted);
        let reason = write.map(|write| self.reason(write));
        Grant {
            granted,
            asked: self.asked,
            write,
            reason,
        }
    }

    fn reason(&self, write: u64) -> Reason {
        let by_ceiling = self.ceiling().is_some_and(|ceiling| write == ceiling);
        match self.plan.cause {
            _ if !by_ceiling => Reason::Window,
            Some(Cause::Waiting) => Reason::Waiting,
            Some(Cause::Pressure) => Reason::Pressure,
            None => Reason::Preset,
        }
    }
}

// --- Grant ---

impl Grant {
    /// The value of `x-oneslot-max-tokens`; `None` where the body's limit was left as it is.
    pub fn header(&self) -> Option<String> {
        let (write, reason) = (self.write?, self.reason?);
        let asked = self
            .asked
            .map_or_else(|| "none".to_owned(), |asked| asked.to_string());
        Some(format!("{write}; asked={asked}; reason={}", reason.word()))
    }
}

// --- Reason ---

impl Reason {
    /// Its word in headers, records and logs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Pressure => "pressure",
            Self::Window => "window",
            Self::Preset => "preset",
        }
    }
}

// --- Overflow ---

impl From<Overflow> for crate::refusal::Refusal {
    fn from(overflow: Overflow) -> Self {
        Self::ContextOverflow {
            needed: overflow.needed,
            reserved: overflow.reserved,
            window: overflow.window,
        }
    }
}
