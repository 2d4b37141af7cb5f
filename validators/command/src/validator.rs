//! The validator.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use orchestrator::contract::{
    BuildContext, BuildError, CancelReason, CancelSignal, Change, ChangeKind, EvidenceValidator,
    ValidationContext, ValidatorDescription, Verdict,
};
use ralph_orchestrator_supervise::{Grace, SpawnError, Spec, Supervisor, find_program};

use crate::config::Config;
use crate::display::{escape, typed};
use crate::patterns::Rules;
use crate::trial::{Trial, watch};

/// How many changed paths a rejection names.
const CHANGES_NAMED: usize = 20;

/// A command that decides.
pub(crate) struct CommandValidator {
    config: Config,
    rules: Rules,
    /// The command as one would type it.
    typed: String,
    program: Program,
    supervisor: Supervisor,
}

/// Where the program is.
enum Program {
    /// A bare name, found once: nothing that the agent puts into `PATH` later is run.
    Pinned(Result<PathBuf, String>),
    /// A path, which the agent may have to make first.
    Path(PathBuf),
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
        let typed = typed(&config.program);
        Ok(Self { config, rules, typed, program, supervisor: supervisor.clone() })
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

    /// Where it runs; a folder that is not there, or not inside the workspace, is the agent's to mend.
    fn cwd(&self, workspace: &Path) -> Result<PathBuf, String> {
        let Some(cwd) = &self.config.cwd else { return Ok(workspace.to_owned()) };
        let wanted = workspace.join(cwd);
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

    /// Nothing if it passed.
    fn reason(&self, trial: &Trial, nth: u32) -> Option<String> {
        let mut wrong = Vec::new();
        if trial.exit.ending.code() != Some(self.config.expect_exit) {
            wrong.push(format!(
                "ended with {}, expected exit {}",
                trial.exit, self.config.expect_exit
            ));
        }
        wrong.extend(trial.complaints.iter().cloned());
        if wrong.is_empty() {
            return None;
        }
        let again = if nth > 1 {
            format!(" (execution {nth} of {})", self.config.confirm)
        } else {
            String::new()
        };
        let left = left_behind(&trial.exit.left_behind);
        let output = &trial.output;
        Some(format!("`{}`{again} failed: {}{left}.\n{output}", self.typed, wrong.join("; ")))
    }

    fn accepted(&self, left: &str) -> Verdict {
        let times = match self.config.confirm {
            1 => String::new(),
            times => format!(" {times} times in a row"),
        };
        let exit = self.config.expect_exit;
        let summary = format!("`{}` exits {exit}{times}{left}", self.typed);
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

    fn cut_short(&self, trial: &Trial, reason: CancelReason) -> Verdict {
        let why = match reason {
            CancelReason::Timeout => "timed out",
            CancelReason::MaxRuntime => "was ended because the run's time is up",
            CancelReason::Signal => "was ended because the orchestrator was asked to stop",
            CancelReason::Idle | CancelReason::MaxCost | CancelReason::MaxTokens => {
                "was ended by the orchestrator"
            }
        };
        let (seconds, output) = (trial.took.as_secs_f64(), &trial.output);
        let left = left_behind(&trial.exit.left_behind);
        let message = format!("`{}` {why} after {seconds:.1} s{left}. {output}", self.typed);
        Verdict::Error { message }
    }
}

#[async_trait]
impl EvidenceValidator for CommandValidator {
    fn describe(&self) -> ValidatorDescription {
        let times = match self.config.confirm {
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

    fn protects(&self) -> Vec<String> {
        self.config.protect.clone()
    }

    fn leaves_tree_unchanged(&self) -> bool {
        self.config.leaves_tree_unchanged
    }

    async fn check(&self, _env: &BTreeMap<String, String>) -> Result<(), String> {
        match &self.program {
            Program::Pinned(Err(message)) => Err(message.clone()),
            Program::Pinned(Ok(_)) | Program::Path(_) => Ok(()),
        }
    }

    async fn validate(&self, context: ValidationContext<'_>, cancel: &dyn CancelSignal) -> Verdict {
        if !context.protected_changes.is_empty() {
            return Verdict::Rejected { reasons: vec![tampered(context.protected_changes)] };
        }
        let cwd = match self.cwd(context.workspace) {
            Ok(cwd) => cwd,
            Err(reason) => return Verdict::rejected(reason),
        };
        let spec = match self.spec(&context, cwd) {
            Ok(spec) => spec,
            Err(message) => return Verdict::Error { message },
        };
        let (mut nth, mut left) = (1, Vec::new());
        let place = identity(context.workspace);
        loop {
            let process = match self.supervisor.spawn(spec.clone()).await {
                Ok(process) => process,
                Err(error) => return self.not_started(&error),
            };
            let trial = watch(process, &self.rules, cancel).await;
            if let Some(reason) = trial.cancelled {
                return self.cut_short(&trial, reason);
            }
            if let Some(reason) = self.reason(&trial, nth) {
                return Verdict::rejected(reason);
            }
            left.extend_from_slice(&trial.exit.left_behind);
            if nth >= self.config.confirm {
                return self.accepted(&left_behind(&left));
            }
            nth += 1;
            // What ran may have put another folder there.
            if identity(context.workspace) != place {
                let message = format!(
                    "`{}` was not run again: another folder has taken the place of {}",
                    self.typed,
                    context.workspace.display()
                );
                return Verdict::Error { message };
            }
        }
    }
}

/// What tells a folder from others that are given its path; a link is none of them.
fn identity(folder: &Path) -> Option<(u64, u64)> {
    let folder = std::fs::symlink_metadata(folder).ok()?;
    Some((folder.dev(), folder.ino()))
}

fn left_behind(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => format!("; left the process {} behind, which was ended", escape(one)),
        many => format!(
            "; left {} processes behind, which were ended: {}",
            many.len(),
            escape(&many.join(", "))
        ),
    }
}

fn tampered(changes: &[Change]) -> String {
    let named = changes.iter().take(CHANGES_NAMED).map(|change| {
        let kind = match change.kind {
            ChangeKind::Added => "added",
            ChangeKind::Modified => "modified",
            ChangeKind::Removed => "removed",
        };
        format!("{} ({kind})", escape(&change.path.to_string_lossy()))
    });
    let named = named.collect::<Vec<_>>().join(", ");
    let more = match changes.len().saturating_sub(CHANGES_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("protected paths must be as they were when the run began, put them back: {named}{more}")
}
