//! The program put together: the gateway first, then the toolkit, then what is drawn.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::tz::TimeZone;
use oneslot::config::Sources;
use oneslot::server::Serve;
use oneslot::state::StateDir;
use tauri::{AppHandle, Manager as _, RunEvent, WindowEvent};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::args::Args;
use crate::clipboard::Clipboard;
use crate::gateway_link::{Plan, Serving, Shown};
use crate::i18n::Words;
use crate::incidents::{Incident, Incidents};
use crate::preferences::Shell;
use crate::single_instance::{self, Answer, Only, Start};
use crate::subscriptions::Watches;
use crate::tray::Tray;
use crate::tray_face::{self, Face, Login, Seen, Whose};
use crate::{autostart, commands, notifications, panel, toolkit_crash, tray_host};

/// What everything in the program shares; the toolkit keeps it.
#[derive(Debug)]
pub struct App {
    /// The gateway.
    pub serving: Arc<Serving>,
    /// What the tray itself keeps.
    pub shell: Arc<Shell>,
    /// Panels that look.
    pub watches: Watches,
    /// The icon.
    pub tray: Tray,
    /// Where addresses are copied to.
    pub clipboard: Clipboard,
    words: Words,
    redraw: Notify,
    crashed: Mutex<Option<jiff::Timestamp>>,
}

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
            say(
                "OneSlot runs and starts anew as soon as nothing is in flight; no panel before that",
            );
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
    let app = App {
        shell: Arc::new(Shell::open(&state)),
        words: Words::built_in()?,
        serving: Arc::new(Serving::start(plan).map_err(NotStarted::Thread)?),
        watches: Watches::default(),
        tray: Tray::default(),
        clipboard: Clipboard::default(),
        redraw: Notify::new(),
        crashed: Mutex::new(None),
    };
    let serving = Arc::clone(&app.serving);
    toolkit_crash::toolkit(&serving);
    toolkit_crash::hang(&serving);
    let code = if crate::platform::has_display() {
        toolkit_crash::display(&serving);
        toolkit(args, app, only).map_err(NotStarted::Toolkit)
    } else {
        Err(NotStarted::NoDisplay)
    };
    serving.stop();
    code
}

#[expect(
    clippy::exit,
    clippy::disallowed_methods,
    reason = "the toolkit's macro holds a way out for broken bundles"
)]
fn toolkit(args: &Args, app: App, only: Only) -> tauri::Result<ExitCode> {
    let serving = Arc::clone(&app.serving);
    let presses = toolkit_crash::Presses::hear(&serving);
    let builder = tauri::Builder::default();
    let builder = crate::platform::plugins(builder);
    let running = builder
        .manage(app)
        .invoke_handler(commands::handler())
        .on_menu_event(|app, event| crate::tray::pressed(app, event.id().as_ref()))
        .on_tray_icon_event(crate::tray::clicked)
        .build(tauri::generate_context!())?;
    let handle = running.handle().clone();
    presses.pass_to(&handle);
    crate::platform::settle(&handle);
    autostart::repair(&handle);
    let show = handle.clone();
    let heard = only.hear(move || {
        if serving.starts_anew() {
            return Answer::Later;
        }
        panel::open(&show);
        Answer::Shown
    });
    if let Err(error) = heard {
        tracing::warn!(%error, "a second start will not show the panel");
    }
    follow(&handle);
    tray_host::watch(&handle, args.hidden);
    if args.show_panel {
        panel::open(&handle);
    }
    let code = running.run_return(|app, event| match event {
        // Closing the panel is not the end; the menu and signals say when it is.
        RunEvent::ExitRequested {
            code: None, api, ..
        } => api.prevent_exit(),
        RunEvent::WindowEvent {
            event: WindowEvent::Destroyed,
            ..
        } => App::of(app).inner().watches.end_all(),
        RunEvent::Exit => App::of(app).inner().clipboard.leave(),
        _ => {}
    });
    drop(only);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Draws each new state, tells of incidents, and ends the program when it is asked to.
fn follow(app: &AppHandle) {
    let own = App::of(app);
    let runtime = own.serving.runtime();
    runtime.spawn(draw_all(app.clone(), own.serving.shown()));
    let (serving, app) = (Arc::clone(&own.serving), app.clone());
    runtime.spawn(async move {
        serving.asked_to_end().await;
        app.exit(0);
    });
}

async fn draw_all(app: AppHandle, mut shown: tokio::sync::watch::Receiver<Shown>) {
    let mut drawn: Option<Face> = None;
    let mut incidents = Incidents::default();
    let began = Instant::now();
    loop {
        let at = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let now = shown.borrow_and_update().clone();
        let own = App::of(&app);
        let face = own.face(&app, &now);
        if drawn.as_ref() != Some(&face) {
            crate::tray::draw(&app, face.clone());
            drawn = Some(face);
        }
        let told = incidents.see(&now.snapshot, at, own.shell.kept().notify);
        if let Some(incident) = told {
            notifications::tell(&app, &own.incident(incident, &now));
        }
        if own.shell.note_apps(&now.snapshot) {
            let shell = Arc::clone(&own.shell);
            // A disk may take its time, and this is the gateway's thread.
            tokio::task::spawn_blocking(move || {
                if let Err(error) = shell.keep() {
                    tracing::warn!(%error, "the apps seen are not remembered");
                }
            });
        }
        let next = incidents.next_ms(&now.snapshot, at);
        tokio::select! {
            changed = shown.changed() => if changed.is_err() { return },
            // What is drawn may not be what it was: the toolkit ticks a pressed row by itself.
            () = own.redraw.notified() => drawn = None,
            () = after(next) => {}
        }
    }
}

async fn after(ms: Option<u64>) {
    match ms {
        Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
        None => std::future::pending().await,
    }
}

/// Words of a notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// What happened.
    pub title: String,
    /// What it means.
    pub text: String,
}

impl App {
    /// The one that the toolkit keeps.
    pub fn of(app: &AppHandle) -> tauri::State<'_, Self> {
        app.state::<Self>()
    }

    /// Draws again although the gateway changed nothing.
    pub fn redraw(&self) {
        self.redraw.notify_one();
    }

    /// Notes that the panel's web process died. Gives whether it may be opened again: one that
    /// dies twice in a short while stays closed until a person asks.
    pub fn may_reopen(&self) -> bool {
        let now = jiff::Timestamp::now();
        let mut crashed = self.crashed.lock().unwrap_or_else(PoisonError::into_inner);
        let before = crashed.replace(now);
        before.is_none_or(|before| (now - before).as_secs().abs() > 30)
    }

    fn face(&self, app: &AppHandle, shown: &Shown) -> Face {
        let starts = autostart::starts(app);
        let zone = TimeZone::system();
        tray_face::face(&Seen {
            snapshot: &shown.snapshot,
            gateway: shown.whose.unwrap_or(Whose::Own),
            login: if starts { Login::Starts } else { Login::Stays },
            words: &self.words,
            language: self.shell.language(),
            zone: &zone,
        })
    }

    fn incident(&self, incident: Incident, shown: &Shown) -> Told {
        let language = self.shell.language();
        let server = shown.snapshot.upstream.kind.clone();
        let server = server.unwrap_or_else(|| self.words.say(language, "some.server", &[]));
        let cause = shown.snapshot.pressure.cause.as_ref();
        let cause = cause.map(|cause| self.words.message(language, cause));
        let cause = cause.unwrap_or_default();
        let places = [("server", server.as_str()), ("cause", cause.as_str())];
        let text = match incident {
            Incident::NotServing if !tray_face::is_port_taken(&shown.snapshot) => "failed",
            Incident::Down | Incident::Memory | Incident::NoServer | Incident::NotServing => "text",
        };
        let say = |part| {
            let key = format!("notify.{}.{part}", incident.key());
            self.words.say(language, &key, &places)
        };
        Told {
            title: say("title"),
            text: say(text),
        }
    }

    /// Words for a wish that was not carried out: what a person pressed, and why nothing came of
    /// it.
    pub fn refusal(&self, key: &str, fault: &crate::gateway_link::Fault) -> Told {
        let language = self.shell.language();
        Told {
            title: self.words.say(language, key, &[]),
            text: self.words.message(language, &fault.message),
        }
    }
}
