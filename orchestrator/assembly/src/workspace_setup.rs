//! A command that prepares the workspace, or a checkout of it: run as a `command` validator is, and confined as agents are.

use std::path::{Component, Path, PathBuf};

use async_trait::async_trait;
use ralph_orchestrator_contract::{
    BuildContext, BuildError, CancelSignal, Claim, ClaimKind, ClaimSource, EvidenceValidator,
    ValidationContext, Verdict,
};
use ralph_orchestrator_engine::workspace_setup::{SetupContext, WorkspaceSetup};
use ralph_orchestrator_shell_text::quote_command;
use ralph_orchestrator_supervisor::{Supervisor, find_program};
use ralph_orchestrator_text::escape_line;
use serde_json::{Value, json};

/// The command, as a validator whose verdict decides nothing.
struct SetupCommand {
    words: Vec<String>,
    workspace: PathBuf,
    runner: Box<dyn EvidenceValidator>,
}

/// Builds what runs the command with these words.
///
/// # Errors
/// The program is nowhere, and nobody can make it in the workspace.
pub(crate) fn build(
    words: &Value,
    context: &BuildContext,
    supervisor: &Supervisor,
) -> Result<Box<dyn WorkspaceSetup>, BuildError> {
    let workspace = context.workspace.clone();
    // It is made by whoever works in the workspace, so that its paths begin there.
    let context = BuildContext { config_dir: workspace.clone(), ..context.clone() };
    let runner = ralph_validator_command::build(json!({"program": words}), &context, supervisor);
    let runner = runner.map_err(|error| BuildError {
        // The list is no table here.
        key: error.key.into_iter().filter(|part| part != "program").collect(),
        ..error
    })?;
    let words = words.as_array().into_iter().flatten();
    let words: Vec<String> = words.filter_map(|word| word.as_str().map(str::to_owned)).collect();
    let setup = SetupCommand { words, workspace, runner };
    let name = setup.words.first().map(String::as_str).unwrap_or_default();
    let can_be_made = setup.files().any(|path| path == Path::new(name));
    if !can_be_made && let Err(error) = find_program(name, &context.path, &setup.workspace) {
        return Err(BuildError::at("0", error.to_string()));
    }
    Ok(Box::new(setup))
}

impl SetupCommand {
    /// Returns the files of the workspace that it names: its program, and a script for an interpreter.
    fn files(&self) -> impl Iterator<Item = PathBuf> {
        let program = self.words.first().filter(|name| name.contains('/'));
        let script = ralph_validator_command::find_script(&self.words);
        let script = script.and_then(|index| self.words.get(index));
        let paths = program.into_iter().chain(script).map(PathBuf::from);
        paths.filter(|path| is_inside(path, &self.workspace))
    }
}

/// Returns whether a path leads into the workspace, as far as its words say.
fn is_inside(path: &Path, workspace: &Path) -> bool {
    let relative = if path.is_absolute() { path.strip_prefix(workspace) } else { Ok(path) };
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    relative.is_ok_and(|path| path.file_name().is_some() && path.components().all(is_plain))
}

#[async_trait]
impl WorkspaceSetup for SetupCommand {
    fn command(&self) -> String {
        escape_line(&quote_command(&self.words))
    }

    fn missing_file(&self) -> Option<PathBuf> {
        self.files().find(|path| !self.workspace.join(path).exists())
    }

    async fn run(
        &self,
        context: SetupContext<'_>,
        cancel: &dyn CancelSignal,
    ) -> Result<(), String> {
        let mut env = context.env.clone();
        env.insert("RALPH_ITERATION".to_owned(), context.iteration.to_string());
        let claim = Claim {
            kind: ClaimKind::Complete,
            detector: "setup".to_owned(),
            source: ClaimSource::State,
            text: "nothing is claimed: this prepares the workspace".to_owned(),
        };
        let context = ValidationContext {
            checkout: context.checkout,
            output: None,
            run: context.run,
            iteration: context.iteration,
            claim: &claim,
            workspace: context.workspace,
            tree_since: 0,
            written_in: &Default::default(),
            evidence_listed: true,
            protected_changes: &[],
            env: &env,
        };
        match self.runner.validate(context, cancel).await {
            Verdict::Accepted { .. } => Ok(()),
            Verdict::Rejected { reasons } => Err(reasons.join("\n")),
            Verdict::Error { message } => Err(message),
        }
    }
}
