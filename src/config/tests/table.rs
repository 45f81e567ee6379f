//! The table of members and the settings agree; what comes from the table is as it was.

use std::collections::BTreeSet;

use super::*;

/// Paths of all fields of [`Settings`], from its own `Debug` form: `section.field` or `field`.
fn fields() -> BTreeSet<String> {
    let text = format!("{:#?}", Settings::default());
    let mut section = None;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let Some((name, rest)) = line.trim().split_once(": ") else {
            continue;
        };
        match (indent, rest.ends_with('{'), section) {
            (4, true, _) => section = Some(name),
            (4, false, _) => {
                section = None;
                found.insert(name.to_owned());
            }
            (8, _, Some(section)) => {
                found.insert(format!("{section}.{name}"));
            }
            _ => {}
        }
    }
    found
}

/// The field a member's path stands for: the path without the ending of its unit.
fn field_of(member: &Member) -> String {
    member
        .path
        .strip_suffix(member.unit.suffix())
        .unwrap_or(member.path)
        .to_owned()
}

/// A value other than the default, for each kind.
fn another(member: &Member) -> Value {
    let default = member.default(Preset::Balanced);
    let texts = |text: &str| Value::List(vec![text.to_owned()]);
    match member.kind {
        Kind::Bool => Value::Bool(default == Value::Bool(false)),
        Kind::Whole(min, max) => Value::Whole(if default == Value::Whole(max) {
            min
        } else {
            max
        }),
        Kind::AutoOr(_, max) => Value::Whole(max),
        Kind::Number(numbers) => Value::Whole(numbers[1]),
        Kind::Word(words) => {
            let word = words
                .iter()
                .find(|word| default != Value::Text((**word).to_owned()));
            Value::Text((*word.unwrap()).to_owned())
        }
        Kind::Text | Kind::Secret => Value::Text("changed".to_owned()),
        Kind::Server => Value::Text("http://127.0.0.1:9".to_owned()),
        Kind::Addresses => texts("127.0.0.1:9"),
        Kind::Hosts => texts("desk.lan"),
        Kind::Origins => texts("https://chat.example"),
        Kind::Keys => Value::Keys(vec![Key {
            name: "zed".to_owned(),
            sha256: [7; 32],
        }]),
    }
}

#[test]
fn the_table_and_the_settings_name_the_same_members() {
    let table: BTreeSet<String> = MEMBERS.iter().map(field_of).collect();
    assert_eq!(
        table.len(),
        MEMBERS.len(),
        "no member is in the table twice"
    );
    assert_eq!(
        table,
        fields(),
        "what can be set is in the table, and what is in it can be set"
    );
}

#[test]
fn every_member_writes_its_own_field_and_no_other() {
    for member in MEMBERS {
        let mut settings = Settings::default();
        let value = another(member);
        member.write(&mut settings, &value).unwrap();
        for other in MEMBERS {
            let changed = other.read(&settings) != other.default(Preset::Balanced);
            let expected = other.path == member.path;
            assert_eq!(
                changed, expected,
                "{} was set and {} was looked at",
                member.path, other.path
            );
        }
        if member.kind != Kind::Secret {
            assert_eq!(
                member.read(&settings),
                value,
                "{} reads back as written",
                member.path
            );
        }
    }
}

#[test]
fn every_word_of_a_choice_is_taken() {
    for member in MEMBERS {
        let values: Vec<Value> = match member.kind {
            Kind::Word(words) => words.iter().map(|w| Value::Text((*w).to_owned())).collect(),
            Kind::Number(numbers) => numbers.iter().map(|n| Value::Whole(*n)).collect(),
            Kind::AutoOr(min, _) => vec![Value::Text("auto".to_owned()), Value::Whole(min)],
            _ => continue,
        };
        for value in values {
            let mut settings = Settings::default();
            member.write(&mut settings, &value).unwrap();
            assert_eq!(member.read(&settings), value, "{} offers it", member.path);
        }
    }
}

#[test]
fn every_default_of_both_presets_is_within_its_own_range() {
    for member in MEMBERS {
        for preset in [Preset::Balanced, Preset::Strict] {
            let default = member.default(preset);
            let admitted = member.kind.admits(&default);
            assert!(
                admitted,
                "{} = {default} of {preset:?} should be allowed",
                member.path
            );
        }
    }
}

#[test]
fn strict_sets_the_articles_numbers_and_nothing_else() {
    let differs: Vec<String> = MEMBERS
        .iter()
        .filter(|member| member.default(Preset::Strict) != member.default(Preset::Balanced))
        .map(|member| format!("{} = {}", member.path, member.default(Preset::Strict)))
        .collect();
    let article = [
        "preset = \"strict\"",
        "upstream.base_url = \"http://127.0.0.1:11434\"",
        "upstream.model = \"llama3.2\"",
        "health.fresh_ms = 0",
        "health.cooldown_max_ms = 3000",
        "window.counting = \"scalar\"",
        "timeouts.first_byte_s = 120",
        "timeouts.total_s = 120",
        "relay.commit_after_s = 0",
    ];
    assert_eq!(differs, article);
}

#[test]
fn the_explanation_is_as_it_was_and_changes_nothing() {
    let text = explain();
    let golden = include_str!("explain.golden.toml");
    assert_eq!(
        text, golden,
        "a changed explanation is a changed promise: look at it, then keep it"
    );
    let desk = Desk::with(&text);
    let loaded = desk.sources.load_exactly().unwrap();
    assert_eq!(
        loaded.settings,
        Settings::default(),
        "its values are the defaults"
    );
    assert!(
        loaded.notices.is_empty(),
        "every member in it is known: {:?}",
        loaded.notices
    );
}

#[test]
fn a_variable_is_named_after_its_member() {
    let member = members::find("upstream.base_url").unwrap();
    assert_eq!(member.variable(), "ONESLOT_UPSTREAM__BASE_URL");
    assert_eq!(
        members::find("listen").unwrap().variable(),
        "ONESLOT_LISTEN"
    );
}

#[test]
fn a_slip_of_the_pen_finds_the_member_that_was_meant() {
    for (written, meant) in [
        ("queue.max_waitng", Some("queue.max_waiting")),
        ("max_waiting", Some("queue.max_waiting")),
        ("upsteam.base_url", Some("upstream.base_url")),
        ("queue.max_wait", Some("queue.max_wait_s")),
        ("log.levle", Some("log.level")),
        ("entirely.elsewhere", None),
    ] {
        assert_eq!(members::nearest(written), meant, "{written} was written");
    }
}
