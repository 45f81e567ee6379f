//! WebKitWebDriver, spoken to directly: the panel as a person would use it.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::client::{Client, request};
use super::desktop::Desktop;
use super::program::{BINARY, Setup, children};
use super::{LIMIT, eventually};

/// The member of a reference to an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Keys that have no letter, as WebDriver names them.
pub(crate) mod key {
    pub(crate) const TAB: &str = "\u{E004}";
    pub(crate) const ENTER: &str = "\u{E007}";
    pub(crate) const SHIFT: &str = "\u{E008}";
    pub(crate) const CONTROL: &str = "\u{E009}";
    pub(crate) const ESCAPE: &str = "\u{E00C}";
    pub(crate) const SPACE: &str = " ";
}

/// What has the focus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Focus {
    /// Its tag, in capitals.
    pub(crate) tag: String,
    /// What a screen reader says it is.
    pub(crate) role: String,
    /// What a screen reader calls it.
    pub(crate) name: String,
    /// Whether it is marked so that an eye finds it, and lies in sight.
    pub(crate) is_seen: bool,
}

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

    /// Presses keys one after the other, as fingers would.
    pub(crate) fn keys(&self, keys: &[&str]) {
        let strokes = keys.iter().flat_map(|key| {
            [
                json!({ "type": "keyDown", "value": key }),
                json!({ "type": "keyUp", "value": key }),
            ]
        });
        self.strokes(&strokes.collect::<Vec<_>>());
    }

    /// Presses a key while another is held.
    pub(crate) fn keys_with(&self, held: &str, key: &str) {
        self.strokes(&[
            json!({ "type": "keyDown", "value": held }),
            json!({ "type": "keyDown", "value": key }),
            json!({ "type": "keyUp", "value": key }),
            json!({ "type": "keyUp", "value": held }),
        ]);
    }

    /// Types a text, letter by letter.
    pub(crate) fn type_text(&self, text: &str) {
        let letters: Vec<String> = text.chars().map(String::from).collect();
        self.keys(&letters.iter().map(String::as_str).collect::<Vec<_>>());
    }

    fn strokes(&self, strokes: &[Value]) {
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": strokes });
        let done = self.in_session("POST", "/actions", &json!({ "actions": [keyboard] }));
        assert!(done.is_null(), "keys are taken: {done}");
    }

    /// What has the focus, by the web view's own word.
    pub(crate) fn focus(&self) -> Focus {
        let active = self.in_session("GET", "/element/active", &Value::Null);
        let element = active[ELEMENT].as_str().unwrap_or_default().to_owned();
        let is_seen = self.script(
            "const at = document.activeElement;\
             if (!at || at === document.body) return { tag: 'BODY', seen: false };\
             const { outlineStyle, outlineWidth } = getComputedStyle(at);\
             const box = at.getBoundingClientRect();\
             const inSight = box.bottom > 0 && box.top < innerHeight && box.width > 0;\
             return { tag: at.tagName,\
                 seen: inSight && outlineStyle !== 'none' && parseFloat(outlineWidth) >= 1 };",
        );
        let told = |what: &str| {
            let target = format!("/element/{element}/computed{what}");
            let told = self.in_session("GET", &target, &Value::Null);
            told.as_str().unwrap_or_default().trim().to_owned()
        };
        Focus {
            tag: is_seen["tag"].as_str().unwrap_or_default().to_owned(),
            role: told("role"),
            name: told("label"),
            is_seen: is_seen["seen"] == true,
        }
    }

    /// Presses Tab until what has this name has the focus.
    pub(crate) fn tab_to(&self, name: &str) -> Focus {
        let mut passed = Vec::new();
        for _ in 0..80 {
            let at = self.focus();
            if at.name == name {
                return at;
            }
            passed.push(at.name);
            self.keys(&[key::TAB]);
        }
        panic!("Tab never comes to {name:?}; it passed {passed:?}");
    }

    /// Makes the page so large, in its own pixels.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        let wanted = json!({ "width": width, "height": height });
        self.in_session("POST", "/window/rect", &wanted);
    }

    /// The text of what this expression of XPath finds, once it is there.
    pub(crate) fn text_of(&self, xpath: &str) -> String {
        let element = self.element(xpath);
        let body = json!({
            "script": "return arguments[0].innerText",
            "args": [{ ELEMENT: element }],
        });
        let text = self.in_session("POST", "/execute/sync", &body);
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until what this expression finds says something that is as it should be.
    pub(crate) fn until_text(
        &self,
        xpath: &str,
        why: &str,
        is_so: impl Fn(&str) -> bool,
    ) -> String {
        let mut last = String::new();
        let deadline = std::time::Instant::now() + LIMIT;
        while std::time::Instant::now() < deadline {
            last = self.text_of(xpath);
            if is_so(&last) {
                return last;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{why}; {xpath} says:\n{last}");
    }

    /// A picture of the page, as PNG; nothing where the web view draws none within its time.
    pub(crate) fn picture(&self) -> Option<Vec<u8>> {
        let drawn = self.in_session("GET", "/screenshot", &Value::Null);
        base64(drawn.as_str()?)
    }

    /// Ends the session and waits for the end of the program. The driver kills it after it has
    /// answered: a driver killed before that leaves the program running.
    pub(crate) fn close(mut self) {
        self.send(
            "DELETE",
            &format!("/session/{}", self.session),
            &Value::Null,
        );
        self.session.clear();
        eventually("the driver ends the program", || {
            children(self.driver.id()).is_empty().then_some(())
        });
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

/// The bytes of a text in base 64.
fn base64(text: &str) -> Option<Vec<u8>> {
    let digit = |letter: u8| match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let letters: Vec<u8> = text.bytes().filter(|letter| *letter != b'=').collect();
    let mut bytes = Vec::with_capacity(letters.len() * 3 / 4);
    for four in letters.chunks(4) {
        let mut group = 0u32;
        for letter in four {
            group = (group << 6) | u32::from(digit(*letter)?);
        }
        group <<= 6 * (4 - four.len());
        let whole = group.to_be_bytes();
        bytes.extend_from_slice(&whole[1..four.len()]);
    }
    Some(bytes)
}

impl Drop for Panel {
    fn drop(&mut self) {
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
