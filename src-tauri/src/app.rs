//! The composition root: starts the gateway first, then the toolkit, and connects the parts.
//!
//! The toolkit keeps each part by its type; a part asks for those that it needs. Nothing imports
//! this module but `main`.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use oneslot::config::Sources;
use oneslot::server::Serve;
use oneslot::state::StateDir;
use tauri::{AppHandle, Manager as _, RunEvent, WindowEvent};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::args::Args;
use crate::clipboard::Clipboard;
use crate::gateway_link::{GatewayLink, Plan, Shown};
use crate::i18n::Words;
use crate::notifications::{Incidents, Notification};
use crate::preferences::Preferences;
use crate::single_instance::{self, Answer, Only, Start};
use crate::subscriptions::Subscriptions;
use crate::tray::Tray;
use crate::tray_face::{self, Face, Login, Seen, Whose};
use crate::{autostart, commands, menu_actions, panel, platform, toolkit_crash, tray, tray_host};

/// Why the program did not start.
#[derive(Debug, thiserror::Error)]
enum NotStarted {
    #[error("no home directory is known; name a settings file with --config FILE")]
    NoHome,
    #[error(transparent)]
    State(#[from] oneslot::state::StateError),
    #[error(transparent)]
    Single(#[from] single_instance::SingleError),
    #[error("cannot start the gateway's thread")]
    Thread(#[source] std::io::Error),
    #[error(transparent)]
    Words(#[from] crate::i18n::WordsError),
    #[error("no display can be opened; on a machine without one, use `oneslotd serve`")]
    NoDisplay,
    #[error("cannot start the desktop's toolkit")]
    Toolkit(#[source] tauri::Error),
}

/// Runs the program to its end.
pub fn run(args: &Args) -> ExitCode {
    match start(args) {
        Ok(code) => code,
        Err(error) => {
            let mut text = error.to_string();
            let mut cause = std::error::Error::source(&error);
            while let Some(error) = cause {
                text = format!("{text}: {error}");
                cause = error.source();
            }
            say(&text);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "there is no window to say it in")]
fn say(text: &str) {
    eprintln!("oneslot: {text}");
}

fn start(args: &Args) -> Result<ExitCode, NotStarted> {
    let path = args.state.clone().map_or_else(StateDir::usual, Ok)?;
    let state = StateDir::open(path)?;
    let only = match single_instance::start(&state)? {
        Start::First(only) => only,
        Start::Second(Answer::Shown) => return Ok(ExitCode::SUCCESS),
        Start::Second(Answer::Later) => {
            say("OneSlot is about to restart, once nothing is in flight; no panel before that");
            return Ok(ExitCode::SUCCESS);
        }
    };
    let file = args.config.clone().or_else(Sources::usual_file);
    let file = file.ok_or(NotStarted::NoHome)?;
    let plan = Plan {
        sources: Sources::with_environment(file, Some(state.good_config()), args.flags()),
        serve: if args.demo {
            Serve::Demo
        } else {
            Serve::Upstream
        },
        state: state.clone(),
    };
    let preferences = Arc::new(Preferences::open(&state));
    let words = Words::built_in()?;
    let link = Arc::new(GatewayLink::start(plan).map_err(NotStarted::Thread)?);
    toolkit_crash::toolkit(&link);
    toolkit_crash::hang(&link);
    let code = if platform::has_display() {
        toolkit_crash::display(&link);
        toolkit(args, &link, preferences, words, only).map_err(NotStarted::Toolkit)
    } else {
        Err(NotStarted::NoDisplay)
    };
    link.stop();
    code
}

#[expect(
    clippy::exit,
    clippy::disallowed_methods,
    reason = "the toolkit's macro has an exit for broken bundles"
)]
fn toolkit(
    args: &Args,
    link: &Arc<GatewayLink>,
    preferences: Arc<Preferences>,
    words: Words,
    only: Only,
) -> tauri::Result<ExitCode> {
    let presses = toolkit_crash::Presses::hear(link);
    let builder = platform::plugins(tauri::Builder::default(), panel::open);
    let running = builder
        .manage(Arc::clone(link))
        .manage(preferences)
        .manage(words)
        .manage(Tray::default())
        .manage(Clipboard::default())
        .manage(Subscriptions::default())
        .manage(panel::Crashes::default())
        .invoke_handler(commands::handler())
        .on_menu_event(|app, event| menu_actions::pressed(app, event.id().as_ref()))
        .on_tray_icon_event(tray::clicked)
        .build(tauri::generate_context!())?;
    let app = running.handle().clone();
    presses.pass_to(&app);
    platform::settle(&app);
    autostart::repair(&app);
    show_on_second_start(&app, link, &only);
    run_in_background(&app, link);
    tray_host::watch(&app, args.hidden);
    if args.show_panel {
        panel::open(&app);
    }
    let code = running.run_return(|app, event| match event {
        // Closing the panel does not end the program; the menu and signals do.
        RunEvent::ExitRequested {
            code: None, api, ..
        } => api.prevent_exit(),
        RunEvent::WindowEvent {
            event: WindowEvent::Destroyed,
            ..
        } => app.state::<Subscriptions>().end_all(),
        RunEvent::Exit => app.state::<Clipboard>().leave(),
        _ => {}
    });
    drop(only);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn show_on_second_start(app: &AppHandle, link: &Arc<GatewayLink>, only: &Only) {
    let (app, link) = (app.clone(), Arc::clone(link));
    let heard = only.hear(move || {
        if link.restarts() {
            return Answer::Later;
        }
        panel::open(&app);
        Answer::Shown
    });
    if let Err(error) = heard {
        tracing::warn!(%error, "a second start will not show the panel");
    }
}

/// Draws each new state, notifies of incidents, and ends the program when it is asked to end.
fn run_in_background(app: &AppHandle, link: &Arc<GatewayLink>) {
    let runtime = link.runtime();
    runtime.spawn(draw_all(app.clone(), link.shown()));
    let (app, link) = (app.clone(), Arc::clone(link));
    link.clone().runtime().spawn(async move {
        link.asked_to_end().await;
        app.exit(0);
    });
}

async fn draw_all(app: AppHandle, mut shown: watch::Receiver<Shown>) {
    let (icon, words) = (app.state::<Tray>(), app.state::<Words>());
    let preferences = Arc::clone(&app.state::<Arc<Preferences>>());
    let mut drawn: Option<Face> = None;
    let mut incidents = Incidents::default();
    let began = Instant::now();
    loop {
        let at = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let now = shown.borrow_and_update().clone();
        let face = face(&app, &now, &words, &preferences);
        if drawn.as_ref() != Some(&face) {
            tray::draw(&app, face.clone());
            drawn = Some(face);
        }
        let snapshot = &now.snapshot;
        if let Some(incident) = incidents.see(snapshot, at, preferences.kept().notify) {
            let language = preferences.language();
            Notification::of_incident(incident, snapshot, &words, language).send(&app);
        }
        remember_apps(&preferences, &now);
        let next = incidents.next_ms(snapshot, at);
        tokio::select! {
            changed = shown.changed() => if changed.is_err() { return },
            // What is drawn may differ from the face: the toolkit ticks a pressed row by itself.
            () = icon.redraw_asked() => drawn = None,
            () = after(next) => {}
        }
    }
}

fn remember_apps(preferences: &Arc<Preferences>, shown: &Shown) {
    if preferences.note_apps(&shown.snapshot) {
        let preferences = Arc::clone(preferences);
        // A disk may be slow, and this is the gateway's thread.
        tokio::task::spawn_blocking(move || {
            if let Err(error) = preferences.keep() {
                tracing::warn!(%error, "the apps seen are not remembered");
            }
        });
    }
}

fn face(app: &AppHandle, shown: &Shown, words: &Words, preferences: &Preferences) -> Face {
    let login = if autostart::starts(app) {
        Login::Starts
    } else {
        Login::Stays
    };
    tray_face::face(&Seen {
        snapshot: &shown.snapshot,
        gateway: shown.whose.unwrap_or(Whose::Own),
        login,
        words,
        language: preferences.language(),
        zone: &TimeZone::system(),
    })
}

async fn after(ms: Option<u64>) {
    match ms {
        Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
        None => std::future::pending().await,
    }
}
