//! The list of settings agrees with the structs; the generated texts are as committed.

use super::*;

/// A value other than the default, for each kind.
fn another(member: &Member) -> Value {
    let default = member.default(Preset::Balanced);
    match &member.kind {
        Kind::Bool => json!(default == false),
        Kind::Whole(min, max) => json!(if default == *max { min } else { max }),
        Kind::AutoOr(_, max) => json!(max),
        Kind::Number(numbers) => json!(numbers.iter().find(|number| default != **number)),
        Kind::Word(words) => json!(words.iter().find(|word| default != word.as_str())),
        Kind::Text | Kind::Secret => json!("changed"),
        Kind::Server => json!("http://127.0.0.1:9"),
        Kind::Addresses => json!(["127.0.0.1:9"]),
        Kind::Hosts => json!(["desk.lan"]),
        Kind::Origins => json!(["https://chat.example"]),
        Kind::Keys => json!([{ "name": "zed", "sha256": "07".repeat(32) }]),
    }
}

/// Settings with one of them changed.
fn with(member: &Member, value: Value) -> Settings {
    let mut tree = serde_json::to_value(Settings::default()).unwrap();
    member.put(&mut tree, member.check(value).unwrap());
    serde_json::from_value(tree).unwrap()
}

#[test]
fn every_field_is_in_the_list_with_a_text() {
    let mut fields = 0;
    for (name, value) in serde_json::to_value(Settings::default())
        .unwrap()
        .as_object()
        .unwrap()
    {
        for path in value.as_object().map_or_else(
            || vec![name.clone()],
            |section| {
                section
                    .keys()
                    .map(|inner| format!("{name}.{inner}"))
                    .collect()
            },
        ) {
            let member = find(&path).unwrap_or_else(|| panic!("{path} is not in the list"));
            assert!(
                member.text.ends_with('.'),
                "{path} is explained: {:?}",
                member.text
            );
            fields += 1;
        }
    }
    assert_eq!(fields, MEMBERS.len());
    assert!(
        fields <= 33,
        "a setting exists only if a user has a reason to change it"
    );
}

#[test]
fn every_setting_changes_its_own_field_and_no_other() {
    for member in MEMBERS.iter() {
        let value = another(member);
        let settings = with(member, value.clone());
        for other in MEMBERS.iter() {
            let is_changed = other.read(&settings) != other.default(Preset::Balanced);
            assert_eq!(
                is_changed,
                other.path == member.path,
                "{} and {}",
                member.path,
                other.path
            );
        }
        if member.kind != Kind::Secret {
            assert_eq!(member.read(&settings), value, "{} reads back", member.path);
        }
    }
}

#[test]
fn every_choice_is_accepted() {
    for member in MEMBERS.iter() {
        let values: Vec<Value> = match &member.kind {
            Kind::Word(words) => words.iter().map(|word| json!(word)).collect(),
            Kind::Number(numbers) => numbers.iter().map(|number| json!(number)).collect(),
            Kind::AutoOr(min, _) => vec![json!("auto"), json!(min)],
            _ => continue,
        };
        assert!(values.len() > 1, "{}", member.path);
        for value in values {
            assert_eq!(
                member.read(&with(member, value.clone())),
                value,
                "{}",
                member.path
            );
        }
    }
}

#[test]
fn every_default_is_within_its_own_range() {
    for member in MEMBERS.iter() {
        for preset in [Preset::Balanced, Preset::Strict] {
            let default = member.default(preset);
            assert_eq!(
                member.check(default.clone()),
                Ok(default),
                "{} of {preset:?}",
                member.path
            );
        }
    }
}

#[test]
fn a_number_outside_its_range_is_refused_with_the_range() {
    for member in MEMBERS.iter() {
        let (Kind::Whole(min, max) | Kind::AutoOr(min, max)) = member.kind else {
            continue;
        };
        assert!(max < 1 << 40, "{} has a range", member.path);
        let refused = member.check(json!(max + 1)).unwrap_err();
        assert!(
            refused.contains(&format!("from {min} to {max}")),
            "{refused}"
        );
        assert!(member.check(json!(-1)).is_err() && member.check(json!(1.5)).is_err());
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
        "window.counting = \"scalar\"",
        "timeouts.first_byte_s = 120",
        "timeouts.total_s = 120",
        "relay.commit_after_s = 0",
    ];
    assert_eq!(differs, article);
    let limits = Settings::of(Preset::Strict).limits;
    assert!(limits.fresh.is_zero(), "a probe before each dispatch");
    assert_eq!(limits.cooldown_max.as_secs(), 3, "no doubling");
}

#[test]
fn the_explanation_is_a_file_that_changes_nothing() {
    let desk = Desk::with(&explain());
    let loaded = desk.sources.load_exactly().unwrap();
    assert_eq!(loaded.settings, Settings::default());
    assert_eq!(loaded.notices, [], "every setting in it is known");
    let uncommented: String = explain()
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(setting) if !setting.starts_with(' ') => format!("{setting}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let loaded = Desk::with(&uncommented).sources.load_exactly().unwrap();
    assert_eq!(
        loaded.settings,
        Settings::default(),
        "and its values are the defaults"
    );
    assert_eq!(loaded.origins.len(), MEMBERS.len());
}

/// Renew with `ONESLOT_RENEW=1 cargo test -p oneslot --lib config::tests::schema`.
#[test]
fn the_page_of_settings_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/settings.md");
    if std::env::var_os("ONESLOT_RENEW").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, markdown()).unwrap();
    }
    let page = fs::read_to_string(&path)
        .unwrap_or_default()
        .replace('\r', "");
    assert!(
        page == markdown(),
        "docs/settings.md is stale; renew it with \
         `ONESLOT_RENEW=1 cargo test -p oneslot --lib config::tests::schema`"
    );
}

#[test]
fn a_variable_is_named_after_its_setting() {
    let variable = |path| find(path).unwrap().variable();
    assert_eq!(variable("upstream.base_url"), "ONESLOT_UPSTREAM__BASE_URL");
    assert_eq!(variable("listen"), "ONESLOT_LISTEN");
}

#[test]
fn a_typo_finds_the_setting_that_was_meant() {
    for (written, meant) in [
        ("queue.max_waitng", Some("queue.max_waiting")),
        ("max_waiting", Some("queue.max_waiting")),
        ("upsteam.base_url", Some("upstream.base_url")),
        ("queue.max_wait", Some("queue.max_wait_s")),
        ("log.levle", Some("log.level")),
        ("entirely.elsewhere", None),
    ] {
        assert_eq!(
            crate::config::schema::nearest(written),
            meant,
            "{written} was written"
        );
    }
}
