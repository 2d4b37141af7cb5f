//! Processes that a test has started, told by their environment.

use std::path::Path;

/// The bit of this signal in the sets that the system shows.
const SIGKILL: u64 = 1 << (9 - 1);

/// The command lines of all processes with this variable in their environment, but for those that were killed and are on
/// their way out: they execute nothing any more.
///
/// # Panics
/// If there is no `/proc`.
#[must_use]
pub fn marked(name: &str, value: &str) -> Vec<String> {
    let mark = format!("{name}={value}").into_bytes();
    let mut left = Vec::new();
    for process in std::fs::read_dir("/proc").expect("/proc is there").filter_map(Result::ok) {
        let environ = std::fs::read(process.path().join("environ")).unwrap_or_default();
        let is_marked = environ.split(|byte| *byte == 0).any(|variable| variable == mark);
        if is_marked && !is_killed(&process.path()) {
            let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            left.push(String::from_utf8_lossy(&line).replace('\0', " "));
        }
    }
    left
}

/// Whether the first thread of this process has SIGKILL ahead of it, or has gone meanwhile.
fn is_killed(process: &Path) -> bool {
    let Ok(status) = std::fs::read_to_string(process.join("status")) else { return true };
    let pending = |line: &str| {
        let signals = line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:"))?;
        u64::from_str_radix(signals.trim(), 16).ok()
    };
    status.lines().filter_map(pending).any(|signals| signals & SIGKILL != 0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::disallowed_methods)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    const MARK: &str = "RALPH_TEST_MARK";

    /// Ends its processes, however the test ends.
    struct Children(Vec<Child>);

    impl Children {
        fn kill(&mut self) {
            self.0.iter_mut().for_each(|child| drop(child.kill()));
        }
    }

    impl Drop for Children {
        fn drop(&mut self) {
            self.kill();
            self.0.iter_mut().for_each(|child| drop(child.wait()));
        }
    }

    #[test]
    fn processes_that_were_killed_are_not_left() {
        for round in 0..20 {
            let value = format!("{} {round}", std::process::id());
            let mut command = Command::new("yes");
            command.env(MARK, &value).stdout(Stdio::null());
            // More than there are processors: some have to wait before they can end.
            let children = (0..16).map(|_| command.spawn().unwrap()).collect();
            let mut children = Children(children);
            // The system says a moment late what a new process has in its environment.
            assert!((0..1_000).any(|_| marked(MARK, &value).len() == 16));
            children.kill();
            assert_eq!(marked(MARK, &value), Vec::<String>::new());
        }
    }
}
