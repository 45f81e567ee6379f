//! A network of its own for a test that needs ports which the machine may use: the test is run
//! again, alone, where nothing but it listens on loopback.

use std::net::TcpListener;
use std::process::Command;

/// The ports on which `auto` looks for a model server.
pub(crate) const AUTO: [u16; 3] = [11_434, 1234, 8080];

/// Says in the second run that it is the second.
const MARK: &str = "ONESLOT_TEST_NETWORK";
/// Loopback is down in a new network.
const UP: &str = "PATH=$PATH:/sbin:/usr/sbin; ip link set lo up && exec \"$@\"";

/// Whether this run may use these ports of loopback. Where it may not, the test with this full
/// name has passed in a network of its own when this returns.
pub(crate) fn is_for(test: &str, ports: &[u16]) -> bool {
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let Some(mut command) = maker() else {
        for port in ports {
            let free = TcpListener::bind(("127.0.0.1", *port)).is_ok();
            assert!(
                free,
                "port {port} is taken here, and no network can be made"
            );
        }
        return true;
    };
    let program = std::env::current_exe().expect("a test knows its program");
    let output = command
        .args(["sh", "-c", UP, "sh"])
        .arg(program)
        .args(["--exact", test, "--nocapture"])
        .env(MARK, "own")
        .output()
        .expect("a test can be run again");
    // Kept back: what it prints reads like outcomes of this run.
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    // A name that no test has would pass too.
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{test} passes in a network of its own:\n{said}"
    );
    false
}

/// What makes one here: root, a user's own name space, or a sudo that does not ask; `None` where
/// a machine lets nobody.
fn maker() -> Option<Command> {
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
    let way = ways.iter().find(works)?;
    let mut command = Command::new(way[0]);
    command.args(&way[1..]);
    Some(command)
}
