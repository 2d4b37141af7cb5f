//! Hands a notice to its receiver: by `curl`, or by a program of the user.
//!
//! The system's `curl` costs the program nothing while nobody is notified, and knows the user's proxies and certificates.
//! A client of our own would add more than a megabyte for TLS. Secrets reach it on standard input only.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use ralph_orchestrator_config::NotifyKind;
use ralph_orchestrator_engine::ScratchDir;
use ralph_orchestrator_supervisor::{
    CaptureLimit, Ending, Grace, Output, Spec, Supervisor, find_program, path_outside,
};
use ralph_orchestrator_text::plain_line;

use crate::message::{Post, json_of, post};
use crate::notice::Notice;
use crate::receiver::{Receiver, Target};

const CURL: &str = "curl";
const NOTIFY_SEND: &str = "notify-send";
/// How much of what a program prints is kept for a message, in bytes.
const KEPT: CaptureLimit = CaptureLimit { head: 4096, tail: 0 };
/// The longest line of it that is shown, in characters.
const SHOWN: usize = 160;
/// Variables that `curl` gets: where to look for programs and certificates, and which way to go.
const CURL_VARIABLES: [&str; 10] = [
    "PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTPS_PROXY",
    "NO_PROXY",
];

/// What a receiver answered, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Such as "HTTP 200".
    pub answer: String,
}

/// Why a notice was not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendError {
    /// For people; holds no secret.
    pub message: String,
    /// The receiver has refused it, and would do so again.
    pub is_refusal: bool,
}

/// Hands notices over.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Delivers one notice.
    ///
    /// # Errors
    /// The receiver did not answer that it has it.
    async fn send(&self, receiver: &Receiver, notice: &Notice) -> Result<Delivery, SendError>;
}

/// Runs `curl`, `notify-send` and programs of the user under the supervisor.
pub struct SupervisedTransport {
    /// Starts them.
    pub supervisor: Supervisor,
    /// Starts, in a sandbox, commands that run what the agent can write; an error if there can be none.
    pub confined: Result<Supervisor, String>,
    /// The variables of this program.
    pub vars: BTreeMap<String, String>,
    /// Those that commands are given.
    pub env: BTreeMap<String, String>,
    /// Where agents can put programs: none of the system is looked for there.
    pub places: Vec<PathBuf>,
    /// The folder of the configuration: paths are relative to it, and what is confined runs in it.
    pub folder: PathBuf,
    /// Where programs run with the user's rights: where no agent has left what they would load.
    pub own_folder: PathBuf,
}

/// A program of the user that is to be run.
#[derive(Debug)]
pub struct UserProgram<'a> {
    /// The program and its arguments.
    pub words: &'a [String],
    /// It runs in the sandbox.
    pub is_confined: bool,
    /// Variables that it is given beside those that all commands are given.
    pub variables: BTreeMap<String, String>,
    /// The run that it is about.
    pub run: &'a str,
    /// What it reads.
    pub stdin: Vec<u8>,
    /// What is kept of its standard output, and of its standard error.
    pub kept: [CaptureLimit; 2],
}

#[async_trait]
impl Transport for SupervisedTransport {
    async fn send(&self, receiver: &Receiver, notice: &Notice) -> Result<Delivery, SendError> {
        let timeout = receiver.timeout;
        match &receiver.target {
            Target::Http { kind, url, token, secret } => {
                let sent = self.post(notice, *kind, secret.as_deref());
                self.curl(url, token.as_deref(), &sent, timeout).await
            }
            Target::Command(words) => self.command(words, notice, receiver).await,
            Target::Desktop => {
                let words = [NOTIFY_SEND, "--app-name=ralph-orchestrator", "--"];
                let mut words: Vec<String> = words.map(str::to_owned).to_vec();
                words.extend([notice.title(), notice.text()]);
                self.command(&words, notice, receiver).await
            }
        }
    }
}

impl SupervisedTransport {
    fn post(&self, notice: &Notice, kind: NotifyKind, secret: Option<&str>) -> Post {
        post(notice, kind, secret, Timestamp::now().as_second())
    }

    async fn curl(
        &self,
        url: &str,
        token: Option<&str>,
        sent: &Post,
        timeout: Duration,
    ) -> Result<Delivery, SendError> {
        let env = CURL_VARIABLES.iter().filter_map(|name| {
            self.vars.get(*name).map(|value| ((*name).to_owned(), value.clone()))
        });
        let mut env: BTreeMap<String, String> = env.collect();
        self.keep_outside(&mut env);
        let spec = Spec {
            program: self.find(CURL)?,
            // Before anything else: no file of the user's changes what is sent.
            args: ["-q", "--config", "-"].map(OsString::from).to_vec(),
            cwd: PathBuf::from("/"),
            env,
            stdin: curl_config(url, token, sent, timeout).into_bytes(),
            grace: short_grace(),
        };
        let within = timeout.saturating_add(Duration::from_secs(2));
        let output = run(&self.supervisor, spec, within).await?;
        let status = output.stdout.text();
        match (output.exit.ending, status.trim().parse::<u16>()) {
            (Ending::Exited(0), Ok(code)) => answered(code),
            _ => Err(failed(&output, CURL)),
        }
    }

    async fn command(
        &self,
        words: &[String],
        notice: &Notice,
        receiver: &Receiver,
    ) -> Result<Delivery, SendError> {
        let mut variables = receiver.variables.clone();
        variables.insert("RALPH_NOTICE_ID".to_owned(), notice.id.clone());
        variables.insert("RALPH_NOTICE_TOPIC".to_owned(), notice.topic.word().to_owned());
        let program = UserProgram {
            words,
            is_confined: receiver.is_confined,
            variables,
            run: &notice.run,
            stdin: format!("{}\n", json_of(notice)).into_bytes(),
            kept: [KEPT; 2],
        };
        let output = self.run_program(program, tokio::time::sleep(receiver.timeout)).await?;
        let name = words.first().map(String::as_str).unwrap_or_default();
        match output.exit.ending {
            _ if output.stopped => Err(unanswered(receiver.timeout)),
            Ending::Exited(0) => Ok(Delivery { answer: "exit 0".to_owned() }),
            _ => Err(failed(&output, name)),
        }
    }

    /// Runs a program of the user, until `stop`. None of its processes is left then.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn run_program(
        &self,
        program: UserProgram<'_>,
        stop: impl Future<Output = ()>,
    ) -> Result<Output, SendError> {
        let (name, arguments) =
            program.words.split_first().ok_or_else(|| failure("it names no program"))?;
        let mut env = self.env.clone();
        env.extend(program.variables);
        let mut scratch = ScratchDir::default();
        let (supervisor, cwd) = if program.is_confined {
            // The one folder that is its own.
            let folder = scratch.fresh(program.run).map_err(|error| failure(&error.to_string()))?;
            env.insert("TMPDIR".to_owned(), folder.display().to_string());
            (self.confined.as_ref().map_err(|problem| failure(problem))?, &self.folder)
        } else {
            self.keep_outside(&mut env);
            (&self.supervisor, &self.own_folder)
        };
        let spec = Spec {
            program: self.find(name)?,
            args: arguments.iter().map(OsString::from).collect(),
            cwd: cwd.clone(),
            env,
            stdin: program.stdin,
            grace: short_grace(),
        };
        let output = supervisor.output_within(spec, program.kept, stop).await;
        output.map_err(|error| failure(&error.to_string()))
    }

    /// Posts a JSON object to a URL, with further headers.
    ///
    /// # Errors
    /// It did not answer with a status of success within this time.
    pub async fn post_json(
        &self,
        url: &str,
        headers: Vec<(String, String)>,
        body: String,
        timeout: Duration,
    ) -> Result<Delivery, SendError> {
        let further = headers.into_iter().map(|(name, value)| (name.into(), value));
        let kind = ("Content-Type".into(), "application/json".to_owned());
        let headers = std::iter::once(kind).chain(further).collect();
        self.curl(url, None, &Post { headers, body }, timeout).await
    }

    /// Returns the program that a receiver's notices are handed to.
    ///
    /// # Errors
    /// There is none, in words for people.
    pub fn find_program(&self, receiver: &Receiver) -> Result<PathBuf, String> {
        self.look_up(match &receiver.target {
            Target::Http { .. } => CURL,
            Target::Desktop => NOTIFY_SEND,
            Target::Command(words) => words.first().map(String::as_str).unwrap_or_default(),
        })
    }

    /// Returns where a program of the user's is.
    ///
    /// # Errors
    /// It is nowhere, in words for people.
    pub fn find_user_program(&self, program: &str) -> Result<PathBuf, String> {
        self.look_up(program)
    }

    fn find(&self, program: &str) -> Result<PathBuf, SendError> {
        self.look_up(program).map_err(|problem| failure(&problem))
    }

    /// Removes from `PATH` the folders in which agents can put programs.
    fn keep_outside(&self, env: &mut BTreeMap<String, String>) {
        if let Some(path) = env.get_mut("PATH") {
            *path = path_outside(path, &self.places);
        }
    }

    fn look_up(&self, program: &str) -> Result<PathBuf, String> {
        let path = self.vars.get("PATH").map(String::as_str).unwrap_or_default();
        let path = if [CURL, NOTIFY_SEND].contains(&program) {
            path_outside(path, &self.places)
        } else {
            path.to_owned()
        };
        find_program(program, &path, &self.folder).map_err(|error| error.to_string())
    }
}

async fn run(supervisor: &Supervisor, spec: Spec, timeout: Duration) -> Result<Output, SendError> {
    let output = supervisor.output(spec, KEPT, tokio::time::sleep(timeout)).await;
    let output = output.map_err(|error| failure(&error.to_string()))?;
    match output.stopped {
        true => Err(unanswered(timeout)),
        false => Ok(output),
    }
}

fn unanswered(timeout: Duration) -> SendError {
    failure(&format!("no answer within {timeout:?}"))
}

/// Nobody waits for a program that was told to end.
fn short_grace() -> Grace {
    let second = Duration::from_secs(1);
    Grace { interrupt: second, terminate: second, leftovers: second }
}

fn failure(message: &str) -> SendError {
    SendError { message: plain_line(message, SHOWN), is_refusal: false }
}

fn failed(output: &Output, program: &str) -> SendError {
    let stderr = output.stderr.text();
    let said = stderr.lines().map(str::trim).find(|line| !line.is_empty());
    let how = match output.exit.ending {
        Ending::Exited(code) => format!("{program} ended with exit {code}"),
        Ending::Signaled { signal, .. } => format!("{program} was ended by signal {signal}"),
        Ending::Lost => format!("how {program} ended is not known"),
    };
    failure(&said.map_or_else(|| how.clone(), |said| format!("{how}: {said}")))
}

/// Only a status of success is an answer. A redirection is none: it would take the notice, and the token, elsewhere.
fn answered(code: u16) -> Result<Delivery, SendError> {
    match code {
        200..=299 => Ok(Delivery { answer: format!("HTTP {code}") }),
        // Too early, too many, timed out: another time it may succeed.
        408 | 425 | 429 => Err(failure(&format!("HTTP {code}"))),
        400..=499 => Err(SendError { message: format!("HTTP {code}"), is_refusal: true }),
        300..=399 => Err(failure(&format!("HTTP {code}: redirections are not followed"))),
        _ => Err(failure(&format!("HTTP {code}"))),
    }
}

/// Returns what `curl` reads as its configuration.
fn curl_config(url: &str, token: Option<&str>, sent: &Post, timeout: Duration) -> String {
    let mut lines = vec![
        "silent".to_owned(),
        "show-error".to_owned(),
        format!("max-time = {}", timeout.as_secs_f64()),
        "proto = \"=http,https\"".to_owned(),
        "output = \"/dev/null\"".to_owned(),
        "write-out = \"%{http_code}\"".to_owned(),
        "request = \"POST\"".to_owned(),
        format!("url = {}", quoted(url)),
        // Without it, curl asks before it sends more than a kilobyte, and waits for the answer.
        "header = \"Expect:\"".to_owned(),
        "globoff".to_owned(),
    ];
    let mut headers: Vec<String> =
        sent.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    headers.extend(token.map(|token| format!("Authorization: Bearer {token}")));
    lines.extend(headers.iter().map(|header| format!("header = {}", quoted(header))));
    lines.push(format!("data-raw = {}", quoted(&sent.body)));
    lines.join("\n")
}

/// A value in the form of `curl`'s configuration.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push(' '),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
