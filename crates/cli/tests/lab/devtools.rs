//! Headless Chromium by the DevTools protocol over a pipe: messages are JSON, each ended by a zero byte.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The name of the browser, if there is one.
pub fn browser() -> Option<&'static str> {
    let is_there = |name: &&&str| {
        let version = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    };
    ["chromium", "chromium-browser", "google-chrome"].iter().find(is_there).copied()
}

/// A browser with one page.
pub struct Page {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    session: String,
    next_id: u64,
    events: VecDeque<Value>,
    /// Errors in the page's console, and exceptions.
    pub errors: Vec<String>,
}

impl Page {
    /// Starts a browser with a profile in `directory` and an empty page.
    pub fn start(browser: &str, directory: &Path) -> Self {
        // The pipe is on the descriptors 3 and 4. The profile is removed with its directory.
        let script = "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let profile = format!("--user-data-dir={}", directory.display());
        let mut child = Command::new("sh")
            .args(["-c", script, "sh", browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
            .args(["--remote-debugging-pipe", "--no-first-run", &profile, "about:blank"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the browser starts");
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().expect("a pipe"));
        let (session, events, errors) = (String::new(), VecDeque::new(), Vec::new());
        let mut page = Self { child, to, from, session, next_id: 1, events, errors };
        let target = page.call("Target.createTarget", &json!({"url": "about:blank"}))["targetId"].clone();
        let attached = page.call("Target.attachToTarget", &json!({"targetId": target, "flatten": true}));
        page.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page", "Runtime", "Log"] {
            page.call(&format!("{domain}.enable"), &json!({}));
        }
        page
    }

    /// Calls a method and returns its result.
    pub fn call(&mut self, method: &str, parameters: &Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let to = self.to.as_mut().expect("an open pipe");
        write!(to, "{message}\0").and_then(|()| to.flush()).expect("the browser reads");
        loop {
            let answer = self.read();
            if answer["id"] == id {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.note(answer);
        }
    }

    fn read(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).expect("the browser writes");
        assert_eq!(bytes.pop(), Some(0), "the browser has ended");
        serde_json::from_slice(&bytes).expect("JSON")
    }

    fn note(&mut self, event: Value) {
        let said = &event["params"];
        match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.errors.push(said["exceptionDetails"].to_string()),
            Some("Log.entryAdded") if said["entry"]["level"] == "error" => self.errors.push(said["entry"].to_string()),
            Some("Runtime.consoleAPICalled") if said["type"] == "error" => self.errors.push(said["args"].to_string()),
            _ => {}
        }
        self.events.push_back(event);
        self.events.truncate(64);
    }

    /// The value of an expression; promises are waited for.
    pub fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", &parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub fn wait(&mut self, expression: &str, patience: Duration) {
        let begin = Instant::now();
        while self.value(expression) != Value::Bool(true) {
            assert!(begin.elapsed() < patience, "not within {patience:?}: {expression}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Opens an address and waits until the page has a run.
    pub fn open(&mut self, address: &str) {
        // A changed fragment alone would not load the page again.
        self.call("Page.navigate", &json!({"url": "about:blank"}));
        self.call("Page.navigate", &json!({"url": address}));
        let ready =
            "typeof laboratory === 'object' && laboratory.isOpen && document.querySelectorAll('.lane').length > 0";
        self.wait(ready, Duration::from_secs(120));
    }

    /// The size of the window, and dark colours.
    pub fn look(&mut self, (width, height): (u32, u32), is_dark: bool) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", &features);
    }

    /// A picture of the whole page, as base64 of a PNG.
    pub fn screenshot(&mut self) -> String {
        let parameters = json!({"format": "png", "captureBeyondViewport": true});
        self.call("Page.captureScreenshot", &parameters)["data"].as_str().expect("a picture").to_owned()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // Without its pipe the browser ends by itself, with its helpers.
        self.to = None;
        let _ = self.child.wait();
    }
}
