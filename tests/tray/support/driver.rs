//! WebKitWebDriver, spoken to directly: the panel as a person would use it.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::client::{Client, request};
use super::desktop::Desktop;
use super::program::{BINARY, Setup};
use super::{LIMIT, eventually};

/// The member of a reference to an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A panel that is driven; program and driver end with the value.
pub(crate) struct Panel {
    driver: Child,
    address: SocketAddr,
    session: String,
}

impl Panel {
    /// Starts the tray by the driver, with its panel shown.
    pub(crate) fn open(desktop: &Desktop, setup: Setup<'_>) -> Self {
        let port = {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port can be had");
            listener.local_addr().expect("it has an address").port()
        };
        let driver = desktop
            .command("WebKitWebDriver")
            .arg(format!("--port={port}"))
            .envs(setup.env_added())
            .env("TAURI_WEBVIEW_AUTOMATION", "true")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("WebKitWebDriver is installed");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut panel = Self {
            driver,
            address,
            session: String::new(),
        };
        eventually("the driver listens", || {
            std::net::TcpStream::connect(address).ok()
        });
        let args = setup.args(&["--show-panel"]).typed();
        let options = json!({ "binary": BINARY, "args": args });
        let wanted = json!({ "webkitgtk:browserOptions": options });
        let body = json!({ "capabilities": { "alwaysMatch": wanted } });
        let session = panel.send("POST", "/session", &body);
        panel.session = session["sessionId"]
            .as_str()
            .unwrap_or_else(|| panic!("a session begins: {session}"))
            .to_owned();
        panel
    }

    /// Runs a script in the page and gives what it returns.
    pub(crate) fn script(&self, script: &str) -> Value {
        self.in_session(
            "POST",
            "/execute/sync",
            &json!({ "script": script, "args": [] }),
        )
    }

    /// Runs a script that tells its result to its last argument.
    pub(crate) fn script_that_tells(&self, script: &str) -> Value {
        let body = json!({ "script": script, "args": [] });
        self.in_session("POST", "/execute/async", &body)
    }

    /// The text that a person can read.
    pub(crate) fn text(&self) -> String {
        let text = self.script("return document.body.innerText");
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page says this.
    pub(crate) fn until_says(&self, said: &str) {
        let mut last = String::new();
        let deadline = std::time::Instant::now() + LIMIT;
        while std::time::Instant::now() < deadline {
            last = self.text();
            if last.contains(said) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the panel does not say {said:?}; it says:\n{last}");
    }

    /// Whether there is an element that this expression of XPath finds.
    pub(crate) fn has(&self, xpath: &str) -> bool {
        let body = json!({ "using": "xpath", "value": xpath });
        let found = self.in_session("POST", "/element", &body);
        found[ELEMENT].is_string()
    }

    /// Clicks on the element that this expression of XPath finds, once it is there. By the page's
    /// own means: without a window manager the driver holds what lies at an edge for unreachable.
    pub(crate) fn click(&self, xpath: &str) {
        let element = self.element(xpath);
        let body = json!({
            "script": "arguments[0].click()",
            "args": [{ ELEMENT: element }],
        });
        let answer = self.in_session("POST", "/execute/sync", &body);
        assert!(answer.is_null(), "{xpath} takes a click: {answer}");
    }

    /// The button with this text or name.
    pub(crate) fn press(&self, name: &str) {
        self.click(&format!(
            "//button[normalize-space(.)={name:?} or @aria-label={name:?}] | //*[@role='tab'][normalize-space(.)={name:?}]"
        ));
    }

    /// Ends the session; the driver then ends the program.
    pub(crate) fn close(mut self) {
        self.send(
            "DELETE",
            &format!("/session/{}", self.session),
            &Value::Null,
        );
        self.session.clear();
    }

    fn element(&self, xpath: &str) -> String {
        let body = json!({ "using": "xpath", "value": xpath });
        let why = format!("{xpath} in {}", self.text());
        eventually(&why, || {
            let found = self.in_session("POST", "/element", &body);
            found[ELEMENT].as_str().map(str::to_owned)
        })
    }

    fn in_session(&self, method: &str, target: &str, body: &Value) -> Value {
        self.send(method, &format!("/session/{}{target}", self.session), body)
    }

    fn send(&self, method: &str, target: &str, body: &Value) -> Value {
        let host = self.address.to_string();
        let fields = [
            ("host", host.as_str()),
            ("content-type", "application/json"),
        ];
        let mut client = Client::connect(self.address);
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        client.send(&request(method, target, &fields, body.as_bytes()));
        client.finish_within(LIMIT * 2).json()["value"].clone()
    }
}

impl Drop for Panel {
    fn drop(&mut self) {
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
