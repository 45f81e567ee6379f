//! Recorded group files, whole trees of them in a temporary folder.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use super::cgroup::{Group, GroupError, Groups, Version, limit, own_group};
use super::{GIB, Judge, Level, MIB, RamReader, Reading, Thresholds};

const UNLIMITED: &str = "9223372036854771712\n";
const HOST: Reading = Reading {
    total: 16 * GIB,
    available: 12 * GIB,
};
const STAT_V2: &str = "anon 104857600\nfile 1887436800\nkernel 20971520\nshmem 0\n\
    inactive_anon 104857600\nactive_anon 0\ninactive_file 1572864000\nactive_file 314572800\n\
    unevictable 0\nslab_reclaimable 10485760\nslab_unreclaimable 5242880\n";
const STAT_V1: &str = "cache 0\nrss 0\ninactive_file 1\nactive_file 1\n\
    hierarchical_memory_limit 2147483648\ntotal_cache 1887436800\ntotal_shmem 0\n\
    total_inactive_file 1572864000\ntotal_active_file 314572800\n";

/// A recorded machine: `/proc/self/cgroup` and the group file system.
struct Tree {
    folder: TempDir,
}

impl Tree {
    fn new(own: &str) -> Self {
        let tree = Self {
            folder: TempDir::new().unwrap(),
        };
        tree.file("own", own)
    }

    fn file(self, path: &str, text: &str) -> Self {
        let path = self.folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    fn v2(self, group: &str, max: &str, current: u64, stat: &str) -> Self {
        let at = |name: &str| Path::new("fs").join(group).join(name);
        self.file(at("memory.max").to_str().unwrap(), max)
            .file(
                at("memory.current").to_str().unwrap(),
                &format!("{current}\n"),
            )
            .file(at("memory.stat").to_str().unwrap(), stat)
    }

    fn v1(self, group: &str, limit: &str, usage: u64, stat: &str) -> Self {
        let at = |name: &str| Path::new("fs/memory").join(group).join(name);
        self.file(at("memory.limit_in_bytes").to_str().unwrap(), limit)
            .file(
                at("memory.usage_in_bytes").to_str().unwrap(),
                &format!("{usage}\n"),
            )
            .file(at("memory.stat").to_str().unwrap(), stat)
    }

    fn groups(&self) -> Groups {
        let root = self.folder.path();
        Groups::new(root.join("own"), root.join("fs"))
    }

    fn readings(&self) -> Vec<Reading> {
        let groups = self.groups().read(HOST);
        let groups = groups.into_iter().map(Result::unwrap);
        groups.filter_map(|group| group.reading(HOST)).collect()
    }
}

fn reading(total: u64, available: u64) -> Reading {
    Reading { total, available }
}

#[test]
fn a_limit_is_a_number_or_none() {
    let cases = [
        ("max\n", None),
        ("-1\n", None),
        (UNLIMITED, None),
        // The same on a machine with pages of 64 KiB.
        ("9223372036854710272", None),
        ("2147483648\n", Some(2 * GIB)),
        ("0", Some(0)),
    ];
    for (text, expected) in cases {
        assert_eq!(limit(text).unwrap(), expected, "{text:?}");
    }
    for text in ["", "lots", "-2", "18446744073709551616"] {
        assert!(limit(text).is_err(), "{text:?} is no number of bytes");
    }
}

#[test]
fn the_tree_that_counts_memory_is_the_one_that_is_read() {
    let cases = [
        (
            "0::/user.slice/a:b.scope\n",
            Some((Version::Two, "/user.slice/a:b.scope")),
        ),
        (
            "4:memory:/docker/x\n0::/\n",
            Some((Version::One, "/docker/x")),
        ),
        ("0::/y\n5:cpu,memory:/x\n", Some((Version::One, "/x"))),
        ("1:name=systemd:/x\n", None),
        ("", None),
    ];
    for (text, expected) in cases {
        assert_eq!(own_group(text), expected, "{text:?}");
    }
}

#[test]
fn a_limit_that_is_none_leaves_the_machine_as_it_is() {
    let none_v2 = Tree::new("0::/app\n").v2("app", "max\n", 15 * GIB, STAT_V2);
    assert_eq!(none_v2.readings(), [], "`max` is no limit");
    let huge_v2 = Tree::new("0::/app\n").v2("app", UNLIMITED, 15 * GIB, STAT_V2);
    assert_eq!(huge_v2.readings(), [], "all pages there can be is no limit");
    let huge_v1 = Tree::new("4:memory:/app\n").v1("app", UNLIMITED, 15 * GIB, STAT_V1);
    assert_eq!(huge_v1.readings(), [], "nor is it in version 1");
    let above = Tree::new("0::/app\n").v2("app", "17179869184\n", 15 * GIB, STAT_V2);
    assert_eq!(above.readings(), [], "the host ends before this limit does");
    let zero = Tree::new("0::/app\n").v2("app", "0\n", 0, "");
    assert_eq!(zero.readings(), [], "a group of nothing could not run us");
}

#[test]
fn file_cache_in_a_full_group_counts_as_available() {
    let v2 = Tree::new("0::/app\n").v2("app", "2147483648\n", 2 * GIB - MIB, STAT_V2);
    let cache = 1_572_864_000 + 314_572_800;
    assert_eq!(
        v2.readings(),
        [reading(2 * GIB, MIB + cache + 10_485_760)],
        "cache and slab can be taken back"
    );
    let v1 = Tree::new("4:memory:/app\n").v1("app", "2147483648\n", 2 * GIB - MIB, STAT_V1);
    assert_eq!(
        v1.readings(),
        [reading(2 * GIB, MIB + cache)],
        "the members that include children count"
    );
}

#[test]
fn every_limit_from_the_own_group_to_the_root_is_read_and_the_tightest_counts() {
    let tree = Tree::new("0::/a/b/c\n")
        .v2("a/b/c", "8589934592\n", GIB, "")
        .v2("a/b", "max\n", GIB, "")
        .v2("a", "4294967296\n", 4 * GIB - 100 * MIB, "");
    let readings = tree.readings();
    let tightest = reading(4 * GIB, 100 * MIB);
    assert_eq!(
        readings,
        [reading(8 * GIB, 7 * GIB), tightest],
        "own group first; the one without a limit is left out"
    );
    let verdict = Judge::new(Thresholds::default()).read(readings, std::time::Duration::ZERO);
    assert_eq!(
        verdict.ram,
        Some(tightest),
        "what is left there is left to all below"
    );
}

#[test]
fn in_a_container_the_root_is_its_own_group() {
    for own in [
        "4:memory:/docker/0a1b\n",
        "4:memory:/../../x\n",
        "4:memory:/\n",
    ] {
        let tree = Tree::new(own).v1("", "1073741824\n", GIB / 2, "");
        assert_eq!(tree.readings(), [reading(GIB, GIB / 2)], "{own:?}");
    }
    let tree = Tree::new("0::/../../x\n").v2("", "1073741824\n", GIB / 2, "");
    assert_eq!(tree.readings(), [reading(GIB, GIB / 2)], "version 2 alike");
}

#[test]
fn a_system_without_groups_has_no_limits_and_no_errors() {
    let nowhere = TempDir::new().unwrap();
    let groups = Groups::new(nowhere.path().join("own"), nowhere.path().join("fs"));
    assert!(groups.read(HOST).is_empty(), "nothing is there to fail");
    assert!(
        Tree::new("0::/gone (deleted)\n")
            .groups()
            .read(HOST)
            .is_empty(),
        "a group that is gone has no limit"
    );
}

#[test]
fn a_group_that_cannot_be_read_does_not_hide_the_others() {
    let tree = Tree::new("0::/a/b/c\n")
        .file("fs/a/b/c/memory.max", "a lot\n")
        .file("fs/a/b/memory.max", "1073741824\n")
        .v2("a", "2147483648\n", GIB, "");
    let groups = tree.groups().read(HOST);
    assert!(
        matches!(
            groups.as_slice(),
            [
                Err(GroupError::Parse { .. }),
                Err(GroupError::Read { .. }),
                Ok(Group { used: GIB, .. })
            ]
        ),
        "{groups:?}"
    );
}

#[test]
fn a_group_filled_to_its_limit_is_known_to_be_full() {
    let group = Group {
        limit: 2 * GIB,
        used: 2 * GIB + MIB,
        reclaimable: 0,
    };
    let full = group.reading(HOST).unwrap();
    assert!(
        full.is_plausible(),
        "the kernel counted: this zero is not `unknown`"
    );
    assert_eq!(full.percent(), 0, "but next to nothing is left");
    let level = Thresholds::default().level(&full);
    assert_eq!(level, Level::Critical, "and that is critical");
}

#[test]
fn cache_larger_than_use_leaves_no_more_than_the_limit() {
    let group = Group {
        limit: GIB,
        used: 10,
        reclaimable: u64::MAX,
    };
    let whole = group.reading(HOST).unwrap();
    assert_eq!(
        whole,
        reading(GIB, GIB),
        "the two files are not read at once"
    );
    assert_eq!(whole.percent(), 100, "never more than all");
}

#[test]
fn a_group_cannot_have_what_the_host_has_not() {
    let group = Group {
        limit: 8 * GIB,
        used: 0,
        reclaimable: 0,
    };
    let tight = group.reading(reading(16 * GIB, GIB)).unwrap();
    assert_eq!(tight.available, GIB, "others on the host took the rest");
    let unknown = group.reading(reading(0, 0)).unwrap();
    assert_eq!(unknown.available, 8 * GIB, "an unknown host does not cap");
}

#[test]
fn the_reader_puts_the_machine_first_and_the_groups_behind_it() {
    let tree = Tree::new("0::/app\n").v2("app", "1048576\n", 524_288, "");
    let mut reader = RamReader::with_groups(Some(tree.groups()));
    let readings = reader.read();
    assert_eq!(readings.len(), 2, "{readings:?}");
    assert!(readings[0].total > MIB, "this machine has more than that");
    assert_eq!(readings[1], reading(MIB, MIB / 2));
}

#[test]
fn a_limit_around_the_gateway_itself_is_the_ram_it_shows_in_either_version() {
    let limit = 200 * MIB;
    let one = Tree::new("4:memory:/app\n").v1("app", &format!("{limit}\n"), 10 * MIB, "");
    let two = Tree::new("0::/app\n").v2("app", &format!("{limit}\n"), 10 * MIB, "");
    for tree in [one, two] {
        let mut reader = RamReader::with_groups(Some(tree.groups()));
        let mut judge = Judge::new(Thresholds::default());
        let verdict = judge.read(reader.read(), std::time::Duration::ZERO);
        assert_eq!(
            (verdict.level, verdict.ram),
            (Level::Normal, Some(reading(limit, 190 * MIB))),
            "roomy, but the machine's gigabytes are out of reach"
        );
    }
}

#[test]
fn this_machine_says_how_much_memory_it_has() {
    let readings = RamReader::new().read();
    assert!(!readings.is_empty(), "a machine that runs tests has RAM");
    assert!(readings.iter().all(Reading::is_plausible), "{readings:?}");
}

/// Where a test's log goes.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn failures_that_repeat_are_logged_once() {
    let tree = Tree::new("0::/a/b\n")
        .file("fs/a/b/memory.max", "a lot\n")
        .file("fs/a/memory.max", "1048576\n");
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        let mut reader = RamReader::with_groups(Some(tree.groups()));
        for _ in 0..5 {
            assert_eq!(reader.read().len(), 1, "the machine is known all the same");
        }
    });
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_eq!(log.lines().count(), 1, "ten failures, one line: {log}");
    assert!(log.contains("memory limit"), "{log}");
}
