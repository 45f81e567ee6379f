//! A network of its own for a test that needs ports which the machine may use: the test is run
//! again, alone, where nothing but it listens on loopback.

use std::process::Command;

/// Says in the second run that it is the second.
const MARK: &str = "ONESLOT_TEST_NETWORK";
/// Loopback is down in a new network.
const UP: &str = "ip link set lo up && exec \"$@\"";

/// Whether this run has a network of its own. Where it has not, the test with this full name has
/// passed in one when this returns.
pub(crate) fn is_own(test: &str) -> bool {
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let program = std::env::current_exe().expect("a test knows its program");
    let mut command = maker();
    let output = command
        .args(["sh", "-c", UP, "sh"])
        .arg(program)
        .args(["--exact", test, "--nocapture"])
        .env(MARK, "own")
        .output()
        .expect("a test can be run again");
    // Kept back: what it prints reads like outcomes of this run.
    let said = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success(),
        "{test} passes in a network of its own:\n{}",
        String::from_utf8_lossy(&said)
    );
    false
}

/// What makes one here: root, a user's own name space, or a sudo that does not ask.
fn maker() -> Command {
    let ways: [&[&str]; 3] = [
        &["unshare", "--net"],
        &["unshare", "--map-root-user", "--net"],
        &["sudo", "-n", "-E", "unshare", "--net"],
    ];
    let works = |way: &&&[&str]| {
        let mut command = Command::new(way[0]);
        let output = command.args(&way[1..]).args(["sh", "-c", UP, "sh", "true"]);
        output.output().is_ok_and(|output| output.status.success())
    };
    let way = ways.iter().find(works);
    let way = way.expect("a network of its own needs `ip`, and root or a sudo that does not ask");
    let mut command = Command::new(way[0]);
    command.args(&way[1..]);
    command
}
