//! Real processes: the test itself, and children that it starts.

use std::net::{TcpListener, UdpSocket};
use std::process::{Child as Started, Command, Stdio};

use super::*;
use crate::refusal::HowEnded;

#[test]
fn a_listening_port_leads_to_its_process() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let found = of_port(address.port()).unwrap();
    assert_eq!(found.pid, std::process::id());
    assert_eq!(found.found, Found::Surely);
    assert!(found.resident.unwrap() > 0, "a living process holds memory");
    assert!(found.started.is_some());
    assert_eq!(
        found.executable,
        std::env::current_exe().ok(),
        "the program is named"
    );
    assert_eq!(again(&found).unwrap().pid, found.pid);
    let holder = who_holds(address).unwrap();
    assert!(holder.contains(&format!("pid {}", found.pid)), "{holder}");
}

#[test]
fn a_port_without_a_listener_has_no_process() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    assert_eq!(of_port(port), None, "a UDP socket is no model server");
    assert_eq!(again(&process(u32::MAX - 1)), None);
}

fn process(pid: u32) -> Process {
    Process {
        pid,
        name: "gone".to_owned(),
        executable: None,
        resident: None,
        started: None,
        birth: None,
        children: Vec::new(),
        found: Found::Surely,
    }
}

fn shell(script: &str) -> Started {
    Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_end_is_noticed_and_its_status_is_read() {
    for (script, expected) in [
        ("read line; exit 3", HowEnded::Exited(3)),
        ("read line; kill -TERM $$", HowEnded::Killed(15)),
        ("read line; kill -KILL $$", HowEnded::Killed(9)),
        ("read line; exit 0", HowEnded::Exited(0)),
    ] {
        let mut child = shell(script);
        let seen = described(child.id(), "sh".to_owned(), Found::Surely).unwrap();
        let kills = Kills::around(child.id());
        drop(child.stdin.take());
        let noticed = tokio::time::timeout(std::time::Duration::from_secs(10), ended(&seen));
        noticed.await.unwrap();
        assert_eq!(again(&seen), None, "it is a zombie");
        assert_eq!(how(&seen, &kills), expected, "{script}");
        child.wait().unwrap();
        assert_eq!(
            how(&seen, &kills),
            HowEnded::Unknown,
            "unknown once its parent has waited for it"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_servers_children_are_counted_with_it() {
    let mut parent = shell("sleep 600 & read line; kill $!");
    let family = loop {
        let seen = described(parent.id(), "sh".to_owned(), Found::Surely).unwrap();
        // In the moment between its fork and its own program a child holds nothing.
        let held = |child: &Child| now(child.pid).and_then(|now| now.resident).unwrap_or(0);
        if seen.children.iter().map(held).sum::<u64>() > 0 {
            break described(parent.id(), "sh".to_owned(), Found::Surely).unwrap();
        }
    };
    let own = now(family.pid).unwrap().resident.unwrap();
    assert!(
        family.resident.unwrap() > own,
        "the child's memory is in the sum"
    );
    assert_eq!(family.family().len(), 1 + family.children.len());
    drop(parent.stdin.take());
    parent.wait().unwrap();
}
