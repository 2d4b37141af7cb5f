//! A validator that rejects the work while a file still has a TODO in it.

use std::io;
use std::path::{Path, PathBuf};

use ralph_orchestrator::supervisor::Supervisor;
use ralph_orchestrator::{
    BuildContext, BuildError, CancelSignal, EvidenceValidator, ValidationContext,
    ValidatorDescription, Verdict, async_trait,
};

/// The largest file that is read, in bytes.
const LARGEST: u64 = 1024 * 1024;

/// The keys of `[[validator]]`.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Keys {
    /// The file, relative to the workspace.
    file: PathBuf,
}

pub(crate) struct NoTodo(PathBuf);

impl NoTodo {
    pub(crate) fn build(
        keys: Keys,
        _context: &BuildContext,
        _supervisor: &Supervisor,
    ) -> Result<Self, BuildError> {
        if keys.file.is_absolute() {
            return Err(BuildError::at("file", "expected a path relative to the workspace"));
        }
        Ok(Self(keys.file))
    }
}

#[async_trait]
impl EvidenceValidator for NoTodo {
    fn describe(&self) -> ValidatorDescription {
        ValidatorDescription {
            kind: "no-todo".to_owned(),
            demands: format!("{} has no TODO in it", self.0.display()),
        }
    }

    /// It only reads what the agent wrote.
    fn runs_check(&self) -> bool {
        false
    }

    async fn validate(
        &self,
        context: ValidationContext<'_>,
        _cancel: &dyn CancelSignal,
    ) -> Verdict {
        let file = self.0.display();
        match read(&context.workspace.join(&self.0)) {
            Ok(text) if text.contains("TODO") => {
                Verdict::Rejected { reasons: vec![format!("{file} still has a TODO in it")] }
            }
            Ok(_) => Verdict::Accepted { summary: format!("{file} has no TODO"), evidence: vec![] },
            Err(error) => Verdict::Rejected { reasons: vec![format!("{file}: {error}")] },
        }
    }
}

/// Reads a file of the workspace, in whose place the agent may have put anything.
fn read(path: &Path) -> io::Result<String> {
    let found = path.symlink_metadata()?;
    if !found.is_file() || found.len() > LARGEST {
        return Err(io::Error::other("expected a regular file of at most 1 MiB"));
    }
    std::fs::read_to_string(path)
}
