//! A real browser: a foreign page reaches nothing, an allowed one works with the official client.

use serde_json::Value;

use crate::support::browser::{Browser, Site};
use crate::support::held::hold;
use crate::support::live::alone;
use crate::support::script::Script;
use crate::support::untouched::{quiet, settled, untouched};
use crate::support::upstream::Upstream;

/// What a page could not have if every gate held.
fn got_through(report: &Value) -> Vec<String> {
    report
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, what)| {
            let what = what.as_str().unwrap_or_default();
            what.starts_with("read") || what == "loaded"
        })
        .map(|(name, what)| format!("{name}: {what}"))
        .collect()
}

#[test]
fn a_page_of_another_origin_and_a_rebound_name_reach_nothing_with_a_real_browser() {
    let _alone = alone();
    let upstream = Upstream::plain();
    let mut gateway = quiet(&upstream).start();
    settled(&gateway, &upstream);
    let site = Site::start();
    // The same page before a server without gates: what it tries does go out.
    let open = Site::start();
    let page = format!("http://evil.example:{}/foreign.html?target=", site.port());
    let control = Browser::open(&format!("{page}http://127.0.0.1:{}", open.port()));
    let report = site.until_reports(1).remove(0);
    drop(control);
    let attempts = open.attempts();
    println!("before a server without gates: {report:#}\n{attempts:#?}");
    assert!(
        got_through(&report).len() >= 4 && attempts.len() >= 14,
        "the page bites where nothing stops it: {report:#} {attempts:#?}"
    );

    let port = gateway.port();
    untouched(&gateway, &upstream, "a foreign page", || {
        for (at, host) in ["127.0.0.1", "localhost", "rebound.example"]
            .into_iter()
            .enumerate()
        {
            let browser = Browser::open(&format!("{page}http://{host}:{port}"));
            let report = site.until_reports(at + 2).remove(at + 1);
            drop(browser);
            println!("before the gateway as {host}: {report:#}");
            let through = got_through(&report);
            assert!(
                through.is_empty(),
                "through {host}: {through:#?} {report:#}"
            );
            assert_eq!(
                report.as_object().map(serde_json::Map::len),
                Some(19),
                "{report:#}"
            );
        }
        // The name now leads to the gateway: its pages would be of the same origin.
        let seen = Browser::look(&format!("http://rebound.example:{port}/v1/models"));
        assert!(seen.contains("FORBIDDEN_HOST"), "{seen}");
    });
    let refused = gateway.status()["refused_origins"].to_string();
    for name in ["http://evil.example:", "rebound.example:"] {
        assert!(refused.contains(name), "a person sees who asked: {refused}");
    }
    gateway.stands(&upstream);
}

#[test]
fn the_official_client_works_in_a_browser_from_an_allowed_origin() {
    let _alone = alone();
    let upstream = Upstream::plain();
    let mut gateway = quiet(&upstream).config("queue.max_waiting = 0").start();
    settled(&gateway, &upstream);
    upstream.next_chat(Script::answer("a whole answer"));
    upstream.next_chat(Script::streamed("one two three"));
    let site = Site::start();
    let page = format!(
        "http://localhost:{}/client.html?target={}",
        site.port(),
        gateway.url()
    );
    let browser = Browser::open(&page);
    site.until_reports(1);
    let held = hold(&gateway, &upstream);
    site.go_on();
    let told = site.until_reports(2).remove(1);
    drop(browser);
    assert_eq!(told["failed"], Value::Null, "{told:#}");
    assert_eq!(told["models"][0], "m", "{told:#}");
    assert_eq!(told["whole"], "a whole answer");
    assert_eq!(told["streamed"], "one two three");
    assert!(
        told["requestId"].is_string() && told["waited"].is_string(),
        "{told:#}"
    );
    let refused = &told["refused"];
    assert_eq!(
        (&refused["status"], &refused["code"]),
        (&503.into(), &"LLM_OVERLOADED".into())
    );
    let after = refused["retryAfter"]
        .as_str()
        .and_then(|text| text.parse().ok());
    assert!(
        after.is_some_and(|after: u64| (1..=60).contains(&after)),
        "{told:#}"
    );
    assert_eq!(refused["shouldRetry"], "true");
    held.release();
    gateway.stands(&upstream);
}
