//! A file that cannot be used: the program starts, nothing is overwritten, the person is told.

use super::*;

const GOOD: &str = "# mine\n[queue]\nmax_waiting = 2\n";

/// A desk that has started once with a good file, which then broke.
fn broken(bytes: &[u8]) -> Desk {
    let desk = Desk::with(GOOD);
    desk.sources.start().unwrap();
    fs::write(&desk.sources.file, bytes).unwrap();
    desk
}

/// Starts on a broken file, with a good copy and without one, and looks at what is left.
fn survives(bytes: &[u8]) {
    let desk = broken(bytes);
    let loaded = desk.sources.start().unwrap();
    assert_eq!(
        loaded.settings.queue.max_waiting, 2,
        "the last good copy serves"
    );
    assert!(
        loaded
            .notices
            .iter()
            .any(|notice| matches!(notice, Notice::LastGoodServes { .. })),
        "the person is told: {:?}",
        loaded.notices
    );
    assert_eq!(
        fs::read(&desk.sources.file).unwrap(),
        bytes,
        "the file stays as it is"
    );
    let asides = desk.asides();
    assert_eq!(asides.len(), 1, "one copy is kept aside");
    assert_eq!(fs::read(&asides[0]).unwrap(), bytes, "byte for byte");
    desk.sources.start().unwrap();
    assert_eq!(
        desk.asides().len(),
        1,
        "starting again keeps no second copy of the same"
    );
    let good = desk.sources.good.as_ref().unwrap();
    assert_eq!(
        fs::read_to_string(good).unwrap(),
        GOOD,
        "the good copy is still good"
    );
    if bytes.is_empty() {
        return;
    }
    fs::remove_file(good).unwrap();
    let loaded = desk.sources.start().unwrap();
    assert_eq!(
        loaded.settings,
        Settings::default(),
        "without a good copy the defaults serve"
    );
    let told = loaded
        .notices
        .iter()
        .any(|notice| matches!(notice, Notice::DefaultsServe { .. }));
    assert!(told, "{:?}", loaded.notices);
}

#[test]
fn a_file_of_nul_bytes_gives_way_to_the_last_good_copy() {
    survives(&[0; 400]);
}

#[test]
fn half_a_file_gives_way_to_the_last_good_copy() {
    survives(b"[queue]\nmax_waiting = 4\n[upstr");
}

#[test]
fn a_file_of_wrong_types_gives_way_to_the_last_good_copy() {
    survives(b"listen = 7\n[queue]\nmax_waiting = [true]\n");
    survives(b"queue = 4\n");
    survives(b"[preset]\nname = \"strict\"\n");
}

#[test]
fn a_file_out_of_range_gives_way_to_the_last_good_copy() {
    survives(b"[upstream]\nslots = 0\n");
}

#[test]
fn a_file_that_is_not_text_gives_way_to_the_last_good_copy() {
    survives(&[0xff, 0xfe, 0x00, 0x80]);
}

#[test]
fn a_file_emptied_by_a_power_failure_gives_way_to_the_last_good_copy() {
    survives(b"");
}

#[test]
fn an_empty_file_that_never_had_settings_means_the_defaults() {
    let desk = Desk::with("");
    let loaded = desk.sources.start().unwrap();
    assert_eq!(loaded.settings, Settings::default());
    assert!(
        loaded.notices.is_empty(),
        "there is nothing to tell: {:?}",
        loaded.notices
    );
    assert!(desk.asides().is_empty(), "there is nothing to keep");
}

#[test]
fn a_comment_alone_asks_for_the_defaults() {
    let desk = broken(b"# nothing set\n");
    let loaded = desk.sources.start().unwrap();
    assert_eq!(
        loaded.settings,
        Settings::default(),
        "a person wrote it, and it says nothing"
    );
}

#[test]
fn a_directory_in_place_of_the_file_does_not_stop_the_start() {
    let desk = broken(b"");
    fs::remove_file(&desk.sources.file).unwrap();
    fs::create_dir(&desk.sources.file).unwrap();
    let loaded = desk.sources.start().unwrap();
    assert_eq!(loaded.settings.queue.max_waiting, 2);
    let texts: Vec<String> = loaded.notices.iter().map(Notice::to_string).collect();
    assert!(
        texts.iter().any(|text| text.contains("it is a directory")),
        "{texts:?}"
    );
    assert!(desk.sources.file.is_dir(), "it is not ours to remove");
}

#[test]
fn a_good_copy_that_is_damaged_too_gives_way_to_the_defaults() {
    let desk = broken(b"half [");
    fs::write(
        desk.sources.good.as_ref().unwrap(),
        "[queue]\nmax_waiting = \"x\"\n",
    )
    .unwrap();
    let loaded = desk.sources.start().unwrap();
    assert_eq!(loaded.settings, Settings::default());
}

#[test]
fn two_different_broken_files_are_both_kept_aside() {
    let desk = broken(b"first [");
    desk.sources.start().unwrap();
    desk.save("second [");
    desk.sources.start().unwrap();
    assert_eq!(desk.asides().len(), 2, "a copy is never overwritten");
}

#[test]
fn looking_writes_nothing() {
    let desk = Desk::with("half [");
    desk.sources.load().unwrap();
    assert!(desk.asides().is_empty());
    assert!(!desk.sources.good.as_ref().unwrap().exists());
}

#[test]
fn a_faulty_file_changes_nothing_when_it_is_read_again() {
    let desk = Desk::with(GOOD);
    let loaded = desk.sources.start().unwrap();
    desk.save("[queue]\nmax_waiting = 3\n");
    let again = loaded.reload().unwrap();
    assert_eq!(again.settings.queue.max_waiting, 3);
    for broken in [
        "",
        "[queue]\nmax_waiting = \"x\"\n",
        "listen = [\"0.0.0.0:1\"]\n",
    ] {
        desk.save(broken);
        assert!(
            again.reload().is_err(),
            "{broken:?} may not replace settings that work"
        );
    }
    fs::remove_file(&desk.sources.file).unwrap();
    let error = again.reload().unwrap_err().to_string();
    assert!(
        error.contains("gone"),
        "an editor may be in the middle of saving: {error}"
    );
    desk.save(GOOD);
    assert_eq!(again.reload().unwrap().settings.queue.max_waiting, 2);
}

#[cfg(unix)]
#[test]
fn a_file_with_a_key_is_closed_to_others_and_that_is_told() {
    use std::os::unix::fs::PermissionsExt as _;
    let desk = Desk::with("[upstream]\napi_key = \"sk-1\"\n");
    fs::set_permissions(&desk.sources.file, fs::Permissions::from_mode(0o644)).unwrap();
    let loaded = desk.sources.start().unwrap();
    assert_eq!(mode(&desk.sources.file), 0o600);
    assert!(
        matches!(loaded.notices[..], [Notice::Tightened { had: 0o644, .. }]),
        "{:?}",
        loaded.notices
    );
    assert_eq!(
        mode(desk.sources.good.as_ref().unwrap()),
        0o600,
        "the copy holds the key as well"
    );
    let desk = Desk::with(GOOD);
    fs::set_permissions(&desk.sources.file, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(
        desk.sources.start().unwrap().notices.is_empty(),
        "without a secret it may stay open"
    );
}

const GUARDED: &str = "[queue]\nmax_waiting = 2\n[access]\nrequire_key = true\nkeys = [{ name = \"a\", sha256 = \"2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683\" }]\n";

#[test]
fn a_faulty_file_that_may_ask_for_a_key_serves_nobody_until_it_is_mended() {
    let typo = GUARDED.replace("= 2", "= \"two\"");
    let wide: Vec<u8> = typo.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let cases: [(&[u8], bool); 7] = [
        (typo.as_bytes(), true),
        (b"access.require_key = tr", true),
        (b"[access]\nkeys = [{ name = ", true),
        (&wide, true),
        (b"# access.require_key = true\nqueue = 4\n", false),
        (b"[queue]\nmax_waiting = \"x\"\n", false),
        (&[0; 400], false),
    ];
    for (bytes, locks) in cases {
        let desk = Desk::with("");
        fs::write(&desk.sources.file, bytes).unwrap();
        let loaded = desk.sources.start().unwrap();
        let said = String::from_utf8_lossy(bytes);
        let access = &loaded.settings.access;
        assert_eq!(access.require_key, locks, "{said:?}");
        assert!(access.keys.is_empty(), "none of a faulty file's keys");
        let told = |notice: &Notice| matches!(notice, Notice::Locked { .. });
        assert_eq!(loaded.notices.iter().any(told), locks, "{said:?}");
        desk.save("queue.max_waiting = 3\n");
        let mended = loaded.reload().unwrap();
        assert!(
            !mended.settings.access.require_key,
            "mended as it was meant"
        );
    }
    let mut desk = Desk::with(&typo);
    let variable = ("ONESLOT_ACCESS__REQUIRE_KEY".to_owned(), "false".to_owned());
    desk.sources.variables.push(variable);
    let loaded = desk.sources.start().unwrap();
    assert!(
        !loaded.settings.access.require_key,
        "a variable wins over any file"
    );
}

#[test]
fn a_file_that_no_longer_says_whether_a_key_is_required_is_taken_for_half_written() {
    let desk = Desk::with(GUARDED);
    let loaded = desk.sources.start().unwrap();
    assert!(loaded.settings.access.require_key);
    for half in [
        "",
        "\n",
        "# being written\n",
        "[queue]\nmax_waiting = 2\n",
        "[access]\n",
    ] {
        desk.save(half);
        let error = loaded.reload().unwrap_err().to_string();
        assert!(
            half.is_empty() || error.contains("access.require_key = false"),
            "it says what to write: {error}"
        );
    }
    desk.save("access.require_key = false\n");
    assert!(
        !loaded.reload().unwrap().settings.access.require_key,
        "said so"
    );
}
