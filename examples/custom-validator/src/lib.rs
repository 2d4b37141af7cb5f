//! An evidence validator: the tests have written a JUnit XML report since the work was last changed, it
//! has enough tests, and none of them failed.

mod report;
#[cfg(test)]
mod tests;

use std::path::{Component, Path, PathBuf};

use ralph_orchestrator_plugin_sdk::{
    BuildContext, BuildError, CancelSignal, EvidenceFile, EvidenceValidator, ValidationContext,
    ValidatorDescription, Verdict, async_trait, export_plugin,
};
use serde::Deserialize;
use tokio::io::AsyncReadExt as _;

use report::Report;

/// Larger reports are not read, in bytes.
const LARGEST: u64 = 64 * 1024 * 1024;
/// So many failed tests are named to the agent.
const NAMED: usize = 10;

/// Its table in `ralph.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The report, relative to the workspace, in a folder that is for reports alone.
    file: PathBuf,
    /// How many tests have to have run.
    #[serde(default = "one")]
    min_tests: u64,
}

const fn one() -> u64 {
    1
}

#[derive(Debug)]
struct JUnit {
    file: PathBuf,
    min_tests: u64,
    /// The folder of the report: absolute.
    folder: PathBuf,
}

impl JUnit {
    fn build(config: Config, context: &BuildContext) -> Result<Self, BuildError> {
        let Config { file, min_tests } = config;
        let plain = file.components().all(|part| matches!(part, Component::Normal(_)));
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let (true, Some(folder)) = (plain, folder) else {
            // The folder is left out of what counts as work: it must not be the whole workspace.
            let message = "has to be a file in a folder of the workspace that is for reports alone, \
                           such as \"reports/junit.xml\"";
            return Err(BuildError::at("file", message));
        };
        if min_tests == 0 {
            let message = "has to be at least 1: without a test nothing is shown";
            return Err(BuildError::at("min_tests", message));
        }
        let folder = context.workspace.join(folder);
        Ok(Self { file, min_tests, folder })
    }

    /// The bytes of the report, or what the agent has to do.
    async fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        let shown = self.file.display();
        let open = tokio::fs::File::open(path).await;
        let file = open.map_err(|error| {
            format!("the test report {shown} cannot be read ({error}): run the tests so that they write it")
        })?;
        let plain = file.metadata().await.is_ok_and(|metadata| metadata.is_file());
        if !plain {
            return Err(format!("{shown} is not a file: let the tests write a report there"));
        }
        let mut content = Vec::new();
        let read = file.take(LARGEST + 1).read_to_end(&mut content).await;
        read.map_err(|error| format!("the test report {shown} cannot be read: {error}"))?;
        if content.len() as u64 > LARGEST {
            return Err(format!("the test report {shown} is larger than {LARGEST} bytes"));
        }
        Ok(content)
    }

    async fn examine(&self, context: ValidationContext<'_>) -> Result<Verdict, String> {
        let path = context.workspace.join(&self.file);
        let shown = self.file.display();
        let content = self.read(&path).await?;
        let digest = blake3::hash(&content).to_hex().to_string();
        if context.is_stale(&digest) {
            return Err(format!(
                "the test report {shown} was there before the run or is older than the last change of \
                 the work (iteration {}): run the tests again",
                context.tree_since
            ));
        }
        let text = str::from_utf8(&content)
            .map_err(|error| format!("the test report {shown} is no UTF-8: {error}"))?;
        let report = Report::read(text).map_err(|why| {
            format!("{shown} is no JUnit XML report: {why}; let the tests write one")
        })?;
        let Report { tests, skipped, failed } = &report;
        let ran = tests.saturating_sub(*skipped);
        let mut reasons = Vec::new();
        if !failed.is_empty() {
            let some: Vec<_> = failed.iter().take(NAMED).map(String::as_str).collect();
            let more = failed.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let (count, some) = (failed.len(), some.join(", "));
            reasons.push(format!("{count} of {tests} tests in {shown} failed: {some}{more}"));
        }
        if ran < self.min_tests {
            let wanted = self.min_tests;
            reasons
                .push(format!("{ran} tests ran according to {shown}, at least {wanted} have to"));
        }
        if !reasons.is_empty() {
            return Ok(Verdict::Rejected { reasons });
        }
        let summary = format!("{ran} tests passed, {skipped} skipped");
        let bytes = content.len() as u64;
        Ok(Verdict::Accepted { summary, evidence: vec![EvidenceFile { path, digest, bytes }] })
    }
}

#[async_trait]
impl EvidenceValidator for JUnit {
    fn describe(&self) -> ValidatorDescription {
        let (file, least) = (self.file.display(), self.min_tests);
        ValidatorDescription {
            kind: "junit".to_owned(),
            demands: format!(
                "a JUnit XML report in {file}, written after the last change, with at least {least} \
                 tests and no failure"
            ),
        }
    }

    fn evidence_dirs(&self) -> Vec<PathBuf> {
        vec![self.folder.clone()]
    }

    /// The report is the agent's: nothing is run to make it.
    fn runs_check(&self) -> bool {
        false
    }

    async fn validate(&self, context: ValidationContext<'_>, cancel: &dyn CancelSignal) -> Verdict {
        tokio::select! {
            biased;
            reason = cancel.cancelled() => {
                Verdict::Error { message: format!("it was not examined: {}", reason.because()) }
            }
            verdict = self.examine(context) => verdict.unwrap_or_else(Verdict::rejected),
        }
    }
}

export_plugin! {
    /// Demands a fresh JUnit XML report without a failed test.
    validator "junit", |config: Config, context| JUnit::build(config, context);
}
