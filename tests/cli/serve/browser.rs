//! Chromium, driven by its own protocol over two pipes.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);

/// A browser without a window and with an empty profile; it ends with all its processes when this is dropped.
pub(crate) struct Browser {
    child: Child,
    stdin: ChildStdin,
    messages: Receiver<Value>,
    /// Requests that its pages have sent: address and headers.
    pub(crate) requests: VecDeque<Value>,
    last: u64,
}

/// A page of it.
#[derive(Clone)]
pub(crate) struct Tab(String);

impl Browser {
    /// Starts it with its profile in this folder.
    pub(crate) fn start(folder: &Path) -> Self {
        // Its protocol is on the descriptors 3 and 4.
        let script = "exec chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage \
             --no-first-run --disable-background-networking --disable-component-update \
             --user-data-dir=\"$1\" --remote-debugging-pipe 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null";
        let mut child = Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(folder)
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap())
            .env("HOME", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, messages) = channel();
        thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            let mut message = Vec::new();
            while reader.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                message.pop();
                let value = serde_json::from_slice(&message).unwrap_or(Value::Null);
                if sender.send(value).is_err() {
                    return;
                }
                message.clear();
            }
        });
        Self { child, stdin, messages, requests: VecDeque::new(), last: 0 }
    }

    fn call_in(&mut self, tab: Option<&Tab>, method: &str, params: &Value) -> Value {
        let answer = self.answer(tab, method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Returns the whole answer, which may be an error.
    fn answer(&mut self, tab: Option<&Tab>, method: &str, params: &Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if let Some(tab) = tab {
            message["sessionId"] = json!(tab.0);
        }
        let written = self.stdin.write_all(format!("{message}\0").as_bytes());
        assert!(written.is_ok(), "no chromium: as root, `apt-get install chromium`");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let answer = self.messages.recv_timeout(left).unwrap_or_else(|error| {
                panic!("{method}: {error}; is it installed? As root: `apt-get install chromium`")
            });
            if answer["method"] == "Network.requestWillBeSent" {
                self.requests.push_back(answer["params"]["request"].clone());
            }
            if answer["id"] == self.last {
                return answer;
            }
        }
    }

    pub(crate) fn call(&mut self, tab: &Tab, method: &str, params: &Value) -> Value {
        self.call_in(Some(tab), method, params)
    }

    /// Opens a page of this size, light or dark.
    pub(crate) fn open(&mut self, address: &str, size: (u32, u32), scheme: &str) -> Tab {
        let target = self.call_in(None, "Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call_in(None, "Target.attachToTarget", &attach);
        let tab = Tab(session["sessionId"].as_str().unwrap().to_owned());
        self.call(&tab, "Network.enable", &json!({}));
        self.call(&tab, "Page.enable", &json!({}));
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call(&tab, "Emulation.setEmulatedMedia", &media);
        self.resize(&tab, size);
        self.call(&tab, "Page.navigate", &json!({ "url": address }));
        tab
    }

    /// Brings a page to the front.
    pub(crate) fn show(&mut self, tab: &Tab) {
        self.call(tab, "Page.bringToFront", &json!({}));
    }

    pub(crate) fn resize(&mut self, tab: &Tab, (width, height): (u32, u32)) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call(tab, "Emulation.setDeviceMetricsOverride", &size);
    }

    /// Evaluates an expression of the page.
    #[track_caller]
    pub(crate) fn eval(&mut self, tab: &Tab, expression: &str) -> Value {
        let answer = self.evaluated(tab, expression);
        assert!(answer.get("error").is_none(), "{expression}: {answer}");
        answer["result"]["result"]["value"].clone()
    }

    /// Returns the answer, which is an error where the page is loaded anew meanwhile.
    #[track_caller]
    fn evaluated(&mut self, tab: &Tab, expression: &str) -> Value {
        let params =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.answer(Some(tab), "Runtime.evaluate", &params);
        assert!(answer["result"].get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer
    }

    /// Waits until an expression of the page is true.
    #[track_caller]
    pub(crate) fn until(&mut self, tab: &Tab, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        let is_true = format!("Boolean({expression})");
        while self.evaluated(tab, &is_true)["result"]["result"]["value"] != true {
            if Instant::now() > deadline {
                let text = self.eval(tab, "document.body.innerText");
                panic!("never: {expression}\n{}", text.as_str().unwrap_or_default());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Presses a key, such as `Tab`, `Enter` or a letter.
    pub(crate) fn press(&mut self, tab: &Tab, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            " " => 32,
            "Escape" => 27,
            _ => 0,
        };
        let text = match key {
            "Enter" => "\r",
            "Tab" | "Escape" => "",
            letter => letter,
        };
        let mut event = json!({ "type": "keyDown", "key": key, "windowsVirtualKeyCode": code });
        if !text.is_empty() {
            event["text"] = json!(text);
        }
        self.call(tab, "Input.dispatchKeyEvent", &event);
        let event = json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code });
        self.call(tab, "Input.dispatchKeyEvent", &event);
    }

    /// Moves on with the Tab key until this element has the focus.
    #[track_caller]
    pub(crate) fn tab_to(&mut self, tab: &Tab, selector: &str) {
        let is_there = format!("document.activeElement.matches({selector:?})");
        for _ in 0..200 {
            if self.eval(tab, &is_there) == true {
                return;
            }
            self.press(tab, "Tab");
        }
        panic!("the Tab key never comes to {selector}");
    }

    /// Writes what the page looks like to target/screenshots.
    pub(crate) fn picture(&mut self, tab: &Tab, name: &str) {
        let params = json!({ "format": "png", "captureBeyondViewport": true });
        let picture = self.call(tab, "Page.captureScreenshot", &params);
        let bytes =
            data_encoding::BASE64.decode(picture["data"].as_str().unwrap().as_bytes()).unwrap();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("screenshots");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{name}.png")), bytes).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}
