//! How each command line and environment is made: what a repository's configuration may not decide.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{GitError, Result, to_message};
use crate::object_id::ObjectId;
use crate::run_git::{GitExit, GitOutput, GitRequest, RunGit};

/// How much a listing may print, in bytes.
const MAX_LISTING: usize = 512 * 1024 * 1024;

/// How long one command may run.
const TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// How long one command with hooks may run: there may be tests in them.
const HOOK_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// Variables `GIT_*` of the caller that survive: who commits, and which files configure git.
const INHERITED: [&str; 8] = [
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CEILING_DIRECTORIES",
];

/// One command line of `git` under construction.
#[derive(Debug, Clone)]
pub(crate) struct GitCommand {
    arguments: Vec<OsString>,
    directory: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    configuration: Vec<(OsString, OsString)>,
    stdin: Vec<u8>,
    max_output: usize,
    timeout: Duration,
    confined_to: Option<Vec<PathBuf>>,
}

impl GitCommand {
    /// Begins a command in the user's repository, which is found from the directory.
    ///
    /// No pager, prompt, editor, network protocol, lazy fetch or background maintenance, and no
    /// file system monitor: its program could be anybody's.
    pub(crate) fn new(directory: &Path, outer: &BTreeMap<OsString, OsString>) -> Self {
        let mut environment: BTreeMap<OsString, OsString> = outer
            .iter()
            .filter(|(name, _)| {
                !name.as_bytes().starts_with(b"GIT_")
                    || INHERITED.iter().any(|kept| name.as_os_str() == *kept)
            })
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        for (name, value) in [
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_ALLOW_PROTOCOL", "none"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_LITERAL_PATHSPECS", "1"),
            ("GIT_EDITOR", ":"),
            ("GIT_SEQUENCE_EDITOR", ":"),
            ("GIT_PAGER", "cat"),
            ("LC_ALL", "C"),
            ("LANGUAGE", "C"),
        ] {
            environment.insert(name.into(), value.into());
        }
        let mut command = Self {
            arguments: vec!["--no-pager".into()],
            directory: directory.to_path_buf(),
            environment,
            configuration: Vec::new(),
            stdin: Vec::new(),
            max_output: MAX_LISTING,
            timeout: TIMEOUT,
            confined_to: None,
        };
        for (key, value) in [
            ("core.fsmonitor", "false"),
            ("core.untrackedCache", "false"),
            ("gc.auto", "0"),
            ("maintenance.auto", "false"),
        ] {
            command = command.configure(key, value);
        }
        command
    }

    /// Uses a git directory of the orchestrator's own, with the user's store of objects, and reads no
    /// configuration of the user's.
    pub(crate) fn in_private(self, git_dir: &Path, home: &Path, objects: &Path) -> Self {
        let workspace = self.directory.clone();
        self.env("GIT_DIR", git_dir)
            .env("GIT_WORK_TREE", &workspace)
            .env("GIT_OBJECT_DIRECTORY", objects)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("HOME", home)
            .env("XDG_CONFIG_HOME", home)
            .configure("core.hooksPath", "/dev/null")
            .configure("core.attributesFile", "/dev/null")
            .configure("core.excludesFile", "/dev/null")
            .configure("core.autocrlf", "false")
            .configure("core.safecrlf", "false")
            .configure("core.ignoreCase", "false")
            .configure("core.fsync", "committed,loose-object")
            .configure("core.fsyncMethod", "batch")
    }

    pub(crate) fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    pub(crate) fn args<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        self.arguments.extend(arguments.into_iter().map(OsString::from));
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.insert(name.into(), value.as_ref().to_os_string());
        self
    }

    pub(crate) fn unset(mut self, name: &str) -> Self {
        self.environment.remove(OsStr::new(name));
        self
    }

    /// Gives hooks and filters the environment that they would have under the user's own git.
    ///
    /// Only prompts, editors and pagers stay off, since nobody could answer them.
    pub(crate) fn for_hooks(mut self, outer: &BTreeMap<OsString, OsString>) -> Self {
        self.timeout = HOOK_TIMEOUT;
        for name in [
            "GIT_OPTIONAL_LOCKS",
            "GIT_ALLOW_PROTOCOL",
            "GIT_NO_LAZY_FETCH",
            "GIT_NO_REPLACE_OBJECTS",
            "GIT_LITERAL_PATHSPECS",
        ] {
            self.environment.remove(OsStr::new(name));
        }
        for name in ["LC_ALL", "LANGUAGE"] {
            self.environment.remove(OsStr::new(name));
            if let Some(value) = outer.get(OsStr::new(name)) {
                self.environment.insert(name.into(), value.clone());
            }
        }
        self
    }

    /// Confines it and all that it runs: it may write these folders beside the workspace.
    pub(crate) fn confined_to(mut self, folders: Vec<PathBuf>) -> Self {
        self.confined_to = Some(folders);
        self
    }

    /// Sets a configuration key for this command, over whatever any file says.
    pub(crate) fn configure(mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.configuration.push((key.as_ref().to_os_string(), value.as_ref().to_os_string()));
        self
    }

    pub(crate) fn stdin(mut self, bytes: Vec<u8>) -> Self {
        self.stdin = bytes;
        self
    }

    pub(crate) fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    pub(crate) fn max_output(mut self, bytes: usize) -> Self {
        self.max_output = bytes;
        self
    }

    fn name(&self) -> String {
        let name = self.arguments.get(1).map(|name| name.to_string_lossy().into_owned());
        name.unwrap_or_default()
    }

    /// Runs it, and returns whatever it printed and however it ended, output perhaps truncated.
    pub(crate) fn output(mut self, git: &dyn RunGit) -> Result<GitOutput> {
        let command = self.name();
        let count = self.configuration.len().to_string();
        self.environment.insert("GIT_CONFIG_COUNT".into(), count.into());
        for (index, (key, value)) in self.configuration.into_iter().enumerate() {
            self.environment.insert(format!("GIT_CONFIG_KEY_{index}").into(), key);
            self.environment.insert(format!("GIT_CONFIG_VALUE_{index}").into(), value);
        }
        let request = GitRequest {
            arguments: self.arguments,
            directory: self.directory,
            environment: self.environment,
            stdin: self.stdin,
            max_output: self.max_output,
            timeout: self.timeout,
            confined_to: self.confined_to,
        };
        git.run_git(&request).map_err(|source| GitError::Run { command, source })
    }

    /// Runs it, and returns all of its output if it succeeded.
    pub(crate) fn read(self, git: &dyn RunGit) -> Result<Vec<u8>> {
        let command = self.name();
        self.read_if(git)?.map_err(|(exit, message)| GitError::Failed { command, exit, message })
    }

    /// Runs it, and returns all of its output, or how it failed.
    pub(crate) fn read_if(
        self,
        git: &dyn RunGit,
    ) -> Result<std::result::Result<Vec<u8>, (GitExit, String)>> {
        let (command, limit) = (self.name(), self.max_output);
        let output = self.output(git)?;
        if output.exit != GitExit::Status(0) {
            return Ok(Err((output.exit, to_message(&output.stderr))));
        }
        if output.is_truncated {
            return Err(GitError::OutputTooLarge { command, limit });
        }
        Ok(Ok(output.stdout))
    }

    /// Runs it, and returns its output without the last newline, or nothing if it exits with 1.
    pub(crate) fn read_optional(self, git: &dyn RunGit) -> Result<Option<Vec<u8>>> {
        let command = self.name();
        match self.read_if(git)? {
            Ok(output) => Ok(Some(without_newline(output))),
            Err((GitExit::Status(1), _)) => Ok(None),
            Err((exit, message)) => Err(GitError::Failed { command, exit, message }),
        }
    }

    /// Runs it, and returns its output as text without the last newline.
    pub(crate) fn read_text(self, git: &dyn RunGit) -> Result<String> {
        let command = self.name();
        String::from_utf8(without_newline(self.read(git)?))
            .map_err(|_| GitError::UnexpectedOutput { command, expected: "UTF-8" })
    }

    /// Runs it, and returns its output as a path.
    pub(crate) fn read_path(self, git: &dyn RunGit) -> Result<PathBuf> {
        let output = without_newline(self.read(git)?);
        Ok(PathBuf::from(OsStr::from_bytes(&output)))
    }
}

fn without_newline(mut output: Vec<u8>) -> Vec<u8> {
    if output.last() == Some(&b'\n') {
        output.pop();
    }
    output
}

/// Reads an object's id that a subcommand printed.
pub(crate) fn parse_object_id(text: &str, command: &str) -> Result<ObjectId> {
    ObjectId::from_hex(text).ok_or_else(|| GitError::UnexpectedOutput {
        command: command.to_owned(),
        expected: "an object id",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    struct Recorder(Mutex<Vec<GitRequest>>);

    impl RunGit for Recorder {
        fn run_git(&self, request: &GitRequest) -> std::io::Result<GitOutput> {
            self.0.lock().unwrap().push(request.clone());
            Ok(GitOutput {
                exit: GitExit::Status(0),
                stdout: Vec::new(),
                is_truncated: false,
                stderr: Vec::new(),
            })
        }
    }

    #[test]
    fn passes_no_git_variable_of_the_caller_but_identity_and_configuration_files() {
        let outer: BTreeMap<OsString, OsString> = [
            "GIT_DIR",
            "GIT_INDEX_FILE",
            "GIT_WORK_TREE",
            "GIT_EXTERNAL_DIFF",
            "GIT_SSH_COMMAND",
            "GIT_CONFIG_PARAMETERS",
            "GIT_EXEC_PATH",
            "GIT_AUTHOR_NAME",
            "PATH",
        ]
        .into_iter()
        .map(|name| (name.into(), "outer".into()))
        .collect();
        let recorder = Recorder(Mutex::default());
        GitCommand::new(Path::new("/"), &outer).arg("status").read(&recorder).unwrap();
        let request = recorder.0.lock().unwrap().pop().unwrap();
        let inherited: Vec<_> =
            request.environment.iter().filter(|(_, value)| *value == "outer").collect();
        assert_eq!(inherited.len(), 2, "{inherited:?}");
        for (name, value) in [
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_ALLOW_PROTOCOL", "none"),
            ("GIT_CONFIG_KEY_0", "core.fsmonitor"),
            ("GIT_CONFIG_VALUE_0", "false"),
        ] {
            assert_eq!(request.environment.get(OsStr::new(name)).unwrap(), value, "{name}");
        }
    }
}
