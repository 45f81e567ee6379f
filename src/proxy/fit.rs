//! Fits a chat to the window by the best counts available: the server's own, else estimates.

use std::collections::HashMap;

use crate::config::{Counting, Preset, Settings};
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

/// The server's token counts of one chat, by the messages kept: counts made before it was queued
/// are used again at its grant.
pub(super) type Counts = HashMap<Option<Vec<usize>>, u64>;

/// The terms for `chat` at its grant.
pub(super) fn terms(
    context: &Context,
    settings: &Settings,
    chat: &Chat,
    window: Option<u64>,
    kind: Option<Kind>,
    grant: Grant,
) -> Terms {
    Terms {
        preset: settings.preset,
        plan: plan_for(context, settings, chat, grant),
        window,
        margin: settings.limits.margin,
        asked: chat.asked(),
        none_asked: match kind {
            Some(Kind::Ollama) => NoneAsked::RunsOn,
            Some(Kind::LlamaCpp | Kind::LmStudio | Kind::Plain) | None => NoneAsked::EndsAtWindow,
        },
    }
}

/// Refuses a chat that can never fit by the server's own count before it is queued. `None` if that
/// is not certain.
///
/// Only a chat whose fixed part may be too long costs a count here.
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
    // Preset strict uses its own count, at the grant; a server that is not up is not asked.
    if !ready
        || settings.preset == Preset::Strict
        || link.upstream.known_kind() != Some(Kind::LlamaCpp)
        || !may_count(&settings)
    {
        return None;
    }
    let window = window_for(&settings, &link, chat).await?;
    let grant = Grant::default();
    let kind = Some(Kind::LlamaCpp);
    let terms = terms(context, &settings, chat, Some(window), kind, grant).at_rest();
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
    let tokens = count(counts, &link, chat, must).await?;
    terms.overflow(tokens).map(refusal_of)
}

/// Fits the chat: by the server's counts where it has them, else by estimates, which refuse
/// nothing.
pub(super) async fn fit(
    settings: &Settings,
    link: &UpstreamHandle,
    chat: &Chat,
    terms: Terms,
    counts: &mut Counts,
) -> Result<Fit, Overflow> {
    fault_injection::at(fault_injection::Stage::Trim);
    let rules = |certainty| FitRules {
        terms,
        trim: settings.window.trim,
        certainty,
        bytes: ByteBound::Holds,
    };
    if may_count(settings) && link.upstream.known_kind() == Some(Kind::LlamaCpp) {
        let mut fitter = Fitter::new(chat, rules(Certainty::Certain));
        loop {
            match fitter.step() {
                Step::Done(fit) => return Ok(fit),
                Step::Overflow(overflow) => return Err(overflow),
                Step::Count { keep } => match count(counts, link, chat, keep).await {
                    Some(tokens) => fitter.counted(tokens),
                    None => break,
                },
            }
        }
    }
    let counting = settings.window.counting;
    fit_by_estimate(chat, rules(Certainty::Estimate), counting, Ratio::ONE)
}

/// Fits the chat again with what the server's overflow error taught.
pub(super) fn fit_again(
    settings: &Settings,
    chat: &Chat,
    terms: Terms,
    lesson: Lesson,
) -> Result<Fit, Overflow> {
    let rules = FitRules {
        terms: Terms {
            window: lesson.window,
            ..terms
        },
        trim: settings.window.trim,
        certainty: lesson.certainty,
        // What was refused may have been within the bound: it must not be sent again.
        bytes: ByteBound::Refuted,
    };
    fit_by_estimate(chat, rules, Counting::Bytes, lesson.ratio)
}

/// The window that this chat will get; `None` while it is unknown.
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
        // Preset strict lowers every limit while a request waits.
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

/// The server's count of the kept messages; `None` if it does not answer.
async fn count(
    counts: &mut Counts,
    link: &UpstreamHandle,
    chat: &Chat,
    keep: Option<Vec<usize>>,
) -> Option<u64> {
    if let Some(tokens) = counts.get(&keep) {
        return Some(*tokens);
    }
    let edit = Edit {
        keep: keep.clone(),
        ..Edit::default()
    };
    let tokens = link.upstream.count(chat.edited(&edit)).await?;
    counts.insert(keep, tokens);
    Some(tokens)
}
