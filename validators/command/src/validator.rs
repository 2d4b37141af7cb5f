//! The validator.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use ralph_orchestrator_contract::{
    BuildContext, BuildError, CancelReason, CancelSignal, Change, ChangeKind, EvidenceValidator,
    LayeredFolder, Leftovers, PROTECTED_CHANGED, Setup, SetupProblem, ValidationContext,
    ValidatorDescription, Verdict, describe_remedy,
};
use ralph_orchestrator_supervisor::{
    Ending, Grace, Overlay, SpawnError, Spec, Supervisor, View, find_program,
};
use ralph_orchestrator_text::{escape_line, one_line};

use crate::config::Config;
use crate::display::typed;
use crate::execution::{Execution, run_to_end};
use crate::files::Reach;
use crate::invocation::Invocations;
use crate::paths::CommandPaths;
use crate::patterns::Rules;
use crate::program::{Lookup, Program};
use crate::reserved::Reserved;
use crate::{python, setup, shell_line};

/// The most characters of the command in a reason.
const COMMAND_CHARS: usize = 60;

/// How many changed paths a rejection names.
const CHANGES_NAMED: usize = 20;

/// Validates a claim by running a command.
pub(crate) struct CommandValidator {
    config: Config,
    rules: Rules,
    /// The command as one would type it.
    typed: String,
    program: Program,
    /// Where the agent works; may not exist yet.
    workspace: PathBuf,
    /// Where it was looked for.
    lookup: Lookup,
    supervisor: Supervisor,
}

impl CommandValidator {
    pub(crate) fn new(
        config: Config,
        context: &BuildContext,
        supervisor: &Supervisor,
    ) -> Result<Self, BuildError> {
        let rules = Rules::compile(&config)?;
        let name = config.program.first().map(String::as_str).unwrap_or_default();
        let program = if name.contains('/') {
            Program::Path(context.config_dir.join(name))
        } else {
            let found = find_program(name, &context.path, &context.config_dir);
            Program::Pinned(found.map_err(|error| error.to_string()))
        };
        // What is wrong follows, and has to be seen in a line too.
        let typed = one_line(&typed(&config.program), COMMAND_CHARS);
        let lookup = Lookup { path: context.path.clone(), base: context.config_dir.clone() };
        let workspace = context.workspace.clone();
        let supervisor = supervisor.clone();
        Ok(Self { config, rules, typed, program, workspace, lookup, supervisor })
    }

    fn spec(&self, context: &ValidationContext<'_>, cwd: PathBuf) -> Result<Spec, String> {
        let program = match &self.program {
            Program::Pinned(found) => found.clone()?,
            Program::Path(path) => path.clone(),
        };
        let args = self.config.program.iter().skip(1).map(OsString::from).collect();
        let mut env = context.env.clone();
        env.entry("RALPH_RUN_ID".to_owned()).or_insert_with(|| context.run.to_owned());
        env.entry("RALPH_ITERATION".to_owned()).or_insert_with(|| context.iteration.to_string());
        Ok(Spec { program, args, cwd, env, stdin: Vec::new(), grace: Grace::default() })
    }

    /// Returns where it runs; a folder that is not there, or not inside the workspace, is the agent's to mend.
    fn cwd(&self, workspace: &Path) -> Result<PathBuf, String> {
        let cwd = self.config.folder();
        if cwd.as_os_str().is_empty() {
            return Ok(workspace.to_owned());
        }
        let wanted = workspace.join(&cwd);
        match wanted.canonicalize() {
            Ok(real) if !real.starts_with(workspace) => Err(format!(
                "`{}` cannot be run in {}: it leads out of the workspace. Make it a folder inside",
                self.typed,
                cwd.display()
            )),
            Ok(real) if real.is_dir() => Ok(real),
            _ => Err(format!(
                "`{}` is to be run in the folder {} of the workspace, which is not there. Make it",
                self.typed,
                cwd.display()
            )),
        }
    }

    /// Returns why its exit status says nothing about the work: by convention of all shells, a program that it needs
    /// is not there (127) or cannot be executed (126).
    fn unusable(&self, execution: &Execution) -> Option<String> {
        if let Some(message) = self.missing_module(execution) {
            return Some(message);
        }
        if execution.exit.ending == Ending::Lost {
            return Some(format!(
                "it is not known how `{}` ended: {}.\n{}",
                self.typed, execution.exit, execution.output
            ));
        }
        let code = execution.exit.ending.code().filter(|code| *code != self.config.expect_exit)?;
        let why = match code {
            126 => "a program that it runs cannot be executed",
            127 => "a program that it runs was not found",
            _ => return None,
        };
        Some(format!("`{}` ended with exit {code}: {why}.\n{}", self.typed, execution.output))
    }

    /// Python says so, and ends with the status of a failed test, if what it is to run is not installed.
    fn missing_module(&self, execution: &Execution) -> Option<String> {
        let invocations = Invocations::from_config(&self.config, &self.workspace);
        let mut known = invocations.known.iter();
        let module = known.find_map(|invocation| python::module(&invocation.words))?;
        let says = format!(": No module named {module}");
        let is_missing = execution.exit.ending.code() == Some(1)
            && execution.output.lines().any(|line| line.trim_end().ends_with(&says));
        is_missing.then(|| {
            format!(
                "`{}` could not be run: {module} is not installed.\n{}",
                self.typed, execution.output
            )
        })
    }

    /// Returns what starts processes that see these folders as they are in the checkout.
    fn supervisor_for(&self, checkout: &[LayeredFolder]) -> Supervisor {
        if checkout.is_empty() {
            return self.supervisor.clone();
        }
        let overlay = |folder: &LayeredFolder| {
            let LayeredFolder { target, layers, upper, work } = folder.clone();
            Overlay { target, layers, upper, work }
        };
        let overlays = checkout.iter().map(overlay).collect();
        self.supervisor.clone().with_view(View { overlays, mounts: Vec::new() })
    }

    /// Returns whether the numbers of tests in its output say anything: where it has to fail, so have tests.
    const fn counts_tests(&self) -> bool {
        self.config.count_tests && self.config.expect_exit == 0
    }

    /// Returns the path of the program, if it is given by one.
    fn program_path(&self) -> Option<PathBuf> {
        match &self.program {
            Program::Pinned(_) => None,
            Program::Path(path) => Some(path.clone()),
        }
    }

    /// Returns what was changed although it is protected, and what appeared although it is reserved.
    fn tampered(&self, changes: &[Change]) -> Vec<String> {
        let reserved = Reserved::new(&self.config, &self.workspace);
        let is_reserved =
            |change: &&Change| change.kind == ChangeKind::Added && reserved.contains(&change.path);
        let is_redirected = |change: &&Change| change.kind == ChangeKind::Redirected;
        let (redirected, others): (Vec<&Change>, Vec<&Change>) =
            changes.iter().partition(is_redirected);
        let (appeared, changed): (Vec<&Change>, Vec<&Change>) =
            others.into_iter().partition(is_reserved);
        let mut reasons = Vec::new();
        if !changed.is_empty() {
            reasons.push(format!(
                "{PROTECTED_CHANGED}s are not as they were when the run began: {}; {}",
                list_changes(&changed),
                describe_remedy(changed.iter().map(|change| change.kind))
            ));
        }
        if !appeared.is_empty() {
            reasons.push(format!(
                "these were not there when the run began, and change what `{}` does: {}; remove or rename them",
                self.typed,
                list_changes(&appeared)
            ));
        }
        if !redirected.is_empty() {
            reasons.push(format!(
                "`{}` goes through paths that lead elsewhere than when the run began; make the folders and \
                 links on their way again what they were: {}",
                self.typed,
                list_changes(&redirected)
            ));
        }
        reasons
    }

    /// Returns why it failed; nothing if it passed.
    fn rejection(&self, execution: &Execution) -> Option<String> {
        let mut wrong = Vec::new();
        if execution.exit.ending.code() != Some(self.config.expect_exit) {
            wrong.push(format!(
                "ended with {}, expected exit {}",
                execution.exit, self.config.expect_exit
            ));
        }
        wrong.extend(execution.complaints.iter().cloned());
        if wrong.is_empty() {
            return None;
        }
        let left = left_behind(&execution.exit.left_behind);
        let output = &execution.output;
        Some(format!("`{}` failed: {}{left}.\n{output}", self.typed, wrong.join("; ")))
    }

    fn accepted(&self, left: &str) -> Verdict {
        let exit = self.config.expect_exit;
        let summary = format!("`{}` exits {exit}{left}", self.typed);
        Verdict::Accepted { summary, evidence: Vec::new() }
    }

    fn not_started(&self, error: &SpawnError) -> Verdict {
        let mut message = format!("`{}` could not be run: {error}", self.typed);
        if let (Program::Path(path), SpawnError::NotFound { .. }) = (&self.program, error) {
            message.push_str(&format!(
                ". A path is relative to the folder of the configuration file: {} was looked for",
                path.display()
            ));
        }
        Verdict::Error { message }
    }

    /// Rejects what was checked beside processes that live on: they may change it afterwards.
    fn survived(&self, complaint: &str) -> Verdict {
        let message = format!("`{}` ran, but {}", self.typed, escape_line(complaint));
        Verdict::Error { message }
    }

    fn cancelled(&self, execution: &Execution, reason: CancelReason) -> Verdict {
        let why = match reason {
            CancelReason::Timeout => "timed out",
            CancelReason::MaxRuntime => "was ended because the run's time is up",
            CancelReason::Signal => "was ended because the orchestrator was asked to stop",
            CancelReason::Idle
            | CancelReason::MaxCost
            | CancelReason::MaxTokens
            | CancelReason::Handoff
            | CancelReason::Pause => "was ended by the orchestrator",
        };
        let (seconds, output) = (execution.took.as_secs_f64(), &execution.output);
        let left = left_behind(&execution.exit.left_behind);
        let message = format!("`{}` {why} after {seconds:.1} s{left}. {output}", self.typed);
        Verdict::Error { message }
    }
}

#[async_trait]
impl EvidenceValidator for CommandValidator {
    fn describe(&self) -> ValidatorDescription {
        let times = match self.config.passes_required {
            1 => String::new(),
            times => format!(", {times} times in a row"),
        };
        let demands = format!(
            "`{}` exits {}{}{times}",
            self.typed,
            self.config.expect_exit,
            self.rules.demands()
        );
        ValidatorDescription { kind: "command".to_owned(), demands }
    }

    fn runs_check(&self) -> bool {
        true
    }

    fn sees_checkout(&self) -> bool {
        true
    }

    fn protects(&self) -> Vec<String> {
        self.config.protect.clone()
    }

    fn reserved_paths(&self) -> Vec<String> {
        Reserved::new(&self.config, &self.workspace).globs()
    }

    fn outside_files(&self) -> Vec<PathBuf> {
        let scripts = CommandPaths::new(&self.config, &self.workspace).scripts;
        self.program_path().into_iter().chain(scripts).collect()
    }

    fn passed_paths(&self) -> Vec<PathBuf> {
        let passed = CommandPaths::new(&self.config, &self.workspace).passed;
        self.program_path().into_iter().chain(passed).collect()
    }

    fn is_read_only(&self) -> bool {
        self.config.read_only
    }

    fn passes_required(&self) -> u32 {
        self.config.passes_required
    }

    fn allows_fewer_tests(&self) -> bool {
        self.config.tests_may_fall
    }

    async fn check(&self, _env: &BTreeMap<String, String>) -> Result<(), String> {
        match &self.program {
            Program::Pinned(Err(message)) => Err(message.clone()),
            Program::Pinned(Ok(_)) | Program::Path(_) => Ok(()),
        }
    }

    async fn find_setup_problems(&self, setup: Setup<'_>) -> Vec<SetupProblem> {
        let (config, program, lookup) = (&self.config, &self.program, &self.lookup);
        let mut problems = setup::problems(config, program, lookup, setup);
        let command = &config.program;
        problems.extend(
            shell_line::find_problem(command, program, lookup, setup, &self.supervisor).await,
        );
        problems
    }

    async fn validate(&self, context: ValidationContext<'_>, cancel: &dyn CancelSignal) -> Verdict {
        if !context.protected_changes.is_empty() {
            return Verdict::Rejected { reasons: self.tampered(context.protected_changes) };
        }
        let folders = Reach::new(&self.config, &self.workspace).find_empty_folders(&self.workspace);
        if !folders.is_empty() {
            let to_change = |path| Change { path, kind: ChangeKind::Added };
            let appeared: Vec<Change> = folders.into_iter().map(to_change).collect();
            return Verdict::Rejected { reasons: self.tampered(&appeared) };
        }
        let cwd = match self.cwd(context.workspace) {
            Ok(cwd) => cwd,
            Err(reason) => return Verdict::rejected(reason),
        };
        let spec = match self.spec(&context, cwd) {
            Ok(spec) => spec,
            Err(message) => return Verdict::Error { message },
        };
        let process = match self.supervisor_for(context.checkout).spawn(spec).await {
            Ok(process) => process,
            Err(error) => return self.not_started(&error),
        };
        let output = context.output.filter(|_| self.counts_tests());
        let execution = run_to_end(process, &self.rules, output, cancel).await;
        let survived = execution.exit.survived.iter().cloned();
        if let Some(complaint) = Leftovers::new(Vec::new(), survived).complaint() {
            return self.survived(&complaint);
        }
        if let Some(reason) = execution.cancelled {
            return self.cancelled(&execution, reason);
        }
        if let Some(message) = self.unusable(&execution) {
            return Verdict::Error { message };
        }
        match self.rejection(&execution) {
            Some(reason) => Verdict::rejected(reason),
            None => self.accepted(&left_behind(&execution.exit.left_behind)),
        }
    }
}

fn left_behind(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => format!("; left the process {} behind, which was ended", escape_line(one)),
        many => format!(
            "; left {} processes behind, which were ended: {}",
            many.len(),
            escape_line(&many.join(", "))
        ),
    }
}

fn list_changes(changes: &[&Change]) -> String {
    let named = changes.iter().take(CHANGES_NAMED).map(|change| {
        format!("{} ({})", escape_line(&change.path.to_string_lossy()), change.kind.describe())
    });
    let named = named.collect::<Vec<_>>().join(", ");
    let more = match changes.len().saturating_sub(CHANGES_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{named}{more}")
}
