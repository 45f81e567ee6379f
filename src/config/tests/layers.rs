//! Which layer wins, and where a person is told a value stands.

use std::time::Duration;

use super::*;

#[test]
fn without_any_source_the_defaults_serve() {
    let loaded = Desk::new().sources.load().unwrap();
    assert_eq!(loaded.settings, Settings::default());
    assert!(
        loaded.notices.is_empty(),
        "a file that never was is nothing to tell"
    );
    assert_eq!(loaded.origin("queue.max_waiting"), Origin::Default);
}

#[test]
fn flags_win_over_variables_and_variables_over_the_file() {
    let desk = Desk::with("[queue]\nmax_waiting = 1\n[upstream]\nmodel = \"file\"\nslots = 2\n")
        .variable("ONESLOT_QUEUE__MAX_WAITING", "2")
        .variable("ONESLOT_UPSTREAM__MODEL", "variable")
        .flag("--listen", "listen", "127.0.0.1:0,[::1]:0")
        .flag(
            "--upstream",
            "upstream.base_url",
            "http://127.0.0.1:8080/v1",
        );
    let loaded = desk.sources.load().unwrap();
    assert_eq!(loaded.settings.queue.max_waiting, 2);
    assert_eq!(loaded.settings.upstream.model.as_deref(), Some("variable"));
    assert_eq!(loaded.settings.upstream.slots, 2);
    assert_eq!(loaded.settings.listen.len(), 2);
    assert_eq!(
        loaded.settings.upstream.base_url.to_string(),
        "http://127.0.0.1:8080"
    );
    let variable = Location::Variable("ONESLOT_QUEUE__MAX_WAITING".to_owned());
    assert_eq!(loaded.origin("queue.max_waiting"), Origin::Given(variable));
    assert!(
        loaded.origin("queue.max_waiting").is_fixed(),
        "the panel cannot change a variable"
    );
    assert!(loaded.origin("listen").is_fixed(), "nor a flag");
    let file = Location::File {
        file: desk.sources.file.clone(),
        line: Some(5),
    };
    assert_eq!(
        loaded.origin("upstream.slots"),
        Origin::Given(file),
        "with its line"
    );
    assert!(!loaded.origin("upstream.slots").is_fixed());
}

#[test]
fn a_member_set_by_hand_wins_over_the_preset_wherever_either_stands() {
    let desk = Desk::with("[timeouts]\nfirst_byte_s = 45\n").variable("ONESLOT_PRESET", "strict");
    let loaded = desk.sources.load().unwrap();
    assert_eq!(loaded.settings.preset, Preset::Strict);
    assert_eq!(
        loaded.settings.timeouts.first_byte,
        Duration::from_secs(45),
        "by hand"
    );
    assert_eq!(
        loaded.settings.timeouts.total,
        Duration::from_secs(120),
        "by the preset"
    );
    assert_eq!(loaded.origin("timeouts.total_s"), Origin::Preset);
    assert_eq!(
        loaded.origin("queue.max_waiting"),
        Origin::Default,
        "strict leaves it alone"
    );
}

#[test]
fn a_default_set_by_hand_wins_over_the_preset_too() {
    let desk = Desk::with("preset = \"strict\"\n[relay]\ncommit_after_s = 10\n");
    let settings = desk.settings();
    assert_eq!(settings.relay.commit_after, Some(Duration::from_secs(10)));
}

#[test]
fn the_topmost_preset_is_the_one() {
    let desk = Desk::with("preset = \"strict\"\n").flag("--preset", "preset", "balanced");
    assert_eq!(
        desk.settings(),
        Settings::default(),
        "nothing of strict is left"
    );
}

#[test]
fn the_articles_variables_stand_below_oneslots_own() {
    let desk = Desk::new()
        .variable("LLM_BASE_URL", "http://127.0.0.1:1234/v1")
        .variable("LLM_MODEL", "article")
        .variable("LLM_N_CTX", "2048")
        .variable("ONESLOT_UPSTREAM__MODEL", "own");
    let settings = desk.settings();
    assert_eq!(
        settings.upstream.base_url.to_string(),
        "http://127.0.0.1:1234"
    );
    assert_eq!(settings.upstream.model.as_deref(), Some("own"));
    assert_eq!(settings.window.context, Context::Tokens(2048));
}

#[test]
fn variables_of_places_and_of_others_are_passed_over() {
    let desk = Desk::new()
        .variable("ONESLOT_CONFIG", "/somewhere")
        .variable("ONESLOT_STATE", "/somewhere")
        .variable("LLM_PROVIDER", "cloud")
        .variable("LLM_BASE_URL", "");
    let loaded = desk.sources.load().unwrap();
    assert!(
        loaded.notices.is_empty(),
        "none of them is a setting: {:?}",
        loaded.notices
    );
    assert_eq!(loaded.settings, Settings::default());
}

#[test]
fn a_fault_names_file_line_member_what_was_found_and_what_is_expected() {
    let desk = Desk::with("# mine\n[queue]\nmax_waiting = \"four\"\nfull_status = 418\n");
    let file = desk.sources.file.display().to_string();
    let complaint = desk.complaint();
    let want = format!(
        "{file}:3: queue.max_waiting: found \"four\", expected a whole number from 0 to 10000\n{file}:4: queue.full_status: found 418, expected 503 or 429"
    );
    assert_eq!(complaint, want);
    desk.save("[queue]\nmax_waiting = -1\n[log]\nlevel = \"loud\"\n[queues]\n");
    let complaint = desk.complaint();
    assert!(
        complaint.contains(":2: queue.max_waiting: found -1"),
        "{complaint}"
    );
    desk.save("listen = [\"127.0.0.1:70000\"]\n[log]\nlevel = \"loud\"\n");
    let complaint = desk.complaint();
    assert!(complaint.contains(":1: listen: found [\"127.0.0.1:70000\"], expected addresses with a port from 0 to 65535"), "{complaint}");
    assert!(
        complaint.contains(":3: log.level: found \"loud\", expected \"error\" or"),
        "every fault is told: {complaint}"
    );
}

#[test]
fn a_fault_of_a_variable_or_flag_stops_the_start() {
    let desk = Desk::new().variable("ONESLOT_UPSTREAM__SLOTS", "many");
    let error = desk.sources.start().unwrap_err().to_string();
    assert_eq!(
        error,
        "ONESLOT_UPSTREAM__SLOTS: upstream.slots: found \"many\", expected a whole number from 1 to 64"
    );
    let desk = Desk::new().flag("--listen", "listen", "nowhere");
    let error = desk.sources.start().unwrap_err().to_string();
    assert!(
        error.starts_with("--listen: listen: found [\"nowhere\"]"),
        "{error}"
    );
}

#[test]
fn an_unknown_member_is_told_with_the_one_it_may_have_meant() {
    let desk = Desk::with("[queue]\nmax_waitng = 4\n").variable("ONESLOT_LOG__LEVLE", "warn");
    let loaded = desk.sources.load_exactly().unwrap();
    let texts: Vec<String> = loaded.notices.iter().map(Notice::to_string).collect();
    assert!(texts[0].ends_with(":2: queue.max_waitng is not a setting and has no effect; did you mean queue.max_waiting?"), "{texts:?}");
    assert!(
        texts[1].starts_with("ONESLOT_LOG__LEVLE: log.levle is not a setting"),
        "{texts:?}"
    );
}

#[test]
fn no_message_repeats_a_credential() {
    for text in [
        "[upstream]\napi_key = [\"sk-TEST-CANARY\"]\n",
        "[upstream]\napi_key = \"sk-TEST-CANARY with spaces\"\n",
        "[upstream]\nbase_url = \"http://user:sk-TEST-CANARY@127.0.0.1/\"\n",
        "[upstream]\nbase_url = [\"http://user:sk-TEST-CANARY@127.0.0.1/\"]\n",
        "[upstream]\napi_key = \"sk-TEST-CANARY\n",
        "[upstream]\napi_key = sk-TEST-CANARY\n",
        "[upstream]\nsk-TEST-CANARY\n",
        "[access]\nkeys = [\"sk-TEST-CANARY\"]\n",
        "upstream = \"sk-TEST-CANARY\"\n",
    ] {
        let complaint = Desk::with(text).complaint();
        assert!(
            !complaint.contains("CANARY"),
            "{text:?} was told as: {complaint}"
        );
    }
    let desk = Desk::with("[upstream]\napi_key = \"sk-TEST-CANARY\"\n");
    let loaded = desk.sources.load().unwrap();
    assert!(!format!("{loaded:?}").contains("CANARY"), "nor does Debug");
    assert!(
        !in_use(&loaded).contains("CANARY"),
        "nor the settings in use"
    );
    assert!(
        in_use(&loaded).contains("(set, not shown)"),
        "but that one is set is shown"
    );
}

#[test]
fn the_gateways_own_address_is_no_model_server() {
    for url in [
        "http://127.0.0.1:11411",
        "http://localhost:11411/v1",
        "http://[::1]:11411",
    ] {
        let desk = Desk::new().flag("--upstream", "upstream.base_url", url);
        let error = desk.sources.load().unwrap_err().to_string();
        assert!(error.contains("OneSlot's own address"), "{url}: {error}");
    }
    let desk = Desk::new().flag("--upstream", "upstream.base_url", "http://192.0.2.1:11411");
    assert!(
        desk.sources.load().is_ok(),
        "the same port elsewhere is another machine"
    );
}

#[test]
fn listening_beyond_loopback_needs_a_key() {
    let open = "listen = [\"0.0.0.0:11411\"]\n";
    let digest = "a".repeat(64);
    let key = format!("keys = [{{ name = \"zed\", sha256 = \"{digest}\" }}]\n");
    let complaint = Desk::with(open).complaint();
    assert!(
        complaint.contains("0.0.0.0:11411, which other machines can reach"),
        "{complaint}"
    );
    let complaint = Desk::with(&format!("{open}[access]\n{key}")).complaint();
    assert!(
        complaint.contains("require_key"),
        "a key nobody must show guards nothing"
    );
    let guarded = format!("{open}[access]\nrequire_key = true\n{key}");
    assert!(Desk::with(&guarded).sources.load_exactly().is_ok());
    let required = "[access]\nrequire_key = true\n";
    let loaded = Desk::with(required).sources.load_exactly().unwrap();
    assert_eq!(
        loaded.notices,
        [Notice::NoKey],
        "on loopback it is safe, and nobody can call"
    );
}

#[test]
fn keys_are_read_in_both_spellings_of_a_list() {
    let digest = "0f".repeat(32);
    let inline = format!("[access]\nkeys = [{{ name = \"zed\", sha256 = \"{digest}\" }}]\n");
    let tables = format!("[[access.keys]]\nname = \"zed\"\nsha256 = \"{digest}\"\n");
    for text in [inline, tables] {
        let settings = Desk::with(&text).settings();
        assert_eq!(
            settings.access.keys,
            [Key {
                name: "zed".to_owned(),
                sha256: [15; 32]
            }]
        );
    }
}

#[test]
fn localhost_means_both_families() {
    let desk = Desk::with("listen = \"localhost:4000\"\n");
    let listen: Vec<String> = desk
        .settings()
        .listen
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(listen, ["127.0.0.1:4000", "[::1]:4000"]);
}

#[test]
fn the_longest_cooldown_is_never_shorter_than_the_first() {
    let max = |text| Desk::with(text).settings().limits.cooldown_max.as_secs();
    assert_eq!(max("[health]\ncooldown_ms = 5000\n"), 15);
    assert_eq!(max("[health]\ncooldown_ms = 20000\n"), 20);
    let strict = "preset = \"strict\"\n[health]\ncooldown_ms = 5000\n";
    assert_eq!(max(strict), 5, "no doubling");
}

#[test]
fn a_file_of_an_earlier_version_still_loads() {
    let desk = Desk::with(
        "[queue]\nmax_bytes = 1\nmax_waiting = 2\n[window]\nmargin = 5\ncounting = \"exact\"\n[access]\nmax_connections = -1\n",
    )
    .variable("ONESLOT_PRESSURE__RAM_HIGH_MIB", "many");
    let loaded = desk.sources.load_exactly().unwrap();
    assert_eq!(loaded.settings.queue.max_waiting, 2);
    assert_eq!(loaded.settings.window.counting, Counting::Auto);
    let texts: Vec<String> = loaded.notices.iter().map(Notice::to_string).collect();
    let file = desk.sources.file.display();
    let gone = "is no longer a setting and has no effect";
    let want = [
        format!("{file}:2: queue.max_bytes {gone}"),
        format!("{file}:5: window.margin {gone}"),
        format!("{file}:6: window.counting {gone}"),
        format!("{file}:8: access.max_connections {gone}"),
        format!("ONESLOT_PRESSURE__RAM_HIGH_MIB: pressure.ram_high_mib {gone}"),
    ];
    assert_eq!(texts, want);
    desk.sources
        .edit("queue.max_waiting", Some(&json!(3)))
        .unwrap();
    assert!(
        desk.text().contains("margin = 5"),
        "an edit leaves them alone"
    );
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_are_accepted() {
    let desk = Desk::with("\u{feff}# mine\r\n[queue]\r\nmax_waiting = 2\r\nslots = 1\r\n");
    let loaded = desk.sources.start().unwrap();
    assert_eq!(loaded.settings.queue.max_waiting, 2);
    let told = loaded
        .notices
        .iter()
        .map(Notice::to_string)
        .collect::<String>();
    assert!(told.contains(":4: queue.slots is not a setting"), "{told}");
    assert!(desk.sources.good.as_ref().unwrap().exists(), "it is good");
    desk.sources
        .edit("queue.max_waiting", Some(&json!(3)))
        .unwrap();
    assert_eq!(desk.settings().queue.max_waiting, 3, "{:?}", desk.text());
}

#[test]
fn the_settings_in_use_say_what_set_them() {
    let desk = Desk::with("preset = \"strict\"\n[queue]\nmax_waiting = 2\n")
        .variable("ONESLOT_LOG__LEVEL", "warn")
        .flag("--listen", "listen", "127.0.0.1:0");
    let text = in_use(&desk.sources.load().unwrap());
    let line = |path: &str| text.lines().find(|line| line.starts_with(path)).unwrap();
    assert!(line("log.level").ends_with("= \"warn\"  # environment ONESLOT_LOG__LEVEL"));
    assert!(line("listen").ends_with("= [\"127.0.0.1:0\"]  # flag --listen"));
    assert!(line("queue.max_waiting").ends_with("config.toml:3"));
    assert!(line("timeouts.total_s").ends_with("= 120  # preset"));
    assert!(line("upstream.slots").ends_with("= 1  # default"));
}
