//! Fitting a chat by the best counts at hand: the server's own, else estimates.

use std::collections::HashMap;

use crate::config::{Counting, Preset, Settings, Trim};
use crate::context::Context;
use crate::degrade::{self, Ladder, NoneAsked, Overflow, Plan, QueueExempt, Reasoning, Terms};
use crate::fault_injection;
use crate::refusal::Refusal;
use crate::request::{Chat, Edit};
use crate::scheduler::Grant;
use crate::scheduler::health::State;
use crate::upstream::handle::UpstreamHandle;
use crate::upstream::{Kind, WindowReading};
use crate::window::{
    ByteBound, Certainty, Fit, FitRules, Fitter, Lesson, Ratio, Step, Units, fit_by_estimate,
    surely_fits,
};

/// The server's counts of this chat so far, by the messages kept: a chat that was counted before
/// it joined the line is not counted again at its turn.
#[derive(Debug, Default)]
pub(super) struct Counts {
    known: HashMap<Option<Vec<usize>>, u64>,
}

/// What a fit goes by, apart from the chat.
pub(super) struct Conditions {
    /// Terms of the answer.
    pub terms: Terms,
    /// How it is cut.
    pub trim: Trim,
}

impl Conditions {
    /// The conditions for `chat` as things stand at its grant.
    pub(super) fn of(
        context: &Context,
        settings: &Settings,
        chat: &Chat,
        window: Option<u64>,
        kind: Option<Kind>,
        grant: Grant,
    ) -> Self {
        let plan = plan_for(context, settings, chat, grant);
        let none_asked = match kind {
            Some(Kind::Ollama) => NoneAsked::RunsOn,
            Some(Kind::LlamaCpp | Kind::LmStudio | Kind::Plain) | None => NoneAsked::EndsAtWindow,
        };
        let terms = Terms {
            preset: settings.preset,
            plan,
            window,
            margin: settings.limits.margin,
            asked: chat.asked(),
            none_asked,
        };
        Self {
            terms,
            trim: settings.window.trim,
        }
    }
}

/// Refuses at once what can never fit by the server's own count, so that it does not wait in
/// line for its refusal. Says nothing where that is not certain.
///
/// Only a chat whose fixed part might really be too long costs a count here.
pub(super) async fn never_fits(
    context: &Context,
    chat: &Chat,
    counts: &mut Counts,
) -> Option<Refusal> {
    let settings = context.settings();
    let ready = context
        .scheduler
        .read(|scheduler, _, _| scheduler.health().state() == State::Ready);
    let link = context.link()?;
    // Preset strict goes by its own count, at its turn; a server that is not up is not asked.
    if !ready
        || settings.preset == Preset::Strict
        || link.upstream.known_kind() != Some(Kind::LlamaCpp)
        || !may_count(&settings)
    {
        return None;
    }
    let window = window_for(&settings, &link, chat).await?;
    let grant = Grant::default();
    let Conditions { terms, .. } = Conditions::of(
        context,
        &settings,
        chat,
        Some(window),
        Some(Kind::LlamaCpp),
        grant,
    );
    let terms = terms.at_rest();
    let room = window
        .saturating_sub(terms.floor())
        .saturating_sub(terms.margin);
    if surely_fits(chat, room) {
        return None;
    }
    let units = Units::of(chat);
    let must = (!units.is_empty()).then(|| units.kept(units.len()));
    let edit = Edit {
        keep: must.clone(),
        ..Edit::default()
    };
    if must.is_some() {
        let body = chat.edited(&edit);
        if Chat::read(body).is_ok_and(|must| surely_fits(&must, room)) {
            return None;
        }
    }
    let tokens = counts.ask(&link, chat, must).await?;
    terms.overflow(tokens).map(refusal_of)
}

/// Fits the chat: by the server's counts where it gives them, else by estimates that refuse
/// nothing.
pub(super) async fn fit(
    settings: &Settings,
    link: &UpstreamHandle,
    chat: &Chat,
    conditions: &Conditions,
    counts: &mut Counts,
) -> Result<Fit, Overflow> {
    fault_injection::at(fault_injection::Stage::Trim);
    let rules = |certainty| FitRules {
        terms: conditions.terms,
        trim: conditions.trim,
        certainty,
        bytes: ByteBound::Holds,
    };
    if may_count(settings) && link.upstream.known_kind() == Some(Kind::LlamaCpp) {
        let mut fitter = Fitter::new(chat, rules(Certainty::Certain));
        loop {
            match fitter.step() {
                Step::Done(fit) => return Ok(fit),
                Step::Overflow(overflow) => return Err(overflow),
                Step::Count { keep } => match counts.ask(link, chat, keep).await {
                    Some(tokens) => fitter.counted(tokens),
                    None => break,
                },
            }
        }
    }
    let counting = settings.window.counting;
    fit_by_estimate(chat, rules(Certainty::Estimate), counting, Ratio::ONE)
}

/// Fits the chat again by what an overflow taught.
pub(super) fn fit_again(
    chat: &Chat,
    conditions: &Conditions,
    lesson: Lesson,
) -> Result<Fit, Overflow> {
    let terms = Terms {
        window: lesson.window,
        ..conditions.terms
    };
    let rules = FitRules {
        terms,
        trim: conditions.trim,
        certainty: lesson.certainty,
        // What was refused may have been within the bound: it is not to be sent again.
        bytes: ByteBound::Refuted,
    };
    fit_by_estimate(chat, rules, Counting::Bytes, lesson.ratio)
}

/// The window this chat will really get; `None` while nobody knows.
pub(super) async fn window_for(
    settings: &Settings,
    link: &UpstreamHandle,
    chat: &Chat,
) -> Option<u64> {
    if let crate::config::Context::Tokens(tokens) = settings.window.context {
        return Some(tokens);
    }
    let model = chat.model().or(settings.upstream.model.as_deref());
    match link.window(model).await {
        WindowReading::Loaded { tokens, .. } => Some(tokens),
        WindowReading::NotLoaded | WindowReading::Unknown => assumed(settings),
    }
}

/// Only preset `strict` acts on the assumed window.
pub(super) fn assumed(settings: &Settings) -> Option<u64> {
    match settings.preset {
        Preset::Strict => Some(settings.window.fallback),
        Preset::Balanced => None,
    }
}

/// The refusal of what cannot fit.
pub(super) fn refusal_of(overflow: Overflow) -> Refusal {
    Refusal::ContextOverflow {
        needed: overflow.needed,
        reserved: overflow.reserved,
        window: overflow.window,
    }
}

fn plan_for(context: &Context, settings: &Settings, chat: &Chat, grant: Grant) -> Plan {
    let ladder = if settings.degrade.ladder {
        Ladder::On
    } else {
        Ladder::Off
    };
    let exempt = match settings.preset {
        // The article lowers its limit for everyone while anyone waits.
        Preset::Strict => QueueExempt::No,
        Preset::Balanced => {
            let reasoning = match context.thinking.contains(chat.model()) {
                true => Reasoning::Seen,
                false => Reasoning::Unseen,
            };
            degrade::exempt(chat, reasoning)
        }
    };
    degrade::plan(grant.waiting, grant.pressure, exempt, ladder)
}

fn may_count(settings: &Settings) -> bool {
    match settings.window.counting {
        Counting::Auto => settings.preset != Preset::Strict,
        Counting::Bytes | Counting::Scalar => false,
    }
}

impl Counts {
    async fn ask(
        &mut self,
        link: &UpstreamHandle,
        chat: &Chat,
        keep: Option<Vec<usize>>,
    ) -> Option<u64> {
        if let Some(tokens) = self.known.get(&keep) {
            return Some(*tokens);
        }
        let edit = Edit {
            keep: keep.clone(),
            ..Edit::default()
        };
        let tokens = link.upstream.count(chat.edited(&edit)).await?;
        self.known.insert(keep, tokens);
        Some(tokens)
    }
}
