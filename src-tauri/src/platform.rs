//! What differs between systems: small parts, each with a portable fallback. The parts for macOS
//! and Windows are written from their documentation and have not been built here.

use tauri::{AppHandle, Builder, WebviewWindow, Wry};

/// Variables that must be set before the toolkit starts.
///
/// * With the first and the last a graphics driver that fails cannot end the process, which would
///   take the gateway along; without GL it is also 26 MiB smaller.
/// * WebKit's own watch on memory would read the system's tables every few seconds for as long as
///   we run, once a panel was open. What a panel holds is given back when it closes.
/// * A panel is too small for a compiler of scripts: without one its process holds 10 MiB less and
///   grows less, and none of its memory can be written and run.
#[cfg(target_os = "linux")]
const VARIABLES: [(&str, &str); 4] = [
    ("WEBKIT_DISABLE_DMABUF_RENDERER", "1"),
    ("WEBKIT_DISABLE_MEMORY_PRESSURE_MONITOR", "1"),
    ("JSC_useJIT", "0"),
    ("GDK_GL", "disable"),
];

/// Restarts this program with its variables set, where they are not: a process with threads
/// cannot change its own.
///
/// # Errors
/// The system did not start it.
#[cfg(target_os = "linux")]
pub fn with_variables() -> std::io::Result<()> {
    use std::os::unix::process::CommandExt as _;

    if VARIABLES
        .iter()
        .all(|(name, _)| std::env::var_os(name).is_some())
    {
        return Ok(());
    }
    let mut again = std::process::Command::new(std::env::current_exe()?);
    again.args(std::env::args_os().skip(1));
    for (name, value) in VARIABLES {
        if std::env::var_os(name).is_none() {
            again.env(name, value);
        }
    }
    Err(again.exec())
}

/// Elsewhere there is nothing to set.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn with_variables() -> std::io::Result<()> {
    Ok(())
}

/// Whether there is a display to draw on: asked here, since the toolkit that is built on this one
/// panics where there is none.
#[cfg(target_os = "linux")]
pub fn has_display() -> bool {
    gtk::init().is_ok()
}

/// Other systems have one in every session.
#[cfg(not(target_os = "linux"))]
pub fn has_display() -> bool {
    true
}

/// Where this program's file is, or was before another one took its place.
///
/// # Errors
/// The system does not tell.
#[cfg(target_os = "linux")]
pub fn own_file() -> std::io::Result<std::path::PathBuf> {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

    /// What the kernel puts behind the path of a program whose file was replaced.
    const REPLACED: &[u8] = b" (deleted)";

    let own = std::env::current_exe()?;
    let path = own.as_os_str().as_bytes().strip_suffix(REPLACED);
    Ok(path.map_or(own.clone(), |path| {
        std::ffi::OsString::from_vec(path.to_vec()).into()
    }))
}

/// Adds what a system needs; `second_start` is called where a plugin reports one.
pub fn plugins(builder: Builder<Wry>, second_start: fn(&AppHandle)) -> Builder<Wry> {
    #[cfg(not(target_os = "linux"))]
    let builder = builder.plugin(tauri_plugin_notification::init()).plugin(
        tauri_plugin_autostart::Builder::new()
            .app_name("OneSlot")
            .args(["--hidden"])
            .build(),
    );
    #[cfg(windows)]
    let builder = builder.plugin(tauri_plugin_single_instance::init(move |app, _, _| {
        second_start(app)
    }));
    #[cfg(not(windows))]
    let _ = second_start;
    builder
}

/// Takes the program's place on the desktop: none beside the icon.
pub fn settle(app: &AppHandle) {
    #[cfg(target_os = "macos")]
    if let Err(error) = app.set_activation_policy(tauri::ActivationPolicy::Accessory) {
        tracing::warn!(%error, "the Dock shows an icon");
    }
    #[cfg(not(target_os = "macos"))]
    let _ = app;
}

/// Calls `crashed` when the window's web process crashes.
///
/// # Errors
/// The window is gone already.
pub fn on_crash(window: &WebviewWindow, crashed: fn(&WebviewWindow)) -> tauri::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use webkit2gtk::WebViewExt as _;

        let dead = window.clone();
        window.with_webview(move |webview| {
            webview
                .inner()
                .connect_web_process_terminated(move |_, _| crashed(&dead));
        })
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (window, crashed);
        Ok(())
    }
}

/// Frees what the panel's page takes in this process when its window goes.
///
/// The library keeps a reference to the web view in a handler on the view's own manager of scripts
/// (wry 0.57, `attach_ipc_handler`), so that neither would ever go: a tenth of a megabyte and an
/// open file for each panel.
///
/// # Errors
/// The window is gone already.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "its handlers have no names to disconnect them by"
)]
pub fn let_go(window: &WebviewWindow) -> tauri::Result<()> {
    use glib::gobject_ffi::g_signal_handlers_destroy;
    use glib::prelude::{Cast as _, ObjectType as _};
    use gtk::prelude::WidgetExt as _;
    use webkit2gtk::WebViewExt as _;

    window.with_webview(|webview| {
        webview.inner().connect_destroy(|view| {
            let Some(manager) = view.user_content_manager() else {
                return;
            };
            // SAFETY: it is an object, and lives until this scope ends. Nothing calls its handlers
            // once the page is gone.
            unsafe { g_signal_handlers_destroy(manager.upcast_ref::<glib::Object>().as_ptr()) };
        });
    })
}

/// Elsewhere nothing stays.
///
/// # Errors
/// Never.
#[cfg(not(target_os = "linux"))]
pub fn let_go(_window: &WebviewWindow) -> tauri::Result<()> {
    Ok(())
}

/// How large the desktop's letters are, 1 being the usual size: on Linux the page is drawn larger
/// by as much, in a window that is not. At most 2.
#[cfg(target_os = "linux")]
pub fn letters(window: &WebviewWindow) -> f64 {
    use glib::prelude::ObjectExt as _;

    /// Dots per inch of letters of the usual size.
    const USUAL: f64 = 96.0;

    let Ok(window) = window.gtk_window() else {
        return 1.0;
    };
    let screen = window.property::<Option<glib::Object>>("screen");
    let dots = screen.map(|screen| screen.property::<f64>("resolution"));
    // A screen that has none says -1.
    dots.map_or(1.0, |dots| (dots / USUAL).clamp(1.0, 2.0))
}

/// Elsewhere windows are as large as what is in them.
#[cfg(not(target_os = "linux"))]
pub fn letters(_window: &WebviewWindow) -> f64 {
    1.0
}

/// Resolves when a signal asks the program to end; heard from the call on, not from the first
/// poll.
#[cfg(unix)]
pub fn asked_to_end() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};

    let heard = signal(SignalKind::terminate())
        .and_then(|terminate| Ok((terminate, signal(SignalKind::interrupt())?)));
    async move {
        let Ok((mut terminate, mut interrupt)) = heard else {
            // The menu can still end it.
            return std::future::pending().await;
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}

/// Where there are no such signals the menu ends it.
#[cfg(not(unix))]
pub fn asked_to_end() -> impl Future<Output = ()> {
    std::future::pending()
}
