//! Processes of `gh` and `glab`, under the supervisor.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_orchestrator_forge::{ProgramOutput, ProgramPlace, ProgramRequest, RunHostProgram};
use ralph_orchestrator_supervisor::{
    CaptureLimit, Ending, Grace, KillSwitch, Output, Spec, find_program, path_outside,
};

use crate::registry;

/// How long one command may take.
const TIMEOUT: Duration = Duration::from_secs(120);
/// How much of standard error is kept.
const MAX_STDERR: usize = 64 * 1024;
/// Variables that are set for every process: nobody could answer, and output is read by a program.
const SET: [(&str, &str); 8] = [
    ("GH_PROMPT_DISABLED", "1"),
    ("GH_NO_UPDATE_NOTIFIER", "1"),
    ("GH_PAGER", "cat"),
    ("PAGER", "cat"),
    ("NO_PROMPT", "1"),
    ("GLAB_CHECK_UPDATE", "false"),
    ("NO_COLOR", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
];
/// Variables that change what is printed.
const UNSET: [&str; 5] = ["GH_DEBUG", "DEBUG", "GH_FORCE_TTY", "CLICOLOR_FORCE", "GLAMOUR_STYLE"];

/// Starts the programs of code hosts, with the user's own environment and without a sandbox: they have to find the user's
/// login, which no agent is given.
pub(crate) struct HostPrograms {
    vars: BTreeMap<String, String>,
    /// Where agents can put programs.
    places: Vec<PathBuf>,
    workspace: PathBuf,
}

impl HostPrograms {
    /// Returns what starts them for a workspace.
    pub(crate) fn new(
        vars: &BTreeMap<String, String>,
        places: Vec<PathBuf>,
        workspace: &Path,
    ) -> Self {
        Self { vars: vars.clone(), places, workspace: workspace.to_owned() }
    }

    fn spec(&self, request: &ProgramRequest) -> io::Result<Spec> {
        let path = self.vars.get("PATH").map(String::as_str).unwrap_or_default();
        let path = path_outside(path, &self.places);
        let program = find_program(request.program, &path, Path::new("/"))
            .map_err(|error| io::Error::new(io::ErrorKind::NotFound, error.to_string()))?;
        let mut env = self.vars.clone();
        env.retain(|name, _| !UNSET.contains(&name.as_str()));
        env.extend(SET.map(|(name, value)| (name.to_owned(), value.to_owned())));
        env.insert("PATH".to_owned(), path);
        let cwd = match request.place {
            ProgramPlace::Neutral => PathBuf::from("/"),
            ProgramPlace::Workspace => self.workspace.clone(),
        };
        Ok(Spec {
            program,
            args: request.arguments.iter().map(Into::into).collect(),
            cwd,
            env,
            stdin: request.stdin.clone(),
            grace: Grace::default(),
        })
    }
}

impl RunHostProgram for HostPrograms {
    fn run_program(&self, request: &ProgramRequest) -> io::Result<ProgramOutput> {
        let spec = self.spec(request)?;
        let limits = [request.max_output, MAX_STDERR].map(|head| CaptureLimit { head, tail: 0 });
        let program = request.program;
        // Who asks may be on a thread of a runtime, which must not be waited for there.
        let thread = std::thread::Builder::new().name(format!("run-{program}"));
        let started = thread.spawn(move || -> io::Result<Output> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let supervisor = registry::supervisor_of_one(KillSwitch::default());
            let stop = tokio::time::sleep;
            let output = async { supervisor.output_within(spec, limits, stop(TIMEOUT)).await };
            runtime.block_on(output).map_err(io::Error::other)
        })?;
        let output = started.join().map_err(|_| io::Error::other("its thread panicked"))??;
        if output.stopped {
            let message = format!("{program} did not exit within {} s", TIMEOUT.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        let status = match output.exit.ending {
            Ending::Exited(code) => code,
            Ending::Signaled { signal, .. } => signal.saturating_add(128),
            Ending::Lost => return Err(io::Error::other("how it ended is not known")),
        };
        let is_truncated = output.stdout.cut > 0;
        let (stdout, stderr) = (output.stdout.head, output.stderr.head);
        Ok(ProgramOutput { status, stdout, is_truncated, stderr })
    }
}
