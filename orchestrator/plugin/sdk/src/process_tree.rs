//! Processes of a plugin, with everything that they start.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

/// The variable by which the processes of a tree are found, in whatever session or group they are.
const MARK: &str = "RALPH_PLUGIN_TREE";
/// How long killed processes are waited for.
const GRACE: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(5);
/// Rounds of killing when there is nobody who could wait: what is killed may have started more before.
const ROUNDS: usize = 10;

/// Starts processes, and kills them with all that they have started when it is dropped. So nothing is left
/// when a call returns, is cancelled, or is aborted.
///
/// A process is found by a variable of its environment, or by its parents, so one that has emptied its
/// environment *and* whose parents are gone escapes. The orchestrator ends that one with the plugin.
///
/// ```no_run
/// # async fn example(task: ralph_orchestrator_plugin_sdk::Iteration) -> std::io::Result<()> {
/// use ralph_orchestrator_plugin_sdk::ProcessTree;
/// use tokio::process::Command;
///
/// let tree = ProcessTree::new();
/// let mut child = tree.spawn(Command::new("make").current_dir(&task.workspace).envs(&task.env))?;
/// let status = child.wait().await?;
/// let left_behind = tree.end().await;
/// # drop((status, left_behind));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ProcessTree {
    mark: String,
}

impl Default for ProcessTree {
    fn default() -> Self {
        Self::new()
    }
}

impl ProcessTree {
    /// Creates a tree without processes.
    #[must_use]
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self { mark: format!("{}-{number}-{now}", std::process::id()) }
    }

    /// Starts a command in a process group of its own. The child is killed when it is dropped, and with the
    /// tree.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        command.env(MARK, &self.mark).process_group(0).kill_on_drop(true).spawn()
    }

    /// Kills every process of the tree that is still there, and waits up to 5 s until they are gone. Returns
    /// their names, in order, for [`Report::left_behind`](ralph_orchestrator_contract::Report::left_behind).
    pub async fn end(&self) -> Vec<String> {
        let (mut names, deadline) = (BTreeSet::new(), Instant::now() + GRACE);
        loop {
            let killed = self.kill();
            if killed.is_empty() || Instant::now() >= deadline {
                return names.into_iter().collect();
            }
            names.extend(killed);
            sleep(STEP).await;
        }
    }

    /// Kills every process of the tree that is alive. Returns their names.
    fn kill(&self) -> Vec<String> {
        let mark = format!("{MARK}={}", self.mark);
        let processes = processes();
        let is_marked = |process: &Process| {
            process.env.split(|byte| *byte == 0).any(|one| one == mark.as_bytes())
        };
        let mut members: BTreeSet<i32> = processes
            .iter()
            .filter(|(_, process)| is_marked(process))
            .map(|(pid, _)| *pid)
            .collect();
        // Those that have emptied their environment, through any number of parents.
        loop {
            let children = processes.iter().filter(|(pid, process)| {
                !members.contains(pid) && members.contains(&process.parent)
            });
            let children: Vec<i32> = children.map(|(pid, _)| *pid).collect();
            if children.is_empty() {
                break;
            }
            members.extend(children);
        }
        let mut names = Vec::new();
        for (_, process) in processes.into_iter().filter(|(pid, _)| members.contains(pid)) {
            // Opened before its files were read: whoever gets the number later is not meant.
            if pidfd_send_signal(&process.handle, Signal::KILL).is_ok() {
                names.push(process.name);
            }
        }
        names
    }
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        for _ in 0..ROUNDS {
            if self.kill().is_empty() {
                break;
            }
        }
    }
}

/// A process of this machine, as it was when it was read.
struct Process {
    handle: rustix::fd::OwnedFd,
    parent: i32,
    name: String,
    env: Vec<u8>,
}

/// Returns all processes but this one, by pid. Those that end meanwhile are left out, and so are zombies,
/// which only their parents can end.
fn processes() -> BTreeMap<i32, Process> {
    let own = std::process::id();
    let mut processes = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        if u32::try_from(pid).is_ok_and(|pid| pid == own) {
            continue;
        }
        let handle = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
        let Some(Ok(handle)) = handle else { continue };
        if let Some((state, parent, name)) = stat(&entry.path())
            && state != 'Z'
        {
            let env = fs::read(entry.path().join("environ")).unwrap_or_default();
            processes.insert(pid, Process { handle, parent, name, env });
        }
    }
    processes
}

/// Returns the state, the parent and the name of the process in this folder of `/proc`.
fn stat(folder: &Path) -> Option<(char, i32, String)> {
    let stat = fs::read(folder.join("stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name is in parentheses, and may have some itself.
    let (head, tail) = stat.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let mut fields = tail.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?, name.to_owned()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "it starts what it ends")]
mod tests {
    use super::*;

    use tokio::io::{AsyncBufReadExt as _, BufReader};

    /// A command that prints `up` when everything that it has started runs.
    fn command(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(std::process::Stdio::piped());
        command
    }

    async fn wait_until_up(child: &mut Child) {
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("up"));
    }

    fn count(tree: &ProcessTree) -> usize {
        let mark = format!("{MARK}={}", tree.mark);
        let is_marked = |process: &Process| {
            process.env.split(|byte| *byte == 0).any(|one| one == mark.as_bytes())
        };
        processes().values().filter(|process| is_marked(process)).count()
    }

    #[tokio::test]
    async fn everything_that_was_started_is_ended_and_named() {
        let (tree, other) = (ProcessTree::new(), ProcessTree::new());
        // One in a session of its own, and one that has emptied its environment.
        let script = "setsid sleep 1000 & env -i sleep 1001 & echo up; wait";
        let mut child = tree.spawn(&mut command(script)).unwrap();
        let mut neighbour = other.spawn(&mut command("echo up; exec sleep 1000")).unwrap();
        wait_until_up(&mut child).await;
        wait_until_up(&mut neighbour).await;
        let names = tree.end().await;
        assert!(names.iter().any(|name| name == "sleep"), "{names:?}");
        assert!(names.iter().any(|name| name == "sh"), "{names:?}");
        assert_eq!(count(&tree), 0);
        assert!(!child.wait().await.unwrap().success());
        assert_eq!(neighbour.try_wait().unwrap(), None, "another tree was ended");
        assert_eq!(tree.end().await, Vec::<String>::new());
    }

    #[tokio::test]
    async fn a_dropped_tree_leaves_nothing() {
        let tree = ProcessTree::new();
        let mut child = tree.spawn(&mut command("setsid sleep 1000 & echo up; wait")).unwrap();
        wait_until_up(&mut child).await;
        let again = ProcessTree { mark: tree.mark.clone() };
        drop(tree);
        // What is killed is gone as soon as the kernel has come to it.
        assert!(again.end().await.len() <= 3);
        assert_eq!(count(&again), 0);
    }

    #[test]
    fn names_with_parentheses_are_read() {
        let folder = crate::testing::Workspace::new();
        folder.write("stat", "7 (a) (b) c) S 42 7 7 0\n");
        assert_eq!(stat(folder.path()), Some(('S', 42, "a) (b) c".to_owned())));
    }
}
