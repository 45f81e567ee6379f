//! The fitting of one chat, as steps that ask for counts.
//!
//! The whole chat is counted first. If it does not fit, what must stay is counted; then the
//! smallest cut that fits is searched. At most eight counts. A caller without a tokenizer
//! answers with estimates and says so: then nothing is refused, all that may go goes, and the
//! server has the last word.

use super::cut_points::{Cut, cuts};
use super::search::{Next, Search};
use super::strict::strict_trim;
use super::tokens::{Ratio, estimate, outside_cost, surely_fits};
use super::turns::Units;
use crate::config::{Counting, Preset, Trim};
use crate::degrade::{Grant, NoneAsked, Overflow, Terms};
use crate::request::Chat;

/// How far a count may be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// By the server's own count, or weights learned from it: it may refuse.
    Certain,
    /// By an estimate: it refuses nothing.
    Estimate,
}

/// Whether a chat whose bytes already fit is taken to fit without a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ByteBound {
    /// It is: no tokenizer makes more tokens than there are bytes.
    #[default]
    Holds,
    /// The upstream has refused such a chat, so the window must be another: everything is
    /// counted.
    Refuted,
}

/// What a chat is fitted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FitRules {
    /// Window, margin, limits.
    pub terms: Terms,
    /// How it is cut.
    pub trim: Trim,
    /// What the counts are worth.
    pub certainty: Certainty,
    /// Whether bytes may stand for a count; [`ByteBound::Refuted`] after an overflow.
    pub bytes: ByteBound,
}

/// What the fitter wants, or found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The tokens of the chat with only these messages (`None`: as it is), to be given to
    /// [`Fitter::counted`].
    Count {
        /// Indices of the messages to count.
        keep: Option<Vec<usize>>,
    },
    /// The chat fits like this.
    Done(Fit),
    /// What must stay does not fit.
    Overflow(Overflow),
}

/// How a chat is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fit {
    /// Indices of the messages to send, in order; `None`: all, as they stand.
    pub keep: Option<Vec<usize>>,
    /// Tokens of the chat as it came.
    pub prompt_before: u64,
    /// Tokens of the chat as it is sent.
    pub prompt_after: u64,
    /// What the two are worth; an estimate is shown with `~`.
    pub certainty: Certainty,
    /// What the prompt might cost; `u64::MAX` with no window known.
    pub budget: u64,
    /// What was kept for the answer beside it.
    pub reserve: u64,
    /// What may be generated, and what to write about it.
    pub grant: Grant,
    /// How many messages are not sent.
    pub dropped: usize,
}

/// The fitting of one chat.
#[derive(Debug, Clone)]
pub struct Fitter {
    rules: FitRules,
    /// The terms the history is cut by: the rung's own, or at rest for steady cuts.
    cut_by: Terms,
    units: Units,
    cuts: Vec<Cut>,
    messages: usize,
    stage: Stage,
}

#[derive(Debug, Clone)]
enum Stage {
    Whole,
    Must {
        whole: u64,
    },
    Between {
        whole: u64,
        must: u64,
        search: Search,
    },
    Done(Fit),
    Overflow(Overflow),
}

impl Fitter {
    /// A fitting of `chat`, with nothing counted yet.
    pub fn new(chat: &Chat, rules: FitRules) -> Self {
        let cut_by = match rules.trim {
            Trim::Steady => rules.terms.at_rest(),
            Trim::Minimal | Trim::Off => rules.terms,
        };
        let units = match rules.trim {
            Trim::Steady | Trim::Minimal => Units::of(chat),
            Trim::Off => Units::none(chat),
        };
        let cuts = cuts(chat, &units, rules.trim, cut_by.budget(0));
        let messages = chat.messages().len();
        let mut fitter = Self {
            rules,
            cut_by,
            units,
            cuts,
            messages,
            stage: Stage::Whole,
        };
        fitter.stage = match rules.terms.preset {
            Preset::Strict => strict(chat, &rules),
            Preset::Balanced if fitter.needs_no_count(chat) => {
                let tokens = estimate(chat, None, Counting::Bytes, Ratio::ONE);
                fitter.rules.certainty = Certainty::Estimate;
                Stage::Done(fitter.found(0, tokens, tokens, cut_by.budget(0)))
            }
            Preset::Balanced => Stage::Whole,
        };
        fitter
    }

    /// What is wanted next; the same until [`counted`](Self::counted).
    pub fn step(&self) -> Step {
        match &self.stage {
            Stage::Whole => Step::Count { keep: None },
            Stage::Must { .. } => Step::Count {
                keep: Some(self.units.kept(self.units.len())),
            },
            Stage::Between {
                whole,
                must,
                search,
            } => match search.next() {
                Next::Count { units } => Step::Count {
                    keep: Some(self.units.kept(units)),
                },
                Next::Found { units, tokens } => {
                    Step::Done(self.found(units, *whole, tokens, self.cut_by.budget(*must)))
                }
            },
            Stage::Done(fit) => Step::Done(fit.clone()),
            Stage::Overflow(overflow) => Step::Overflow(*overflow),
        }
    }

    /// Takes the count [`step`](Self::step) asked for. After the end it changes nothing.
    pub fn counted(&mut self, tokens: u64) {
        let next = match &mut self.stage {
            Stage::Whole => Some(self.after_whole(tokens)),
            Stage::Must { whole } => {
                let whole = *whole;
                Some(self.after_must(whole, tokens))
            }
            Stage::Between { search, .. } => {
                if matches!(search.next(), Next::Count { .. }) {
                    search.counted(tokens);
                }
                None
            }
            Stage::Done(_) | Stage::Overflow(_) => None,
        };
        if let Some(next) = next {
            self.stage = next;
        }
    }

    fn after_whole(&self, whole: u64) -> Stage {
        let budget = self.cut_by.budget(0);
        if whole <= budget {
            Stage::Done(self.found(0, whole, whole, budget))
        } else if self.units.is_empty() {
            self.after_must(whole, whole)
        } else {
            Stage::Must { whole }
        }
    }

    fn after_must(&self, whole: u64, must: u64) -> Stage {
        if self.rules.certainty == Certainty::Certain
            && let Some(overflow) = self.rules.terms.overflow(must)
        {
            return Stage::Overflow(overflow);
        }
        let budget = self.cut_by.budget(must);
        if self.cuts.is_empty() || whole <= budget {
            return Stage::Done(self.found(0, whole, whole, budget));
        }
        let search = Search::new(self.cuts.clone(), whole, must, budget);
        Stage::Between {
            whole,
            must,
            search,
        }
    }

    /// Whether the chat fits whatever its tokens are, and the limit does not depend on them.
    fn needs_no_count(&self, chat: &Chat) -> bool {
        let terms = &self.rules.terms;
        let Some(window) = terms.window else {
            return true;
        };
        if self.rules.bytes == ByteBound::Refuted {
            return false;
        }
        let answer = match (terms.limit(), terms.none_asked) {
            (Some(limit), _) => limit,
            (None, NoneAsked::EndsAtWindow) => 0,
            (None, NoneAsked::RunsOn) => return false,
        };
        let room = window.saturating_sub(answer).saturating_sub(terms.margin);
        surely_fits(chat, room.min(self.cut_by.budget(0)))
    }

    fn found(&self, units: usize, before: u64, after: u64, budget: u64) -> Fit {
        let keep = (units > 0).then(|| self.units.kept(units));
        Fit {
            dropped: keep.as_ref().map_or(0, |keep| self.messages - keep.len()),
            keep,
            prompt_before: before,
            prompt_after: after,
            certainty: self.rules.certainty,
            budget,
            reserve: kept_free(&self.rules.terms, budget),
            grant: self.rules.terms.grant(after),
        }
    }
}

/// What a budget leaves for the answer.
fn kept_free(terms: &Terms, budget: u64) -> u64 {
    terms.window.map_or(0, |window| {
        window.saturating_sub(budget).saturating_sub(terms.margin)
    })
}

/// Preset `strict` trusts its own count.
fn strict(chat: &Chat, rules: &FitRules) -> Stage {
    let terms = &rules.terms;
    let outside = outside_cost(chat, Counting::Scalar);
    let cost = |keep| estimate(chat, keep, Counting::Scalar, Ratio::ONE);
    let budget = terms.budget(0);
    let all = chat.messages().len();
    let keep = match rules.trim {
        Trim::Off => Ok((0..all).collect()),
        Trim::Steady | Trim::Minimal => {
            strict_trim(chat.messages(), budget.saturating_sub(outside))
        }
    };
    let keep: Vec<usize> = match keep {
        Ok(keep) => keep,
        Err(long) => {
            // It is over its budget, whatever the window.
            let reserved = terms.reserve(0).saturating_add(terms.margin);
            let window = terms.window.unwrap_or(u64::MAX);
            let needed = long.needed.saturating_add(outside);
            return Stage::Overflow(Overflow {
                needed,
                reserved,
                window,
            });
        }
    };
    let after = cost(Some(&keep));
    if let Some(overflow) = terms.overflow(after) {
        return Stage::Overflow(overflow);
    }
    let changed = !keep.iter().copied().eq(0..all);
    Stage::Done(Fit {
        prompt_before: cost(None),
        prompt_after: after,
        certainty: Certainty::Estimate,
        budget,
        reserve: terms.reserve(0),
        grant: terms.grant(after),
        dropped: all - keep.len(),
        keep: changed.then_some(keep),
    })
}

/// Fits a chat with counts that are available at once.
///
/// # Errors
///
/// [`Overflow`] when what must stay does not fit by a count that is certain.
pub fn fit(
    chat: &Chat,
    rules: FitRules,
    mut count: impl FnMut(Option<&[usize]>) -> u64,
) -> Result<Fit, Overflow> {
    let mut fitter = Fitter::new(chat, rules);
    loop {
        match fitter.step() {
            Step::Count { keep } => fitter.counted(count(keep.as_deref())),
            Step::Done(fit) => return Ok(fit),
            Step::Overflow(overflow) => return Err(overflow),
        }
    }
}

/// Fits a chat by estimates scaled with `ratio`.
///
/// # Errors
///
/// [`Overflow`] when `rules` call the estimates certain and what must stay does not fit.
pub fn fit_by_estimate(
    chat: &Chat,
    rules: FitRules,
    counting: Counting,
    ratio: Ratio,
) -> Result<Fit, Overflow> {
    fit(chat, rules, |keep| estimate(chat, keep, counting, ratio))
}
