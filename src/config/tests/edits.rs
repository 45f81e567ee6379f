//! Saving: comments stay, nothing is lost, nothing faulty is written.

use super::*;

#[test]
fn comments_order_and_everything_else_stay() {
    let desk = Desk::with(
        "# my desk\npreset = \"balanced\"  # calm\n\n[queue]  # short\n# four is plenty\nmax_waiting = 4  # not more\nmax_wait_s = 30\n\n[unknown]\nkept = 1\n",
    );
    desk.sources
        .edit("queue.max_waiting", Some(&json!(6)))
        .unwrap();
    desk.sources
        .edit("log.level", Some(&json!("warn")))
        .unwrap();
    desk.sources.edit("queue.max_wait_s", None).unwrap();
    desk.sources.edit("access.require_key", None).unwrap();
    assert_eq!(
        desk.text(),
        "# my desk\npreset = \"balanced\"  # calm\n\n[queue]  # short\n# four is plenty\nmax_waiting = 6  # not more\n\n[unknown]\nkept = 1\n\n[log]\nlevel = \"warn\"\n"
    );
}

#[test]
fn to_put_the_required_key_back_to_its_default_is_to_say_that_none_is_required() {
    let desk = Desk::with("[access]\nrequire_key = true # for the laptop\n");
    let loaded = desk.sources.start().unwrap();
    desk.sources.edit("access.require_key", None).unwrap();
    assert_eq!(
        desk.text(),
        "[access]\nrequire_key = false # for the laptop\n"
    );
    let again = loaded.reload().unwrap();
    assert!(
        !again.settings.access.require_key,
        "not taken for half written"
    );
}

#[test]
fn a_member_at_the_top_is_set_before_the_sections() {
    let desk = Desk::with("[queue]\nmax_waiting = 4\n");
    desk.sources.edit("preset", Some(&json!("strict"))).unwrap();
    assert_eq!(desk.settings().preset, Preset::Strict, "{}", desk.text());
    assert_eq!(desk.settings().queue.max_waiting, 4);
}

#[test]
fn a_section_written_inline_is_edited_where_it_stands() {
    let desk = Desk::with("queue = { max_waiting = 4 }\nlog.level = \"warn\"\n");
    desk.sources
        .edit("queue.max_waiting", Some(&json!(1)))
        .unwrap();
    desk.sources
        .edit("log.record", Some(&json!(false)))
        .unwrap();
    let settings = desk.settings();
    assert_eq!(settings.queue.max_waiting, 1, "{}", desk.text());
    assert_eq!(settings.log.level, Level::Warn);
    assert!(!settings.log.record, "beside the dotted key");
}

#[test]
fn the_first_save_makes_file_and_directory_for_this_user_alone() {
    let mut desk = Desk::new();
    desk.sources.file = desk.temp.path().join("new/oneslot/config.toml");
    desk.sources
        .edit("queue.max_waiting", Some(&json!(1)))
        .unwrap();
    assert_eq!(desk.text(), "[queue]\nmax_waiting = 1\n");
    #[cfg(unix)]
    {
        assert_eq!(mode(&desk.sources.file), 0o600);
        assert_eq!(mode(desk.sources.file.parent().unwrap()), 0o700);
    }
}

#[test]
fn what_would_be_refused_is_not_written() {
    let desk = Desk::with("[queue]\nmax_waiting = 4\n");
    let refused = [
        ("queue.max_waiting", json!(1_000_000)),
        ("queue.max_waiting", json!("x")),
        ("listen", json!(["127.0.0.1:70000"])),
        ("upstream.base_url", json!("ftp://x")),
        ("queue.nothing", json!(1)),
    ];
    for (path, value) in refused {
        assert!(
            desk.sources.edit(path, Some(&value)).is_err(),
            "{path} = {value} is no good"
        );
        assert_eq!(desk.text(), "[queue]\nmax_waiting = 4\n");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_never_overwritten() {
    for bytes in [&[0_u8; 400][..], b"half [", b"\xff\xfe", b"queue = 4\n"] {
        let desk = Desk::new();
        fs::write(&desk.sources.file, bytes).unwrap();
        let error = desk
            .sources
            .edit("queue.max_waiting", Some(&json!(1)))
            .unwrap_err();
        assert!(matches!(error, EditError::Faulty { .. }), "{error}");
        assert_eq!(fs::read(&desk.sources.file).unwrap(), bytes);
    }
}

#[test]
fn a_wrong_value_can_be_mended_by_setting_it() {
    let desk = Desk::with("# mine\n[queue]\nmax_waiting = \"four\"\n");
    desk.sources
        .edit("queue.max_waiting", Some(&json!(4)))
        .unwrap();
    assert_eq!(desk.text(), "# mine\n[queue]\nmax_waiting = 4\n");
}

#[test]
fn saving_where_the_file_was_removed_starts_from_what_is_in_force() {
    let desk = Desk::with("# mine\n[queue]\nmax_waiting = 2\n");
    desk.sources.start().unwrap();
    fs::remove_file(&desk.sources.file).unwrap();
    let shown = desk.sources.load_to_edit().unwrap();
    assert_eq!(shown.settings.queue.max_waiting, 2, "it is still in force");
    let warn = json!("warn");
    let basis = desk.sources.edit("log.level", Some(&warn)).unwrap();
    assert!(basis.note().is_some(), "it is told");
    assert_eq!(
        desk.text(),
        "# mine\n[queue]\nmax_waiting = 2\n\n[log]\nlevel = \"warn\"\n"
    );
    let basis = desk.sources.edit("log.level", None).unwrap();
    assert_eq!(basis, Basis::File, "the file is there again");
}

#[test]
fn saving_after_a_start_without_the_file_brings_nothing_back() {
    let desk = Desk::with("[queue]\nmax_waiting = 2\n");
    desk.sources.start().unwrap();
    fs::remove_file(&desk.sources.file).unwrap();
    desk.sources.start().unwrap();
    let warn = json!("warn");
    let basis = desk.sources.edit("log.level", Some(&warn)).unwrap();
    assert_eq!(basis, Basis::File, "the defaults were in force");
    assert_eq!(desk.text(), "[log]\nlevel = \"warn\"\n");
    desk.sources.start().unwrap();
    fs::remove_file(&desk.sources.file).unwrap();
    desk.sources.edit("queue.max_waiting", None).unwrap();
    assert_eq!(desk.text(), "[log]\nlevel = \"warn\"\n", "and now it is");
}

#[test]
fn saving_over_an_emptied_file_starts_from_the_last_good_copy() {
    let desk = Desk::with("# mine\n[queue]\nmax_waiting = 2\n");
    desk.sources.start().unwrap();
    desk.save("");
    desk.sources
        .edit("log.level", Some(&json!("warn")))
        .unwrap();
    assert_eq!(
        desk.text(),
        "# mine\n[queue]\nmax_waiting = 2\n\n[log]\nlevel = \"warn\"\n"
    );
}

#[test]
fn a_read_only_file_stays_as_it_is() {
    let desk = Desk::with("[queue]\nmax_waiting = 4\n");
    let mut permissions = fs::metadata(&desk.sources.file).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&desk.sources.file, permissions).unwrap();
    let error = desk
        .sources
        .edit("queue.max_waiting", Some(&json!(1)))
        .unwrap_err();
    assert!(matches!(error, EditError::ReadOnly { .. }), "{error}");
    assert_eq!(desk.text(), "[queue]\nmax_waiting = 4\n");
}

#[cfg(unix)]
#[test]
fn a_linked_file_stays_a_link() {
    let desk = Desk::new();
    let target = desk.temp.path().join("dotfiles.toml");
    fs::write(&target, "# kept elsewhere\n").unwrap();
    std::os::unix::fs::symlink(&target, &desk.sources.file).unwrap();
    desk.sources
        .edit("queue.max_waiting", Some(&json!(1)))
        .unwrap();
    assert!(
        fs::symlink_metadata(&desk.sources.file)
            .unwrap()
            .is_symlink()
    );
    assert!(
        fs::read_to_string(&target)
            .unwrap()
            .contains("max_waiting = 1")
    );
}

#[test]
fn edits_at_the_same_time_are_all_kept() {
    let desk = Desk::with("# mine\n");
    let members = [
        "queue.max_waiting",
        "upstream.slots",
        "timeouts.loading_s",
        "timeouts.stall_s",
    ];
    std::thread::scope(|scope| {
        for path in members {
            let sources = desk.sources.clone();
            scope.spawn(move || {
                for round in 1..=25 {
                    sources.edit(path, Some(&json!(round))).unwrap();
                }
            });
        }
    });
    let settings = desk.settings();
    for path in members {
        let value = find(path).unwrap().read(&settings);
        assert_eq!(
            value,
            json!(25),
            "{path} has its last value:\n{}",
            desk.text()
        );
    }
}

#[test]
fn a_reader_never_sees_a_file_that_is_neither_old_nor_new() {
    let desk = Desk::with("[upstream]\nmodel = \"x\"\n");
    let sources = desk.sources.clone();
    let writer = std::thread::spawn(move || {
        for round in 0..100 {
            let model = format!("{round:0>900}");
            sources.edit("upstream.model", Some(&json!(model))).unwrap();
        }
    });
    while !writer.is_finished() {
        let settings = desk.sources.load_exactly().unwrap().settings;
        let length = settings.upstream.model.unwrap().len();
        assert!(
            length == 1 || length == 900,
            "a whole value, but {length} characters"
        );
    }
    writer.join().unwrap();
}

#[test]
fn keys_are_added_and_removed_in_both_spellings() {
    let (zed, shown) = Key::make("zed").unwrap();
    let digest: String = zed
        .sha256
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let tables = format!(
        "[[access.keys]]\nname = \"zed\"\nsha256 = \"{digest}\"\n\n[log]\nlevel = \"warn\"\n"
    );
    for text in [String::new(), "# mine\n[access]\n".to_owned(), tables] {
        let desk = Desk::with(&text);
        desk.sources
            .edit_keys(|keys| keys.retain(|key| key.name != "zed"))
            .unwrap();
        desk.sources
            .edit_keys(|keys| keys.push(zed.clone()))
            .unwrap();
        let settings = desk.settings();
        assert_eq!(
            settings.key_of(&shown).map(|key| key.name.as_str()),
            Some("zed"),
            "{}",
            desk.text()
        );
        assert_eq!(settings.key_of("os-other"), None);
        desk.sources.edit_keys(Vec::clear).unwrap();
        assert!(desk.settings().access.keys.is_empty(), "{}", desk.text());
    }
}

#[test]
fn a_key_is_random_and_kept_as_its_digest_alone() {
    let (first, one) = Key::make("a").unwrap();
    let (_, two) = Key::make("a").unwrap();
    assert_ne!(one, two);
    assert!(
        one.starts_with("os-") && one.len() == 46,
        "256 bits in 43 letters: {one}"
    );
    assert_eq!(first.sha256, Key::digest(&one));
    let text = serde_json::to_string(&[first]).unwrap();
    assert!(!text.contains(&one), "the file never holds the key itself");
}

/// The variable that makes the next test a writer that is going to be killed.
const VICTIM: &str = "ONESLOT_TEST_VICTIM";

#[test]
fn victim_of_the_next_test() {
    // Alone it does nothing.
    let Some(file) = std::env::var_os(VICTIM) else {
        return;
    };
    let sources = Sources {
        file: file.into(),
        ..Sources::default()
    };
    for round in 0.. {
        let model = format!("{}{round:0>1990}", 1_000_000_000 + std::process::id());
        sources.edit("upstream.model", Some(&json!(model))).unwrap();
    }
}

#[test]
fn two_hundred_kills_during_a_save_never_leave_neither_old_nor_new() {
    let desk = Desk::with("# mine\n[upstream]\nmodel = \"first\"\n");
    for kill in 0..200_u64 {
        let before = desk.text();
        let mut victim = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "config::tests::edits::victim_of_the_next_test"])
            .env(VICTIM, &desk.sources.file)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // Only once it saves is it in the middle of something.
        let waits = std::time::Instant::now();
        while desk.text() == before {
            assert!(waits.elapsed().as_secs() < 30, "the victim never saved");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        std::thread::sleep(std::time::Duration::from_micros(kill * 37 % 3000));
        victim.kill().unwrap();
        victim.wait().unwrap();
        let settings = desk.sources.load_exactly().unwrap().settings;
        let model = settings.upstream.model.unwrap();
        assert!(
            model.len() == 2000 && model.bytes().all(|byte| byte.is_ascii_digit()),
            "kill {kill} left a value that was never saved: {model}"
        );
        assert!(desk.text().starts_with("# mine\n"), "and the comment");
    }
    let left = fs::read_dir(desk.temp.path()).unwrap().count();
    assert!(
        left <= 3,
        "the file, its lock and at most one temporary file, but {left}"
    );
}
