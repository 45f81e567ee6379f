//! A crash of the desktop ends no request: they end in order, and the program restarts
//! or ends. Elsewhere than on Linux no part of the toolkit ends the process, and nothing is done.

#[cfg(target_os = "linux")]
pub use display::end_in_order as display;
#[cfg(not(target_os = "linux"))]
pub use elsewhere::{Presses, display, hang, toolkit};
#[cfg(target_os = "linux")]
pub use linux::{Presses, hang, toolkit};

#[cfg(target_os = "linux")]
mod display;

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::path::PathBuf;
    use std::sync::{Arc, OnceLock};
    use std::time::Duration;

    use glib::{LogLevel, LogWriterOutput};
    use tauri::AppHandle;
    use tray_icon::menu::MenuEvent;

    use super::display::End;
    use crate::gateway_link::GatewayLink;

    /// The name that [`crate::tray`] gives the row that ends the program.
    const QUIT: &str = "quit";
    /// What runs here, also where its file is gone.
    const RUNNING: &str = "/proc/self/exe";
    /// From the wish for an end until the main thread is no longer waited for. It begins its part
    /// within milliseconds; two that end the program at once do each other no harm.
    const FOR_THE_MAIN_THREAD: Duration = Duration::from_secs(1);

    /// Keeps a fault of the toolkit from ending requests with it.
    ///
    /// Where GLib's programs meet what they cannot bear (a web process that dies while it starts is
    /// such a thing) they say so and abort the whole process. What they say is heard here first:
    /// the main thread then waits, without drawing any more, until the gateway has nothing in
    /// flight, and the program restarts, hidden. Requests on their way end as if nothing had
    /// been. Who asks for an end meanwhile gets it at once.
    ///
    /// Some parts log by `g_log`, which the default handler hears, and some in structured form, which
    /// only the writer hears. GDK's last words about a Wayland display are of the second kind, and
    /// it ends the process right after them.
    pub fn toolkit(link: &Arc<GatewayLink>) {
        let here = Arc::clone(link);
        glib::log_set_default_handler(move |domain, level, message| {
            heard(&here, level, domain.unwrap_or_default(), message);
        });
        let here = Arc::clone(link);
        glib::log_set_writer_func(move |level, fields| {
            let field = |key| {
                let of = fields.iter().find(|field| field.key() == key);
                of.and_then(|field| field.value_str()).unwrap_or_default()
            };
            heard(&here, level, field("GLIB_DOMAIN"), field("MESSAGE"));
            LogWriterOutput::Handled
        });
    }

    fn heard(link: &GatewayLink, level: LogLevel, domain: &str, message: &str) {
        let display = super::display::end(domain, message);
        if display == Some(End::Gone) {
            tracing::error!(message, "the display is gone; stopping");
            link.stop();
            return;
        }
        if level != LogLevel::Error && display.is_none() {
            tracing::debug!(domain, message, "the toolkit says");
            return;
        }
        tracing::error!(
            domain,
            message,
            "the toolkit cannot go on; restarting when idle"
        );
        link.wait_to_restart();
        link.stop();
        if link.is_asked_to_end() {
            end();
        }
        let failed = start_anew();
        tracing::error!(error = %failed, "the program was not restarted");
    }

    /// Lets an end that is asked for come although the main thread hangs: a display that takes the
    /// connection and never answers holds it up for ever.
    pub fn hang(link: &Arc<GatewayLink>) {
        let runtime = link.runtime().clone();
        let link = Arc::clone(link);
        // Gone with the gateway's thread, where the main one ends in time.
        runtime.spawn(async move {
            link.asked_to_end().await;
            tokio::time::sleep(FOR_THE_MAIN_THREAD).await;
            // The gateway's own thread cannot wait for its own end.
            let ending = std::thread::Builder::new().name("oneslot-end".to_owned());
            let ended = ending.spawn(move || {
                link.stop();
                end();
            });
            if let Err(error) = ended {
                tracing::warn!(%error, "only the main thread can end the program");
            }
        });
    }

    /// Ends the program although the main thread does not come back from the toolkit.
    #[expect(
        clippy::exit,
        clippy::disallowed_methods,
        reason = "there is no way back through the toolkit; what must end in order has ended"
    )]
    fn end() {
        std::process::exit(0);
    }

    /// Puts a new start of this program in its place, hidden; comes back only where that fails.
    ///
    /// What a new version put where its file was is what starts; where nothing is, it starts as it
    /// was.
    fn start_anew() -> io::Error {
        let installed = match crate::platform::own_file() {
            Ok(program) => replaced_by(program),
            Err(error) => error,
        };
        tracing::warn!(error = %installed, "nothing is where the program was; starting what runs");
        replaced_by(RUNNING.into())
    }

    fn replaced_by(program: PathBuf) -> io::Error {
        use std::os::unix::process::CommandExt as _;

        let shown = ["--show-panel", "--hidden"];
        let args = std::env::args_os().skip(1);
        let args = args.filter(|arg| !shown.iter().any(|shown| arg == shown));
        std::process::Command::new(program)
            .args(args)
            .arg("--hidden")
            .exec()
    }

    /// Rows of the menu that were pressed: heard on the thread that the desktop's call comes in
    /// on, since the main one may be waiting in a toolkit that fell. The wish to quit goes to the
    /// gateway from there; every other one is carried out on the main thread, as always.
    #[derive(Debug)]
    pub struct Presses(Arc<OnceLock<AppHandle>>);

    impl Presses {
        /// Listens from now on. The toolkit listens too, but only if nothing did before it: this
        /// comes before the toolkit is built.
        pub fn hear(link: &Arc<GatewayLink>) -> Self {
            let app = Arc::new(OnceLock::<AppHandle>::new());
            let (link, known) = (Arc::clone(link), Arc::clone(&app));
            MenuEvent::set_event_handler(Some(move |pressed: MenuEvent| {
                if pressed.id.as_ref() == QUIT {
                    link.ask_to_end();
                } else if let Some(app) = known.get() {
                    carry_out(app, pressed);
                }
            }));
            Self(app)
        }

        /// What is pressed from now on is this program's to carry out.
        pub fn pass_to(&self, app: &AppHandle) {
            // There is one program, and it is passed once.
            let _ = self.0.set(app.clone());
        }
    }

    fn carry_out(app: &AppHandle, pressed: MenuEvent) {
        let here = app.clone();
        let sent = app
            .run_on_main_thread(move || crate::menu_actions::pressed(&here, pressed.id.as_ref()));
        if let Err(error) = sent {
            tracing::warn!(%error, "a row of the menu was not carried out");
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::sync::Arc;

    use tauri::AppHandle;

    use crate::gateway_link::GatewayLink;

    /// Nothing to keep from ending.
    pub fn toolkit(_link: &Arc<GatewayLink>) {}

    /// The main thread does not wait there.
    pub fn hang(_link: &Arc<GatewayLink>) {}

    /// A display that goes takes no program along.
    pub fn display(_link: &Arc<GatewayLink>) {}

    /// The toolkit hears rows that are pressed.
    #[derive(Debug)]
    pub struct Presses;

    impl Presses {
        /// Hears nothing.
        pub fn hear(_link: &Arc<GatewayLink>) -> Self {
            Self
        }

        /// Passes nothing.
        pub fn pass_to(&self, _app: &AppHandle) {}
    }
}
