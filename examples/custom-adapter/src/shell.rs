//! The tool `bash`: runs commands, keeps the ends of what they print, and ends all that they start.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ralph_orchestrator_plugin_sdk::{Iteration, ProcessTree};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::process::Command;
use tokio::time::timeout;

const NAME: &str = "bash";
/// How long a command may run unless the model says otherwise, and at most.
const USUAL: Duration = Duration::from_secs(600);
const LONGEST: Duration = Duration::from_secs(3600);
/// After a command's end: what others that have its output still print is not waited for any longer.
const REST: Duration = Duration::from_millis(200);
/// So much is kept of the beginning, and as much of the end, of what a command prints; in bytes.
const KEPT: usize = 16 * 1024;

/// As the model is told of it.
pub(crate) fn tool() -> Value {
    json!({"type": "function", "function": {
        "name": NAME,
        "description": "Runs a command with bash in the working folder. Returns its output and, if it \
            is not 0, its exit status. Long output is cut in the middle. Processes in the background \
            live until the work is done.",
        "parameters": {
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "the command"},
                "timeout_seconds": {"type": "integer", "minimum": 1, "maximum": LONGEST.as_secs()},
            },
            "required": ["command"],
        },
    }})
}

/// What a call wants, or what is said of it to the model.
pub(crate) fn wanted<'a>(name: &str, input: &'a Value) -> Result<(&'a str, Duration), String> {
    if name != NAME {
        return Err(format!("there is no tool `{name}`; the only one is `{NAME}`"));
    }
    let Some(command) = input.get("command").and_then(Value::as_str) else {
        return Err("expected {\"command\": \"…\"}".to_owned());
    };
    let limit = input.get("timeout_seconds").and_then(Value::as_u64);
    let limit = limit.map_or(USUAL, |seconds| Duration::from_secs(seconds.max(1)).min(LONGEST));
    Ok((command, limit))
}

/// Whether there is a bash.
pub(crate) fn find(env: &BTreeMap<String, String>) -> Result<PathBuf, String> {
    let path = env.get("PATH").map(String::as_str).unwrap_or_default();
    let mut places = path.split(':').map(|folder| Path::new(folder).join(NAME));
    places.find(|place| place.is_file()).ok_or_else(|| format!("there is no `{NAME}` in {path}"))
}

/// Runs the commands of one iteration. What they started is killed when it is dropped.
pub(crate) struct Shell {
    workspace: PathBuf,
    env: BTreeMap<String, String>,
    /// The processes of each command: those in the background live until the work is done.
    trees: Mutex<Vec<ProcessTree>>,
}

impl Shell {
    pub(crate) fn new(task: &Iteration) -> Self {
        let (workspace, env) = (task.workspace.clone(), task.env.clone());
        Self { workspace, env, trees: Mutex::default() }
    }

    /// What it printed, and whether it failed.
    pub(crate) async fn run(&self, command: &str, limit: Duration) -> (String, bool) {
        match self.try_run(command, limit).await {
            Ok(ran) => ran,
            Err(error) => (format!("the command cannot be run: {error}"), true),
        }
    }

    async fn try_run(&self, command: &str, limit: Duration) -> io::Result<(String, bool)> {
        let (output, input) = io::pipe()?;
        let mut bash = Command::new(NAME);
        bash.args(["-c", command]).current_dir(&self.workspace).env_clear().envs(&self.env);
        bash.stdin(Stdio::null()).stdout(input.try_clone()?).stderr(input);
        let tree = ProcessTree::new();
        let mut child = tree.spawn(&mut bash)?;
        // The pipe ends with the processes, and not with this command.
        drop(bash);
        let mut output = Receiver::from_owned_fd(OwnedFd::from(output))?;
        let mut kept = Kept::default();
        let ended = {
            let work = async {
                let status = tokio::select! {
                    status = child.wait() => status,
                    read = kept.all(&mut output) => {
                        read?;
                        child.wait().await
                    }
                };
                // Not to its end: a process in the background may have it, too.
                let rest = timeout(REST, kept.all(&mut output)).await;
                rest.unwrap_or(Ok(()))?;
                status
            };
            timeout(limit, work).await
        };
        let Ok(status) = ended else {
            tree.end().await;
            let seconds = limit.as_secs();
            let text = kept.text();
            return Ok((format!("{text}\n[killed: not done within {seconds} s]"), true));
        };
        self.trees().push(tree);
        let status = status?;
        let text = kept.text();
        let text = if status.success() { text } else { format!("{text}\n[{status}]") };
        Ok((text, !status.success()))
    }

    /// Ends all that is still there, and waits until it is gone; the names.
    pub(crate) async fn end(&self) -> Vec<String> {
        let trees = std::mem::take(&mut *self.trees());
        let mut names = BTreeSet::new();
        for tree in &trees {
            names.extend(tree.end().await);
        }
        names.into_iter().collect()
    }

    fn trees(&self) -> MutexGuard<'_, Vec<ProcessTree>> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The beginning and the end of an output.
#[derive(Default)]
struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Kept {
    /// Reads to the end of the output.
    async fn all(&mut self, output: &mut Receiver) -> io::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match output.read(&mut buffer).await? {
                0 => return Ok(()),
                read => self.add(buffer.get(..read).unwrap_or_default()),
            }
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        let room = KEPT.saturating_sub(self.head.len()).min(bytes.len());
        let (head, tail) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        self.tail.extend(tail);
        let surplus = self.tail.len().saturating_sub(KEPT);
        self.tail.drain(..surplus);
        self.left_out += surplus as u64;
    }

    fn text(self) -> String {
        let mut bytes = self.head;
        if self.left_out > 0 {
            bytes.extend_from_slice(format!("\n[{} bytes left out]\n", self.left_out).as_bytes());
        }
        bytes.extend(self.tail);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
