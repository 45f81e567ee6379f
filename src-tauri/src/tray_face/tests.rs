//! Every state of the design, as icon, words and rows.

use jiff::tz::TimeZone;
use oneslot::telemetry::message::Fact;
use oneslot::telemetry::snapshot::{
    Face as Icon, Item, Level, Pause, Phase, Pressure, Queue, Ram, Snapshot, Upstream,
};

use super::*;
use crate::i18n::{Language, Words};

const NOW: u64 = 1_790_000_000_000;
const GIB: u64 = 1 << 30;

fn served(state: Icon) -> Snapshot {
    Snapshot {
        state,
        now_ms: NOW,
        listen: vec!["127.0.0.1:11411".to_owned()],
        upstream: Upstream {
            kind: Some("llama.cpp".to_owned()),
            model: Some("qwen3:8b".to_owned()),
            ..Upstream::default()
        },
        pressure: Pressure {
            ram: Ram {
                total: Some(32 * GIB),
                available: Some(20 * GIB + GIB / 2),
            },
            ..Pressure::default()
        },
        ..Snapshot::default()
    }
}

fn with_running(mut snapshot: Snapshot, phase: Phase, waiting: u64) -> Snapshot {
    let item = |position: u64| Item {
        id: position.to_string(),
        app: Some("zed".to_owned()),
        model: Some("qwen3:8b".to_owned()),
        position,
        phase: if position == 0 { phase } else { Phase::Waiting },
        ..Item::default()
    };
    snapshot.queue = Queue {
        running: 1,
        waiting,
        max_waiting: 4,
        items: (0..=waiting).map(item).collect(),
    };
    snapshot
}

fn looked_at(snapshot: &Snapshot, language: Language, gateway: Whose) -> Face {
    let words = Words::built_in().unwrap();
    face(&Seen {
        snapshot,
        gateway,
        login: Login::Stays,
        words: &words,
        language,
        zone: &TimeZone::UTC,
    })
}

fn english(snapshot: &Snapshot) -> Face {
    looked_at(snapshot, Language::English, Whose::Own)
}

fn texts(face: &Face) -> Vec<&str> {
    let rows = face.rows.iter().filter(|row| row.kind != Kind::Line);
    rows.map(|row| row.text.as_str()).collect()
}

fn wishes(face: &Face) -> Vec<Action> {
    let rows = face.rows.iter().filter(|row| row.kind != Kind::Line);
    rows.map(|row| row.action).collect()
}

fn every_state() -> Vec<(Snapshot, &'static str, &'static str)> {
    let mut cooling = served(Icon::Cooling);
    cooling.health.cooldown_ms = 2_100;
    let mut full = served(Icon::Degraded);
    full.pressure.level = Level::Critical;
    let mut taken = Snapshot {
        upstream: Upstream::default(),
        ..served(Icon::NotServing)
    };
    let address = "127.0.0.1:11411".to_owned();
    let program = "python3 (pid 2841)".to_owned();
    let fact = Fact::PortTaken { address, program };
    taken.notices.push(fact.message());
    let mut reserved = taken.clone();
    reserved.notices[0].code = "port_refused".to_owned();
    let paused = |until_ms: Option<u64>| Snapshot {
        pause: Some(Pause { until_ms }),
        ..served(Icon::Paused)
    };
    let unnamed = |state| Snapshot {
        upstream: Upstream::default(),
        ..served(state)
    };
    vec![
        (unnamed(Icon::Starting), "Starting", "正在启动"),
        (served(Icon::Ready), "Ready", "就绪"),
        (
            with_running(served(Icon::Busy), Phase::Answer, 0),
            "Answering zed",
            "正在回答 zed",
        ),
        (
            with_running(served(Icon::Busy), Phase::Prompt, 0),
            "Reading the prompt from zed",
            "正在读取 zed 的提示词",
        ),
        (
            with_running(served(Icon::Waiting), Phase::Answer, 2),
            "Answering zed · 2 waiting",
            "正在回答 zed · 2 个排队中",
        ),
        (
            served(Icon::Degraded),
            "Memory is low: answers are shortened",
            "内存偏低：回答会缩短",
        ),
        (
            full,
            "Memory is full: requests are on hold",
            "内存已满：请求暂缓",
        ),
        (
            served(Icon::Loading),
            "Loading qwen3:8b",
            "正在加载 qwen3:8b",
        ),
        (
            cooling,
            "llama.cpp failed · retrying in 0:03",
            "llama.cpp 出错 · 0:03 后重试",
        ),
        (
            served(Icon::Down),
            "llama.cpp is not responding",
            "llama.cpp 没有响应",
        ),
        (
            paused(None),
            "Paused until you resume",
            "已暂停，直到手动恢复",
        ),
        (
            paused(Some(NOW + 3_600_000)),
            "Paused until 15:13",
            "已暂停，15:13 恢复",
        ),
        (
            unnamed(Icon::NoServer),
            "No model server found",
            "未找到模型服务器",
        ),
        (taken, "Not serving: port in use", "未提供服务：端口被占用"),
        (
            reserved,
            "Not serving: the system does not permit this port",
            "未提供服务：系统不允许使用该端口",
        ),
        (
            unnamed(Icon::NotServing),
            "Not serving: it could not start",
            "未提供服务：启动失败",
        ),
    ]
}

#[test]
fn every_state_has_its_shape_and_its_sentence_in_both_languages() {
    for (snapshot, en, zh) in every_state() {
        for (language, said) in [(Language::English, en), (Language::Chinese, zh)] {
            let face = looked_at(&snapshot, language, Whose::Own);
            assert_eq!(face.icon, snapshot.state, "{said}: the icon is the state's");
            assert_eq!(face.tooltip, said);
            let first = face.rows.first().unwrap();
            assert_eq!(first.text, said, "the first row says what the tooltip says");
            assert_eq!(first.kind, Kind::Words, "the state is no button");
        }
    }
}

#[test]
fn no_state_has_more_than_twelve_rows_or_words_without_a_translation() {
    for (snapshot, said, _) in every_state() {
        for gateway in [Whose::Own, Whose::Daemon] {
            let face = looked_at(&snapshot, Language::English, gateway);
            let texts = texts(&face);
            assert!(texts.len() <= 12, "{said}: {} rows", texts.len());
            for text in texts {
                let bare = text.contains('{') || text.starts_with("menu.");
                assert!(!bare, "{said}: {text} was not said");
            }
            let units = face.tooltip.encode_utf16().count();
            assert!(units <= 127, "{said}: Windows cuts a longer tooltip");
        }
    }
}

#[test]
fn every_shape_is_another_one() {
    let mut shapes: Vec<_> = every_state().iter().map(|(s, ..)| shape(s.state)).collect();
    shapes.sort_unstable();
    shapes.dedup();
    assert_eq!(shapes.len(), 11, "no two states share a shape: {shapes:?}");
}

#[test]
fn a_ready_gateway_offers_what_it_can_do() {
    let face = english(&served(Icon::Ready));
    assert_eq!(
        texts(&face),
        [
            "Ready",
            "Memory normal: 11.5 of 32.0 GB",
            "Open OneSlot…",
            "Pause until I resume",
            "Pause for a time",
            "Stop the current answer",
            "Unload the model",
            "Copy base URL",
            "Start at login",
            "Open logs",
            "Quit",
        ]
    );
    let stop = face
        .rows
        .iter()
        .find(|row| row.action == Action::Stop)
        .unwrap();
    assert_eq!(
        stop.kind,
        Kind::Resting,
        "nothing runs that could be stopped"
    );
}

#[test]
fn a_pause_gives_way_to_resuming_with_the_time_left() {
    let mut snapshot = served(Icon::Paused);
    snapshot.pause = Some(Pause {
        until_ms: Some(NOW + 14 * 60_000 + 1),
    });
    let face = english(&snapshot);
    assert!(texts(&face).contains(&"Resume (0:15 left)"), "{face:?}");
    assert!(
        !wishes(&face).contains(&Action::PauseFor),
        "it is paused already"
    );
    snapshot.pause = Some(Pause { until_ms: None });
    assert!(texts(&english(&snapshot)).contains(&"Resume"));
}

#[test]
fn checking_is_offered_only_where_there_is_something_to_find() {
    for (snapshot, said, _) in every_state() {
        let offered = wishes(&english(&snapshot)).contains(&Action::Check);
        let wanted = matches!(snapshot.state, Icon::Cooling | Icon::Down | Icon::NoServer);
        assert_eq!(offered, wanted, "{said}");
    }
}

#[test]
fn quitting_says_what_it_would_cut_and_what_goes_on() {
    let busy = with_running(served(Icon::Waiting), Phase::Answer, 2);
    let last = |gateway| {
        let face = looked_at(&busy, Language::English, gateway);
        face.rows.last().unwrap().text.clone()
    };
    assert_eq!(last(Whose::Own), "Quit (3 in flight)");
    assert_eq!(last(Whose::Daemon), "Quit (daemon keeps running)");
}

#[test]
fn a_gateway_that_does_not_serve_offers_no_pause() {
    let face = english(&served(Icon::NotServing));
    assert_eq!(
        wishes(&face),
        [
            Action::Status,
            Action::Memory,
            Action::Open,
            Action::Login,
            Action::Logs,
            Action::Quit
        ]
    );
}

#[test]
fn a_long_name_is_cut_in_its_middle() {
    let mut snapshot = with_running(served(Icon::Busy), Phase::Answer, 0);
    snapshot.queue.items.first_mut().unwrap().app = Some("a".repeat(40) + "zz");
    let face = english(&snapshot);
    assert!(face.tooltip.ends_with("aaazz"), "{}", face.tooltip);
    assert!(face.tooltip.contains('…'), "{}", face.tooltip);
}

#[test]
fn a_name_that_a_server_chose_breaks_no_line_turns_no_text_and_carries_no_marks() {
    for name in [
        "<b>bo</b>",
        "a\nb\tc",
        "ab\u{202e}txt.exe",
        "\u{1b}[31mred\u{7}",
    ] {
        let mut snapshot = with_running(served(Icon::Loading), Phase::Loading, 0);
        snapshot.queue.items.first_mut().unwrap().model = Some(name.to_owned());
        let face = english(&snapshot);
        let is_bad = |c: char| c.is_control() || "<>\u{202e}".contains(c);
        assert!(face.tooltip.starts_with("Loading "), "{:?}", face.tooltip);
        assert!(!face.tooltip.contains(is_bad), "{:?}", face.tooltip);
        assert_eq!(face.rows.first().unwrap().text, face.tooltip);
    }
}
