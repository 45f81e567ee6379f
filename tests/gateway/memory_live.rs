//! Real memory, really short: llama.cpp and a hog in a group of processes with a limit.
//!
//! The gateway stands outside of the group and reads the limit around the model's process.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::client::{Client, Response};
use crate::support::gateway::{Gateway, Setup};
use crate::support::group::{Group, Hog};
use crate::support::live::{LIVE_LIMIT, RealModel, alone, model_file, python};
use crate::support::process::{in_tests, signal};
use crate::support::within;

/// The group's limit in MiB; the model takes a third.
const LIMIT_MIB: u64 = 1024;
const WINDOW: u32 = 2048;

struct Scene {
    gateway: Gateway,
    model: RealModel,
    hog: Hog,
    /// Goes last: it can be taken away only when it is empty.
    group: Group,
    /// What the hog may take at most, in MiB.
    headroom: u64,
}

impl Scene {
    fn set() -> Self {
        let group = Group::with_limit(LIMIT_MIB);
        let model = RealModel::start_in(&group, WINDOW);
        let mut hog = Hog::in_group(&group);
        hog.hold(0);
        let gateway = Setup::bare()
            .config(&format!("upstream.base_url = {:?}", model.url()))
            .config("queue.max_waiting = 8")
            .limit("memory", json!({"interval_ms": 250, "fall_quiet_ms": 2000}))
            .start();
        let answer = chat(&gateway, 8).finish_within(LIVE_LIMIT);
        assert_eq!(answer.status(), 200, "{}", answer.text());
        let headroom = LIMIT_MIB - group.held_mib();
        Self {
            group,
            model,
            hog,
            gateway,
            headroom,
        }
    }

    /// Leaves so many MiB in the group.
    fn leave(&mut self, mib: u64) {
        self.hog.hold(self.headroom - mib);
    }

    /// Sends chats until the level is this one: memory is read while requests run.
    fn until_level(&self, level: &str) -> Value {
        within(LIVE_LIMIT, &format!("memory is {level}"), || {
            let status = self.gateway.status();
            let now = status["pressure"]["level"] == level;
            std::thread::sleep(std::time::Duration::from_millis(200));
            now.then_some(status)
        })
    }

    fn until(&self, why: &str, is: impl Fn(&Value) -> bool) -> Value {
        within(LIVE_LIMIT, why, || {
            let status = self.gateway.status();
            is(&status).then_some(status)
        })
    }
}

fn chat(gateway: &Gateway, max_tokens: u32) -> Client {
    gateway.open_chat(&json!({
        "model": "smollm2",
        "max_tokens": max_tokens,
        "messages": [{"role": "user", "content": "Tell a long story about a lighthouse."}],
    }))
}

fn limit_said(answer: &Response) -> &str {
    answer.head.get("x-oneslot-max-tokens").unwrap_or_default()
}

#[test]
fn the_level_rises_before_the_kernel_kills_and_nothing_is_lost() {
    let _alone = alone();
    let mut scene = Scene::set();
    let pid = scene.model.pid();

    scene.leave(115);
    let status = scene.until_level("elevated");
    let cause = &status["pressure"]["cause"];
    assert_eq!(
        cause["params"]["total"], "1.0 GiB",
        "the limit around the model's process is the one that is short: {cause}"
    );
    let mut asked = chat(&scene.gateway, 600);
    let answer = asked.finish_within(LIVE_LIMIT);
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert_eq!(limit_said(&answer), "512; asked=600; reason=pressure");

    scene.leave(62);
    scene.until_level("high");
    let answer = chat(&scene.gateway, 600).finish_within(LIVE_LIMIT);
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert_eq!(limit_said(&answer), "256; asked=600; reason=pressure");

    scene.leave(28);
    scene.until_level("critical");
    let mut held: Vec<Client> = (0..3).map(|_| chat(&scene.gateway, 8)).collect();
    let status = scene.until("all are held", |status| status["queue"]["waiting"] == 3);
    assert_eq!(
        status["queue"]["running"], 0,
        "nothing is started: {status}"
    );
    assert!(
        held.iter_mut()
            .all(|client| client.is_silent_for(std::time::Duration::from_millis(500))),
        "held is neither refused nor answered"
    );

    scene.hog.hold(0);
    for client in &mut held {
        let answer = client.finish_within(LIVE_LIMIT);
        assert_eq!(answer.status(), 200, "none is lost: {}", answer.text());
    }
    let status = scene.until_level("normal");
    assert_eq!(
        status["upstream"]["process"]["pid"], pid,
        "the model lived through it: {status}"
    );
    assert_eq!(status["upstream"]["last_death"], Value::Null);
}

#[test]
fn a_model_killed_for_want_of_memory_is_said_to_be_and_comes_back() {
    let _alone = alone();
    let mut scene = Scene::set();
    let pid = scene.model.pid();
    let mut asked = chat(&scene.gateway, 1500);
    scene.until("it runs", |status| status["queue"]["running"] == 1);
    scene.model.until_busy(true);

    // Bit by bit, so that the kernel needs to kill no second time.
    let stat = format!("/proc/{pid}/stat");
    let lives = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    let mut mib = scene.headroom - 40;
    assert!(scene.hog.press(mib), "there is room for this much");
    // Memory is read every two seconds; the death reports the last reading before it.
    scene.until("what is left was read", |status| {
        status["pressure"]["ram"]["available"].as_u64() < Some(200 << 20)
    });
    while lives() {
        mib += 2;
        assert!(mib < LIMIT_MIB, "the kernel kills at the limit");
        if !scene.hog.press(mib) {
            break;
        }
    }
    within(LIVE_LIMIT, "the model is killed first", || {
        (!lives()).then_some(())
    });
    let answer = asked.finish_within(LIVE_LIMIT);
    assert_eq!(answer.status(), 503, "{}", answer.text());
    assert_eq!(answer.head.get("x-oneslot-code"), Some("LLM_UNAVAILABLE"));
    let message = answer.json()["error"]["message"].to_string();
    assert!(
        message.contains("killed by the system because memory ran out"),
        "{message}"
    );
    assert!(message.contains("it held"), "how much it held: {message}");

    let status = scene.until("the death is shown", |status| {
        status["upstream"]["last_death"].is_object()
    });
    let death = &status["upstream"]["last_death"];
    assert_eq!(death["how"], "out_of_memory", "{death}");
    assert_eq!(death["pid"], pid);
    assert_eq!(death["memory_short"], true);
    assert!(death["resident"].as_u64() > Some(50 << 20), "{death}");
    assert!(
        death["available"].as_u64() < Some(200 << 20),
        "what was left in its group, not on the machine: {death}"
    );
    assert!(death["lived_ms"].as_u64() > Some(0), "{death}");
    assert!(
        status["notices"].to_string().contains("model_server_died"),
        "the notice is there: {status}"
    );
    let said = scene.gateway.said();
    let line = said
        .lines()
        .find(|line| line.contains("model server's process ended"))
        .expect("the log says so");
    assert!(line.contains("how=\"out_of_memory\""), "{line}");

    scene.hog.press(0);
    let Scene {
        group,
        model,
        gateway,
        ..
    } = &mut scene;
    model.restart_in(group);
    let status = within(LIVE_LIMIT, "it is ready again", || {
        let status = gateway.status();
        (status["health"]["state"] == "ready").then_some(status)
    });
    let now = &status["upstream"]["process"]["pid"];
    assert_ne!(*now, json!(pid), "another process: {status}");
    assert!(
        !status["notices"].to_string().contains("model_server_died"),
        "no notice of what is over: {status}"
    );
    let answer = chat(gateway, 8).finish_within(LIVE_LIMIT);
    assert_eq!(answer.status(), 200, "{}", answer.text());
}

#[test]
fn a_killed_model_is_told_from_one_that_ran_out_of_memory_and_seen_at_once() {
    let _alone = alone();
    let mut model = RealModel::start(WINDOW);
    let gateway = Setup::bare()
        .config(&format!("upstream.base_url = {:?}", model.url()))
        .start();
    let answer = chat(&gateway, 8).finish_within(LIVE_LIMIT);
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let status = within(LIVE_LIMIT, "its process is known", || {
        let status = gateway.status();
        status["upstream"]["process"].is_object().then_some(status)
    });
    let process = &status["upstream"]["process"];
    assert_eq!(process["pid"], model.pid());
    assert!(process["started_ms"].as_u64().is_some(), "{process}");
    assert!(
        process["executable"]
            .as_str()
            .is_some_and(|path| path.contains("python")),
        "{process}"
    );
    // Its parent has not waited for it: its exit status can still be read.
    signal(model.pid(), "KILL");
    let status = within(LIVE_LIMIT, "its end is seen without a request", || {
        let status = gateway.status();
        status["upstream"]["last_death"]
            .is_object()
            .then_some(status)
    });
    let death = &status["upstream"]["last_death"];
    assert_eq!(
        (&death["how"], &death["status"]),
        (&json!("killed"), &json!(9))
    );
    assert_eq!(death["memory_short"], false, "{death}");
    let answer = within(LIVE_LIMIT, "the refusal says it too", || {
        let answer = chat(&gateway, 8).finish_within(LIVE_LIMIT);
        (answer.status() == 503).then_some(answer)
    });
    assert!(
        answer.text().contains("was ended by signal 9"),
        "{}",
        answer.text()
    );
    model.kill();
}

#[test]
fn side_by_side_clients_see_no_raw_error_with_oneslot() {
    let _alone = alone();
    let output = Command::new(python())
        .arg(in_tests("live/pressure.py"))
        .args(["--oneslotd", env!("CARGO_BIN_EXE_oneslotd")])
        .args(["--model", &model_file()])
        .args(["--requests", "16", "--gap-s", "1.5", "--pace", "0.5"])
        .stderr(Stdio::inherit())
        .output()
        .expect("the comparison runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let runs: Vec<Value> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    assert_eq!(runs.len(), 2, "{text}");
    let with = &runs[1];
    assert_eq!(with["run"], "with");
    assert_eq!(with["raw"], 0, "with OneSlot every end is a word: {text}");
    let ended = with["answered"].as_u64().unwrap() + with["refused"].as_u64().unwrap();
    assert_eq!(ended, 16, "none is lost: {text}");
    assert!(
        with["answered"].as_u64() > Some(8),
        "most are answered: {text}"
    );
}

#[test]
fn an_unload_says_how_much_memory_it_gave_back() {
    let _alone = alone();
    let mut server = Command::new(python())
        .arg(in_tests("live/ballast.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let mut line = String::new();
    let mut said = BufReader::new(server.stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    let port = line.trim().strip_prefix("ready ").unwrap().to_owned();
    let gateway = Setup::bare()
        .config(&format!("upstream.base_url = \"http://127.0.0.1:{port}\""))
        .start();
    let status = within(LIVE_LIMIT, "its runner is seen", || {
        let status = gateway.status();
        let children = status["upstream"]["process"]["children"].as_array();
        children
            .is_some_and(|children| children.len() == 1)
            .then_some(status)
    });
    let held = status["upstream"]["process"]["resident"].as_u64().unwrap();
    assert!(
        held > 192 << 20,
        "the runner's memory is the server's: {held}"
    );
    let said = gateway.cli_ok(&["pause", "--unload"]);
    let (_, freed) = said.split_once("freed ").expect(&said);
    let mib: u64 = freed.split_whitespace().next().unwrap().parse().unwrap();
    assert!((192..260).contains(&mib), "{said}");
    gateway.cli_ok(&["resume"]);
    let again = gateway.cli_ok(&["unload"]);
    assert!(
        again.contains("nothing was loaded"),
        "nothing is claimed the second time: {again}"
    );
    drop(server.stdin.take());
    server.wait().unwrap();
}
