//! Starting at login: a choice that a person makes, hidden, and gone without a trace when revoked.
//!
//! On Linux the entry is written here, since the usual plugin looks past `XDG_CONFIG_HOME` and
//! leaves a path with a space unquoted. Elsewhere the plugin does it. Not here: who asks for it
//! ([`crate::menu_actions`], [`crate::commands`]).

use tauri::AppHandle;

use crate::gateway_link::Fault;

/// Whether this program is started at login.
pub fn starts(app: &AppHandle) -> bool {
    #[cfg(target_os = "linux")]
    {
        let _ = app;
        entry::place().is_some_and(|place| entry::is_on(&place))
    }
    #[cfg(not(target_os = "linux"))]
    {
        use tauri_plugin_autostart::ManagerExt as _;
        app.autolaunch().is_enabled().unwrap_or(false)
    }
}

/// Starts at login from now on, or not any more.
///
/// # Errors
/// The system did not take it.
pub fn set(app: &AppHandle, starts: bool) -> Result<(), Fault> {
    #[cfg(target_os = "linux")]
    {
        let _ = app;
        entry::set(starts).map_err(|error| Fault::failed(&error))
    }
    #[cfg(not(target_os = "linux"))]
    {
        use tauri_plugin_autostart::ManagerExt as _;
        let login = app.autolaunch();
        let done = if starts {
            login.enable()
        } else {
            login.disable()
        };
        done.map_err(|error| Fault::failed(&error))
    }
}

/// Rewrites an entry that was made by a program at another path. One that is right, that was
/// switched off elsewhere, or that is not there stays as it is.
pub fn repair(app: &AppHandle) {
    #[cfg(target_os = "linux")]
    let needed = entry::is_stale();
    // Elsewhere the system is not asked what the entry says.
    #[cfg(not(target_os = "linux"))]
    let needed = starts(app);
    if needed && let Err(fault) = set(app, true) {
        tracing::warn!(fault = %fault.message, "the entry for starting at login may be stale");
    }
}

/// The desktop's own list of what to start: a file for each program.
#[cfg(target_os = "linux")]
mod entry {
    use std::fs;
    use std::io;
    use std::path::{Path, PathBuf};

    use oneslot::state::durable;

    /// Where the entry is; `None` without a home.
    pub(super) fn place() -> Option<PathBuf> {
        let absolute = |name| {
            let path = PathBuf::from(std::env::var_os(name)?);
            path.is_absolute().then_some(path)
        };
        let config = absolute("XDG_CONFIG_HOME");
        let config = config.or_else(|| Some(absolute("HOME")?.join(".config")));
        Some(config?.join("autostart/OneSlot.desktop"))
    }

    /// Whether there is an entry that its desktop heeds: desktops switch one off by a line in it.
    pub(super) fn is_on(place: &Path) -> bool {
        fs::read_to_string(place).is_ok_and(|text| !is_off(&text))
    }

    fn is_off(text: &str) -> bool {
        let mut lines = text.lines().filter_map(|line| line.split_once('='));
        lines.any(|(name, value)| {
            matches!(
                (name.trim(), value.trim()),
                ("Hidden", "true") | ("X-GNOME-Autostart-enabled", "false")
            )
        })
    }

    /// Whether the entry is heeded and starts something else.
    pub(super) fn is_stale() -> bool {
        let text = place().and_then(|place| fs::read_to_string(place).ok());
        let wanted = program().and_then(|program| entry(&program));
        match (text, wanted) {
            // The rest may be a person's: a delay, a comment.
            (Some(text), Ok(wanted)) => !is_off(&text) && started_by(&text) != started_by(&wanted),
            (None, _) | (_, Err(_)) => false,
        }
    }

    fn started_by(text: &str) -> Option<&str> {
        text.lines().find(|line| line.starts_with("Exec="))
    }

    pub(super) fn set(starts: bool) -> io::Result<()> {
        let place = place().ok_or(io::ErrorKind::NotFound)?;
        if starts {
            let text = entry(&program()?)?;
            place.parent().map_or(Ok(()), durable::private_dir)?;
            return durable::write(&place, text.as_bytes());
        }
        match fs::remove_file(place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// What is to be started. An AppImage runs from a place that ends with it, so there it is the
    /// image; a terminal of another image hands its own name down, which is not ours.
    fn program() -> io::Result<PathBuf> {
        let own = crate::platform::own_file()?;
        let set = |name| std::env::var_os(name).map(PathBuf::from);
        if let (Some(image), Some(inside)) = (set("APPIMAGE"), set("APPDIR"))
            && own.starts_with(inside)
        {
            return Ok(image);
        }
        Ok(own)
    }

    /// The entry's text for a program.
    ///
    /// # Errors
    /// Its path cannot be written in such a file.
    fn entry(program: &Path) -> io::Result<String> {
        let path = program
            .to_str()
            .filter(|path| !path.contains(char::is_control));
        let path = path.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(format!(
            "[Desktop Entry]\n\
             Type=Application\n\
             Name=OneSlot\n\
             Icon=oneslot\n\
             Exec={} --hidden\n\
             Terminal=false\n\
             StartupNotify=false\n",
            quoted(path)
        ))
    }

    /// A path as one word of a command: quoted for the command, and escaped once more since it
    /// stands in a file whose backslashes mean something.
    fn quoted(path: &str) -> String {
        let mut word = String::from("\"");
        for letter in path.chars() {
            match letter {
                '"' | '`' | '$' => word.push_str(r"\\"),
                '\\' => word.push_str(r"\\\"),
                // What begins with it would be a field for files to open.
                '%' => word.push('%'),
                _ => {}
            }
            word.push(letter);
        }
        word.push('"');
        word
    }

    #[cfg(test)]
    #[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    mod tests {
        use super::*;

        /// What GLib's desktops would start.
        fn started(text: &str) -> Vec<std::ffi::OsString> {
            let file = glib::KeyFile::new();
            file.load_from_data(text, glib::KeyFileFlags::NONE).unwrap();
            let command = file.string("Desktop Entry", "Exec").unwrap();
            let words = glib::shell_parse_argv(command.as_str()).unwrap();
            let fields =
                |word: &std::ffi::OsString| word.to_str().unwrap().replace("%%", "%").into();
            words.iter().map(fields).collect()
        }

        #[test]
        fn any_path_is_one_word_of_what_is_started() {
            for path in [
                "/usr/bin/oneslot",
                "/opt/One Slot/oneslot",
                "/opt/100 % \"sure\"/oneslot",
                r"/opt/a\b/$HOME/`id`/one'slot",
                "/opt/一个 槽/oneslot",
            ] {
                let text = entry(Path::new(path)).unwrap();
                assert_eq!(started(&text), [path, "--hidden"], "{text}");
            }
            let split = entry(Path::new("/opt/one\nExec=evil/oneslot"));
            assert!(split.is_err(), "a line of a path is no line of the entry");
        }

        #[test]
        fn an_entry_that_a_desktop_switched_off_is_off() {
            let on = entry(Path::new("/usr/bin/oneslot")).unwrap();
            assert!(!is_off(&on), "as it is written it is on");
            for off in ["Hidden=true", "X-GNOME-Autostart-enabled = false"] {
                assert!(is_off(&format!("{on}{off}\n")), "{off}");
            }
        }
    }
}
