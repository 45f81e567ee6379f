//! Starting at login: what the desktop is told to start is what runs, hidden, wherever it lies.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::support::desktop::Desktop;
use super::support::host::Host;
use super::support::notices::Notices;
use super::support::program::{BINARY, Setup};
use super::support::{LIMIT, eventually};

fn place(desktop: &Desktop) -> PathBuf {
    desktop.home().join("config/autostart/OneSlot.desktop")
}

/// What a desktop that reads this entry starts.
fn started(entry: &Path) -> Vec<OsString> {
    let text = std::fs::read_to_string(entry).unwrap();
    let file = glib::KeyFile::new();
    file.load_from_data(&text, glib::KeyFileFlags::NONE)
        .unwrap();
    let command = file.string("Desktop Entry", "Exec").unwrap();
    glib::shell_parse_argv(command.as_str()).unwrap()
}

fn put(entry: &Path, text: &str) {
    std::fs::create_dir_all(entry.parent().unwrap()).unwrap();
    std::fs::write(entry, text).unwrap();
}

const STALE: &str =
    "[Desktop Entry]\nType=Application\nName=OneSlot\nExec=/tmp/.mount_gone/oneslot\n";

#[test]
fn a_program_in_a_folder_with_a_space_is_started_at_login_hidden_and_the_entry_goes_when_revoked() {
    let desktop = Desktop::new();
    let folder = desktop.home().join("One Slot 100%");
    std::fs::create_dir(&folder).unwrap();
    let program = folder.join("oneslot");
    if std::fs::hard_link(BINARY, &program).is_err() {
        std::fs::copy(BINARY, &program).unwrap();
    }
    let host = Host::on(&desktop);
    let setup = || Setup::bare(&desktop).args(&["--demo"]);
    let mut tray = setup().program(&program).start();
    let icon = host.icon();
    icon.until_says(LIMIT, "Ready");
    icon.press("Start at login");
    let entry = place(&desktop);
    eventually("there is an entry", || entry.exists().then_some(()));
    let words = started(&entry);
    assert_eq!(words.len(), 2, "a space does not part a path: {words:?}");
    let named = words[0].to_str().unwrap().replace("%%", "%");
    assert_eq!(Path::new(&named), program);
    tray.terminate();
    assert!(tray.until_exit().success(), "it ends in order");

    // As a session would at the next login.
    let hidden = words[1].to_str().unwrap();
    let tray = Setup::bare(&desktop)
        .args(&[hidden, "--demo"])
        .program(Path::new(&named))
        .start();
    let icon = host.icon();
    icon.until_says(LIMIT, "Ready");
    assert_eq!(tray.web_processes(), 0, "nobody sees a window at login");
    icon.press("Start at login");
    eventually("the entry is gone", || (!entry.exists()).then_some(()));
    let left = std::fs::read_dir(entry.parent().unwrap()).unwrap().count();
    assert_eq!(left, 0, "nothing of it stays");
}

#[test]
fn a_stale_entry_is_made_anew_at_start_and_one_that_was_switched_off_stays() {
    let start = |text: Option<&str>, image: Option<&str>| {
        let desktop = Desktop::new();
        let host = Host::on(&desktop);
        let entry = place(&desktop);
        if let Some(text) = text {
            put(&entry, text);
        }
        let mut setup = Setup::bare(&desktop).args(&["--hidden", "--demo"]);
        if let Some(inside) = image {
            setup = setup
                .env("APPIMAGE", "/opt/One Slot.AppImage")
                .env("APPDIR", inside);
        }
        let _tray = setup.start();
        host.icon().until_says(LIMIT, "Ready");
        std::fs::read_to_string(&entry)
            .ok()
            .map(|text| (text, started(&entry)))
    };
    assert_eq!(start(None, None), None, "nobody chose it");
    let (_, words) = start(Some(STALE), None).unwrap();
    assert_eq!(words, [BINARY, "--hidden"], "it starts what runs now");
    let off = format!("{STALE}Hidden=true\n");
    let (text, _) = start(Some(&off), None).unwrap();
    assert_eq!(text, off, "what a desktop switched off stays off");

    let inside = Path::new(BINARY).parent().unwrap().to_str().unwrap();
    let (_, words) = start(Some(STALE), Some(inside)).unwrap();
    assert_eq!(words, ["/opt/One Slot.AppImage", "--hidden"]);
    let (_, words) = start(Some(STALE), Some("/tmp/.mount_other")).unwrap();
    assert_eq!(words, [BINARY, "--hidden"], "that image is another's");
}

#[test]
fn a_start_at_login_that_could_not_be_written_is_told_and_not_ticked() {
    let desktop = Desktop::new();
    let (host, notices) = (Host::on(&desktop), Notices::on(&desktop));
    let folder = place(&desktop).parent().unwrap().to_owned();
    std::fs::create_dir_all(folder.parent().unwrap()).unwrap();
    std::fs::write(&folder, "no folder").unwrap();
    let _tray = Setup::bare(&desktop).args(&["--demo"]).start();
    let icon = host.icon();
    icon.until_says(LIMIT, "Ready");
    icon.press("Start at login");
    let told = eventually("it is told", || notices.shown().pop());
    assert_eq!(told.title, "Start at login");
    eventually("the row is not ticked", || {
        let row = icon.row("Start at login")?;
        (row.ticked == Some(false)).then_some(())
    });
}
