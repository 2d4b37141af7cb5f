//! Warns, where checks in a checkout accept work, of what a clone has otherwise though a commit carries it.

use std::sync::Arc;

use ralph_orchestrator_machine::ValidatorVerdict;
use ralph_orchestrator_text::escape_line;
use ralph_orchestrator_workspace::{CloneDifferences, Conversion, GitEnvironment};

use super::blocking::blocking;
use super::error::EngineError;
use super::hidden_files::name_paths;
use super::validation_task::{ValidationTask, accept_together};

impl ValidationTask {
    /// Describes what of the changed work that these verdicts accept a clone has otherwise.
    pub(super) async fn find_clone_differences(
        &mut self,
        verdicts: &[ValidatorVerdict],
    ) -> Result<Vec<String>, EngineError> {
        let changed = std::mem::take(&mut self.changed_work);
        if changed.is_empty() || !accept_together(verdicts) {
            return Ok(Vec::new());
        }
        let (workspace, pinned) = (self.workspace.clone(), Arc::clone(&self.pinned));
        let environment = GitEnvironment::from_process();
        let find = move || CloneDifferences::find(&workspace, &changed, &pinned, &environment);
        Ok(describe(blocking(find).await?))
    }
}

fn describe(found: CloneDifferences) -> Vec<String> {
    let submodules = found.submodules.into_iter().map(|submodule| {
        let name = escape_line(&submodule.to_string_lossy());
        format!(
            "work in the submodule {name} is in no commit of this repository: commit and push it there, and commit the \
             submodule here"
        )
    });
    let converted = found.converted.into_iter().map(|(conversion, files)| {
        let files = name_paths(&files);
        match conversion {
            Conversion::LineEnds => format!(
                "lines of {files} end in CR and LF, of which git stores only LF, as .gitattributes or core.autocrlf say: \
                 that is what a clone has"
            ),
            Conversion::Filter { command } => format!(
                "git stores what the filter `{}` makes of {files}: what a clone has was not checked",
                escape_line(&command)
            ),
            Conversion::Keyword => format!(
                "git replaces $Id$ in {files}, as the attribute `ident` says: what a clone has was not checked"
            ),
        }
    });
    submodules.chain(converted).collect()
}
