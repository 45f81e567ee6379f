//! What goes over the wire whatever is asked: the right host, no proxy, no redirect.

use std::path::Path;
use std::process::Command;

use super::server::{Answer, Server, json, missing};
use super::{LONG, limits, upstream};
use crate::refusal::Outage;
use crate::upstream::{OpenError, Probe, Root, Upstream};

fn list() -> Answer {
    json(serde_json::json!({"object": "list", "data": []}))
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_the_key_stays() {
    let thief = Server::start(|_| list()).await;
    let location: &'static str =
        Box::leak(format!("location: {}/v1/models\r\n", thief.root()).into_boxed_str());
    let server = Server::start(move |_| Answer::Full(307, location, String::new())).await;
    let root = Root::parse(&server.root()).unwrap();
    let upstream = Upstream::new(root, Some("sk-1"), limits(LONG)).unwrap();
    assert_eq!(
        upstream.probe(LONG).await,
        Probe::Failed(Outage::Redirected)
    );
    assert_eq!(thief.lines().len(), 0, "nothing reached the other host");
}

#[tokio::test]
async fn localhost_reaches_a_server_on_either_family() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(server) = Server::at(address, |_| list()).await else {
            continue; // A machine without IPv6.
        };
        let port = server.address.port();
        let upstream = upstream(&format!("http://localhost:{port}/v1"));
        let probe = upstream.probe(LONG).await;
        assert!(matches!(probe, Probe::Alive { .. }), "{address}: {probe:?}");
        let host = format!("\nhost: localhost:{port}\r");
        assert!(
            server.asked()[0].head.contains(&host),
            "the server sees its own authority"
        );
    }
}

#[tokio::test]
async fn a_path_before_v1_stays() {
    let server = Server::start(|asked| match asked.line.as_str() {
        "GET /llm/v1/models" => list(),
        _ => missing(),
    })
    .await;
    let upstream = upstream(&format!("{}/llm/v1/", server.root()));
    assert!(matches!(upstream.probe(LONG).await, Probe::Alive { .. }));
}

#[tokio::test]
async fn proxies_of_the_environment_are_ignored() {
    const CHILD: &str = "ONESLOT_TEST_WITH_PROXIES";
    if std::env::var_os(CHILD).is_some() {
        let server = Server::start(|_| list()).await;
        let probe = upstream(&server.root()).probe(LONG).await;
        assert!(matches!(probe, Probe::Alive { .. }), "{probe:?}");
        return;
    }
    // The environment is the whole process's, so the probe runs in a process of its own.
    let name = "upstream::tests::wire::proxies_of_the_environment_are_ignored";
    // Still this very binary if another build has replaced the file in the meantime.
    let running = Path::new("/proc/self/exe");
    let binary = if running.exists() {
        running.to_owned()
    } else {
        std::env::current_exe().unwrap()
    };
    let output = Command::new(binary)
        .args(["--exact", name])
        .env(CHILD, "1")
        .env("HTTP_PROXY", "http://127.0.0.1:9")
        .env("http_proxy", "http://127.0.0.1:9")
        .env("ALL_PROXY", "socks5h://127.0.0.1:9")
        .env("all_proxy", "http://127.0.0.1:9")
        .env_remove("NO_PROXY")
        .env_remove("no_proxy")
        .output()
        .unwrap();
    let output_text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output_text}");
    assert!(
        output_text.contains("1 passed"),
        "the child really ran: {output_text}"
    );
}

#[tokio::test]
async fn tls_is_set_up_for_https_and_speaks_to_no_plain_server() {
    let server = Server::start(|_| list()).await;
    let root = Root::parse(&format!("https://{}", server.address)).unwrap();
    match Upstream::new(root, None, limits(LONG)) {
        Ok(upstream) => {
            let probe = upstream.probe(LONG).await;
            assert!(matches!(probe, Probe::Failed(_)), "{probe:?}");
        }
        // A bare machine has no certificates to verify with, and says so.
        Err(error) => assert!(matches!(error, OpenError::Tls(_)), "{error:?}"),
    }
}

#[tokio::test]
async fn a_key_that_no_header_can_carry_is_refused_at_once() {
    let root = Root::parse("http://127.0.0.1:1").unwrap();
    let refused = Upstream::new(root.clone(), Some("a\nb"), limits(LONG));
    assert!(matches!(refused, Err(OpenError::Key)));
    assert!(
        Upstream::new(root, Some("  "), limits(LONG)).is_ok(),
        "an empty key is none"
    );
}
