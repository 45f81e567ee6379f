//! Fake drivers, fake files: every failure a card can have, and none of them a crash, a level or
//! a second line in the log.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use super::nvidia::{Library, LibraryError};
use super::*;
use crate::memory::{Judge, Level, MIB, Sample, Thresholds};
use crate::telemetry::message::Fact;

const GIB: u64 = 1 << 30;

/// A driver whose every answer is set.
#[derive(Clone)]
struct Fake {
    count: Result<u32, LibraryError>,
    name: Result<String, LibraryError>,
    memory: Result<(u64, u64), LibraryError>,
    processes: Result<Vec<(u32, Option<u64>)>, LibraryError>,
}

impl Fake {
    fn healthy() -> Self {
        Self {
            count: Ok(1),
            name: Ok("GeForce".to_owned()),
            memory: Ok((8 * GIB, 2 * GIB)),
            processes: Ok(Vec::new()),
        }
    }
}

impl Library for Fake {
    fn count(&self) -> Result<u32, LibraryError> {
        self.count.clone()
    }
    fn name(&self, _card: u32) -> Result<String, LibraryError> {
        self.name.clone()
    }
    fn memory(&self, _card: u32) -> Result<(u64, u64), LibraryError> {
        self.memory.clone()
    }
    fn processes(&self, _card: u32) -> Result<Vec<(u32, Option<u64>)>, LibraryError> {
        self.processes.clone()
    }
}

/// A machine whose driver can be changed, and how often it was opened and closed.
struct Machine {
    fake: Arc<Mutex<Result<Fake, LibraryError>>>,
    opened: Arc<AtomicU32>,
    folder: tempfile::TempDir,
}

impl Machine {
    fn with(fake: Result<Fake, LibraryError>) -> Self {
        Self {
            fake: Arc::new(Mutex::new(fake)),
            opened: Arc::default(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn cards(&self) -> NvidiaCards {
        let (fake, opened) = (Arc::clone(&self.fake), Arc::clone(&self.opened));
        let open = move || {
            opened.fetch_add(1, Ordering::Relaxed);
            let fake = fake.lock().unwrap().clone()?;
            Ok(Box::new(fake) as Box<dyn Library>)
        };
        NvidiaCards::with(Box::new(open), self.folder.path().to_owned())
    }

    fn reader(&self) -> VramReader {
        VramReader::with(self.cards(), AmdCards::new("/nonexistent".into()))
    }

    fn opened(&self) -> u32 {
        self.opened.load(Ordering::Relaxed)
    }
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

const T0: Duration = Duration::ZERO;

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_driver_that_is_missing_or_does_not_fit_is_tried_again_seldom() {
    for error in [
        LibraryError::Absent,
        LibraryError::Unusable("DriverNotLoaded".to_owned()),
        LibraryError::Unusable("LibRmVersionMismatch".to_owned()),
    ] {
        let machine = Machine::with(Err(error.clone()));
        let mut cards = machine.cards();
        for second in (0..3600).step_by(2) {
            assert_eq!(cards.read(&[], at(second)), [], "{error}");
        }
        assert!(
            machine.opened() <= 8,
            "1,800 readings, {} tries",
            machine.opened()
        );
        *machine.fake.lock().unwrap() = Ok(Fake::healthy());
        assert_eq!(
            cards.read(&[], at(7200)).len(),
            1,
            "a driver that is loaded later is found"
        );
    }
}

#[test]
fn a_call_that_fails_leaves_its_own_gap_and_no_more() {
    let fake = Fake {
        memory: Err(LibraryError::NotSupported),
        ..Fake::healthy()
    };
    let machine = Machine::with(Ok(fake));
    let mut reader = machine.reader();
    for second in 0..100 {
        let cards = reader.read(&[7], at(second));
        assert_eq!(cards[0].name, "GeForce", "the name is known all the same");
        assert_eq!(cards[0].memory, None, "a chip with the machine's memory");
        assert_eq!(reader.judge(&cards), None);
    }
    assert_eq!(machine.opened(), 1, "a gap is no failure of the driver");
    let nothing = Fake {
        name: Err(LibraryError::Call("unknown".to_owned())),
        memory: Err(LibraryError::Call("unknown".to_owned())),
        processes: Err(LibraryError::NotSupported),
        count: Ok(1),
    };
    let cards = Machine::with(Ok(nothing)).reader().read(&[7], T0);
    assert_eq!(
        (cards[0].name.as_str(), cards[0].memory),
        ("NVIDIA card 0", None)
    );
}

#[test]
fn impossible_numbers_of_a_driver_are_unknown() {
    for memory in [(0, 0), (0, 5), (8 * GIB, 9 * GIB), (0, u64::MAX)] {
        let fake = Fake {
            memory: Ok(memory),
            ..Fake::healthy()
        };
        let cards = Machine::with(Ok(fake)).reader().read(&[], T0);
        assert_eq!(cards[0].memory, None, "{memory:?}");
    }
    let fake = Fake {
        count: Ok(u32::MAX),
        ..Fake::healthy()
    };
    let cards = Machine::with(Ok(fake)).reader().read(&[], T0);
    assert!(cards.len() <= 64, "a wrong count makes no endless list");
    let none = Fake {
        count: Ok(0),
        ..Fake::healthy()
    };
    assert_eq!(Machine::with(Ok(none)).reader().read(&[], T0), []);
}

#[test]
fn a_card_lost_at_run_time_is_let_go_and_found_again() {
    let machine = Machine::with(Ok(Fake::healthy()));
    let mut cards = machine.cards();
    assert_eq!(cards.read(&[], T0).len(), 1);
    let lost = Fake {
        count: Err(LibraryError::Lost),
        ..Fake::healthy()
    };
    *machine.fake.lock().unwrap() = Ok(lost);
    cards.rest();
    assert_eq!(cards.read(&[], at(2)), []);
    assert_eq!(cards.read(&[], at(4)), [], "not tried again at once");
    *machine.fake.lock().unwrap() = Ok(Fake::healthy());
    assert_eq!(cards.read(&[], at(60)).len(), 1);
}

#[test]
fn a_sleeping_card_is_never_woken_and_an_idle_driver_is_let_go() {
    let machine = Machine::with(Ok(Fake::healthy()));
    let root = machine.folder.path();
    write(root, "0000:01:00.0/vendor", "0x10de\n");
    write(root, "0000:01:00.0/class", "0x030000\n");
    write(root, "0000:01:00.0/power/runtime_status", "suspended\n");
    // Its sound, and another maker's card, may be awake.
    write(root, "0000:01:00.1/vendor", "0x10de\n");
    write(root, "0000:01:00.1/class", "0x040300\n");
    write(root, "0000:01:00.1/power/runtime_status", "active\n");
    write(root, "0000:00:02.0/vendor", "0x8086\n");
    write(root, "0000:00:02.0/class", "garbage");
    let mut cards = machine.cards();
    for second in 0..50 {
        assert_eq!(cards.read(&[], at(second)), []);
    }
    assert_eq!(
        machine.opened(),
        0,
        "opening the library would wake the card"
    );
    for state in ["active\n", "unsupported\n", ""] {
        write(root, "0000:01:00.0/power/runtime_status", state);
        assert_eq!(cards.read(&[], at(100)).len(), 1, "{state:?}");
    }
    assert_eq!(machine.opened(), 1, "kept open while it is used");
    cards.rest();
    assert_eq!(cards.read(&[], at(200)).len(), 1);
    assert_eq!(machine.opened(), 2, "closed while nothing runs");
    write(root, "0000:01:00.0/power/runtime_status", "suspending\n");
    assert_eq!(cards.read(&[], at(300)), []);
}

fn card(place: &str, free: u64, own: Option<u64>) -> Card {
    Card {
        place: place.to_owned(),
        name: place.to_owned(),
        memory: Some(Memory {
            total: 8 * GIB,
            free,
            kind: MemoryKind::Own,
        }),
        own,
        model: if own.is_some() {
            OnCard::Yes
        } else {
            OnCard::NotSeen
        },
    }
}

fn level(reader: &mut VramReader, cards: &[Card]) -> Level {
    let mut judge = Judge::new(Thresholds {
        rise_readings: 1,
        ..Thresholds::default()
    });
    let sample = Sample {
        vram: reader.judge(cards),
        ..Sample::default()
    };
    judge.judge(sample, T0).level
}

#[test]
fn a_card_that_its_model_fills_is_normal_and_one_that_others_fill_is_not() {
    let mut reader = Machine::with(Err(LibraryError::Absent)).reader();
    let full = [card("a", 100 * MIB, Some(7 * GIB))];
    assert_eq!(
        level(&mut reader, &full),
        Level::Normal,
        "filled on purpose"
    );
    reader.model_loaded();
    let roomy = [card("a", 900 * MIB, Some(5 * GIB))];
    assert_eq!(level(&mut reader, &roomy), Level::Normal);
    let grown = [card("a", 300 * MIB, Some(5 * GIB + 600 * MIB))];
    assert_eq!(
        level(&mut reader, &grown),
        Level::Normal,
        "its own answers grew"
    );
    let played = [card("a", 650 * MIB, Some(5 * GIB))];
    assert_eq!(
        level(&mut reader, &played),
        Level::Normal,
        "250 MiB less is not enough"
    );
    let played = [card("a", 640 * MIB, Some(5 * GIB))];
    assert_eq!(level(&mut reader, &played), Level::Elevated);
    let played = [card("a", 10 * MIB, Some(5 * GIB))];
    assert_eq!(
        level(&mut reader, &played),
        Level::High,
        "a card alone is never critical"
    );
    reader.model_loaded();
    assert_eq!(
        level(&mut reader, &played),
        Level::Normal,
        "loaded again beside the game"
    );
}

#[test]
fn of_several_cards_the_models_counts_else_the_fullest() {
    let mut reader = Machine::with(Err(LibraryError::Absent)).reader();
    let before = [card("a", 4 * GIB, None), card("b", 3 * GIB, Some(GIB))];
    assert_eq!(reader.judge(&before).unwrap().card, "b");
    let after = [card("a", 100 * MIB, None), card("b", 3 * GIB, Some(GIB))];
    assert_eq!(
        level(&mut reader, &after),
        Level::Normal,
        "another card's shortness is not the model's"
    );
    let unknown = [card("a", 100 * MIB, None), card("b", 3 * GIB, None)];
    assert_eq!(reader.judge(&unknown).unwrap().card, "a", "the fullest");
    let unknown = Card {
        memory: None,
        ..card("c", 0, Some(1))
    };
    let mixed = [unknown, card("b", 3 * GIB, None)];
    assert_eq!(
        reader.judge(&mixed).unwrap().card,
        "b",
        "a known card counts"
    );
}

#[test]
fn the_cause_names_card_and_numbers() {
    let mut judge = Judge::new(Thresholds {
        rise_readings: 1,
        ..Thresholds::default()
    });
    let mut reader = Machine::with(Err(LibraryError::Absent)).reader();
    reader.judge(&[card("RTX", 900 * MIB, None)]);
    let vram = reader.judge(&[card("RTX", 300 * MIB, None)]);
    let verdict = judge.judge(
        Sample {
            vram,
            ..Sample::default()
        },
        T0,
    );
    assert_eq!(
        verdict.cause,
        Some(Fact::VramLow {
            free: "300 MiB".to_owned(),
            total: "8.0 GiB".to_owned(),
            card: "RTX".to_owned(),
            taken: "600 MiB".to_owned(),
        })
    );
}

#[test]
fn amds_cards_are_read_by_their_files_and_an_apu_is_judged_by_ram() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let device = |name: &str, files: &[(&str, &str)]| {
        write(root, &format!("{name}/device/vendor"), "0x1002\n");
        for (file, text) in files {
            write(root, &format!("{name}/device/{file}"), text);
        }
    };
    let own = |total: &'static str, used: &'static str| {
        [
            ("mem_info_vram_total", total),
            ("mem_info_vram_used", used),
            ("mem_info_gtt_total", "16000000000"),
            ("mem_info_gtt_used", "1000"),
        ]
    };
    device("card0", &own("17163091968\n", "163091968\n"));
    write(root, "card0/device/product_name", "Radeon RX 7800 XT\n");
    device("card1", &own("536870912", "500000000"));
    device("card2", &own("8589934592", "4294967296"));
    write(root, "card2/device/gpu_metrics", "\u{78}\u{0}\u{2}\u{1}");
    device("card3", &own("17163091968", "99999999999999"));
    device("card4", &own("not a number", ""));
    device("card5", &own("17163091968", "1"));
    write(root, "card5/device/power/runtime_status", "suspended");
    device("card10", &own("0", "0"));
    write(root, "card6/device/vendor", "0x10de");
    write(root, "card0-DP-1/device/vendor", "0x1002");
    write(root, "renderD128/device/vendor", "0x1002");
    let cards = AmdCards::new(root.to_owned()).read(&[]);
    let places: Vec<&str> = cards.iter().map(|card| card.place.as_str()).collect();
    assert_eq!(
        places,
        [
            "amd:card0",
            "amd:card1",
            "amd:card2",
            "amd:card3",
            "amd:card4",
            "amd:card10"
        ],
        "connectors, other makers and sleepers are left alone"
    );
    assert_eq!(cards[0].name, "Radeon RX 7800 XT");
    let memory = cards[0].memory.unwrap();
    assert_eq!(
        (memory.total, memory.free, memory.kind),
        (17_163_091_968, 17_000_000_000, MemoryKind::Own)
    );
    for apu in [&cards[1], &cards[2]] {
        assert_eq!(
            apu.memory.unwrap().kind,
            MemoryKind::Shared,
            "{}",
            apu.place
        );
    }
    for odd in &cards[3..] {
        assert_eq!(odd.memory, None, "{}: impossible numbers", odd.place);
    }
    let mut reader = Machine::with(Err(LibraryError::Absent)).reader();
    let apu = cards[1..2].to_vec();
    assert_eq!(reader.judge(&apu), None, "RAM says how short it is");
}
