//! Each set-up that the panel offers under Connect works: its first requests are served.

use serde_json::Value;

use crate::support::gateway::Setup;
use crate::support::upstream::Upstream;

/// What each app sends first; the panel's unit tests keep it in step with the set-ups.
const FIRST_REQUESTS: &str = include_str!("../../ui/src/views/connect/first_requests.json");

#[test]
fn every_app_gets_its_first_requests_served() {
    let upstream = Upstream::plain();
    let mut gateway = Setup::before(&upstream).start();
    let apps: Vec<Value> = serde_json::from_str(FIRST_REQUESTS).unwrap();
    assert!(apps.len() >= 10, "{} apps", apps.len());
    for app in &apps {
        let name = &app["app"];
        let requests = app["requests"].as_array().unwrap();
        assert!(
            requests.iter().any(|request| request["method"] == "POST"),
            "{name} sends a chat"
        );
        for request in requests {
            let method = request["method"].as_str().unwrap();
            let path = request["path"].as_str().unwrap();
            let body = match &request["body"] {
                Value::Null => Vec::new(),
                body => body.to_string().into_bytes(),
            };
            let response = gateway.exchange(&gateway.request(method, path, &body));
            assert_eq!(
                response.status(),
                200,
                "{name}: {method} {path}: {}",
                response.text()
            );
        }
    }
    gateway.stands(&upstream);
}
