//! `serve`: the HTTP interface, who may use it, and the page in a real browser.

pub(crate) mod browser;
mod controls;
mod events;
mod http;
mod long_run;
mod page;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::environment::{Running, TestEnvironment};

const PATIENCE: Duration = Duration::from_secs(60);

/// A server that is killed when the handle is dropped.
pub(super) struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
    pub(super) address: String,
    /// The token that no one has used yet.
    pub(super) token: String,
    cookie: String,
    /// What controls need besides the cookie.
    key: String,
}

/// An answer to a request.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Answer {
    #[track_caller]
    pub(super) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    #[track_caller]
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| {
            let (own, value) = line.split_once(": ")?;
            own.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

impl Server {
    pub(super) fn start(env: &TestEnvironment, args: &[&str]) -> Self {
        let all = [&["serve", "--listen", "127.0.0.1:0"], args].concat();
        let mut this = Self::of(env, &all);
        this.log_in();
        this
    }

    pub(super) fn of(env: &TestEnvironment, args: &[&str]) -> Self {
        let mut child =
            env.command(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let empty = String::new;
        let (address, token, cookie, key) = (empty(), empty(), empty(), empty());
        let mut this = Self { child, stdout, address, token, cookie, key };
        this.read_address();
        this
    }

    /// Reads the next address that it prints.
    fn read_address(&mut self) {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let (address, token) = line.trim().split_once("/#token=").unwrap_or_else(|| {
            panic!("no address: {line:?}, {:?}", self.child.try_wait());
        });
        self.address = address.strip_prefix("http://").unwrap().to_owned();
        self.token = token.to_owned();
    }

    /// Exchanges the token for a cookie; then there is another token.
    fn log_in(&mut self) -> Answer {
        let kind = "Content-Type: application/json".to_owned();
        let headers = [self.host(), self.origin(), kind];
        let body = format!(r#"{{"token": "{}"}}"#, self.token);
        let answer = self.send("POST /api/session", &headers, &body).expect(200);
        self.read_address();
        let cookie = answer.header("set-cookie").unwrap();
        self.cookie = format!("Cookie: {}", cookie.split(';').next().unwrap());
        self.key = format!("X-Ralph-Key: {}", answer.json()["key"].as_str().unwrap());
        answer
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a request as it is given: a method with a path, header lines, and a body.
    pub(super) fn send(&self, line: &str, headers: &[String], body: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut request = format!("{line} HTTP/1.1\r\nConnection: close\r\n");
        for header in headers {
            request.push_str(&format!("{header}\r\n"));
        }
        request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        // A server that refuses early may close before all is sent.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Answer { status: status.unwrap_or(0), head: head.to_owned(), body: body.to_owned() }
    }

    pub(super) fn host(&self) -> String {
        format!("Host: {}", self.address)
    }

    pub(super) fn origin(&self) -> String {
        format!("Origin: http://{}", self.address)
    }

    pub(super) fn cookie(&self) -> String {
        self.cookie.clone()
    }

    pub(super) fn key(&self) -> String {
        self.key.clone()
    }

    pub(super) fn get(&self, path: &str) -> Answer {
        self.send(&format!("GET {path}"), &[self.host(), self.cookie()], "")
    }

    pub(super) fn post(&self, path: &str, key: &str, body: &str) -> Answer {
        let headers = [
            self.host(),
            self.origin(),
            self.cookie(),
            self.key(),
            "Content-Type: application/json".to_owned(),
            format!("Idempotency-Key: {key}"),
        ];
        self.send(&format!("POST {path}"), &headers, body)
    }

    /// The id of the first run that it lists.
    #[track_caller]
    pub(super) fn run(&self) -> String {
        let listed = self.get("/api/runs").expect(200).json();
        listed["runs"][0]["run"].as_str().unwrap_or_else(|| panic!("{listed}")).to_owned()
    }

    /// Begins to read the records of a run.
    pub(super) fn follow(&self, path: &str, headers: &[String]) -> EventStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut request = format!("GET {path} HTTP/1.1\r\n");
        for header in [&[self.host(), self.cookie()], headers].concat() {
            request.push_str(&format!("{header}\r\n"));
        }
        stream.write_all(format!("{request}\r\n").as_bytes()).unwrap();
        EventStream { reader: BufReader::new(stream) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Server-sent events as they arrive.
pub(super) struct EventStream {
    reader: BufReader<TcpStream>,
}

impl EventStream {
    /// The next event: its id and its data; `None` when the connection ends.
    pub(super) fn next(&mut self) -> Option<(u64, Value)> {
        let mut id = 0;
        loop {
            let mut line = Vec::new();
            if self.reader.read_until(b'\n', &mut line).ok()? == 0 {
                return None;
            }
            let line = String::from_utf8_lossy(&line);
            if let Some(number) = line.strip_prefix("id: ") {
                id = number.trim().parse().unwrap();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some((id, serde_json::from_str(data.trim()).unwrap()));
            }
        }
    }

    /// All events up to the record of this kind.
    #[track_caller]
    pub(super) fn until(&mut self, kind: &str) -> Vec<(u64, Value)> {
        let mut all = Vec::new();
        loop {
            let event = self.next().unwrap_or_else(|| panic!("no {kind} among {all:?}"));
            let is_last = event.1["record"]["kind"] == kind;
            all.push(event);
            if is_last {
                return all;
            }
        }
    }
}

/// A run that has been completed in two iterations, with text that would harm a page.
pub(super) fn completed() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.agent.call(1).out(format!("{HOSTILE}\nnot yet"));
    env.agent.default_call().script("touch done\n").out("<promise>COMPLETE: made it</promise>");
    env.run().expect(0);
    env
}

/// Starts a run and waits until its first iteration works; it ends when something is written into the returned FIFO.
pub(super) fn held() -> (TestEnvironment, PathBuf, Running) {
    let env = TestEnvironment::new();
    let (up, gate) = (env.fifo("up"), env.fifo("gate"));
    let script = format!("echo > '{}'\ncat '{}' > seen\n", up.display(), gate.display());
    env.agent.call(1).script(&script).out("not yet");
    env.agent.default_call().script("touch done\n").out("<promise>COMPLETE: made it</promise>");
    let running = env.start(&["run"]);
    fs::read(&up).unwrap();
    (env, gate, running)
}

/// Markup, an ANSI sequence and a bidirectional override.
pub(crate) const HOSTILE: &str = "<script>window.harmed = 1</script><img src=x onerror=\"window.harmed = 1\">\u{1b}[31mred\u{202e}drow";
