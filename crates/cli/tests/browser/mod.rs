//! A headless Chromium, driven by the DevTools protocol over a pipe: JSON messages that end in a zero byte, on descriptors 3 and 4.
#![allow(unreachable_pub, reason = "a module of a test program")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value, json};

/// Names under which systems have it.
const NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];
/// A message that has not come by then will not come; machines are busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// A browser with one page.
pub struct Browser {
    child: Child,
    orders: ChildStdin,
    answers: Receiver<Value>,
    session: String,
    last: u64,
    /// What came that was no answer: requests, what the console said, exceptions.
    pub events: Vec<Value>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts the first browser that there is.
    ///
    /// # Errors
    /// Why there is none.
    pub fn start() -> Result<Self, String> {
        let has = |name: &&&str| {
            let version = Command::new(name)
                .arg("--version")
                .stderr(Stdio::null())
                .output();
            version.is_ok_and(|output| output.status.success())
        };
        let Some(name) = NAMES.iter().find(has) else {
            return Err("no Chromium; `apt-get install chromium`".to_owned());
        };
        let profile = tempfile::tempdir().expect("a temporary folder");
        let mut child = spawn(name, profile.path())?;
        let orders = child.stdin.take().expect("was piped");
        let stdout = child.stdout.take().expect("was piped");
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let messages = BufReader::new(stdout).split(0).map_while(Result::ok);
            let messages = messages.filter_map(|message| serde_json::from_slice(&message).ok());
            for message in messages {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self {
            child,
            orders,
            answers,
            session: String::new(),
            last: 0,
            events: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached = browser.call(
            "Target.attachToTarget",
            json!({"targetId": target["targetId"], "flatten": true}),
        );
        browser.session = attached["sessionId"]
            .as_str()
            .expect("a session")
            .to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Ok(browser)
    }

    /// Calls a method of the protocol and returns its result. Panics where the browser says no, or nothing.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut order = json!({"id": self.last, "method": method, "params": parameters});
        if !self.session.is_empty() {
            order["sessionId"] = json!(self.session);
        }
        let mut bytes = order.to_string().into_bytes();
        bytes.push(0);
        self.orders.write_all(&bytes).expect("the browser reads");
        loop {
            let message = self.next(method);
            match message["id"].as_u64() {
                Some(id) if id == self.last => {
                    assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                    return message["result"].clone();
                }
                _ => self.events.push(message),
            }
        }
    }

    fn next(&mut self, why: &str) -> Value {
        let message = self.answers.recv_timeout(PATIENCE);
        message.unwrap_or_else(|error| panic!("the browser says nothing to {why}: {error}"))
    }

    /// Opens a file in a window of this size, and waits until it is loaded.
    pub fn open(&mut self, file: &Path, (width, height): (u32, u32)) -> String {
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}),
        );
        self.events.clear();
        let url = format!("file://{}", file.display());
        self.call("Page.navigate", json!({"url": url}));
        let is_load = |event: &Value| event["method"] == "Page.loadEventFired";
        while !self.events.iter().any(is_load) {
            let event = self.next("Page.navigate");
            self.events.push(event);
        }
        url
    }

    /// The value of an expression on the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let found = self.call(
            "Runtime.evaluate",
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true}),
        );
        assert!(found["exceptionDetails"].is_null(), "{expression}: {found}");
        found["result"]["value"].clone()
    }

    /// Presses a key and lets it go.
    pub fn press(&mut self, key: &str, code: u32) {
        for kind in ["rawKeyDown", "char", "keyUp"] {
            if kind == "char" && key != "Enter" {
                continue;
            }
            let text = if kind == "char" { "\r" } else { "" };
            self.call(
                "Input.dispatchKeyEvent",
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text}),
            );
        }
    }

    /// Everything that was asked for, by address.
    pub fn requests(&self) -> Vec<String> {
        let asked = self
            .events
            .iter()
            .filter(|event| event["method"] == "Network.requestWillBeSent");
        let asked = asked.filter_map(|event| event["params"]["request"]["url"].as_str());
        asked.map(str::to_owned).collect()
    }

    /// What the console said, whatever its level, and exceptions.
    pub fn complaints(&self) -> Vec<&Value> {
        let methods = [
            "Log.entryAdded",
            "Runtime.consoleAPICalled",
            "Runtime.exceptionThrown",
        ];
        let is_one = |event: &&Value| methods.iter().any(|method| event["method"] == *method);
        self.events.iter().filter(is_one).collect()
    }

    /// Keeps pictures of the first screens of the page in the folder that `DPB_SCREENSHOTS` names; for a person to look at.
    pub fn pictures(&mut self, name: &str, count: u64) {
        let Some(folder) = std::env::var_os("DPB_SCREENSHOTS") else {
            return;
        };
        let size = "[document.documentElement.clientWidth, document.documentElement.scrollHeight]";
        let size = self.value(size);
        let (width, height) = (size[0].as_u64().unwrap_or(1), size[1].as_u64().unwrap_or(1));
        let each = if width < 600 { 1100 } else { 1500 };
        for at in (0..count).filter(|at| at * each < height) {
            let clip = json!({"x": 0, "y": at * each, "width": width, "height": each, "scale": 1});
            let shot = self.call(
                "Page.captureScreenshot",
                json!({"format": "png", "captureBeyondViewport": true, "clip": clip}),
            );
            let data = shot["data"].as_str().expect("a picture");
            let bytes = base64::engine::general_purpose::STANDARD.decode(data);
            let path = Path::new(&folder).join(format!("{name}-{at:02}.png"));
            std::fs::write(path, bytes.expect("base64")).expect("a folder for pictures");
        }
    }
}

/// Starts the browser `name` with its pipe on our ends of standard input and output.
fn spawn(name: &str, profile: &Path) -> Result<Child, String> {
    Command::new("sh")
        .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >&2", name])
        .args([
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-sandbox",
            "--disable-gpu",
        ])
        .args([
            "--disable-dev-shm-usage",
            "--disable-extensions",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("{name} does not start: {error}"))
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends its own processes when it is asked to; whether it still hears is its own affair.
        let _ = self
            .orders
            .write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        if self.answers.recv_timeout(PATIENCE).is_err() {
            let _ = self.child.kill();
        }
        while self.answers.recv_timeout(Duration::from_secs(10)).is_ok() {}
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
